"""In what order runs are handed to Ray, and what comes before (test_end_to_end runs it)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from studies import schedule
from studies.registry import get_study
from studies.resources import Resources, Sizes
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import Scale
from studies.schedule import run_on_ray

Plan = Callable[..., list[PlannedRun]]


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "ray_session", lambda address: contextlib.nullcontext())
    monkeypatch.setattr(schedule, "nodes", list)
    for check in ("check_resources", "check_disk", "check_nodes"):
        monkeypatch.setattr(schedule, check, lambda *_: None)
    monkeypatch.setattr(schedule, "prepare", lambda data, folder: None)


def test_longest_run_starts_first_and_data_is_prepared_once(
    workspace: Workspace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    monkeypatch.setattr(schedule, "check_resources", lambda resources, nodes: events.append("checked"))
    monkeypatch.setattr(schedule, "prepare", lambda data, folder: events.append(folder))
    monkeypatch.setattr(schedule, "_fit", lambda jobs, *_: events.append([run.record.trial for run, _ in jobs]))
    runs = plan(workspace, "N2", "big", "base")
    run_on_ray([(run, Resources(1, 0)) for run in runs], workspace, on_start=lambda: events.append("started"))
    assert events == ["checked", workspace.data, "started", ["big", "base", "N2"]]


def test_what_measures_comes_after_what_trains(
    workspace: Workspace, plan: Plan, tiny: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[tuple[list[str], list[int]]] = []
    monkeypatch.setattr(
        schedule,
        "_fit",
        lambda jobs, *_: stages.append(([run.record.study for run, _ in jobs], [given.gpus for _, given in jobs])),
    )
    probes = plan_runs(get_study("figure3"), tiny, 1, workspace)
    sizes = Sizes(gpus=1)
    jobs = [(run, sizes.of(run, tiny)) for run in [*probes, *plan(workspace, "base")]]
    run_on_ray(jobs, workspace)
    assert stages == [(["table3"], [1]), (["figure3", "figure3"], [0, 0])]


@pytest.mark.parametrize(
    ("address", "gpus", "asked"), [(None, 0, False), (None, 1, True), ("10.0.0.1:6379", 0, True)], ids=str
)
def test_nodes_are_looked_at_where_there_are_several_or_gpus(
    address: str | None, gpus: int, asked: bool, workspace: Workspace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(schedule, "check_nodes", lambda *_: events.append("looked"))
    monkeypatch.setattr(schedule, "_fit", lambda *_: events.append("started"))
    run_on_ray([(run, Resources(1, gpus)) for run in plan(workspace, "base")], workspace, address)
    assert events == ["looked", "started"][not asked :]
