"""Several ranks of a trial through Ray: the numbers of one rank, one writer; a rank that dies costs a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.scales import Scale

pytestmark = pytest.mark.slow

Plan = Callable[..., list[PlannedRun]]
ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 600.0

COMMAND = """
import json, sys
from dataclasses import replace
from pathlib import Path
from core.config import RunConfig
from studies.scheduling.campaign import carry_out
from studies.scheduling.resources import Sizes
from studies.runs import Workspace, plan_runs
from studies.scales import SMOKE
from studies.table3 import STUDY
workspace = Workspace(Path(sys.argv[1]))
scale = replace(SMOKE, base=RunConfig.from_dict(json.loads(sys.argv[2])))
sizes = Sizes(**json.loads(sys.argv[3]))
outcome = carry_out(plan_runs(STUDY, scale, 1, workspace, ["base"]), workspace, scale, sizes, None, None, rerun=False)
print(outcome.summary())
sys.exit(0 if outcome.complete else 1)
"""


@pytest.fixture(scope="module")
def without_dropout(tiny: Scale) -> Scale:
    """`tiny` without what is drawn at random on each rank, and long enough to be caught in the middle."""
    train = replace(
        tiny.base.train,
        train_steps=60,
        log_every_steps=5,
        eval_every_steps=30,
        checkpoint_every_steps=10,
        average_last=3,
        average_every_steps=20,
    )
    return replace(tiny, base=replace(tiny.base, model=replace(tiny.base.model, dropout=0.0), train=train))


@pytest.fixture(scope="module")
def alone(without_dropout: Scale, new_workspace: Callable[[], Workspace], plan: Plan, execute: Callable) -> RunFolder:
    """The run on one rank."""
    workspace = new_workspace()
    return execute(plan(workspace, "base", scale=without_dropout)[0], workspace)


class Command:
    """The command in a process of its own, and the Ray processes that it started."""

    def __init__(self, workspace: Workspace, scale: Scale, **sizes: int) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(workspace.home), json.dumps(scale.base.to_dict()), json.dumps(sizes)],
            cwd=ROOT,
            env=os.environ | {"AIAYN_TEST_MARK": self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def ranks(self) -> list[int]:
        """Process numbers of the ranks after the first."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                title, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            except OSError:  # gone meanwhile, or another user's
                continue
            if title.startswith(b"ray::_Rank") and self.mark.encode() in environment:
                found.append(int(folder.name))
        return found

    def end(self) -> str:
        """What it printed; it must have succeeded."""
        try:
            printed, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.returncode == 0, printed
        return printed


def curve(folder: RunFolder) -> dict[tuple[int, str, str], float]:
    """Losses by step and split; the newest attempt's, where two have one."""
    values = {}
    for attempt in folder.attempts():
        for line in attempt.metrics_file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["name"] in ("loss", "nll", "ppl", "target_tokens_per_update", "source_tokens_per_update"):
                values[row["step"], row["split"], row["name"]] = row["value"]
    return values


def assert_same_run(folder: RunFolder, alone: RunFolder) -> None:
    ours, theirs = curve(folder), curve(alone)
    assert len(theirs) > 40
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert max(abs(ours[key] / theirs[key] - 1) for key in theirs if key[0] <= 30) < 2e-6
    scores = {score.name: score.value for score in alone.result().scores if score.name.endswith("ppl")}
    assert {s.name: s.value for s in folder.result().scores if s.name in scores} == pytest.approx(scores, rel=1e-3)


def test_two_ranks_have_the_curve_of_one_and_only_the_first_writes(
    without_dropout: Scale, alone: RunFolder, new_workspace: Callable[[], Workspace], plan: Plan
) -> None:
    workspace = new_workspace()
    assert "1 of 1 runs done" in Command(workspace, without_dropout, cpu_ranks=2).end()
    (run,) = plan(workspace, "base", scale=without_dropout)
    assert_same_run(run.folder, alone)
    (attempt,) = run.folder.attempts()
    names = {path.name for path in alone.path.rglob("*")}
    assert {path.name for path in run.folder.path.rglob("*")} == names
    steps = [json.loads(line)["step"] for line in attempt.metrics_file.read_text().splitlines()]
    assert steps == sorted(steps)


def test_a_killed_rank_costs_the_work_since_the_last_checkpoint(
    without_dropout: Scale, alone: RunFolder, new_workspace: Callable[[], Workspace], plan: Plan
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base", scale=without_dropout)
    command = Command(workspace, without_dropout, cpu_ranks=2)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(run.folder.path.glob("attempt-001/checkpoints/step-*.pt")):
        assert command.process.poll() is None, command.process.stdout.read()
        assert time.monotonic() < deadline, "no checkpoint came"
        time.sleep(0.02)
    (rank,) = command.ranks()
    os.kill(rank, signal.SIGKILL)
    assert "1 of 1 runs done" in command.end()
    first, second = run.folder.attempts()
    assert "the process of rank 1 died" in json.loads(first.error_file.read_bytes())["reason"]
    assert json.loads(second.metrics_file.read_text().splitlines()[0])["step"] > 5
    assert not second.error_file.exists()
    assert_same_run(run.folder, alone)


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_ranks_on_gpus_have_the_curve_of_one_gpu(
    gpus: int, without_dropout: Scale, new_workspace: Callable[[], Workspace], plan: Plan
) -> None:
    """NCCL in place of gloo. Run it with -m gpu on a machine that has as many."""
    import torch

    if torch.cuda.device_count() < gpus:
        pytest.skip(f"needs {gpus} GPUs; this machine has {torch.cuda.device_count()}")
    folders = []
    for number in (1, gpus):
        workspace = new_workspace()
        Command(workspace, without_dropout, gpus=number).end()
        (run,) = plan(workspace, "base", scale=without_dropout)
        folders.append(run.folder)
    alone, together = folders
    assert curve(together) == pytest.approx(curve(alone), rel=1e-2)
    assert together.machine()["ranks"] == len(together.machine()["gpus"]) == gpus
