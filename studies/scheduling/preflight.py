"""Before anything starts: does the request fit the cluster, and does every node see what this one sees?

Each finding is one line with the node's name. All of them are told at once, since a person mends nodes one by one.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from core.config import DataConfig
from results.run_folder import HEARTBEAT_SECONDS
from studies.planning.plan import peak_disk
from studies.runs import Workspace, corpus_state
from studies.scheduling.resources import Job, Resources

# A node that has not answered by then would not start a trial either.
ANSWER_SECONDS = 90.0
# Heartbeats are times of files, compared with the clock of whoever looks.
MOST_SKEW_SECONDS = HEARTBEAT_SECONDS / 4
# Numbers depend on torch, and what is sent between nodes on Ray and Python.
PACKAGES = ("ray", "torch", "duckdb", "tokenizers")
_GPUS_BY_TORCH = "import torch; print(torch.cuda.device_count())"


class ScheduleError(Exception):
    """The request does not fit the machine or cluster; nothing was started."""


@dataclass(frozen=True)
class Node:
    """A node as Ray knows it. `id` is Ray's, `name` for people; `cpus` and `gpus` are what Ray hands out there."""

    id: str
    name: str
    cpus: int
    gpus: int


@dataclass(frozen=True)
class NodeState:
    """A node as one of its own processes finds it.

    Attributes:
        versions: of Python and of `PACKAGES`, None where one is missing.
        token: what the driver wrote into the home, as read there; or why it could not be.
        written: the error of writing beside it, empty where there was none.
        torch_gpus: how many GPUs torch sees; None where it was not asked.
        corpora: what each corpus is there: its fingerprint, or what is missing.
        clock: Unix time when all this was known.
    """

    versions: Mapping[str, str | None]
    token: str
    written: str
    torch_gpus: int | None
    corpora: Mapping[str, str]
    clock: float


def nodes() -> list[Node]:
    """The cluster's living nodes that work can run on. Call within a Ray session."""
    import ray

    found = []
    for node in ray.nodes():
        resources = node["Resources"]
        if node["Alive"] and resources.get("CPU", 0) >= 1:
            found.append(Node(node["NodeID"], _name(node), int(resources.get("CPU", 0)), int(resources.get("GPU", 0))))
    return found


def _name(node: Mapping[str, Any]) -> str:
    """Its host and address; several nodes of one host, as in a test, also by the beginning of Ray's id."""
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:6]})"


def check_resources(resources: Resources, found: Sequence[Node]) -> None:
    """Refuse what would wait forever: more than the largest node has.

    Raises:
        ScheduleError: what is asked for, what there is, and a way out.
    """
    if not found:
        raise ScheduleError("the cluster has no node with a free core for work; add one, or look at ray status")
    most_gpus = max(node.gpus for node in found)
    if resources.gpus > most_gpus:
        largest = next(node.name for node in found if node.gpus == most_gpus)
        here = "this machine has none" if most_gpus == 0 else f"the largest machine, {largest}, has {most_gpus}"
        raise ScheduleError(
            f"a trial asks for {resources.gpus} GPUs and {here}; "
            f"use --gpus-per-trial {most_gpus} or give a cluster's --address"
        )
    cpus = resources.cpus * resources.ranks
    if not any(node.cpus >= cpus and node.gpus >= resources.gpus for node in found):
        each = f" ({resources.ranks} ranks with {resources.cpus} each)" if resources.ranks > 1 else ""
        raise ScheduleError(
            f"a trial asks for {cpus} processor cores{each} and the largest machine"
            f"{f' with {resources.gpus} GPUs' if resources.gpus else ''} has "
            f"{max(node.cpus for node in found if node.gpus >= resources.gpus)}"
        )


def check_disk(jobs: Sequence[Job], workspace: Workspace, found: Sequence[Node], max_concurrent: int | None) -> None:
    """Refuse what would fill the workspace's disk before it ends.

    Raises:
        ScheduleError: what is free, what is needed at the worst moment, and a way out.
    """
    trainings = [(run, given) for run, given in jobs if run.trains]
    if not trainings:
        return
    on_gpus = [given.gpus for _, given in trainings if given.gpus]
    smallest = min(on_gpus) if on_gpus else min(given.cpus * given.ranks for _, given in trainings)
    capacity = sum(node.gpus if on_gpus else node.cpus for node in found)
    at_once = min(capacity // smallest, max_concurrent or len(trainings))
    needed, free = peak_disk([run for run, _ in trainings], at_once), shutil.disk_usage(workspace.home).free
    if needed > free:
        raise ScheduleError(
            f"{workspace.home} has {free / 2**30:.1f} GiB free and the runs need {needed / 2**30:.1f} GiB at their "
            "worst moment, checkpoints included; free some, name another --home, or lower --max-concurrent"
        )


def check_nodes(jobs: Sequence[Job], workspace: Workspace, found: Sequence[Node]) -> None:
    """Refuse a cluster whose nodes do not share the home, or differ in what decides numbers.

    Raises:
        ScheduleError: a line for each node and finding.
    """
    data = list(dict.fromkeys(run.config.data for run, _ in jobs if run.work.reads_corpus))
    wants_gpus = any(given.gpus for _, given in jobs)
    folder = workspace.home / f".preflight-{secrets.token_hex(4)}"
    token = secrets.token_hex(16)
    try:
        folder.mkdir()
        (folder / "token").write_text(token)
        lines = [
            line
            for node, state, skew in _ask(found, folder, workspace, data, wants_gpus)
            for line in _findings(node, state, skew, own_state(folder, workspace, data, False, "driver"), folder)
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if lines:
        raise ScheduleError("\n".join(lines))


def _ask(
    found: Sequence[Node], folder: Path, workspace: Workspace, data: Sequence[DataConfig], wants_gpus: bool
) -> Iterator[tuple[Node, NodeState | Exception, float]]:
    """Each node's state, or the error of asking, and by how many seconds its clock is ahead at least."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(num_cpus=0, max_retries=0)(own_state)
    asked = time.time()
    answers = {
        node: look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote(
            folder, workspace, data, wants_gpus and node.gpus > 0, node.id
        )
        for node in found
    }
    deadline = time.monotonic() + ANSWER_SECONDS
    for node, answer in answers.items():
        try:
            state = ray.get(answer, timeout=max(0.0, deadline - time.monotonic()))
        except Exception as error:  # noqa: BLE001 - whatever keeps a node from answering is what is to be told of it
            yield node, error, 0.0
            continue
        # The clock was read between these two moments; only what lies outside of them is known to be wrong.
        yield node, state, max(state.clock - time.time(), 0.0) or min(state.clock - asked, 0.0)


def own_state(folder: Path, workspace: Workspace, data: Sequence[DataConfig], count_gpus: bool, node: str) -> NodeState:
    """What a process on this machine finds."""
    try:
        token = (folder / "token").read_text()
    except OSError as error:
        token = f"{error.strerror}"
    written = ""
    try:
        (folder / node).write_text(node)
    except OSError as error:
        written = error.strerror
    return NodeState(
        versions={"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        token=token,
        written=written,
        torch_gpus=_gpus_by_torch() if count_gpus else None,
        corpora={f"{each.corpus} {each.src}-{each.tgt}": corpus_state(each, workspace.data) for each in data},
        clock=time.time(),
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpus_by_torch() -> int:
    """How many GPUs torch sees, in a process of its own: Ray hides from this one those that it did not ask for."""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run([sys.executable, "-c", _GPUS_BY_TORCH], env=environment, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def _findings(node: Node, state: NodeState | Exception, skew: float, here: NodeState, folder: Path) -> Iterator[str]:
    """What is wrong with a node, a line each."""
    if isinstance(state, Exception):
        reason = str(state).strip().splitlines()[-1:] or [""]
        yield f"node {node.name} does not answer ({type(state).__name__}: {reason[0][:300]}); see its log, or remove it"
        return
    for package, version in here.versions.items():
        if state.versions[package] != version:
            yield f"node {node.name} has {package} {state.versions[package]}, here it is {version}; install the same"
    home = folder.parent
    if state.token != here.token:
        yield f"node {node.name} does not share {home} ({state.token}); mount it there, or name a shared --home"
    elif state.written:
        yield f"node {node.name} cannot write into {home} ({state.written}); give its Ray the right to"
    elif not (folder / node.id).exists():
        yield f"node {node.name} writes into another {home}, which it shares for reading only; mount it for both"
    else:
        for corpus, found in here.corpora.items():
            there = state.corpora[corpus]
            if there != found:
                yield f"node {node.name} has {corpus} as {there}, here it is {found}; set AIAYN_DATA alike"
    if state.torch_gpus is not None and state.torch_gpus < node.gpus:
        yield (
            f"node {node.name} has {node.gpus} GPUs by Ray and {state.torch_gpus} by torch; "
            "install a torch for its driver's CUDA, or start its Ray with --num-gpus"
        )
    if abs(skew) > MOST_SKEW_SECONDS:
        direction = "ahead" if skew > 0 else "behind"
        yield f"the clock of node {node.name} is {abs(skew):.0f} s {direction} of this one's; set it by NTP"
