"""Ray Tune: runs to machines.

What is done, resumes or is skipped, the run folders decide; Tune decides where and when.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.complexity import training_flops
from core.data.corpora import get_pairs, get_treebank
from core.data.corpus import TRAIN_SPLIT
from core.data.prepare import prepare
from results.errors import ResultsError
from results.records import RunRecord
from results.run_folder import RunFolder
from studies.runs import Workspace
from studies.scheduling.in_use import in_use
from studies.scheduling.preflight import check_disk, check_nodes, check_resources, nodes
from studies.scheduling.ray_session import ray_session
from studies.scheduling.resources import Job, Resources
from studies.work import AttentionProbe

if TYPE_CHECKING:
    from ray import tune

# A trial whose process dies is started again this often, from its checkpoint.
MAX_RESTARTS = 2
# What Ray says where it, or the kernel before it, ended a process so that the machine does not run out of memory.
_KILLED_FOR_MEMORY = ("OutOfMemory", "low on memory", "memory pressure")


def run_on_ray(
    jobs: Sequence[Job],
    workspace: Workspace,
    address: str | None = None,
    max_concurrent: int | None = None,
    on_start: Callable[[], None] = lambda: None,
    oom_halvings: int = 0,
) -> None:
    """Carry out these runs with Ray Tune and return when all have ended; Ctrl-C and SIGTERM leave it at once.

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
        trainings = longest_first([job for job in jobs if job[0].trains and job[0].needs is None])
        prepared = dict.fromkeys(run.config.data for run, _ in trainings)
        for data in prepared:
            prepare(data, workspace.data)
        for data in dict.fromkeys(run.config.data for run, _ in jobs if run.work.reads_corpus):
            if data not in prepared:  # what reads its text alone, such as a parser that is read off the trees
                get_pairs(data, workspace.data).fetch(workspace.data, (data.src, data.tgt))
        for treebank in {run.work.treebank for run, _ in jobs if isinstance(run.work, AttentionProbe)} - {None}:
            for _ in get_treebank(treebank).read_trees(TRAIN_SPLIT, workspace.data):
                pass  # damaged, it is told now, and not after the training of what looks at it
        on_start()
        for stage in (trainings, [job for job in jobs if job not in trainings]):
            if stage:
                _fit(stage, workspace, max_concurrent, oom_halvings)


def longest_first(jobs: Sequence[Job]) -> list[Job]:
    """Trainings by the time that they will take on their ranks."""
    return sorted(jobs, key=lambda job: -training_flops(job[0].config.model, job[0].config.train) / job[1].ranks)


def _fit(jobs: Sequence[Job], workspace: Workspace, max_concurrent: int | None, oom_halvings: int) -> None:
    from ray import tune

    resources = {resources for _, resources in jobs}
    trainable = tune.with_resources(carry_out, _placement)
    folder = _new_experiment(workspace, jobs[0][0].record.study)
    tuner = tune.Tuner(
        trainable,
        param_space={
            "job": tune.grid_search([{"record": run.record.to_json(), **asdict(given)} for run, given in jobs]),
            "home": str(workspace.home),
            "oom_halvings": oom_halvings,
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
            name=folder.name,
            storage_path=str(workspace.ray),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=MAX_RESTARTS),
        ),
    )
    with in_use(folder):
        try:
            results = tuner.fit()
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # the run folders hold all that counts
    _record_deaths(workspace, [result for result in results if result.error is not None])


def _new_experiment(workspace: Workspace, study: str) -> Path:
    """A folder that no other start of the study has: a used name would mix this experiment into the older one."""
    workspace.ray.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{study}-{time.strftime('%Y%m%d-%H%M%S')}-", dir=workspace.ray))


def _resources(config: Mapping[str, Any]) -> Resources:
    return Resources(*(config["job"][name] for name in Resources.__dataclass_fields__))


def _placement(config: Mapping[str, Any]) -> tune.PlacementGroupFactory:
    """A bundle for each rank, all on one node: gradients between machines would take longer than the products."""
    from ray import tune

    resources = _resources(config)
    return tune.PlacementGroupFactory([resources.bundle] * resources.ranks, strategy="STRICT_PACK")


def _record_deaths(workspace: Workspace, failures: Sequence[tune.Result]) -> None:
    """Write down why a run ended whose process did not live, or never came, to do so itself."""
    for result in failures:
        record = RunRecord.from_json(result.config["job"]["record"])
        # On a full disk the run stays interrupted; of a folder that is damaged its status tells.
        with suppress(OSError, ResultsError):
            folder = RunFolder.create(workspace.runs, record)  # it may have died before it could make one
            # One that runs is another command's by now, or an orphan's for a moment more.
            if folder.status().status == "queued":
                attempts = folder.attempts()
                attempt = attempts[-1] if attempts else folder.claim_attempt()
                attempt.fail(_cause_of_death(str(result.error)))


def _cause_of_death(said: str) -> str:
    """The reason in a line, from what Ray says at length."""
    died = f"its process died {MAX_RESTARTS + 1} times"
    if any(sign in said for sign in _KILLED_FOR_MEMORY):
        return f"out of memory: {died} because the machine had none left; run fewer with --max-concurrent"
    last = said.strip().splitlines()[-1:] or ["no reason was given"]
    return f"{died}, last: {last[0]}"


def _trial_name(trial) -> str:
    return trial.config["job"]["record"]["run"]


def carry_out(config: dict) -> None:
    """The function that Tune runs in a worker process: the trial's only rank, or its first."""
    from studies.scheduling.rank_actors import own_device, rank_actors
    from studies.trials.execution import execute
    from studies.trials.trial import train_alone

    record, resources = RunRecord.from_json(config["job"]["record"]), _resources(config)
    home = Path(config["home"])
    join = train_alone if resources.ranks == 1 else partial(rank_actors, record, home, resources)
    execute(record, Workspace(home), resources.cpus, own_device(), join, config["oom_halvings"])
