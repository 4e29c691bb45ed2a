"""One training from beginning to end: data, updates, checkpoints, decoding, scores, all into its run folder.

This file is part of a run's code version: a change here makes new runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from core.averaging import Member, average_members, find_members, member_steps, save_member
from core.checkpoint import (
    Checkpoint,
    DamagedCheckpointError,
    load_checkpoint,
    newest_first,
    pass_over,
    save_checkpoint,
    write_atomically,
)
from core.config import DecodeConfig, RunConfig, TrainConfig
from core.data.corpora import get_pairs
from core.data.prepare import PreparedData, prepare, prepare_corpus
from core.data.split import ParallelSplit
from core.decode import translate
from core.parallel import ALONE, Ranks
from core.scoring.references import READABLE_KINDS, TextReference
from core.sequence_model import SequenceModel, num_parameters
from core.trainer import Trainer
from results import provenance
from results.records import RunRecord, RunResult, Score
from results.run_folder import METRICS, Attempt, RunFolder
from studies.runs import Workspace
from studies.trials.phases import Phases
from studies.trials.scoring import reference_of, score_output, score_perplexity, training_costs
from studies.work import SelfTraining, work_of

if TYPE_CHECKING:
    from studies.trials.self_training import Silver

NUM_SAMPLES = 3

Join = Callable[[Callable[[str], None]], AbstractContextManager[Ranks]]
"""Brings a training's other ranks up and joins them for the time of a block. It is given what writes down why the
attempt failed, for the case that the process must end itself.
"""


def train_alone(_: Callable[[str], None]) -> AbstractContextManager[Ranks]:
    """`Join` of one rank."""
    return nullcontext(ALONE)


class SupersededError(Exception):
    """Another attempt of the same run took over: this one was taken for dead and must not commit anything."""


def require_own(folder: RunFolder, attempt: Attempt) -> None:
    """Go on only while the run is this attempt's.

    Raises:
        SupersededError: it is another's by now.
    """
    if not folder.may_commit(attempt):
        raise SupersededError


def machine_of(device: torch.device, ranks: Ranks) -> dict[str, Any]:
    """What this process runs on, with the GPUs of all ranks by name."""
    gpus = [torch.cuda.get_device_name(device)] * ranks.world_size if device.type == "cuda" else []
    return {**provenance.machine(), "gpus": gpus, "ranks": ranks.world_size}


def train(
    record: RunRecord,
    folder: RunFolder,
    attempt: Attempt,
    workspace: Workspace,
    device: torch.device,
    join: Join,
    parts: int,
    silver: Silver | None = None,
) -> None:
    """Train a model from nothing or from the newest checkpoint of an earlier attempt, score it, and commit the result.

    Args:
        join: brings up the other ranks.
        parts: into how many parts micro-batches are cut, where memory was short before.
        silver: trees that another parser made, to be trained on too.

    Raises:
        SupersededError: another attempt took over.
        DivergedError, RankLostError: as the trainer and the ranks tell.
    """
    config = RunConfig.from_dict(record.config)
    phase = Phases()
    with phase("setup"):
        data = _training_data(record, config, workspace, silver)
        splits = {name: data.split(name) for name in ("train", config.data.dev_split, config.data.test_split)}
        dev_split = splits[config.data.dev_split]
        references = {  # what cannot be scored is not trained for
            name: reference_of(config.data, name, splits[name], workspace)
            for name in (config.data.dev_split, config.data.test_split)
        }
    earlier = folder.attempts()[:-1]
    dev_nll = {step: nll for other in earlier for step, nll in other.logged("dev", "nll").items()}

    def log(step: int, split: str, values: Mapping[str, float], seconds: float) -> None:
        attempt.log_metrics(step, split, values, seconds)
        if split == "dev":
            dev_nll[step] = values["nll"]

    def save(checkpoint: Checkpoint) -> None:
        require_own(folder, attempt)
        path = save_checkpoint(
            attempt.checkpoints, checkpoint, earlier=[other.checkpoints for other in earlier], scores=dev_nll
        )
        if not folder.may_commit(attempt):  # a later attempt may have looked before this one was there
            path.unlink(missing_ok=True)
            raise SupersededError

    def keep(step: int, weights: Mapping[str, torch.Tensor]) -> None:
        save_member(attempt.checkpoints, record.run, step, weights)

    def write_samples(step: int) -> None:
        greedy = replace(config.decode, beam_size=1)
        _append_samples(_samples_file(attempt), step, trainer.model, dev_split, data, greedy)
        if config.train.bleu_sentences:
            scores = _score_some(config, trainer.model, dev_split, data, greedy)
            attempt.log_metrics(step, "dev", scores, trainer.seconds)

    with join(attempt.fail) as ranks:
        attempt.record_machine(machine_of(device, ranks))
        with phase("setup"):
            found = _newest_checkpoint(earlier, attempt, record.run)
            # What the others have to do alike: `assist`.
            ranks.follow_first((found and found[0], parts))
            trainer = Trainer(
                record.run, config, splits["train"], dev_split, record.seed, device, ranks, micro_batch_parts=parts
            )
            if found is not None:
                trainer.restore(found[1])
        with phase("train"):
            trainer.train(log, save, keep=keep, on_evaluation=write_samples)
    members = _average(folder, record.run, config.train, trainer.model)
    smaller = _in_parts(config, parts)
    scores = [silver.score] if silver else []
    for name, split_name in (("dev", config.data.dev_split), ("test", config.data.test_split)):
        split, reference = splits[split_name], references[split_name]
        model, vocabulary = trainer.model, data.vocabulary
        scores.append(score_perplexity(name, split_name, split, model, smaller, vocabulary, phase))
        output, found_scores = score_output(name, split_name, split, reference, model, smaller, vocabulary, phase)
        scores += found_scores
        for kind, lines in {"output": output, **reference.readable(output)}.items():
            _output_file(attempt, name, kind).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    how = {"averaged": [asdict(member) for member in members]} if members else {}
    how |= {"micro_batch_parts": parts} if parts > 1 else {}
    scores = [replace(score, details=score.details | how) for score in scores]
    with phase("rate"):
        scores += training_costs(config, trainer, splits["train"], device)
    _finish(record, folder, attempt, trainer, data, scores, phase)


def assist(record: RunRecord, workspace: Workspace, num_threads: int, device: torch.device, ranks: Ranks) -> None:
    """What a rank after the first does in a run that the first one carries out: it trains along and writes nothing.

    Call it within the ranks' process group. Errors leave it, for the first rank to be told.
    """
    torch.set_num_threads(num_threads)
    config = RunConfig.from_dict(record.config)
    silver = None
    if isinstance(work := work_of(record.config), SelfTraining):
        from studies.trials.self_training import silver_trees

        silver = silver_trees(work, record, RunFolder(workspace.runs / record.run), workspace, device)
    data = _training_data(record, config, workspace, silver)
    train_split, dev_split = data.split("train"), data.split(config.data.dev_split)
    path, parts = ranks.follow_first(None)
    trainer = Trainer(record.run, config, train_split, dev_split, record.seed, device, ranks, micro_batch_parts=parts)
    if path is not None:
        trainer.restore(load_checkpoint(path, record.run))
    trainer.train(_do_nothing, _do_nothing, keep=_do_nothing)


def _do_nothing(*_: object) -> None:
    """In place of what the first rank writes."""


def _in_parts(config: RunConfig, parts: int) -> RunConfig:
    """The configuration with batches for scoring that take a part of the memory; what comes out is the same."""
    return replace(
        config,
        train=replace(config.train, micro_batch_tokens=max(1, config.train.micro_batch_tokens // parts)),
        decode=replace(config.decode, batch_tokens=max(1, config.decode.batch_tokens // parts)),
    )


def _newest_checkpoint(earlier: Sequence[Attempt], attempt: Attempt, run: str) -> tuple[Path, Checkpoint] | None:
    """The newest checkpoint of earlier attempts that can be loaded; damaged ones are passed over, and noted."""
    for path in newest_first(other.checkpoints for other in earlier):
        try:
            return path, load_checkpoint(path, run)
        except DamagedCheckpointError as error:
            attempt.note(f"{error}; passed over for the one before it")
            pass_over(path)
    return None


def _average(folder: RunFolder, run: str, plan: TrainConfig, model: SequenceModel) -> tuple[Member, ...]:
    """Put the mean of the last checkpoints' weights into the model (6.1), where that is asked for."""
    steps = member_steps(plan)
    if not steps:
        return ()
    average = average_members(find_members([attempt.checkpoints for attempt in folder.attempts()], steps), run)
    model.load_state_dict(average.weights)
    return average.members


def _append_samples(
    file: Path, step: int, model: SequenceModel, split: ParallelSplit, data: PreparedData, greedy: DecodeConfig
) -> None:
    """Translate a few development sentences, spread over the split, and append them as JSON lines."""
    chosen = _spread(split, NUM_SAMPLES)
    texts = _translate_some(model, split, chosen, data, greedy)
    with file.open("a", encoding="utf-8") as lines:
        for i, text in zip(chosen, texts, strict=True):
            row = {"step": step, "source": split.src_lines[i], "output": text, "reference": split.tgt_lines[i]}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def _score_some(
    config: RunConfig, model: SequenceModel, split: ParallelSplit, data: PreparedData, greedy: DecodeConfig
) -> dict[str, float | None]:
    """Scores of the greedy translations of `bleu_sentences` development sentences: `greedy_bleu` and the others."""
    chosen = _spread(split, config.train.bleu_sentences)
    texts = _translate_some(model, split, chosen, data, greedy)
    reference = TextReference([split.tgt_lines[i] for i in chosen], config.data.src, config.data.tgt)
    return {
        f"greedy_{score.name}": score.value for score in reference.score([text.replace("\n", " ") for text in texts])
    }


def _spread(split: ParallelSplit, number: int) -> list[int]:
    """So many sentences of a split, or all of a smaller one, spread over it."""
    return sorted({len(split) * part // number for part in range(number)})


def _translate_some(
    model: SequenceModel, split: ParallelSplit, chosen: Sequence[int], data: PreparedData, greedy: DecodeConfig
) -> list[str]:
    hypotheses = translate(model, [split.src[i] for i in chosen], greedy)
    model.train()
    return data.vocabulary.decode_batch([hypothesis.pieces for hypothesis in hypotheses])


def _training_data(record: RunRecord, config: RunConfig, workspace: Workspace, silver: Silver | None) -> PreparedData:
    """What a run is trained on, prepared; checked against what was planned."""
    if silver is None:
        data = prepare(config.data, workspace.data)
        found = data.fingerprint
    else:
        pairs = get_pairs(config.data, workspace.data)
        data = prepare_corpus(replace(pairs, silver=tuple(silver.trees)), config.data, workspace.data)
        found = pairs.fingerprint(workspace.data)  # the silver trees follow from the first parser's run
    if found != record.data_fingerprint:
        raise ValueError(
            f"corpus {config.data.corpus} changed since the run was planned "
            f"(fingerprint {found}, planned {record.data_fingerprint}); start the command again"
        )
    if data.vocab_size != config.model.vocab_size:
        raise ValueError(
            f"the training text yields {data.vocab_size} word pieces, the configuration asks for "
            f"{config.model.vocab_size}; set vocab_size to {data.vocab_size} or less"
        )
    return data


def _samples_file(attempt: Attempt) -> Path:
    return attempt.path / "samples.jsonl"


def _output_file(attempt: Attempt, name: str, kind: str) -> Path:
    """`kind` is "output", as the model wrote it, or a form of it that the task's reference gives."""
    return attempt.path / f"{name}.{kind}.txt"


def _finish(
    record: RunRecord,
    folder: RunFolder,
    attempt: Attempt,
    trainer: Trainer,
    data: PreparedData,
    scores: list[Score],
    phase: Phases,
) -> None:
    require_own(folder, attempt)
    weights, vocabulary = folder.path / "model.pt", folder.path / "vocabulary.json"
    with phase("save"):
        write_atomically(weights, {"run": record.run, "config": record.config, "model": trainer.model.state_dict()})
        data.vocabulary.save(vocabulary)
        artifacts = [folder.artifact("weights", weights), folder.artifact("vocabulary", vocabulary)]
        for name in ("dev", "test"):
            files = {kind: _output_file(attempt, name, kind) for kind in ("output", *READABLE_KINDS)}
            artifacts += [folder.artifact(kind, file) for kind, file in files.items() if file.exists()]
        # One file an attempt: a restart goes on in a file of its own.
        for other in folder.attempts():
            kinds = {METRICS: other.metrics_file, "samples": _samples_file(other)}
            artifacts += [folder.artifact(kind, file) for kind, file in kinds.items() if file.exists()]
    require_own(folder, attempt)
    folder.finish(
        RunResult(
            seconds=trainer.seconds,
            params=num_parameters(trainer.model),
            phases=phase.seconds,
            scores=tuple(scores),
            artifacts=tuple(artifacts),
        )
    )
    # The weights are kept; what only a resume would need is not.
    for other in folder.attempts():
        shutil.rmtree(other.checkpoints, ignore_errors=True)
