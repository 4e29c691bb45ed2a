"""Ray Tune: runs to machines.

What is done, resumes or is skipped, the run folders decide; Tune decides where and when.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.complexity import training_flops
from core.data.prepare import prepare
from results.records import RunRecord
from studies.preflight import check_disk, check_nodes, check_resources, nodes
from studies.ray_session import ray_session
from studies.resources import Job, Resources
from studies.runs import PlannedRun, Workspace

if TYPE_CHECKING:
    from ray import tune

# A trial whose process dies is started again this often, from its checkpoint.
MAX_RESTARTS = 2


def run_on_ray(
    jobs: Sequence[Job],
    workspace: Workspace,
    address: str | None = None,
    max_concurrent: int | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Carry out these runs with Ray Tune and return when all have ended, or on Ctrl-C with what is done kept.

    Trainings come first, the longest before the others, so that the machine is not left with one long run at the end;
    what measures a finished run, or learns from one, comes after them. Data is prepared once, before any trial starts.
    The ranks of a trial lie on one machine; trials of different sizes lie side by side wherever there is room.

    Raises:
        ScheduleError: a trial does not fit anywhere, or a node of the cluster is not fit for any.
        DataError: the corpus cannot be had.
    """
    with ray_session(address):
        found = nodes()
        for resources in dict.fromkeys(resources for _, resources in jobs):
            check_resources(resources, found)
        check_disk(jobs, workspace, found, max_concurrent)
        if address is not None or any(resources.gpus for _, resources in jobs):
            check_nodes(jobs, workspace, found)
        trainings = [job for job in jobs if job[0].trains and job[0].needs is None]
        for data in dict.fromkeys(run.config.data for run, _ in trainings):
            prepare(data, workspace.data)
        on_start()
        trainings.sort(key=lambda job: -training_flops(job[0].config.model, job[0].config.train) / job[1].ranks)
        for stage in (trainings, [job for job in jobs if job not in trainings]):
            if stage:
                _fit(stage, workspace, max_concurrent)


def _fit(jobs: Sequence[Job], workspace: Workspace, max_concurrent: int | None) -> None:
    from ray import tune

    resources = {resources for _, resources in jobs}
    trainable = tune.with_resources(carry_out, _placement)
    # One name for one start: a used name would mix this experiment into the older one's files.
    name = f"{jobs[0][0].record.study}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    tuner = tune.Tuner(
        trainable,
        param_space={
            "job": tune.grid_search([{"record": run.record.to_json(), **asdict(given)} for run, given in jobs]),
            "home": str(workspace.home),
        },
        tune_config=tune.TuneConfig(
            max_concurrent_trials=max_concurrent,
            # On a core a process serves one trial after the other: starting Python and torch anew costs as much as a
            # short run. `execute` seeds everything, so nothing carries over. Ranks and GPUs get fresh processes.
            reuse_actors=len(resources) == 1 and all(given.ranks == 1 and not given.gpus for given in resources),
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(workspace.home / "ray"),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=MAX_RESTARTS),
        ),
    )
    with _sigterm_as_interrupt():
        results = tuner.fit()
    _record_deaths([run for run, _ in jobs], [result for result in results if result.error is not None])
    # The run folders hold all that counts.
    shutil.rmtree(workspace.home / "ray" / name, ignore_errors=True)


def _resources(config: Mapping[str, Any]) -> Resources:
    return Resources(*(config["job"][name] for name in Resources.__dataclass_fields__))


def _placement(config: Mapping[str, Any]) -> tune.PlacementGroupFactory:
    """A bundle for each rank, all on one node: gradients between machines would take longer than the products."""
    from ray import tune

    resources = _resources(config)
    return tune.PlacementGroupFactory([resources.bundle] * resources.ranks, strategy="STRICT_PACK")


def _record_deaths(runs: Sequence[PlannedRun], failures: Sequence[tune.Result]) -> None:
    """Write down why a run ended whose process did not live to do so itself."""
    folders = {run.record.run: run.folder for run in runs}
    for result in failures:
        folder = folders[result.config["job"]["record"]["run"]]
        if folder.path.exists() and folder.status().status in ("queued", "running") and folder.attempts():
            reason = str(result.error).strip().splitlines()[-1:] or ["no reason was given"]
            folder.attempts()[-1].fail(f"its process died {MAX_RESTARTS + 1} times, last: {reason[0]}")


def _trial_name(trial) -> str:
    return trial.config["job"]["record"]["run"]


def carry_out(config: dict) -> None:
    """The function that Tune runs in a worker process: the trial's only rank, or its first."""
    from studies.rank_actors import own_device, rank_actors
    from studies.trial import execute, train_alone

    record, resources = RunRecord.from_json(config["job"]["record"]), _resources(config)
    home = Path(config["home"])
    join = train_alone if resources.ranks == 1 else partial(rank_actors, record, home, resources)
    execute(record, Workspace(home), resources.cpus, own_device(), join)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Tune saves its state and returns on SIGUSR1 as on Ctrl-C; SIGTERM would end the process where it stands."""
    previous = signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
