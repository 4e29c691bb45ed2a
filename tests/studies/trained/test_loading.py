"""Using a finished run: found by what a person types, and loaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from core.checkpoint import CheckpointError
from core.data.corpus import DataError
from results.errors import ResultsError
from results.provenance import run_id
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.trained.loading import find_run, load_run

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]


def test_run_is_found_by_id_beginning_or_trial(unbroken: RunFolder) -> None:
    workspace = Workspace(unbroken.path.parent.parent)
    for name in (unbroken.path.name, unbroken.path.name[:4], "table3/base"):
        assert find_run(workspace, name).path == unbroken.path


@pytest.mark.parametrize("name", ["", "zzz", "table3/h1", "table4/base", "/", "../x"])
def test_run_that_is_not_there_is_told(name: str, unbroken: RunFolder) -> None:
    with pytest.raises(ValueError, match=r"no finished run .*aiayn status"):
        find_run(Workspace(unbroken.path.parent.parent), name)


def test_unfinished_run_is_not_used(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    (run,) = plan(workspace, "base")
    pretend(run, failure=("no memory", "failed"))
    with pytest.raises(ValueError, match="no finished run of table3/base"):
        find_run(workspace, "table3/base")


def test_beginning_of_several_ids_is_refused(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    runs = plan(workspace, seeds=1)  # twenty ids begin with sixteen digits at most
    for run in runs:
        pretend(run)
    first = [run.record.run[0] for run in runs]
    shared = next(digit for digit in first if first.count(digit) > 1)
    with pytest.raises(ValueError, match=f"'{shared}' begins {first.count(shared)} runs: .*give more of the id"):
        find_run(workspace, shared)


def test_of_several_runs_of_a_trial_the_newest_is_meant(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    one, two = plan(workspace, "base", seeds=2)
    for run, finished in ((one, "2026-01-02T00:00:00+00:00"), (two, "2026-01-01T00:00:00+00:00")):
        folder = pretend(run)
        folder.finish(replace(folder.result(), finished=finished))
    assert find_run(workspace, "table3/base").path == one.folder.path


def test_weights_of_another_run_are_refused(unbroken: RunFolder, tmp_path: Path) -> None:
    record = unbroken.record()
    what = (record.study, record.trial, 2, record.scale, record.config, record.data_fingerprint, record.code_version)
    other = RunFolder.create(tmp_path, replace(record, seed=2, run=run_id(*what)))
    other.finish(unbroken.result())
    (other.path / "model.pt").symlink_to(unbroken.path / "model.pt")
    with pytest.raises(ResultsError, match=f"is of run {record.run}, not of {other.path.name}; put the original"):
        load_run(other)


@pytest.mark.parametrize("damage", ["cut", "removed", "changed"])
def test_a_runs_vocabulary_is_put_back_and_never_deleted(unbroken: RunFolder, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / unbroken.path.name
    shutil.copytree(unbroken.path, copy)
    path = copy / "vocabulary.json"
    text = path.read_text(encoding="utf-8")
    if damage == "removed":
        path.unlink()
    else:
        path.write_text(text[: len(text) // 2] if damage == "cut" else text + "\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"vocabulary\.json .*; put the original file back, or run it again with --rerun"
    ) as caught:
        load_run(RunFolder(copy))
    assert "delete" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kept"),
    [("run.json", 100), ("result.json", 100), ("model.pt", 3_000), ("model.pt", 0), ("model.pt", None)],
)
def test_damaged_run_names_the_file_and_what_to_do(
    unbroken: RunFolder, tmp_path: Path, name: str, kept: int | None
) -> None:
    copy = tmp_path / unbroken.path.name
    shutil.copytree(unbroken.path, copy)
    if kept is None:
        (copy / name).unlink()
    else:
        os.truncate(copy / name, kept)
    with pytest.raises((ResultsError, CheckpointError)) as caught:
        load_run(RunFolder(copy))
    message = str(caught.value)
    assert unbroken.path.name in message
    assert name in message
    assert message.endswith("put the original file back, or run it again with --rerun")
    assert "weights_only" not in message
    if name != "model.pt":
        status = RunFolder(copy).status()
        assert status.status == "failed"  # a finished run that nothing can read is not called done
        assert status.reason.endswith("--rerun")
