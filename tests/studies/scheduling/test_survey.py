"""How things stand, run by run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from results.errors import ResultsError
from results.ingest import find_runs
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.scheduling.survey import finished_runs, survey

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]


def test_survey_tells_of_every_run_whatever_made_it(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    base, h1, h4 = plan(workspace, "base", "h1", "h4")
    pretend(base)
    failed = pretend(h1, failure=("no memory", "failed"))
    failed.attempts()[0].log_file.write_text("Traceback")
    RunFolder.create(workspace.runs, h4.record)
    broken = workspace.runs / "0123456789ab"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    (workspace.runs / ".set-aside").mkdir()
    found = {run.run: run for run in survey(workspace)}
    assert found.keys() == {base.record.run, h1.record.run, h4.record.run, "0123456789ab"}
    assert (found[base.record.run].status, found[base.record.run].step) == ("done", 12)
    assert (found[h1.record.run].status, found[h1.record.run].reason) == ("failed", "no memory")
    assert found[h1.record.run].log.endswith("attempt-001/log.txt")
    assert found[h4.record.run].status == "queued"
    assert found["0123456789ab"].status == "failed"
    assert "run.json cannot be read" in found["0123456789ab"].reason


def test_one_odd_folder_is_told_and_hides_no_other(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    good, file, folder, notes = plan(workspace, "base", "h1", "h4", "h16")
    pretend(good)
    RunFolder.create(workspace.runs, file.record)
    (file.folder.path / "attempt-001").touch()
    (pretend(folder).attempts()[0].metrics_file).unlink()
    folder.folder.attempts()[0].metrics_file.mkdir()
    pretend(notes, failure=("no memory", "failed")).attempts()[0].notes_file.mkdir()
    (workspace.runs / "of-mine").mkdir()
    (workspace.runs / "0123456789ab").symlink_to("nowhere")
    found = {run.run: run for run in survey(workspace)}
    assert found.keys() == {run.path.name for run in find_runs(workspace.runs)}
    assert found[good.record.run].status == found[folder.record.run].status == "done"
    assert found[file.record.run].reason.startswith("attempt-001 cannot be read (Not a directory); put the original")
    assert found[notes.record.run].reason.startswith("notes.jsonl cannot be read (Is a directory)")
    assert found["of-mine"].reason == "run.json is missing; no run is named so: move it away"


def test_runs_that_cannot_be_listed_are_not_taken_for_none(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("results.ingest.os.scandir", refuse)
    with pytest.raises(ResultsError, match=r"cannot read .*runs \(Permission denied\)"):
        survey(workspace)


def test_finished_runs_pass_over_what_may_not_be_read(
    workspace: Workspace, plan: Plan, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, h1 = plan(workspace, "base", "h1")
    pretend(base)
    pretend(h1)
    exists = Path.exists

    def refuse(path: Path) -> bool:
        if path.parent == h1.folder.path:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refuse)
    assert [folder.path for folder in finished_runs(workspace)] == [base.folder.path]


def test_survey_of_an_empty_workspace_is_empty(workspace: Workspace) -> None:
    assert survey(workspace) == []
