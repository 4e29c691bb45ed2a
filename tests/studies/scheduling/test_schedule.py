"""In what order runs are handed to Ray, and what comes before (test_end_to_end runs it)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.data.corpus import DataError
from results.run_folder import RunFolder, RunStatus, read_json, write_json
from studies.registry import get_study
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import Scale, get_scale
from studies.scheduling import schedule
from studies.scheduling.resources import Resources, Sizes
from studies.scheduling.schedule import run_on_ray

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


def test_text_that_no_training_reads_is_had_before_any_trial(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parser that is read off the trees trains nothing, and needs the trees all the same."""
    (tmp_path / "data" / "treebank-sample").mkdir(parents=True)
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "data"))
    started: list[object] = []
    monkeypatch.setattr(schedule, "_fit", lambda jobs, *_: started.append(jobs))
    runs = plan_runs(get_study("table4"), get_scale("small"), 1, workspace, ["pcfg"])
    with pytest.raises(DataError, match=r"treebank\.zip missing"):
        run_on_ray([(run, Resources(1, 0)) for run in runs], workspace)
    assert started == []


def test_a_damaged_treebank_is_told_before_any_trial_looks_at_its_sentences(
    workspace: Workspace, tiny: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "treebank-sample").mkdir(parents=True)
    (tmp_path / "data" / "treebank-sample" / "treebank.zip").write_bytes(b"cut off")
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "data"))
    started: list[object] = []
    monkeypatch.setattr(schedule, "_fit", lambda jobs, *_: started.append(jobs))
    runs = plan_runs(get_study("figure3"), replace(tiny, treebanks=("treebank-sample",)), 1, workspace)
    with pytest.raises(DataError, match=r"treebank\.zip is not a complete zip file"):
        run_on_ray([(run, Resources(1, 0)) for run in runs], workspace)
    assert started == []


def test_a_treebank_is_read_to_its_end_before_any_trial(
    workspace: Workspace, tiny: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is damaged behind the first tree would be met after the training that the probe looks at."""

    def read_trees(split: str, cache_dir: Path):
        yield from ("first tree", "second tree")
        raise DataError("the third is damaged; get it again")

    started: list[object] = []
    monkeypatch.setattr(schedule, "get_treebank", lambda name: SimpleNamespace(read_trees=read_trees))
    monkeypatch.setattr(schedule, "_fit", lambda jobs, *_: started.append(jobs))
    (tmp_path / "data" / "treebank-sample").mkdir(parents=True)
    (tmp_path / "data" / "treebank-sample" / "treebank.zip").write_bytes(b"its place is enough to plan")
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "data"))
    runs = plan_runs(get_study("figure5"), replace(tiny, treebanks=("treebank-sample",)), 1, workspace)
    with pytest.raises(DataError, match="the third is damaged"):
        run_on_ray([(run, Resources(1, 0)) for run in runs], workspace)
    assert started == []


def test_two_starts_of_one_study_in_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    """B53: under a name that is used, Tune would mix the new start into the old one. B69: names stay short."""
    first, second = (schedule._new_experiment(Workspace(tmp_path), "table3") for _ in range(2))
    assert first != second
    assert first.is_dir()
    assert second.is_dir()
    assert len(first.name) < 40


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


@pytest.mark.parametrize("attempts", [0, 1])
def test_run_whose_process_died_or_never_came_keeps_the_reason(attempts: int, workspace: Workspace, plan: Plan) -> None:
    (run,) = plan(workspace, "base")
    for _ in range(attempts):
        folder = RunFolder.create(workspace.runs, run.record)
        started = folder.claim_attempt().started_file
        write_json(started, read_json(started) | {"pid": 2**22 + 1})  # no such process
    died = SimpleNamespace(
        config={"job": {"record": run.record.to_json()}}, error="Traceback\nImportError: no such module"
    )
    schedule._record_deaths(workspace, [died])
    assert run.folder.status() == RunStatus("failed", "its process died 3 times, last: ImportError: no such module")
    assert len(run.folder.attempts()) == 1


def test_run_that_ray_ended_for_want_of_memory_says_so_and_one_of_another_command_is_left(
    workspace: Workspace, plan: Plan
) -> None:
    base, other = plan(workspace, "base", "h1")
    RunFolder.create(workspace.runs, other.record).claim_attempt()  # this process lives
    why = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory: 15/16 GB"
    schedule._record_deaths(
        workspace,
        [SimpleNamespace(config={"job": {"record": run.record.to_json()}}, error=why) for run in (base, other)],
    )
    assert base.folder.status().reason.startswith("out of memory: its process died 3 times")
    assert other.folder.status().status == "running"
