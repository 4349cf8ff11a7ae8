#!/bin/sh
# Translate a large file on many machines with Slurm: sbatch --array=1-16 translate.sh MODEL INPUT OUTPUT.
# Task 3 translates its share of the lines to OUTPUT.0003; one that is preempted resumes. Then: cat OUTPUT.???? > OUTPUT
#SBATCH --job-name=nmt-translate
#SBATCH --array=1-16
#SBATCH --gpus=1
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu

share=$(printf '%s.%04d' "$3" "$SLURM_ARRAY_TASK_ID")
split -n "l/$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" "$2" > "$share.source"
exec nmt translate --model "$1" --input "$share.source" --output "$share"
