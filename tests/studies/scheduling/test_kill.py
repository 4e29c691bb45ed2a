"""kill -9 in the middle of training, of the command and of a worker: only the work since a checkpoint is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from results.query import query
from results.run_folder import RunFolder
from results.store import Store
from studies.runs import PlannedRun, Workspace
from studies.scales import Scale

pytestmark = pytest.mark.slow

Plan = Callable[..., list[PlannedRun]]
ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 240.0

COMMAND = """
import json, sys
from dataclasses import replace
from pathlib import Path
from core.config import RunConfig
from studies.scheduling.campaign import carry_out
from studies.runs import Workspace, plan_runs
from studies.scales import SMOKE
from studies.table3 import STUDY
workspace = Workspace(Path(sys.argv[1]))
scale = replace(SMOKE, base=RunConfig.from_dict(json.loads(sys.argv[2])))
planned = plan_runs(STUDY, scale, 1, workspace, sys.argv[3:])
outcome = carry_out(planned, workspace, scale, None, None, max_concurrent=1, rerun=False)
print(outcome.summary())
sys.exit(0 if outcome.complete else 1)
"""


@pytest.fixture(scope="module")
def longer(tiny: Scale) -> Scale:
    """Long enough to be caught in the middle: a checkpoint every 7 updates of 200."""
    train = replace(
        tiny.base.train,
        train_steps=200,
        log_every_steps=5,
        eval_every_steps=100,
        checkpoint_every_steps=7,
        average_last=5,
        average_every_steps=40,
    )
    return replace(tiny, base=replace(tiny.base, train=train))


@pytest.fixture(scope="module")
def untouched(
    longer: Scale, new_workspace: Callable[[], Workspace], plan: Plan, execute: Callable
) -> tuple[Workspace, list[PlannedRun]]:
    """The same two runs, trained in one piece."""
    workspace = new_workspace()
    runs = plan(workspace, "base", "N2", scale=longer)
    for run in runs:
        execute(run, workspace)
    return workspace, runs


def start(workspace: Workspace, scale: Scale, *trials: str) -> subprocess.Popen:
    arguments = [str(workspace.home), json.dumps(scale.base.to_dict()), *trials]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_checkpoint(command: subprocess.Popen, folder: RunFolder) -> None:
    """Until the run's first attempt has a checkpoint, with most of the training still ahead."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(folder.path.glob("attempt-001/checkpoints/step-*.pt")):
        assert command.poll() is None, command.stdout.read()
        assert time.monotonic() < deadline, "no checkpoint came"
        time.sleep(0.02)


def first_step(folder: RunFolder, attempt: int) -> int:
    with folder.attempts()[attempt - 1].metrics_file.open(encoding="utf-8") as file:
        return json.loads(file.readline())["step"]


def numbers(workspace: Workspace, run: PlannedRun) -> tuple[list[dict], list[dict]]:
    """Metrics and scores of a run as the database has them, without what tells of the machine."""
    store = Store(workspace.home)
    store.ingest()
    metrics = query(
        store,
        "SELECT step, split, name, value FROM metrics "
        f"WHERE run = '{run.record.run}' AND name <> 'tokens_per_second' AND NOT starts_with(name, 'seconds_') "
        "ORDER BY ALL",
    )
    scores = query(
        store, f"SELECT * FROM scores WHERE run = '{run.record.run}' AND name <> 'timed_flops' ORDER BY name"
    )
    return metrics.to_pylist(), scores.to_pylist()


def assert_equal_to_the_last_digit(workspace: Workspace, untouched: tuple[Workspace, list[PlannedRun]]) -> None:
    other, runs = untouched
    for run in runs:
        if not (workspace.runs / run.record.run).exists():
            continue
        ours, theirs = numbers(workspace, run), numbers(other, run)
        assert len(theirs[0]) > 200
        assert {"dev_ppl", "test_bleu_paper", "counted_flops"} <= {score["name"] for score in theirs[1]}
        assert ours == theirs


def test_killed_command_goes_on_where_it_was(
    longer: Scale,
    untouched: tuple[Workspace, list[PlannedRun]],
    new_workspace: Callable[[], Workspace],
    plan: Plan,
) -> None:
    workspace = new_workspace()
    base, shallow = plan(workspace, "base", "N2", scale=longer)  # base takes longer, so it goes first
    command = start(workspace, longer, "base", "N2")
    try:
        wait_for_checkpoint(command, shallow.folder)
    finally:
        os.kill(command.pid, signal.SIGKILL)
        command.wait()
    assert base.folder.status().status == "done"
    assert not shallow.folder.result_file.exists()
    finished = {path: path.stat().st_mtime_ns for path in base.folder.path.rglob("*")}

    again = start(workspace, longer, "base", "N2")
    printed, _ = again.communicate(timeout=PATIENCE_SECONDS)
    assert again.returncode == 0, printed
    assert "2 of 2 runs done (1 were done before)" in printed
    assert {path: path.stat().st_mtime_ns for path in base.folder.path.rglob("*")} == finished
    assert len(shallow.folder.attempts()) == 2
    assert first_step(shallow.folder, attempt=2) > 5
    assert_equal_to_the_last_digit(workspace, untouched)


def test_killed_worker_is_replaced_within_the_same_command(
    longer: Scale,
    untouched: tuple[Workspace, list[PlannedRun]],
    new_workspace: Callable[[], Workspace],
    plan: Plan,
) -> None:
    workspace = new_workspace()
    (base,) = plan(workspace, "base", scale=longer)
    command = start(workspace, longer, "base")
    wait_for_checkpoint(command, base.folder)
    worker = json.loads((base.folder.path / "attempt-001" / "started.json").read_bytes())["pid"]
    assert worker != command.pid
    os.kill(worker, signal.SIGKILL)
    printed, _ = command.communicate(timeout=PATIENCE_SECONDS)
    assert command.returncode == 0, printed
    assert "1 of 1 runs done" in printed
    assert len(base.folder.attempts()) == 2
    assert first_step(base.folder, attempt=2) > 5
    assert_equal_to_the_last_digit(workspace, untouched)


def test_two_commands_that_start_at_once_share_the_runs(
    longer: Scale,
    untouched: tuple[Workspace, list[PlannedRun]],
    new_workspace: Callable[[], Workspace],
    plan: Plan,
) -> None:
    """B53: a run is whose process claims it first; the other command leaves it and goes on with the rest."""
    workspace = new_workspace()
    runs = plan(workspace, "base", "N2", scale=longer)
    commands = [start(workspace, longer, "base", "N2") for _ in range(2)]
    said = [command.communicate(timeout=2 * PATIENCE_SECONDS)[0] for command in commands]
    for command, printed in zip(commands, said, strict=True):
        assert command.returncode in (0, 1), printed
        assert re.search(r"2 of 2 runs done|running in another command", printed), printed
        assert "failed" not in printed
    assert 0 in [command.returncode for command in commands]
    assert [len(run.folder.attempts()) for run in runs] == [1, 1]
    assert_equal_to_the_last_digit(workspace, untouched)


def test_each_kind_of_kill_on_a_cluster_costs_no_row(tmp_path: Path) -> None:
    """A worker, a node's raylet, the command, and all of it at once: four of the rounds that the benchmark has."""
    log = tmp_path / "log"
    command = [sys.executable, "tests/benchmarks/kill_rounds.py", "--rounds", "4", "--log", str(log)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=10 * PATIENCE_SECONDS, stdout=subprocess.DEVNULL)
    assert re.fullmatch(r"4 rounds, [4-6] kills, 0 differences", log.read_text(encoding="utf-8").splitlines()[-1])
