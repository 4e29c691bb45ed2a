"""What may be deleted, and above all what may not."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import aiayn
from results.run_folder import Attempt, RunFolder
from studies.runs import PlannedRun, Workspace
from studies.scheduling import clean
from studies.scheduling.clean import find_waste, remove
from studies.scheduling.in_use import in_use, is_left_over

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]
LONG_AGO = time.time() - 2 * 24 * 3600


@pytest.fixture(autouse=True)
def nothing_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The temporary folder of the machine has what other tests and people left there."""
    monkeypatch.setattr(clean, "left_over_sessions", list)
    monkeypatch.setattr(clean.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))


def write(path: Path, size: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def ended(folder: RunFolder, *steps: int, members: tuple[int, ...] = ()) -> Attempt:
    """An attempt of an interrupted run, with checkpoints of these steps."""
    attempt = folder.claim_attempt()
    attempt.log_metrics(1, "train", {"loss": 2.0}, seconds=0.0)
    attempt.close()
    for step in steps:
        write(attempt.checkpoints / f"step-{step:08d}.pt")
    for step in members:
        write(attempt.checkpoints / f"member-{step:08d}.pt")
    for file in (attempt.heartbeat_file, attempt.metrics_file, attempt.path):
        os.utime(file, (LONG_AGO, LONG_AGO))
    return attempt


def found(workspace: Workspace, **options: bool) -> dict[str, list[str]]:
    """Names of what could go, by kind."""
    kinds: dict[str, list[str]] = {}
    for waste in find_waste(workspace, **options):
        kinds.setdefault(waste.kind, []).append(waste.path.name)
    return kinds


def all_files(workspace: Workspace) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in workspace.home.rglob("*") if path.is_file()}


def test_checkpoints_that_an_interrupted_run_needs_stay(workspace: Workspace, plan: Plan) -> None:
    (run,) = plan(workspace, "base")
    folder = RunFolder.create(workspace.runs, run.record)
    first = ended(folder, 10, 20, 30, members=(10, 20))
    first.log_metrics(10, "dev", {"nll": 1.0}, seconds=0.0)
    first.log_metrics(20, "dev", {"nll": 2.0}, seconds=0.0)
    first.close()
    ended(folder, 40, members=(20, 40))
    write(first.checkpoints / "step-00000025.pt.damaged")
    write(first.checkpoints / ".step-00000031.pt.77.tmp")
    for file in (first.metrics_file, folder.attempts()[1].path):
        os.utime(file, (LONG_AGO, LONG_AGO))
    assert folder.status().status == "queued"
    assert found(workspace) == {
        "checkpoint of an attempt that was overtaken": ["member-00000020.pt"],
        "damaged checkpoint": ["step-00000025.pt.damaged"],
        "never finished": [".step-00000031.pt.77.tmp"],
        "stale checkpoint": ["step-00000020.pt"],  # not the newest two, nor the best
    }
    waste = find_waste(workspace)
    assert remove(waste) == 400
    assert remove(waste) == 0  # another process may have been first
    left = sorted(path.name for path in folder.path.rglob("*.pt"))
    assert left == [
        *("member-00000010.pt", "member-00000020.pt", "member-00000040.pt"),
        *("step-00000010.pt", "step-00000030.pt", "step-00000040.pt"),
    ]
    assert find_waste(workspace) == []


def test_nothing_of_a_finished_run_goes_but_what_only_a_restart_needed(
    unbroken: RunFolder, new_workspace: Callable[[], Workspace]
) -> None:
    workspace = new_workspace()
    shutil.copytree(unbroken.path, workspace.runs / unbroken.path.name)
    folder = RunFolder(workspace.runs / unbroken.path.name)
    before = all_files(workspace)
    assert find_waste(workspace) == []
    (attempt,) = folder.attempts()
    write(attempt.checkpoints / "step-00000012.pt")
    assert found(workspace) == {"left in an attempt of a finished run": ["checkpoints"]}
    remove(find_waste(workspace))
    assert all_files(workspace) == before
    assert folder.status().status == "done"


def test_outputs_of_an_attempt_that_did_not_finish_the_run_go(
    workspace: Workspace, plan: Plan, pretend: Pretend
) -> None:
    (run,) = plan(workspace, "base")
    first = ended(RunFolder.create(workspace.runs, run.record))
    for name in ("dev.output.txt", "log.txt", "notes.jsonl"):
        write(first.path / name)
    folder = pretend(run)
    write(folder.attempts()[1].path / "dev.output.txt")
    assert found(workspace) == {"left in an attempt of a finished run": ["dev.output.txt"]}
    assert find_waste(workspace)[0].path == first.path / "dev.output.txt"


def test_run_that_is_under_way_is_not_touched(workspace: Workspace, plan: Plan) -> None:
    (run,) = plan(workspace, "base")
    attempt = RunFolder.create(workspace.runs, run.record).claim_attempt()
    for step in (10, 20, 30):
        write(attempt.checkpoints / f"step-{step:08d}.pt")
    write(attempt.checkpoints / ".step-00000040.pt.77.tmp")
    assert find_waste(workspace) == []


def test_diverged_run_keeps_its_best_checkpoint(workspace: Workspace, plan: Plan) -> None:
    (run,) = plan(workspace, "base")
    folder = RunFolder.create(workspace.runs, run.record)
    attempt = folder.claim_attempt()
    for step, nll in ((10, 1.0), (20, 2.0), (30, 3.0)):
        attempt.log_metrics(step, "dev", {"nll": nll}, seconds=0.0)
        write(attempt.checkpoints / f"step-{step:08d}.pt")
    attempt.fail("training diverged: loss nan by update 31", status="diverged")
    assert found(workspace) == {"checkpoint of a diverged run": ["step-00000020.pt", "step-00000030.pt"]}


def test_unfinished_run_of_other_code_goes_only_when_asked_for(
    workspace: Workspace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = plan(workspace, "base")
    ended(RunFolder.create(workspace.runs, run.record), 10, 20, 30)
    monkeypatch.setattr(clean, "code_version", lambda: "another")
    assert find_waste(workspace) == []
    assert len(found(workspace, other_code=True)["checkpoint that other code wrote"]) == 3


def test_what_was_set_aside_goes_only_when_asked_for(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    folder = pretend(plan(workspace, "base")[0])
    aside = folder.set_aside()
    assert find_waste(workspace) == []
    assert found(workspace, set_aside=True) == {"set aside by --rerun": [aside.name]}


def test_what_ray_left_goes_and_what_it_uses_stays(workspace: Workspace) -> None:
    dead, alive = workspace.ray / "table3-20260101-000000-7", workspace.ray / "table3-20260101-000000-8"
    for folder in (dead, alive):
        write(folder / "tuner.pkl")
    with in_use(dead):
        assert not is_left_over(dead)
    with in_use(alive):
        assert found(workspace) == {"left by Ray": [dead.name]}


def test_temporary_files_go_once_they_are_old(workspace: Workspace) -> None:
    names = [".write-test-7", "results.duckdb.building", "results.duckdb.building.wal"]
    fresh = [write(workspace.home / name) for name in names]
    fresh += [write(workspace.runs / ".0123456789ab.0a1b2c3d" / "run.json").parent]
    fresh += [write(workspace.site / ".index.html.77.tmp")]
    kept = [write(workspace.home / name) for name in ("results.duckdb", "results.duckdb.lock", "notes.txt", ".env")]
    assert find_waste(workspace) == []
    for path in (*fresh, *kept):
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert sorted(found(workspace)["never finished"]) == sorted(path.name for path in fresh)


@pytest.mark.parametrize("yes", [False, True])
def test_command_shows_what_would_go_and_frees_it_only_with_yes(
    yes: bool, workspace: Workspace, plan: Plan, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = plan(workspace, "base")
    attempt = ended(RunFolder.create(workspace.runs, run.record), 10, 20, 30)
    arguments = ["clean", *(["--yes"] if yes else []), "--home", str(workspace.home)]
    monkeypatch.setattr(sys, "argv", ["aiayn", *arguments])
    with pytest.raises(SystemExit) as end:
        aiayn.main()
    assert not end.value.code
    out, said = capsys.readouterr()
    stale = attempt.checkpoints / "step-00000010.pt"
    assert str(stale) in out
    assert stale.exists() != yes
    wanted = "freed 100 bytes in 1 places\n" if yes else "100 bytes in 1 places could be freed, with --yes; "
    assert said.startswith(wanted)
