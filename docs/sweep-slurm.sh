#!/bin/bash
# A sweep in eight parts as a Slurm array: `sbatch docs/sweep-slurm.sh`, and when it has ended
# `servecast merge out/part-* --output-dir out/whole`. Tasks that were killed go on where they were with
# `sbatch --array=3,5 docs/sweep-slurm.sh`.
#SBATCH --job-name=servecast-sweep
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail

# Not SLURM_ARRAY_TASK_COUNT, which is less when only some tasks are started again.
parts=8
export RAYON_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
servecast sweep scenarios/rate-sweep.toml \
  --shard "$SLURM_ARRAY_TASK_ID/$parts" --output-dir "out/part-$SLURM_ARRAY_TASK_ID"
