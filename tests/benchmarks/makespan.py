"""The plan's time until all is done beside the schedule that Ray makes of the same runs, on GPUs that are not there.

    python tests/benchmarks/makespan.py HOME [--nodes 8] [--gpus 8] [--seconds 120] [--mixed]

All runs of the paper scale go through `studies.scheduling.schedule` to Ray Tune on a stand-in cluster that counts GPUs
and has none; instead of training, a trial sleeps for its planned time, scaled so that the plan's makespan becomes
`--seconds`.
`--mixed` gives Table 3's rows 1, 2 and 4 GPUs in turn. Shown are both makespans, their ratio (the goal: within 10%),
and how much of the GPUs' time trials held.

A trial that sleeps takes over the process of the one before, which those on real GPUs do not: here a process's start
would take as long as a trial.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.planning import plan
from studies.planning.devices import choose_device, stated_devices
from studies.registry import STUDIES
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import PAPER
from studies.scheduling import schedule
from studies.scheduling.resources import Resources


def planned_seconds(runs: Sequence[PlannedRun]) -> dict[str, float]:
    """Seconds of each run on one A100, as `aiayn plan` counts them."""
    device = choose_device(stated_devices(), "A100", "float32", wants_gpu=True)
    return {run.record.run: plan._device_seconds(run, PAPER, device) for run in runs}


def sizes(runs: Sequence[PlannedRun], mixed: bool) -> list[int]:
    """GPUs of each run."""
    return [(1, 2, 4)[place % 3] if mixed and run.record.study == "table3" else 8 for place, run in enumerate(runs)]


def simulate(runs: Sequence[PlannedRun], gpus: Sequence[int], seconds: Mapping[str, float], home: Path) -> list:
    """Carry the runs out by sleeping; returns (begin, end, GPUs) of each, in seconds of the clock."""
    from ray import tune

    log = home / "slept"
    log.mkdir()

    def sleep(config: dict) -> None:
        run, begun = config["job"]["record"]["run"], time.time()
        time.sleep(seconds[run])
        (log / run).write_text(f"{begun} {time.time()} {config['job']['gpus']}")

    class Reusing(tune.TuneConfig):
        def __init__(self, **settings: object) -> None:
            super().__init__(**settings | {"reuse_actors": True})

    schedule.carry_out, tune.TuneConfig = sleep, Reusing
    jobs = [(run, Resources(0, number)) for run, number in zip(runs, gpus, strict=True)]
    schedule._fit(schedule.longest_first(jobs), Workspace(home), None, 0)
    return [tuple(map(float, file.read_text().split())) for file in log.iterdir()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path, help="a workspace with the paper scale's data, or an empty folder")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--gpus", type=int, default=8, help="of each node")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the plan's makespan")
    parser.add_argument("--mixed", action="store_true", help="trials of 1, 2, 4 and 8 GPUs")
    chosen = parser.parse_args()
    runs = [run for study in STUDIES for run in plan_runs(study, PAPER, 1, Workspace(chosen.home)) if run.trains]
    capacity, gpus, whole = chosen.nodes * chosen.gpus, sizes(runs, chosen.mixed), planned_seconds(runs)
    took = {run.record.run: whole[run.record.run] / number for run, number in zip(runs, gpus, strict=True)}
    order = sorted(zip(runs, gpus, strict=True), key=lambda each: -took[each[0].record.run])
    expected = plan.schedule([plan.Job(took[run.record.run], number) for run, number in order], capacity)
    scaled = {run: seconds * chosen.seconds / expected for run, seconds in took.items()}
    print(f"{len(runs)} runs on {chosen.nodes} x {chosen.gpus} GPUs, planned: {expected / 3600:.1f} hours")

    with tempfile.TemporaryDirectory(prefix="aiayn-", dir="/tmp") as folder:
        # No worker before it is needed, and patience on a busy machine.
        os.environ |= schedule_environment() | {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled"}
        import ray
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            for _ in range(chosen.nodes):
                cluster.add_node(num_cpus=0, num_gpus=chosen.gpus, object_store_memory=80 * 2**20)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            slept = simulate(runs, gpus, scaled, Path(folder))
        finally:
            ray.shutdown()
            cluster.shutdown()
    begin, end = min(first for first, _, _ in slept), max(last for _, last, _ in slept)
    held = sum((last - first) * number for first, last, number in slept) / ((end - begin) * capacity)
    ideal = sum(scaled[run.record.run] * number for run, number in order) / (chosen.seconds * capacity)
    print(f"planned {chosen.seconds:.1f} s (GPUs held {ideal:.0%}), by Ray {end - begin:.1f} s (GPUs held {held:.0%}), "
          f"ratio {(end - begin) / chosen.seconds:.3f}")  # fmt: skip


def schedule_environment() -> dict[str, str]:
    """Ray's settings for a stand-in cluster."""
    return {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_agent_register_timeout_ms": "400000",
    }


if __name__ == "__main__":
    main()
