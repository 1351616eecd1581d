#!/bin/bash
# An unmodified program on every machine of a job, over a pool of their memory. What it reads under DIRECTORY is asked of
# the file system once; the other machines take it out of each other's memory.
#
#   sbatch --nodes=4 --exclusive slurm-exec.sh DIRECTORY COMMAND...
#
# FARSIDE_CACHE is the memory lent by each machine, FARSIDE_PORT where the nodes meet. The job's directory must be on a
# file system that all machines see: the pool's secret is handed over in it.
set -euo pipefail
directory=$1
shift

umask 077
secret=$PWD/farside-secret.$SLURM_JOB_ID
head -c 32 /dev/urandom >"$secret"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
meeting=$first:${FARSIDE_PORT:-7777}
export FARSIDE_RUNTIME_DIR=/tmp/farside-$SLURM_JOB_ID
on_each_machine=(srun --overlap --mpi=none --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1)

# shellcheck disable=SC2016  # each machine has its own number
"${on_each_machine[@]}" --job-name=farside-pool bash -c '
  if [ "$SLURM_NODEID" -eq 0 ]; then way=(--listen "$2"); else way=(--join "$2" --first-rank "$SLURM_NODEID"); fi
  exec farside up --foreground --nodes "$SLURM_JOB_NUM_NODES" --cache "${FARSIDE_CACHE:-2G}" --secret "$1" "${way[@]}"
' pool "$secret" "$meeting" &
pool=$!
trap 'kill "$pool" 2>/dev/null || true; wait "$pool" || true; rm -f "$secret"' EXIT

"${on_each_machine[@]}" farside status --wait 60s
"${on_each_machine[@]}" farside exec --under "$directory" -- "$@"
