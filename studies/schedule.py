"""Ray Tune: runs to machines.

What is done, resumes or is skipped, the run folders decide; Tune decides where and when.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.complexity import training_flops
from core.data.prepare import prepare
from results.records import RunRecord
from studies.ray_session import ray_session
from studies.runs import PlannedRun, Workspace
from studies.scales import Scale

if TYPE_CHECKING:
    from ray import tune

# A trial whose process dies is started again this often, from its checkpoint.
MAX_RESTARTS = 2


class ScheduleError(Exception):
    """The request does not fit the machine or cluster; nothing was started."""


@dataclass(frozen=True)
class Resources:
    """What one trial is given."""

    cpus: int
    gpus: int

    @classmethod
    def of(cls, scale: Scale, gpus_per_trial: int | None) -> Resources:
        """The scale's, or with another number of GPUs where the user asked for it."""
        return cls(scale.cpus_per_trial, scale.gpus_per_trial if gpus_per_trial is None else gpus_per_trial)


def check_resources(resources: Resources) -> None:
    """Refuse what would wait forever: more than the largest node has. Call within a Ray session.

    Raises:
        ScheduleError: what is asked for, what there is, and a way out.
    """
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    most_gpus = int(max(node.get("GPU", 0) for node in nodes))
    most_cpus = int(max(node.get("CPU", 0) for node in nodes))
    if resources.gpus > most_gpus:
        here = "this machine has none" if most_gpus == 0 else f"the largest machine has {most_gpus}"
        raise ScheduleError(
            f"a trial asks for {resources.gpus} GPUs and {here}; "
            f"use --gpus-per-trial {min(most_gpus, 1)} or give a cluster's --address"
        )
    if resources.gpus > 1:
        raise ScheduleError(
            f"a trial asks for {resources.gpus} GPUs, and this version trains a trial on one; use --gpus-per-trial 1 "
            "(the tokens of an update stay the same, filled by accumulation)"
        )
    if resources.cpus > most_cpus:
        raise ScheduleError(
            f"a trial asks for {resources.cpus} processor cores and the largest machine has {most_cpus}"
        )


def run_on_ray(
    runs: Sequence[PlannedRun],
    workspace: Workspace,
    resources: Resources,
    address: str | None = None,
    max_concurrent: int | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Carry out these runs with Ray Tune and return when all have ended, or on Ctrl-C with what is done kept.

    Trainings come first, the longest before the others, so that the machine is not left with one long run at the end;
    what measures a finished run comes after them. Data is prepared once, before any trial starts.

    Raises:
        ScheduleError: a trial does not fit anywhere.
        DataError: the corpus cannot be had.
    """
    with ray_session(address):
        check_resources(resources)
        trainings = [run for run in runs if run.trains]
        for data in dict.fromkeys(run.config.data for run in trainings):
            prepare(data, workspace.data)
        on_start()
        trainings.sort(key=lambda run: -training_flops(run.config.model, run.config.train))
        probes = [run for run in runs if not run.trains]
        # No GPU is needed to look at a model.
        for stage, given in ((trainings, resources), (probes, replace(resources, gpus=0))):
            if stage:
                _fit(stage, workspace, given, max_concurrent)


def _fit(runs: Sequence[PlannedRun], workspace: Workspace, resources: Resources, max_concurrent: int | None) -> None:
    from ray import tune

    bundle = {"CPU": resources.cpus} | ({"GPU": resources.gpus} if resources.gpus else {})
    trainable = tune.with_resources(carry_out, tune.PlacementGroupFactory([bundle]))
    # One name for one start: a used name would mix this experiment into the older one's files.
    name = f"{runs[0].record.study}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    tuner = tune.Tuner(
        trainable,
        param_space={
            "record": tune.grid_search([run.record.to_json() for run in runs]),
            "home": str(workspace.home),
            "cpus": resources.cpus,
            "gpus": resources.gpus,
        },
        tune_config=tune.TuneConfig(
            max_concurrent_trials=max_concurrent,
            # On CPUs a process serves one trial after the other: starting Python and torch anew costs as much as a
            # short run. `execute` seeds everything, so nothing carries over. A GPU trial gets a fresh process.
            reuse_actors=resources.gpus == 0,
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
    _record_deaths(runs, [result for result in results if result.error is not None])
    # The run folders hold all that counts.
    shutil.rmtree(workspace.home / "ray" / name, ignore_errors=True)


def _record_deaths(runs: Sequence[PlannedRun], failures: Sequence[tune.Result]) -> None:
    """Write down why a run ended whose process did not live to do so itself."""
    folders = {run.record.run: run.folder for run in runs}
    for result in failures:
        folder = folders[result.config["record"]["run"]]
        if folder.path.exists() and folder.status().status in ("queued", "running") and folder.attempts():
            reason = str(result.error).strip().splitlines()[-1:] or ["no reason was given"]
            folder.attempts()[-1].fail(f"its process died {MAX_RESTARTS + 1} times, last: {reason[0]}")


def _trial_name(trial) -> str:
    return trial.config["record"]["run"]


def carry_out(config: dict) -> None:
    """The function that Tune runs in a worker process."""
    import torch

    from studies.trial import execute

    record = RunRecord.from_json(config["record"])
    device = torch.device("cuda" if config["gpus"] else "cpu")
    execute(record, Workspace(Path(config["home"])), config["cpus"], device)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Tune saves its state and returns on SIGUSR1 as on Ctrl-C; SIGTERM would end the process where it stands."""
    previous = signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
