"""One run from beginning to end: data, training, decoding, scores, all into its run folder.

This file is part of a run's code version: a change here makes new runs.
"""

from __future__ import annotations

import errno
import gc
import json
import math
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
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
from core.complexity import update_flops
from core.config import DataConfig, DecodeConfig, RunConfig, TrainConfig
from core.data.corpora import get_pairs, get_treebank, tree_format
from core.data.prepare import PreparedData, prepare, prepare_corpus
from core.data.split import ParallelSplit
from core.data.vocabulary import Vocabulary
from core.decode import translate
from core.parallel import ALONE, RankLostError, Ranks
from core.scoring.references import READABLE_KINDS, Reference, TextReference, TreeReference
from core.sequence_model import SequenceModel, num_parameters
from core.sustained_rate import benchmark, sustained_flops
from core.trainer import DivergedError, Trainer, evaluate
from results import provenance
from results.records import RunRecord, RunResult, Score
from results.run_folder import METRICS, ORPHAN_SECONDS, Attempt, RunFolder
from studies.runs import Workspace
from studies.work import (
    AttentionProbe,
    BaselineParser,
    CapabilityProbe,
    ComplexityProbe,
    Redecoding,
    SelfTraining,
    StatementProbe,
    TaskProbe,
    Training,
    work_of,
)

if TYPE_CHECKING:
    from studies.self_training import Silver

HEARTBEAT_EVERY_SECONDS = 10.0
NUM_SAMPLES = 3

Join = Callable[[Callable[[str], None]], AbstractContextManager[Ranks]]
"""Brings a training's other ranks up and joins them for the time of a block. It is given what writes down why the
attempt failed, for the case that the process must end itself.
"""


def train_alone(_: Callable[[str], None]) -> AbstractContextManager[Ranks]:
    """`Join` of one rank."""
    return nullcontext(ALONE)


OUT_OF_MEMORY = "out of memory"
# The kinds of work whose micro-batches can be cut for want of memory.
_TRAINS = (Training, SelfTraining)


class SupersededError(Exception):
    """Another attempt of the same run took over: this one was taken for dead and must not commit anything."""


def execute(
    record: RunRecord,
    workspace: Workspace,
    num_threads: int,
    device: torch.device,
    join: Join = train_alone,
    oom_halvings: int = 0,
) -> None:
    """Carry out one run, from its newest checkpoint if it was begun before.

    One that is done, or that another process works on, is left alone.
    How it ended is in its folder: `result.json`, or the attempt's `error.json` with the reason and `log.txt` with the
    traceback. No error leaves this function, so one failed run leaves the others alone, save RankLostError: the run can
    go on in a new process.

    Args:
        oom_halvings: how often a run that is out of memory may go on with micro-batches half as large. Its updates
            stay the same, filled by more of them.
    """
    folder = RunFolder.create(workspace.runs, record)
    most_halvings = oom_halvings if isinstance(work_of(record.config), _TRAINS) else 0
    attempt = _claim(folder)
    torch.set_num_threads(num_threads)
    while attempt is not None:
        halvings = min(_times_out_of_memory(folder), most_halvings)
        if halvings:
            attempt.note(f"out of memory before: micro-batches are cut into {2**halvings} parts")
        _try(record, folder, attempt, workspace, device, join, 2**halvings)
        again = halvings < min(_times_out_of_memory(folder), most_halvings)
        attempt = folder.claim_after(attempt.number) if again else None
        gc.collect()  # what the attempt held
        torch.cuda.empty_cache()


def _claim(folder: RunFolder) -> Attempt | None:
    """An attempt of this process; None where the run has ended, or another process works on it.

    Several commands may share a home: a run is whose attempt was claimed first. Who seems to work on it is waited for
    as long as a dead command's workers may still show signs of life.
    """
    first_sign = math.inf
    while True:
        newest = folder.newest_number()
        status = folder.status().status
        if status in ("done", "diverged"):
            return None
        if status == "running":
            sign = folder.attempts()[-1].last_sign_of_life()
            first_sign = min(first_sign, sign)
            if sign > first_sign + ORPHAN_SECONDS + HEARTBEAT_EVERY_SECONDS:
                return None
            time.sleep(0.5)
        elif attempt := folder.claim_after(newest):
            return attempt


def _times_out_of_memory(folder: RunFolder) -> int:
    """How many attempts so far ended for want of memory."""
    return sum(attempt.failure().startswith(OUT_OF_MEMORY) for attempt in folder.attempts())


def _try(
    record: RunRecord,
    folder: RunFolder,
    attempt: Attempt,
    workspace: Workspace,
    device: torch.device,
    join: Join,
    parts: int,
) -> None:
    """One attempt to its end, good or bad; `parts` is into how many parts micro-batches are cut."""
    try:
        with _heartbeat(attempt):
            _carry_out(record, folder, attempt, workspace, device, join, parts)
    except SupersededError:
        pass  # the other attempt tells how the run ended
    except DivergedError as error:
        _fail(attempt, str(error), status="diverged")
    except RankLostError as error:
        _fail(attempt, str(error))
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this run's reason and must not stop the others
        reason = _out_of_memory(error, record, parts) or _disk_full(error) or f"{type(error).__name__}: {error}"
        _fail(attempt, reason, log=traceback.format_exc())
    finally:
        with suppress(OSError):
            attempt.close()


def _fail(attempt: Attempt, reason: str, status: str = "failed", log: str = "") -> None:
    """Leave the reason, and then the traceback, as far as a full disk takes them: without, the run is interrupted."""
    with suppress(OSError):
        attempt.fail(reason, status)
        if log:
            attempt.log_file.write_text(log, encoding="utf-8")


def _machine(device: torch.device, ranks: Ranks) -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(device)] * ranks.world_size if device.type == "cuda" else []
    return {**provenance.machine(), "gpus": gpus, "ranks": ranks.world_size}


def _carry_out(
    record: RunRecord,
    folder: RunFolder,
    attempt: Attempt,
    workspace: Workspace,
    device: torch.device,
    join: Join,
    parts: int,
) -> None:
    attempt.record_machine(_machine(device, ALONE))
    match work_of(record.config):
        case Training():
            _train(record, folder, attempt, workspace, device, join, parts)
        case SelfTraining() as work:
            from studies.self_training import silver_trees

            silver = silver_trees(work, record, folder, workspace, device)
            _train(record, folder, attempt, workspace, device, join, parts, silver)
        case AttentionProbe() as probe:
            from studies.attention_probe import measure

            _conclude(folder, attempt, measure(probe, record, folder, workspace, device))
        case ComplexityProbe() as probe:
            from studies.complexity_probe import measure

            _conclude(folder, attempt, measure(probe, record.seed))
        case StatementProbe() as probe:
            from studies.statement_probe import measure

            _conclude(folder, attempt, measure(probe, record.seed))
        case TaskProbe() as probe:
            from studies.task_probe import measure

            _conclude(folder, attempt, measure(probe, record.seed))
        case CapabilityProbe() as probe:
            from studies.capability_probe import measure

            _conclude(folder, attempt, measure(probe, record, device))
        case Redecoding() as work:
            from studies.redecoding import measure

            _conclude(folder, attempt, measure(work, record, workspace, device))
        case BaselineParser() as work:
            from studies.baseline_parsers import measure

            _conclude(folder, attempt, measure(work, record, folder, workspace))


def _conclude(folder: RunFolder, attempt: Attempt, result: RunResult) -> None:
    _require_own(folder, attempt)
    folder.finish(result)


def _require_own(folder: RunFolder, attempt: Attempt) -> None:
    if not folder.may_commit(attempt):
        raise SupersededError


def _out_of_memory(error: Exception, record: RunRecord, parts: int) -> str | None:
    """What to lower, where that is what ended the run; None for any other error."""
    # Torch's own kind is for GPUs; its CPU allocator raises a plain RuntimeError.
    if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and "can't allocate memory" not in str(error):
        return None
    if not isinstance(work_of(record.config), _TRAINS):
        return f"{OUT_OF_MEMORY}: run fewer at a time with --max-concurrent"
    tokens = record.config["train"]["micro_batch_tokens"] // parts
    return (
        f"{OUT_OF_MEMORY} with micro-batches of {tokens:,} tokens: start the command again with --oom-halvings "
        f"{parts.bit_length()}, which fills the same updates by more and smaller ones, or run fewer trials at a time "
        "with --max-concurrent"
    )


def _disk_full(error: Exception) -> str | None:
    """What to do where that is what ended the run; None for any other error."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    return f"the disk is full ({error.strerror}): free some space (aiayn clean), and start the same command again"


@contextmanager
def _heartbeat(attempt: Attempt) -> Iterator[None]:
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT_EVERY_SECONDS):
            attempt.heartbeat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Phases:
    """Wall seconds by phase of this attempt."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def _train(
    record: RunRecord,
    folder: RunFolder,
    attempt: Attempt,
    workspace: Workspace,
    device: torch.device,
    join: Join,
    parts: int,
    silver: Silver | None = None,
) -> None:
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
        _require_own(folder, attempt)
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
        attempt.record_machine(_machine(device, ranks))
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
        scores += _score_split(name, split_name, split, reference, trainer.model, smaller, data, attempt, phase)
    how = {"averaged": [asdict(member) for member in members]} if members else {}
    how |= {"micro_batch_parts": parts} if parts > 1 else {}
    scores = [replace(score, details=score.details | how) for score in scores]
    with phase("rate"):
        scores += _costs(config, trainer, splits["train"], device)
    _finish(record, folder, attempt, trainer, data, scores, phase)


def _costs(config: RunConfig, trainer: Trainer, split: ParallelSplit, device: torch.device) -> list[Score]:
    """What the training cost, by counted operations and by the paper's method (footnote 5), which are never mixed.

    The method's rate is measured here, after the training, on what it ran on.
    """
    dataset = f"{config.data.corpus}/train/{config.data.src}-{config.data.tgt}"
    source_tokens, target_tokens = trainer.stream.tokens_per_update()
    lengths = [side.astype(float) for side in (split.src_lengths, split.tgt_lengths)]
    sentence_pieces = sum((side**2).sum() for side in lengths) / sum(side.sum() for side in lengths)
    counted = config.train.train_steps * update_flops(config.model, source_tokens, target_tokens, sentence_pieces)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else provenance.cpu_model()
    rate = sustained_flops(device)
    return [
        Score(
            "counted_flops",
            counted,
            "cost:counted operations|of:matrix products, attention's too|backward:twice the forward",
            dataset,
            len(split),
            {
                "updates": config.train.train_steps,
                "source_tokens_per_update": source_tokens,
                "target_tokens_per_update": target_tokens,
                "sentence_pieces": sentence_pieces,
            },
        ),
        Score(
            "timed_flops",
            trainer.seconds * trainer.ranks.world_size * rate,
            f"cost:training time x devices x sustained rate|rate:measured|hardware:{name}",
            dataset,
            len(split),
            {
                "seconds": trainer.seconds,
                "devices": trainer.ranks.world_size,
                "flops_per_second": rate,
                "benchmark": benchmark(device),
            },
        ),
    ]


def reference_of(data: DataConfig, split_name: str, split: ParallelSplit, workspace: Workspace) -> Reference:
    """What a split's output is scored against: its target lines, or its trees, of which sequences do not tell all."""
    if data.task == "parsing":
        trees = get_treebank(data.corpus).read_trees(split_name, workspace.data)
        return TreeReference(list(trees), tree_format(data))
    return TextReference(split.tgt_lines, data.src, data.tgt)


def assist(record: RunRecord, workspace: Workspace, num_threads: int, device: torch.device, ranks: Ranks) -> None:
    """What a rank after the first does in a run that the first one carries out: it trains along and writes nothing.

    Call it within the ranks' process group. Errors leave it, for the first rank to be told.
    """
    torch.set_num_threads(num_threads)
    config = RunConfig.from_dict(record.config)
    silver = None
    if isinstance(work := work_of(record.config), SelfTraining):
        from studies.self_training import silver_trees

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


def _score_split(
    name: str,
    split_name: str,
    split: ParallelSplit,
    reference: Reference,
    model: SequenceModel,
    config: RunConfig,
    data: PreparedData,
    attempt: Attempt,
    phase: Phases,
) -> list[Score]:
    """Perplexity of one split, and its output's scores; the output is kept with the attempt."""
    with phase("score"):
        evaluation = evaluate(model, split, config.train.micro_batch_tokens)
    finite = math.isfinite(evaluation.perplexity)
    perplexity = Score(
        name=f"{name}_ppl",
        value=evaluation.perplexity if finite else None,
        signature=f"cross-entropy:plain|unit:word-piece|end-symbol:yes|vocabulary:{data.vocabulary.fingerprint}",
        dataset=_dataset(config.data, split_name),
        num_items=len(split),
        details={"nll": evaluation.nll, "pieces": evaluation.num_pieces}
        | ({} if finite else {"reason": "the perplexity is beyond the range of numbers"}),
    )
    output, scores = score_output(name, split_name, split, reference, model, config, data.vocabulary, phase)
    for kind, lines in {"output": output, **reference.readable(output)}.items():
        _output_file(attempt, name, kind).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [perplexity, *scores]


def score_output(
    name: str,
    split_name: str,
    split: ParallelSplit,
    reference: Reference,
    model: SequenceModel,
    config: RunConfig,
    vocabulary: Vocabulary,
    phase: Phases,
) -> tuple[list[str], list[Score]]:
    """What a model writes for a split, a line a sentence, and its scores by task, each named after `name`."""
    with phase("decode"):
        hypotheses = translate(model, [split.src[i] for i in range(len(split))], config.decode)
        raw_output = vocabulary.decode_batch([hypothesis.pieces for hypothesis in hypotheses])
    # Pieces are bytes, so a model can write a line feed; in a file of lines it would shift every later one.
    output = [line.replace("\n", " ") for line in raw_output]
    decoding = {
        "beam_size": config.decode.beam_size,
        "length_penalty": config.decode.length_penalty,
        "max_extra_pieces": config.decode.max_extra_pieces,
        "never_below_greedy": config.decode.never_below_greedy,
        "from_greedy": sum(hypothesis.from_greedy for hypothesis in hypotheses),
        "unfinished": sum(not hypothesis.finished for hypothesis in hypotheses),
        "line_feeds_replaced": sum("\n" in line for line in raw_output),
    }
    with phase("score"):
        scores = reference.score(output)
    dataset = _dataset(config.data, split_name)
    return output, [
        Score(f"{name}_{score.name}", score.value, score.signature, dataset, score.num_items, score.details | decoding)
        for score in scores
    ]


def _dataset(data: DataConfig, split_name: str) -> str:
    return f"{data.corpus}/{split_name}/{data.src}-{data.tgt}"


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
    _require_own(folder, attempt)
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
    _require_own(folder, attempt)
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
