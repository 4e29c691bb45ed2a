"""Run ids and plans: what makes another run, and what a workspace says is done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from results import provenance
from results.run_folder import RunFolder
from studies import runs
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import PAPER, SMALL, SMOKE, Scale
from studies.table3 import STUDY

ROOT = Path(runs.__file__).resolve().parent.parent

PLAN = """
import json, sys
from pathlib import Path
from studies.runs import Workspace, plan_runs
from studies.scales import SMOKE
from studies.table3 import STUDY
print(json.dumps([run.record.run for run in plan_runs(STUDY, SMOKE, 2, Workspace(Path(sys.argv[1])))]))
"""


def ids(planned: list[PlannedRun]) -> list[str]:
    return [run.record.run for run in planned]


@pytest.mark.parametrize("place", [".", "runs", "data", "ray", "site"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path, place: str) -> None:
    home = tmp_path / "home"
    (home / place).parent.mkdir(exist_ok=True)
    (home / place).touch()
    with pytest.raises(ValueError, match=r"is a file where a folder is meant; move it away, or name another home"):
        Workspace(home)


@pytest.mark.parametrize("place", ["results.duckdb", "results.duckdb.lock", "ray.log"])
def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir()
    with pytest.raises(ValueError, match=rf"{place} is a folder where a file is meant; move it away, or name another"):
        Workspace(tmp_path)


@pytest.mark.parametrize(
    ("name", "why"), [("x" * 300, "File name too long"), ("\udcff", "no UTF-8"), ("file/home", "Not a directory")]
)
def test_a_home_that_cannot_be_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"{why}\\); name another home with --home"):
        Workspace(tmp_path / name)


@pytest.mark.parametrize("files", [(), ("train.en.gz",)])
def test_an_incomplete_folder_of_a_persons_own_blocks_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
) -> None:
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "data"))
    (run,) = plan_runs(STUDY, SMALL, 1, Workspace(tmp_path / "home"), ["base"])
    assert run.status.status == "blocked"
    assert f"multi30k is incomplete at {folder}: " in run.status.reason
    assert "train.de.gz" in run.status.reason


def test_ids_are_the_same_in_every_process_folder_and_home(workspace: Workspace, tmp_path: Path) -> None:
    here = ids(plan_runs(STUDY, SMOKE, 2, workspace))
    there = subprocess.run(
        [sys.executable, "-c", PLAN, str(tmp_path / "another")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(there.stdout) == here
    assert len(set(here)) == 40


def test_ids_differ_by_trial_seed_scale_and_configuration(workspace: Workspace) -> None:
    longer = replace(SMOKE, base=replace(SMOKE.base, train=replace(SMOKE.base.train, train_steps=461)))
    renamed = replace(SMOKE, name="small")
    plans = [plan_runs(STUDY, scale, 2, workspace) for scale in (SMOKE, SMALL, PAPER, longer, renamed)]
    found = [run for planned in plans for run in ids(planned)]
    assert len(set(found)) == len(found) == 5 * 40


def test_id_differs_by_data(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ids(plan_runs(STUDY, SMOKE, 1, workspace))
    monkeypatch.setattr(runs, "data_fingerprint", lambda config, cache_dir: "0123456789abcdef")
    assert set(before).isdisjoint(ids(plan_runs(STUDY, SMOKE, 1, workspace)))


def test_id_differs_by_code(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ids(plan_runs(STUDY, SMOKE, 1, workspace))
    monkeypatch.setattr(runs, "code_version", lambda: "0123456789ab")
    assert set(before).isdisjoint(ids(plan_runs(STUDY, SMOKE, 1, workspace)))


@pytest.mark.parametrize(
    "file", ["core/trainer.py", "core/data/grammar/sampler.py", *(f"studies/{name}" for name in runs.CARRYING_OUT)]
)
def test_one_line_of_the_engine_makes_another_code_version(file: str, tmp_path: Path) -> None:
    """B62: a change of the trainer must not be skipped as done."""
    shutil.copytree(ROOT / "core", tmp_path / "core", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "studies" / "trials").mkdir(parents=True)
    copied = [tmp_path / "core"]
    for name in runs.CARRYING_OUT:
        copied.append(Path(shutil.copy(ROOT / "studies" / name, tmp_path / "studies" / name)))
    assert provenance.code_version(copied) == runs.code_version()
    with (tmp_path / file).open("a", encoding="utf-8") as source:
        source.write("\n# one more line\n")
    assert provenance.code_version(copied) != runs.code_version()


def test_code_that_only_judges_or_shows_makes_no_other_runs() -> None:
    assert runs.judging_version() != runs.code_version()
    trials = ROOT / "studies" / "trials"
    covered = [ROOT / "core", *(trials / name for name in ("execution.py", "scoring.py", "trial.py"))]
    assert runs.code_version() == provenance.code_version(covered)


def test_folder_names_are_short_whatever_the_configuration(workspace: Workspace) -> None:
    """B69: no parameter and no study's name becomes part of a path."""
    study = replace(STUDY, name="a-study-with-a-name-of-" + 40 * "many-" + "letters")
    for run in plan_runs(study, PAPER, 2, workspace):
        assert len(run.folder.path.name) == 12
        assert run.folder.path == workspace.runs / run.record.run


def test_plan_follows_the_studys_order_and_numbers_seeds_from_one(workspace: Workspace) -> None:
    planned = plan_runs(STUDY, SMOKE, 2, workspace)
    expected = [(trial.name, seed) for trial in STUDY.trials for seed in (1, 2)]
    assert [(run.record.trial, run.record.seed) for run in planned] == expected


def test_more_seeds_leave_the_first_ones_as_they_were(workspace: Workspace) -> None:
    few, many = plan_runs(STUDY, SMOKE, 1, workspace), plan_runs(STUDY, SMOKE, 3, workspace)
    assert set(ids(few)) < set(ids(many))


def test_trial_asked_for_twice_is_planned_once(workspace: Workspace) -> None:
    planned = plan_runs(STUDY, SMOKE, 1, workspace, ["h1", "base", "h1"])
    assert [run.record.trial for run in planned] == ["h1", "base"]


def test_plan_tells_what_is_done_failed_and_still_to_do(
    workspace: Workspace, plan: Callable[..., list[PlannedRun]], pretend: Callable[..., RunFolder]
) -> None:
    trials = ("base", "h1", "h4", "h16")
    base, h1, h4, _ = plan(workspace, *trials)
    pretend(base, {"dev_bleu": 1.0})
    pretend(h1, failure=("out of memory", "failed"))
    pretend(h4, failure=("loss nan by update 3", "diverged"))
    states = [(run.status.status, run.status.reason) for run in plan(workspace, *trials)]
    assert states == [
        ("done", ""),
        ("failed", "out of memory"),
        ("diverged", "loss nan by update 3"),
        ("queued", ""),
    ]


def test_planning_writes_nothing(workspace: Workspace) -> None:
    plan_runs(STUDY, SMOKE, 1, workspace)
    assert not workspace.home.exists()


def test_paper_scale_is_planned_and_blocked_with_what_is_missing(workspace: Workspace) -> None:
    """B74: neither failed nor 0."""
    for run in plan_runs(STUDY, PAPER, 1, workspace):
        assert run.status.status == "blocked"
        assert run.status.reason == "corpus wmt14 en-de is not here; get it with: aiayn data fetch wmt14 --pair en-de"


@pytest.mark.parametrize("number", [0, -1])
def test_fewer_than_one_seed_is_refused(number: int, workspace: Workspace) -> None:
    with pytest.raises(ValueError, match=f"^{number} seeds: at least 1"):
        plan_runs(STUDY, SMOKE, number, workspace)


def test_unknown_trial_is_refused(workspace: Workspace) -> None:
    with pytest.raises(ValueError, match="no trial 'bse' in study table3; close: base"):
        plan_runs(STUDY, SMOKE, 1, workspace, ["base", "bse"])


def test_record_holds_all_that_decides_the_run(workspace: Workspace, tiny: Scale) -> None:
    (run,) = plan_runs(STUDY, tiny, 1, workspace, ["h1"])
    record = run.record
    assert record.config == run.config.to_dict()
    assert record.code_version == runs.code_version()
    assert {"hardware", "gpus", "versions", "git_commit", "dirty"} <= record.provenance.keys()
    parts = (record.study, record.trial, record.seed, record.scale, record.config)
    assert provenance.run_id(*parts, record.data_fingerprint, record.code_version) == record.run


def test_workspace_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workspace = Workspace(Path("here"))
    monkeypatch.chdir("/")
    assert workspace.runs == tmp_path / "here" / "runs"
    assert workspace.database == tmp_path / "here" / "results.duckdb"
