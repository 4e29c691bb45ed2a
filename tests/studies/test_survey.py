"""How things stand, run by run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.survey import survey

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]


def test_survey_tells_of_every_run_whatever_made_it(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    base, h1, h4 = plan(workspace, "base", "h1", "h4")
    pretend(base)
    failed = pretend(h1, failure=("no memory", "failed"))
    failed.attempts()[0].log_file.write_text("Traceback")
    RunFolder.create(workspace.runs, replace(h4.record, code_version="0123456789ab"))
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


def test_survey_of_an_empty_workspace_is_empty(workspace: Workspace) -> None:
    assert survey(workspace) == []
