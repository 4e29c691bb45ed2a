"""The three scales: the same rows at sizes for seconds, for an evening, and for the paper.

A scale is a base configuration and the machine that one trial of it asks for. Studies change the base; they never
name a scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from core.complexity import training_flops, update_flops
from core.config import DataConfig, DecodeConfig, ModelConfig, OptimConfig, RunConfig, TrainConfig, paper_base
from studies import parsing_scales
from studies.parsing_scales import ParsingScale

# Points of a curve over the budget.
BUDGET_EVALUATIONS = 8
# Development sentences behind each point of BLEU.
BUDGET_BLEU_SENTENCES = 100


@dataclass(frozen=True)
class SeedSpread:
    """How much a metric differs between seeds: the standard deviation, the number of seeds that it was measured with
    (None where the source does not say: it is then trusted like one of 4), and where it comes from.
    """

    sd: float
    num_seeds: int | None
    source: str

    @property
    def degrees(self) -> int:
        """Degrees of freedom that the standard deviation rests on."""
        return (self.num_seeds or 4) - 1


@dataclass(frozen=True)
class Scale:
    """Attributes:
    base: the configuration of Table 3's base row at this scale.
    parsing: those of Table 4's rows.
    cpus_per_trial: processor cores, and torch threads, of one trial. Fixed, since a sum's last digit depends on it.
    gpus_per_trial: GPUs of one trial.
    seed_spread: by metric, what was known beforehand; it is what few seeds are judged by (`studies.inference`).
    sentence_pieces: how many word pieces the sentence of a piece has in the training text, on the average over pieces;
        what attention's own products cost.
    treebanks: where gold analyses of English sentences come from, the first of them that is here; where none is, and
        for what no treebank marks, from the generated grammar.
    budget_share: what a training under one budget of operations may use, as a share of base's own training.
    budget_tokens: word pieces of an update then, on either side; None: base's. A small budget goes further in more
        and smaller updates.
    """

    name: str
    description: str
    base: RunConfig
    parsing: ParsingScale
    cpus_per_trial: int
    gpus_per_trial: int
    seed_spread: Mapping[str, SeedSpread]
    sentence_pieces: float
    treebanks: tuple[str, ...] = ()
    budget_share: float = 1.0
    budget_tokens: int | None = None

    @property
    def budget_flops(self) -> float:
        """Counted operations of a training under one budget."""
        return self.budget_share * training_flops(self.base.model, self.base.train, self.sentence_pieces)

    def within_budget(self, config: RunConfig) -> RunConfig:
        """A configuration with as many updates as the budget allows.

        The learning rate rises over as many updates as base's, and at most over half of the training. Evaluations
        are as many for all, so that their curves have points at the same costs.
        """
        tokens = self.budget_tokens or config.train.source_tokens
        one = update_flops(config.model, tokens, tokens, self.sentence_pieces)
        steps = max(1, round(self.budget_flops / one))
        return replace(
            config,
            optim=replace(config.optim, warmup_steps=min(self.base.optim.warmup_steps, -(-steps // 2))),
            train=replace(
                config.train,
                train_steps=steps,
                source_tokens=tokens,
                target_tokens=tokens,
                eval_every_steps=-(-steps // BUDGET_EVALUATIONS),
                bleu_sentences=BUDGET_BLEU_SENTENCES,
                checkpoint_every_steps=-(-steps // BUDGET_EVALUATIONS),
            ),
        )


SMOKE = Scale(
    name="smoke",
    description="a generated toy corpus, seconds a run on a CPU core",
    base=RunConfig(
        model=ModelConfig(
            vocab_size=1_500, num_layers=3, d_model=64, d_ff=128, num_heads=8, d_k=8, d_v=8, max_learned_positions=256
        ),
        data=DataConfig(
            corpus="grammar",
            src="en",
            tgt="de",
            vocab_size=1_500,
            dev_split="dev",
            test_split="test",
            max_train_pieces=200,
        ),
        optim=OptimConfig(warmup_steps=300),
        train=TrainConfig(
            train_steps=460,
            source_tokens=400,
            target_tokens=400,
            micro_batch_tokens=1_024,
            log_every_steps=20,
            eval_every_steps=230,
            checkpoint_every_steps=115,
        ),
        decode=DecodeConfig(batch_sentences=100),
    ),
    parsing=parsing_scales.SMOKE,
    cpus_per_trial=1,
    gpus_per_trial=0,
    seed_spread={
        name: SeedSpread(sd, 12, "base at this scale, seeds 1 to 12")
        for name, sd in (
            ("dev_bleu", 3.5),
            ("dev_bleu_paper", 3.5),
            ("dev_ppl", 0.19),
            ("test_bleu", 3.2),
            ("test_bleu_paper", 3.2),
            ("far_heads", 0.097),
            ("far_heads_over_shuffled", 0.23),
            ("far_head_over_offset", 0.034),
            ("antecedent_share", 0.037),
            ("antecedent_over_shuffled", 0.038),
            ("antecedent_over_offset", 0.10),
            ("antecedent_sharpness", 0.12),
            ("mean_head_distance", 0.024),
        )
    },
    sentence_pieces=14.0,
)

SMALL = Scale(
    name="small",
    description="Multi30k English-German, under an hour a run on a laptop's core",
    base=RunConfig(
        model=ModelConfig(
            vocab_size=4_000,
            num_layers=3,
            d_model=128,
            d_ff=512,
            num_heads=8,
            d_k=16,
            d_v=16,
            max_learned_positions=512,
        ),
        data=DataConfig(
            corpus="multi30k", src="en", tgt="de", vocab_size=4_000, dev_split="val", test_split="test_2016_flickr"
        ),
        optim=OptimConfig(warmup_steps=800),
        train=TrainConfig(
            train_steps=5_000,
            source_tokens=2_000,
            target_tokens=2_000,
            micro_batch_tokens=1_100,
            log_every_steps=50,
            eval_every_steps=250,
            checkpoint_every_steps=250,
        ),
        decode=DecodeConfig(),
    ),
    parsing=parsing_scales.SMALL,
    cpus_per_trial=1,
    gpus_per_trial=0,
    seed_spread={},
    sentence_pieces=19.0,
    treebanks=("treebank-sample",),
    budget_share=0.2,
    budget_tokens=1_000,
)

PAPER = Scale(
    name="paper",
    description="WMT14 English-German at the paper's sizes, 8 GPUs a trial",
    base=RunConfig(
        model=paper_base(),
        data=DataConfig(
            corpus="wmt14", src="en", tgt="de", vocab_size=37_000, dev_split="newstest2013", test_split="newstest2014"
        ),
    ),
    parsing=parsing_scales.PAPER,
    cpus_per_trial=1,
    gpus_per_trial=8,
    seed_spread=dict.fromkeys(
        ("dev_bleu", "dev_bleu_paper", "test_bleu", "test_bleu_paper"),
        SeedSpread(0.3, None, "about 0.3 in MLPerf's Transformer, mlcommons/training issue 130"),
    ),
    sentence_pieces=40.0,  # an assumption: the corpus is not here to be counted; it is 2% of a training
    treebanks=("wsj", "treebank-sample"),
)

SCALES: tuple[Scale, ...] = (SMOKE, SMALL, PAPER)


def get_scale(name: str) -> Scale:
    """The scale of that name.

    Raises:
        ValueError: no such scale.
    """
    for scale in SCALES:
        if scale.name == name:
            return scale
    raise ValueError(f"no scale {name!r}; scales: {', '.join(scale.name for scale in SCALES)}")
