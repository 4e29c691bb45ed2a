#!/bin/bash
# The full reproduction on nodes that Slurm allocates: starts Ray on each of them, runs the command on the first.
#   sbatch --nodes 8 deploy/slurm.sh reproduce --scale paper --seeds 3 --home /shared/aiayn
# What the time limit cuts off is submitted again and goes on from the checkpoints. Slurm's own signal, five minutes
# before the limit, lets the command end in order.
#SBATCH --job-name=aiayn
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --output=aiayn-%j.log
set -euo pipefail

if (( $# == 0 )); then
    echo "give the command: sbatch --nodes 8 $0 reproduce --scale paper --home /shared/aiayn" >&2
    exit 2
fi
# The environment must lie where all nodes see it.
source "${AIAYN_VENV:?set AIAYN_VENV to the shared virtual environment}/bin/activate"

export RAY_USAGE_STATS_ENABLED=0 RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=1
# Several jobs may share a node's temporary folder and its ports.
export RAY_TMPDIR="${TMPDIR:-/tmp}/ray-$SLURM_JOB_ID"
port=$(( 20000 + SLURM_JOB_ID % 20000 ))

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')

# `--block` keeps Ray a child of its step, so that it ends with the step; then its files go too.
on_node='
    trap '"'"'kill "$ray"'"'"' TERM
    mkdir -p "$RAY_TMPDIR"
    "$@" & ray=$!
    while kill -0 "$ray" 2>/dev/null; do wait "$ray"; done
    rm -rf "$RAY_TMPDIR"
'
start_ray() {
    local node=$1
    shift
    srun --nodes=1 --ntasks=1 --overlap --nodelist="$node" bash -c "$on_node" - ray start --block \
        --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_ON_NODE:-0}" "$@" &
    steps+=($!)
}

steps=()
command=
finish() {
    kill "${steps[@]}" 2>/dev/null || true
    wait "${steps[@]}" 2>/dev/null || true
}
trap finish EXIT
# Bash runs a trap only between commands, which is why the command below runs beside it.
trap '[[ -n $command ]] && kill -TERM "$command"' TERM

start_ray "$head" --head --node-ip-address="$address" --port="$port" --include-dashboard=false
until ray status --address="$address:$port" >/dev/null 2>&1; do
    kill -0 "${steps[0]}" || { echo "Ray did not start on $head; see above" >&2; exit 1; }
    sleep 2
done
for node in "${nodes[@]:1}"; do
    start_ray "$node" --address="$address:$port"
done
# The check before the start looks at the nodes that are there, so all of them must be.
python - "$address:$port" "${#nodes[@]}" <<'WAIT'
import sys
import time

import ray

address, wanted = sys.argv[1], int(sys.argv[2])
ray.init(address=address, logging_level="ERROR", log_to_driver=False)
deadline = time.monotonic() + 300
while (here := sum(node["Alive"] for node in ray.nodes())) < wanted:
    if time.monotonic() > deadline:
        sys.exit(f"{here} of {wanted} nodes joined within 5 minutes; see their messages above")
    time.sleep(2)
WAIT

aiayn "$@" --address "$address:$port" &
command=$!
status=0
wait "$command" || status=$?
# A signal ends `wait` before the command has ended.
while kill -0 "$command" 2>/dev/null; do
    status=0
    wait "$command" || status=$?
done
exit "$status"
