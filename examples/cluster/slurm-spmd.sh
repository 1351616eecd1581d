#!/bin/bash
# An SPMD program on all machines of a job. PMIx tells its ranks of each other; memory traffic goes by UCX.
#
#   sbatch --nodes=2 --ntasks-per-node=4 slurm-spmd.sh ./my-program ARGUMENTS...
set -euo pipefail

# When a rank dies, end the others: they would only find out that it is lost.
exec srun --mpi=pmix --kill-on-bad-exit=1 "$@"
