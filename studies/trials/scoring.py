"""What a trained model is worth: perplexity, its output and the output's scores, and what the training cost.

This file is part of a run's code version: a change here makes new runs.
"""

from __future__ import annotations

import math

import torch

from core.complexity import update_flops
from core.config import DataConfig, RunConfig
from core.data.corpora import get_treebank, tree_format
from core.data.split import ParallelSplit
from core.data.vocabulary import Vocabulary
from core.decode import translate
from core.scoring.references import Reference, TextReference, TreeReference
from core.sequence_model import SequenceModel
from core.sustained_rate import benchmark, sustained_flops
from core.trainer import Trainer, evaluate
from results import provenance
from results.records import Score
from studies.runs import Workspace
from studies.trials.phases import Phases


def reference_of(data: DataConfig, split_name: str, split: ParallelSplit, workspace: Workspace) -> Reference:
    """What a split's output is scored against: its target lines, or its trees, of which sequences do not tell all."""
    if data.task == "parsing":
        trees = get_treebank(data.corpus).read_trees(split_name, workspace.data)
        return TreeReference(list(trees), tree_format(data))
    return TextReference(split.tgt_lines, data.src, data.tgt)


def score_perplexity(
    name: str,
    split_name: str,
    split: ParallelSplit,
    model: SequenceModel,
    config: RunConfig,
    vocabulary: Vocabulary,
    phase: Phases,
) -> Score:
    """Perplexity of one split, per word piece, as `name`_ppl."""
    with phase("score"):
        evaluation = evaluate(model, split, config.train.micro_batch_tokens)
    finite = math.isfinite(evaluation.perplexity)
    return Score(
        name=f"{name}_ppl",
        value=evaluation.perplexity if finite else None,
        signature=f"cross-entropy:plain|unit:word-piece|end-symbol:yes|vocabulary:{vocabulary.fingerprint}",
        dataset=_dataset(config.data, split_name),
        num_items=len(split),
        details={"nll": evaluation.nll, "pieces": evaluation.num_pieces}
        | ({} if finite else {"reason": "the perplexity is beyond the range of numbers"}),
    )


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


def training_costs(config: RunConfig, trainer: Trainer, split: ParallelSplit, device: torch.device) -> list[Score]:
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
