"""One run from beginning to end in this process: what it leaves behind, cut off anywhere, and how it fails."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from core.checkpoint import list_checkpoints, load_payload, newest_first
from core.complexity import training_flops, update_flops
from core.decode import translate
from core.trainer import Trainer
from results.provenance import run_id
from results.run_folder import RunFolder, read_json, write_json
from studies.runs import PlannedRun, Workspace
from studies.scales import Scale
from studies.trials import execution, scoring, trial

Plan = Callable[..., list[PlannedRun]]
Execute = Callable[[PlannedRun, Workspace], RunFolder]


def tells_of_the_machine(name: str) -> bool:
    """Whether a metric is measured by a clock, and so never the same twice."""
    return name == "tokens_per_second" or name.startswith("seconds_")


class KilledError(BaseException):
    """Stands for the end of the process: nothing in the run may handle it."""


def lines(folder: RunFolder) -> list[list[dict]]:
    """Metrics as written, a list an attempt."""
    return [
        [json.loads(line) for line in attempt.metrics_file.read_text(encoding="utf-8").splitlines()]
        for attempt in folder.attempts()
        if attempt.metrics_file.exists()
    ]


def curves(folder: RunFolder) -> dict[tuple[int, str, str], float]:
    """All metrics by (step, split, name), the newest attempt's where two logged the same step."""
    return {
        (row["step"], row["split"], row["name"]): row["value"]
        for attempt in lines(folder)
        for row in attempt
        if not tells_of_the_machine(row["name"])
    }


def end_its_process(folder: RunFolder) -> None:
    """Make the newest attempt the work of a process that is gone."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    started = folder.attempts()[-1].started_file
    write_json(started, read_json(started) | {"pid": gone.pid})


COSTS = ("counted_flops", "timed_flops")


def scores(folder: RunFolder) -> list[tuple]:
    """All that the same run always has: what depends on the clock is left out."""
    return [
        (s.name, s.value, s.signature, s.dataset, s.num_items, s.details)
        for s in folder.result().scores
        if s.name != "timed_flops"
    ]


def weights(folder: RunFolder) -> dict[str, torch.Tensor]:
    return load_payload(folder.path / "model.pt")["model"]


def test_finished_run_leaves_scores_curves_weights_and_no_checkpoints(unbroken: RunFolder, tiny: Scale) -> None:
    assert unbroken.status().status == "done"
    result = unbroken.result()
    assert [score.name for score in result.scores] == [
        *("dev_ppl", "dev_bleu", "dev_bleu_paper", "dev_chrf"),
        *("test_ppl", "test_bleu", "test_bleu_paper", "test_chrf"),
        *COSTS,
    ]
    for score in result.scores[:-2]:
        assert score.signature
        assert score.num_items == 300
        assert score.dataset == f"grammar/{score.name.partition('_')[0]}/en-de"
        assert math.isfinite(score.value)
    assert {artifact.kind for artifact in result.artifacts} == {"weights", "vocabulary", "output", "samples", "metrics"}
    for artifact in result.artifacts:
        assert unbroken.artifact(artifact.kind, unbroken.path / artifact.path) == artifact
    assert not list(unbroken.path.rglob("*.pt"))[1:]
    assert (unbroken.attempts()[-1].path / "dev.output.txt").read_bytes().count(b"\n") == 300
    assert result.params == sum(tensor.numel() for tensor in dict(trained_parameters(unbroken, tiny)).values())


def test_both_costs_are_of_the_training_text_and_its_language_pair(unbroken: RunFolder, tiny: Scale) -> None:
    counted, timed = unbroken.result().scores[-2:]
    assert counted.dataset == timed.dataset == "grammar/train/en-de"
    assert counted.num_items == timed.num_items == 12_000
    tokens = counted.details["source_tokens_per_update"], counted.details["target_tokens_per_update"]
    one = update_flops(tiny.base.model, *tokens, counted.details["sentence_pieces"])
    assert counted.value == 12 * one
    # About what a plan says beforehand from the configuration's round numbers.
    assert counted.value == pytest.approx(training_flops(tiny.base.model, tiny.base.train, 14.0), rel=0.25)
    by_time = unbroken.result().seconds * timed.details["devices"] * timed.details["flops_per_second"]
    assert timed.value == pytest.approx(by_time)
    assert timed.details["flops_per_second"] > 1e8
    assert "rate:measured|hardware:" in timed.signature
    assert "float32 products" in timed.details["benchmark"]


def test_scores_count_the_outputs_that_the_limit_cut_off_and_those_that_no_beam_led_to(
    unbroken: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    new_workspace: Callable[[], Workspace],
    plan: Plan,
    execute: Execute,
) -> None:
    greedy, unfinished = {3, 10, 200}, {3, 4}

    def marked(*arguments):
        return [
            replace(hypothesis, from_greedy=number in greedy, finished=number not in unfinished)
            for number, hypothesis in enumerate(translate(*arguments))
        ]

    monkeypatch.setattr(scoring, "translate", marked)
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    execute(run, workspace)
    for score in run.folder.result().scores:
        if not score.name.endswith(("_ppl", "_flops")):
            assert score.details["never_below_greedy"] is True
            assert (score.details["from_greedy"], score.details["unfinished"]) == (3, 2)


def trained_parameters(folder: RunFolder, scale: Scale):
    """Every trained matrix once, whatever names share it."""
    seen = set()
    for name, tensor in weights(folder).items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            yield name, tensor


def test_updates_are_counted_not_micro_batches(unbroken: RunFolder, tiny: Scale) -> None:
    """B35: an update of 400 pieces in micro-batches of 256 is one update."""
    steps = [step for step, split, name in curves(unbroken) if (split, name) == ("train", "loss")]
    assert steps == [3, 6, 9, 12]
    assert max(steps) == tiny.base.train.train_steps
    tokens = [value for (_, _, name), value in curves(unbroken).items() if name == "target_tokens_per_update"]
    assert all(value > tiny.base.train.micro_batch_tokens for value in tokens)


@pytest.mark.parametrize(
    ("moment", "step"),
    [("after", 5), ("before", 5), ("before", 10), ("after", 12)],
    ids=["with a line of the log half summed", "before any checkpoint", "between checkpoints", "after training"],
)
def test_run_cut_off_anywhere_ends_as_the_unbroken_one(
    moment: str,
    step: int,
    unbroken: RunFolder,
    new_workspace: Callable[[], Workspace],
    plan: Plan,
    execute: Execute,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    save = trial.save_checkpoint

    def killed_at_its_time(folder, checkpoint, **rules):
        if checkpoint.step == step and moment == "before":
            raise KilledError
        save(folder, checkpoint, **rules)
        if checkpoint.step == step:
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(trial, "save_checkpoint", killed_at_its_time)
        with pytest.raises(KilledError):
            execute(run, workspace)
    assert not run.folder.result_file.exists()
    kept = newest_first([attempt.checkpoints for attempt in run.folder.attempts()])
    resumed_from = int(kept[0].stem.removeprefix("step-")) if kept else 0
    assert resumed_from == {("after", 5): 5, ("before", 5): 0, ("before", 10): 5, ("after", 12): 12}[moment, step]

    end_its_process(run.folder)
    execute(run, workspace)
    assert run.folder.status().status == "done"
    assert len(run.folder.attempts()) == 2
    assert all(row["step"] > resumed_from for attempt in lines(run.folder)[1:] for row in attempt)
    assert curves(run.folder) == curves(unbroken)
    assert scores(run.folder) == scores(unbroken)
    ours, theirs = weights(run.folder), weights(unbroken)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not any(list_checkpoints(attempt.checkpoints) for attempt in run.folder.attempts())


def test_run_that_is_done_is_left_alone(
    unbroken: RunFolder, plan: Plan, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B63, and a worker that is lost just after it finished is started again by Tune."""
    workspace = Workspace(unbroken.path.parent.parent)
    before = {path: path.stat().st_mtime_ns for path in unbroken.path.rglob("*")}
    updates = []
    monkeypatch.setattr(Trainer, "update", updates.append)
    execute(plan(workspace, "base")[0], workspace)
    assert not updates
    assert {path: path.stat().st_mtime_ns for path in unbroken.path.rglob("*")} == before


def test_run_that_another_process_works_on_is_left_to_it(
    workspace: Workspace, plan: Plan, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not to a dead command's worker, which shows signs of life for a while only."""
    (run,) = plan(workspace, "base")
    monkeypatch.setattr(execution, "HEARTBEAT_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(execution, "ORPHAN_SECONDS", 1.0)
    with execution._heartbeat(RunFolder.create(workspace.runs, run.record).claim_attempt()):
        execute(run, workspace)
    assert len(run.folder.attempts()) == 1
    assert run.folder.status().status == "running"


def test_attempt_taken_for_dead_commits_nothing(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    train = Trainer.train

    def overtaken(trainer, *arguments, **more):
        run.folder.claim_attempt()
        train(trainer, *arguments, **more)

    monkeypatch.setattr(Trainer, "train", overtaken)
    execute(run, workspace)
    first, _ = run.folder.attempts()
    assert not list_checkpoints(first.checkpoints)
    assert not first.error_file.exists()
    assert not run.folder.result_file.exists()


def test_loss_that_is_not_finite_is_diverged_not_failed_and_not_a_score(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, diverging: Scale
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base", scale=diverging)
    execute(run, workspace)
    state = run.folder.status()
    assert state.status == "diverged"
    assert state.reason.startswith("training diverged: loss nan by update ")
    assert not run.folder.result_file.exists()
    assert any(math.isnan(row["value"]) for row in lines(run.folder)[0])


def test_configuration_that_cannot_train_fails_the_run_with_the_reason(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, impossible: Scale
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base", scale=impossible)
    execute(run, workspace)
    state = run.folder.status()
    assert state.status == "failed"
    assert "more than micro_batch_tokens=4" in state.reason
    log = run.folder.attempts()[0].log_file.read_text(encoding="utf-8")
    assert log.startswith("Traceback")


def test_vocabulary_that_the_text_cannot_yield_fails_the_run_with_what_to_do(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, tiny: Scale, tmp_path
) -> None:
    size = 20_000
    base = tiny.base
    config = replace(base, model=replace(base.model, vocab_size=size), data=replace(base.data, vocab_size=size))
    workspace = Workspace(tmp_path)  # of its own: another vocabulary is prepared
    (run,) = plan(workspace, "base", scale=replace(tiny, base=config))
    execute(run, workspace)
    state = run.folder.status()
    assert state.status == "failed"
    assert "word pieces, the configuration asks for 20000; set vocab_size to" in state.reason


def test_data_that_changed_since_the_plan_fails_the_run(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    fingerprint = "0123456789abcdef"
    record = run.record
    what = (record.study, record.trial, record.seed, record.scale, record.config)
    id_ = run_id(*what, fingerprint, record.code_version)
    execute(replace(run, record=replace(record, run=id_, data_fingerprint=fingerprint)), workspace)
    assert "grammar changed since the run was planned" in RunFolder(workspace.runs / id_).status().reason


def test_b06_references_that_cannot_be_scored_fail_the_run_before_it_trains(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    monkeypatch.setattr(trial.ParallelSplit, "tgt_lines", property(lambda split: split.src_lines))
    execute(run, workspace)
    state = run.folder.status()
    assert state.status == "failed"
    assert "the references should be German and read like English; give the de side" in state.reason
    assert lines(run.folder) == []


def test_failed_run_goes_on_from_its_checkpoint_when_the_cause_is_gone(
    unbroken: RunFolder,
    new_workspace: Callable[[], Workspace],
    plan: Plan,
    execute: Execute,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B54: what failed can be restored."""
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    with monkeypatch.context() as patch:

        def full(*_):
            raise OSError(28, "No space left on device")

        patch.setattr(scoring, "translate", full)
        execute(run, workspace)
    state = run.folder.status()
    assert state.status == "failed"
    assert state.reason.startswith("the disk is full (No space left on device): free some space (aiayn clean)")
    execute(run, workspace)
    assert run.folder.status().status == "done"
    assert lines(run.folder)[1:] == []  # all updates were kept
    assert scores(run.folder) == scores(unbroken)


def test_weights_that_are_scored_are_the_mean_of_the_last_checkpoints_which_are_named(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, unbroken: RunFolder, monkeypatch
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    members = {}
    save_member = trial.save_member

    def seen(folder, run_id, step, state):
        members[step] = {name: tensor.clone() for name, tensor in state.items()}
        return save_member(folder, run_id, step, state)

    monkeypatch.setattr(trial, "save_member", seen)
    execute(run, workspace)
    assert list(members) == [8, 10, 12]
    for name, tensor in weights(run.folder).items():
        mean = torch.stack([member[name].double() for member in members.values()]).mean(dim=0)
        torch.testing.assert_close(tensor.double(), mean, rtol=1e-6, atol=1e-7)
    for score in run.folder.result().scores[:-2]:
        assert [member["step"] for member in score.details["averaged"]] == [8, 10, 12]
    assert not list(run.folder.path.rglob("member-*"))


def test_d3_a_missing_member_fails_the_run_and_gives_no_score(
    new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, monkeypatch
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")
    save_member = trial.save_member

    def lost(folder, run_id, step, state):
        path = save_member(folder, run_id, step, state)
        if step == 10:
            path.unlink()

    monkeypatch.setattr(trial, "save_member", lost)
    execute(run, workspace)
    state = run.folder.status()
    assert state.status == "failed"
    assert "the weights after update 10 are missing" in state.reason


def test_samples_of_each_evaluation_are_kept_with_source_and_reference(unbroken: RunFolder) -> None:
    file = unbroken.attempts()[0].path / "samples.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    assert [row["step"] for row in rows] == [6] * 3 + [12] * 3
    assert all(row.keys() == {"step", "source", "output", "reference"} for row in rows)
    assert len({row["source"] for row in rows}) == 3
    assert all(row["source"] and row["reference"] for row in rows)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_running_out_of_memory_says_what_to_lower(
    error: Exception, new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute, monkeypatch
) -> None:
    workspace = new_workspace()
    (run,) = plan(workspace, "base")

    def full(*_):
        raise error

    monkeypatch.setattr(Trainer, "update", full)
    execute(run, workspace)
    reason = run.folder.status().reason
    assert reason.startswith(
        "out of memory with micro-batches of 256 tokens: start the command again with --oom-halvings 1"
    )


def test_another_seed_gives_other_numbers(
    unbroken: RunFolder, new_workspace: Callable[[], Workspace], plan: Plan, execute: Execute
) -> None:
    workspace = new_workspace()
    run = plan(workspace, "base", seeds=2)[1]
    execute(run, workspace)
    first, second = curves(unbroken), curves(run.folder)
    assert first.keys() == second.keys()
    assert all(first[key] != second[key] for key in first if key[2] in ("loss", "nll", "ppl"))
