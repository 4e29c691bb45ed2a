"""What goes wrong in the middle of a run: no number is lost, doubled or changed, and the reason is kept."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core import trainer
from core.checkpoint import list_checkpoints, load_payload, newest_first
from results import ingest
from results.records import Score
from results.run_folder import RunFolder, read_json, write_json
from studies.runs import PlannedRun, Workspace
from studies.scales import Scale
from studies.trials import execution, trial

Plan = Callable[..., list[PlannedRun]]
Execute = Callable[..., RunFolder]
ROOT = Path(__file__).parents[3]

# A process that carries out one run on a disk that is full as soon as the first checkpoint is on it.
ON_A_SMALL_DISK = """
import json, resource, sys
from pathlib import Path
import torch
from results.records import RunRecord
from studies.trials import execution, trial
from studies.runs import Workspace
save = trial.save_checkpoint
def save_and_fill_the_disk(*arguments, **more):
    path = save(*arguments, **more)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    return path
trial.save_checkpoint = save_and_fill_the_disk
record = RunRecord.from_json(json.loads(sys.argv[2]))
execution.execute(record, Workspace(Path(sys.argv[1])), num_threads=1, device=torch.device("cpu"))
"""


def numbers(folder: RunFolder) -> tuple[dict, dict]:
    """Metrics by step, split and name as the database has them, without what tells of the machine, and the weights."""
    rows = ingest.read_run(folder, "").tables["metrics"]
    metrics = {(step, split, name): value for _, step, split, name, value, _, _ in rows}
    machine = [key for key in metrics if key[2] == "tokens_per_second" or key[2].startswith("seconds_")]
    assert len(metrics) == len(rows)
    weights = load_payload(folder.path / "model.pt")["model"]
    return (
        {key: value for key, value in metrics.items() if key not in machine},
        {name: value.tolist() for name, value in weights.items()},
    )


@pytest.fixture(scope="module", autouse=True)
def only_training() -> Iterator[None]:
    """Scoring, which takes most of a small run's time, depends on the weights alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            trial, "score_perplexity", lambda name, *_: Score(f"{name}_ppl", 1.0, "made up", "grammar/dev", 1)
        )
        patch.setattr(trial, "score_output", lambda *_: ([], []))
        patch.setattr(trial, "training_costs", lambda *_: [])
        yield


@pytest.fixture(scope="module")
def unbroken(only_training: None, new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute) -> RunFolder:
    """table3/base, seed 1, trained without a break and not scored. Only to be read."""
    workspace = new_workspace()
    return execute(plan(workspace, "base")[0], workspace)


def end_its_process(folder: RunFolder) -> None:
    """Make the newest attempt look like one of a process that is gone, as after a kill."""
    file = folder.attempts()[-1].started_file
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    write_json(file, read_json(file) | {"pid": child.pid})


class KilledError(BaseException):
    """Passes through everything, as SIGKILL does."""


@pytest.fixture
def begun(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> tuple[PlannedRun, Workspace]:
    """A run that was killed with checkpoints of updates 5 and 10 behind it, of 12."""
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    save = trial.save_checkpoint

    def save_and_die(folder: Path, checkpoint, **rules) -> Path:
        path = save(folder, checkpoint, **rules)
        if checkpoint.step == 10:
            raise KilledError
        return path

    with monkeypatch.context() as patch:
        patch.setattr(trial, "save_checkpoint", save_and_die)
        with pytest.raises(KilledError):
            execute(run, workspace)
    end_its_process(run.folder)
    return run, workspace


@pytest.mark.parametrize("damaged", [1, 2], ids=["the newest", "all"])
def test_truncated_checkpoint_is_passed_over_for_the_one_before_and_said_so(
    damaged: int, begun: tuple[PlannedRun, Workspace], unbroken: RunFolder, execute: Execute
) -> None:
    run, workspace = begun
    found = newest_first([run.folder.attempts()[0].checkpoints])
    assert [path.name for path in found] == ["step-00000010.pt", "step-00000005.pt"]
    for path in found[:damaged]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    noted: list[str] = []
    say = trial.Attempt.note

    def note(attempt, text: str) -> None:
        say(attempt, text)
        noted.extend(row[2] for row in ingest.read_run(run.folder, "").tables["problems"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial.Attempt, "note", note)
        execute(run, workspace)
    assert run.folder.status().status == "done"
    notes = run.folder.attempts()[1].notes()
    assert len(notes) == damaged
    assert "step-00000010.pt is not a checkpoint that can be loaded safely" in notes[0]
    assert set(notes) <= set(noted)  # whoever asks the database meanwhile is told as well
    assert min(step for step in run.folder.attempts()[1].logged("train", "loss")) == (6 if damaged == 1 else 3)
    assert numbers(run.folder) == numbers(unbroken)


def test_full_disk_ends_the_attempt_with_the_reason_and_costs_no_number(
    new_workspace: Callable[[], Workspace], plan: Plan, unbroken: RunFolder, execute: Execute
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    arguments = [str(workspace.home), json.dumps(run.record.to_json())]
    subprocess.run([sys.executable, "-c", ON_A_SMALL_DISK, *arguments], cwd=ROOT, check=True, timeout=240)
    status = run.folder.status()
    assert status.status == "failed"
    assert status.reason == (
        "the disk is full (File too large): free some space (aiayn clean), and start the same command again"
    )
    (first,) = run.folder.attempts()
    assert [path.name for path in first.checkpoints.iterdir()] == ["step-00000005.pt"]
    execute(run, workspace)
    assert min(run.folder.attempts()[1].logged("train", "loss")) == 6
    assert numbers(run.folder) == numbers(unbroken)


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A device where a batch of more than 100 target pieces finds no memory; the list has the sizes that were tried."""
    tried: list[int] = []
    compute = trainer.batch_loss

    def batch_loss(model, batch, label_smoothing):
        tried.append(batch.tgt_out.numel())
        if tried[-1] > 100:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute(model, batch, label_smoothing)

    monkeypatch.setattr(trainer, "batch_loss", batch_loss)
    return tried


def test_out_of_memory_is_reported_as_such_and_not_tried_again_unasked(
    small_memory: list[int], new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    execute(run, workspace)
    assert len(run.folder.attempts()) == 1
    assert run.folder.status().status == "failed"
    assert run.folder.status().reason.startswith("out of memory with micro-batches of 256 tokens: start the command ")
    assert "--oom-halvings 1" in run.folder.status().reason


def test_out_of_memory_is_tried_again_with_more_accumulation_if_asked_for(
    small_memory: list[int], new_workspace: Callable[[], Workspace], plan: Plan, unbroken: RunFolder
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    execution.execute(run.record, workspace, num_threads=1, device=torch.device("cpu"), oom_halvings=5)
    assert run.folder.status().status == "done"
    first, *others = run.folder.attempts()
    assert others
    assert first.failure().startswith("out of memory")
    parts = 2 ** len(others)
    assert others[-1].notes() == [f"out of memory before: micro-batches are cut into {parts} parts"]
    scores = run.folder.result().scores
    assert {score.details["micro_batch_parts"] for score in scores} == {parts}
    # The same sentences make up each update, however they are cut.
    ours, theirs = numbers(run.folder)[0], numbers(unbroken)[0]
    for name in ("source_tokens_per_update", "target_tokens_per_update", "learning_rate"):
        assert [ours[key] for key in ours if key[2] == name] == [theirs[key] for key in theirs if key[2] == name]


def test_attempt_that_writes_on_after_its_successor_has_finished_changes_nothing(
    new_workspace: Callable[[], Workspace],
    plan: Plan,
    unbroken: RunFolder,
    execute: Execute,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    save, overtaken, files = trial.save_checkpoint, [], {}

    def save_and_be_overtaken(folder: Path, checkpoint, **rules) -> Path:
        path = save(folder, checkpoint, **rules)
        if not overtaken:  # this process is suspended here, taken for dead, and wakes up when all is over
            overtaken.append(folder)
            end_its_process(run.folder)
            execute(run, workspace)
            files.update({path: path.read_bytes() for path in run.folder.path.iterdir() if path.is_file()})
        return path

    monkeypatch.setattr(trial, "save_checkpoint", save_and_be_overtaken)
    execute(run, workspace)
    first, second = run.folder.attempts()
    assert run.folder.status().status == "done"
    assert not first.error_file.exists()
    assert {path: path.read_bytes() for path in files} == files
    assert set(files) == {path for path in run.folder.path.iterdir() if path.is_file()}
    first.log_metrics(9, "train", {"loss": 99.0}, seconds=0.0)
    assert second.logged("train", "loss")[9] != 99.0
    assert numbers(run.folder) == numbers(unbroken)


def test_checkpoint_that_a_dead_attempt_wrote_too_late_is_taken_back(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look whether it is the newest attempt and the end of its writing, another one has begun."""
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    save = trial.save_checkpoint

    def save_late(folder: Path, checkpoint, **rules) -> Path:
        run.folder.claim_attempt()
        return save(folder, checkpoint, **rules)

    monkeypatch.setattr(trial, "save_checkpoint", save_late)
    execute(run, workspace)
    first, _ = run.folder.attempts()
    assert not list_checkpoints(first.checkpoints)
    assert not first.error_file.exists()


def test_diverged_run_is_never_tried_again_and_keeps_its_reason_and_its_best_checkpoint(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, diverging: Scale
) -> None:
    workspace = new_workspace()
    train = replace(diverging.base.train, eval_every_steps=1, checkpoint_every_steps=1)
    (run,) = plan(workspace, "base", scale=replace(diverging, base=replace(diverging.base, train=train)))
    for _ in range(3):
        execute(run, workspace)
    (attempt,) = run.folder.attempts()
    assert run.folder.status().status == "diverged"
    assert run.folder.status().reason.startswith("training diverged: loss nan by update ")
    kept = [int(path.stem.removeprefix("step-")) for path in list_checkpoints(attempt.checkpoints)]
    nll = attempt.logged("dev", "nll")
    assert all(math.isfinite(value) for value in nll.values())
    if kept:
        assert min(nll, key=nll.__getitem__) in kept


def test_of_two_processes_that_start_at_once_one_gets_the_run(workspace: Workspace, plan: Plan) -> None:
    """Each command's worker finds the run free, and one alone can claim the attempt after the one that it saw."""
    for number in range(1, 6):
        run = plan(workspace, "base", seeds=number)[-1]
        folder = RunFolder.create(workspace.runs, run.record)
        start, claimed = threading.Barrier(4), []

        def claim(folder: RunFolder = folder, start: threading.Barrier = start, claimed: list = claimed) -> None:
            start.wait()
            claimed.append(folder.claim_after(0))

        threads = [threading.Thread(target=claim) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(attempt is not None for attempt in claimed) == 1
        assert len(folder.attempts()) == 1
