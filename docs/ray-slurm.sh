#!/bin/bash
# A sweep on 16 nodes of Slurm: `sbatch docs/ray-slurm.sh`. The first node is the driver's too. A job that was killed or ran
# out of time goes on with the same command: its folder must be on a file system that all nodes mount.
#SBATCH --job-name=servecast-ray
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --mem=64G
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Users that share a node need ports of their own.
port=$((20000 + SLURM_JOB_ID % 10000))
# Starts Ray on all nodes, runs the command on the first one, and stops Ray.
srun ray symmetric-run --address "$head:$port" --min-nodes "$SLURM_NNODES" \
  --num-cpus "$SLURM_CPUS_PER_TASK" --disable-usage-stats -- \
  servecast sweep scenarios/rate-sweep.toml --seeds 100 --ray auto --output-dir out/rates
