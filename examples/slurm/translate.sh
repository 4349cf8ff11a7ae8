#!/bin/sh
# Translate a large file on many machines with Slurm: sbatch --array=1-16 translate.sh MODEL INPUT OUTPUT.
# Each task translates a part; the task that finishes last joins them. A task that is preempted resumes its part.
#SBATCH --job-name=nmt-translate
#SBATCH --array=1-16
#SBATCH --gpus=1
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu

exec nmt translate --model "$1" --input "$2" --output "$3" --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
