"""What is refused before anything starts, in words that name the node (test_cluster has real nodes)."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from studies.runs import PlannedRun, Workspace
from studies.scales import Scale
from studies.scheduling import preflight
from studies.scheduling.preflight import (
    MOST_SKEW_SECONDS,
    Node,
    NodeState,
    ScheduleError,
    check_disk,
    check_nodes,
    check_resources,
    own_state,
)
from studies.scheduling.resources import Resources

Plan = Callable[..., list[PlannedRun]]
Answers = list[tuple[Node, NodeState | Exception, float]]


def node(cpus: int, gpus: int = 0, name: str = "n1") -> Node:
    return Node(f"id-{name}", name, cpus, gpus)


@pytest.mark.parametrize(
    ("asked", "found", "complaint"),
    [
        (Resources(1, 8), [node(2)], "asks for 8 GPUs and this machine has none; use --gpus-per-trial 0"),
        (Resources(1, 8), [node(2), node(9, 4, "n2")], "the largest machine, n2, has 4; use --gpus-per-trial 4 "),
        (Resources(1, 8), [node(64, 4)] * 4, "asks for 8 GPUs and the largest machine, n1, has 4"),
        (Resources(1, 0, 4), [node(2)] * 4, r"4 processor cores \(4 ranks with 1 each\) and the largest machine has 2"),
        (Resources(2, 8), [node(8, 8), node(64)], r"16 processor cores .* largest machine with 8 GPUs has 8"),
        (Resources(4, 0), [node(2)], "asks for 4 processor cores and the largest machine has 2"),
        (Resources(1, 0), [], "no node with a free core"),
    ],
    ids=["no GPU", "too few", "enough on four but on none", "ranks", "GPUs without cores", "cores", "no node"],
)
def test_what_would_wait_forever_is_refused(asked: Resources, found: list[Node], complaint: str) -> None:
    """B55."""
    with pytest.raises(ScheduleError, match=complaint):
        check_resources(asked, found)


@pytest.mark.parametrize("asked", [Resources(1, 0), Resources(2, 1), Resources(1, 0, 2)], ids=str)
def test_what_fits_is_accepted(asked: Resources) -> None:
    check_resources(asked, [node(1), node(2, 1)])


def test_a_disk_too_small_for_the_worst_moment_is_refused(
    workspace: Workspace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.home.mkdir()
    jobs = [(run, Resources(1, 0)) for run in plan(workspace, "base", seeds=4)]
    usage = namedtuple("usage", "total used free")
    needed = [preflight.peak_disk([run for run, _ in jobs], at_once) for at_once in (1, 2)]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 0, needed[1] - 1))
    with pytest.raises(ScheduleError, match=r"GiB free and the runs need .* lower --max-concurrent"):
        check_disk(jobs, workspace, [node(2)], None)
    check_disk(jobs, workspace, [node(2)], 1)
    check_disk(jobs, workspace, [node(1)], None)


# Nodes that answer --------------------------------------------------------------------------------------------------


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes two nodes answer what this machine would, the second one with the changes that are given."""

    def make(change: Callable[[NodeState], NodeState | Exception], skew: float = 0.0) -> None:
        def ask(found, folder: Path, workspace, data, wants_gpus) -> Answers:
            good, bad = (own_state(folder, workspace, data, False, each.id) for each in found)
            return [(found[0], good, 0.0), (found[1], change(bad), skew)]

        monkeypatch.setattr(preflight, "_ask", ask)

    return make


def findings(workspace: Workspace, plan: Plan) -> list[str]:
    """The lines of the refusal, of a request for one run on two nodes with 8 GPUs each."""
    workspace.home.mkdir(exist_ok=True)
    jobs = [(run, Resources(1, 8)) for run in plan(workspace, "base")]
    try:
        check_nodes(jobs, workspace, [node(8, 8, "n1"), node(8, 8, "n2")])
    except ScheduleError as error:
        assert not list(workspace.home.iterdir())
        return str(error).splitlines()
    return []


def test_nodes_that_agree_are_accepted(workspace: Workspace, plan: Plan, answering: Callable) -> None:
    answering(lambda state: replace(state, torch_gpus=8), skew=MOST_SKEW_SECONDS)
    assert findings(workspace, plan) == []


CHANGES: dict[str, tuple[Callable[[NodeState], NodeState | Exception], str]] = {
    "version": (
        lambda state: replace(state, versions=state.versions | {"torch": "2.0.1"}),
        "node n2 has torch 2.0.1, here it is",
    ),
    "package missing": (
        lambda state: replace(state, versions=state.versions | {"duckdb": None}),
        "node n2 has duckdb None, here it is",
    ),
    "home not there": (
        lambda state: replace(state, token="No such file or directory"),
        "node n2 does not share",
    ),
    "read-only": (
        lambda state: replace(state, written="Read-only file system"),
        "node n2 cannot write into",
    ),
    "other data": (
        lambda state: replace(state, corpora=dict.fromkeys(state.corpora, "0123456789ab")),
        "node n2 has grammar en-de as 0123456789ab, here it is",
    ),
    "no driver": (
        lambda state: replace(state, torch_gpus=0),
        "node n2 has 8 GPUs by Ray and 0 by torch",
    ),
    "no answer": (lambda state: TimeoutError("waited 90 s"), "node n2 does not answer (TimeoutError: waited 90 s)"),
}


@pytest.mark.parametrize(("change", "complaint"), CHANGES.values(), ids=CHANGES)
def test_each_finding_is_one_line_with_the_nodes_name(
    change: Callable, complaint: str, workspace: Workspace, plan: Plan, answering: Callable
) -> None:
    answering(change)
    (line,) = findings(workspace, plan)
    assert line.startswith(complaint)


@pytest.mark.parametrize(("skew", "words"), [(61.0, "61 s ahead"), (-61.0, "61 s behind")])
def test_a_clock_that_is_off_is_told(
    skew: float, words: str, workspace: Workspace, plan: Plan, answering: Callable
) -> None:
    answering(lambda state: state, skew)
    (line,) = findings(workspace, plan)
    assert line.startswith(f"the clock of node n2 is {words} of this one's")


def test_what_a_node_writes_must_arrive(workspace: Workspace, plan: Plan, answering: Callable) -> None:
    def lose_what_it_wrote(state: NodeState) -> NodeState:
        next(workspace.home.glob(".preflight-*/id-n2")).unlink()
        return state

    answering(lose_what_it_wrote)
    (line,) = findings(workspace, plan)
    assert line.startswith("node n2 writes into another")


def test_all_findings_are_told_at_once(workspace: Workspace, plan: Plan, answering: Callable, tiny: Scale) -> None:
    def two_things(state: NodeState) -> NodeState:
        return replace(state, versions=state.versions | {"ray": "2.9.0"}, torch_gpus=7)

    answering(two_things, skew=99.0)
    assert len(findings(workspace, plan)) == 3
