#!/bin/sh
# Train on many machines with Slurm: sbatch train.sh OPTIONS OF nmt train. The folder where it is submitted is shared
# by the machines. When the time ends or the job is preempted, the run is saved, and the job goes back into the queue.
#SBATCH --job-name=nmt-train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
set -u

ranks=${SLURM_GPUS_ON_NODE:-1}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Without this, torchrun 2.13 fails as soon as a machine joins.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
# Seconds to finish an update and save it, before torchrun kills the ranks.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120

# Since Slurm 22.05, srun does not take this from sbatch by itself.
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"

srun --no-kill --kill-on-bad-exit=0 torchrun \
    --nnodes "1:$SLURM_JOB_NUM_NODES" --nproc-per-node "$ranks" --max-restarts 100 \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first:29500" \
    -m nmt train "$@" &
step=$!

is_stopping=
# scancel signals the ranks, which save and end; it does not signal this script.
trap 'is_stopping=yes; scancel --signal=TERM "$SLURM_JOB_ID"' USR1 TERM
wait "$step"
code=$?
if [ -n "$is_stopping" ]; then
    wait "$step"    # the signal ended the first wait
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
fi
exit "$code"
