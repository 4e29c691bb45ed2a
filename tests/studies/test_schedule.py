"""What is asked of Ray: refusals before anything starts, and the order of starts (test_end_to_end runs it)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from studies import schedule
from studies.registry import get_study
from studies.resources import Resources, Sizes
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import Scale
from studies.schedule import ScheduleError, check_resources, run_on_ray

Plan = Callable[..., list[PlannedRun]]


def cluster(monkeypatch: pytest.MonkeyPatch, *nodes: dict[str, float]) -> None:
    import ray

    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": resources} for resources in nodes])


@pytest.mark.parametrize(
    ("asked", "nodes", "complaint"),
    [
        (Resources(1, 8), [{"CPU": 2}], "asks for 8 GPUs and this machine has none; use --gpus-per-trial 0"),
        (Resources(1, 8), [{"CPU": 2, "GPU": 4}], "asks for 8 GPUs and the largest machine has 4; use .* 4 "),
        (Resources(1, 8), [{"CPU": 64, "GPU": 4}] * 4, "asks for 8 GPUs and the largest machine has 4"),
        (Resources(1, 0, 4), [{"CPU": 2}] * 4, r"4 processor cores \(4 ranks with 1 each\) and the largest .* 2"),
        (Resources(2, 8), [{"CPU": 8, "GPU": 8}], r"16 processor cores \(8 ranks with 2 each\) and the largest .* 8"),
        (Resources(4, 0), [{"CPU": 2}], "asks for 4 processor cores and the largest machine has 2"),
    ],
    ids=["no GPU", "too few", "enough on four machines but on none", "ranks", "cores of ranks on GPUs", "cores"],
)
def test_what_would_wait_forever_is_refused(
    asked: Resources, nodes: list[dict], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B55."""
    cluster(monkeypatch, *nodes)
    with pytest.raises(ScheduleError, match=complaint):
        check_resources(asked)


@pytest.mark.parametrize("asked", [Resources(1, 0), Resources(2, 1), Resources(1, 0, 2)], ids=str)
def test_what_fits_is_accepted(asked: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, {"CPU": 1}, {"CPU": 2, "GPU": 1})
    check_resources(asked)


def test_longest_run_starts_first_and_data_is_prepared_once(
    workspace: Workspace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    monkeypatch.setattr(schedule, "ray_session", lambda address: contextlib.nullcontext())
    monkeypatch.setattr(schedule, "check_resources", lambda resources: events.append("checked"))
    monkeypatch.setattr(schedule, "prepare", lambda data, folder: events.append(folder))
    monkeypatch.setattr(schedule, "_fit", lambda jobs, *_: events.append([run.record.trial for run, _ in jobs]))
    runs = plan(workspace, "N2", "big", "base")
    run_on_ray([(run, Resources(1, 0)) for run in runs], workspace, on_start=lambda: events.append("started"))
    assert events == ["checked", workspace.data, "started", ["big", "base", "N2"]]


def test_what_measures_comes_after_what_trains(
    workspace: Workspace, plan: Plan, tiny: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[tuple[list[str], list[int]]] = []
    monkeypatch.setattr(schedule, "ray_session", lambda address: contextlib.nullcontext())
    monkeypatch.setattr(schedule, "check_resources", lambda resources: None)
    monkeypatch.setattr(schedule, "prepare", lambda data, folder: None)
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
