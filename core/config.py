"""The paper's configuration as frozen dataclasses, and nothing else.

`paper_base()` and `paper_big()` hold the values that the paper prints; a row of Table 3 is
`dataclasses.replace` on one of them, and a smaller scale is another base (`studies/scales.py`).
This module imports neither torch nor ray, so that listing and planning answer at once.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from core.architecture_config import (
    ArchitectureConfig,
    ConvS2SConfig,
    ModelConfig,
    architecture_from_dict,
    architecture_to_dict,
    require,
)

Precision = Literal["float32", "tf32", "bfloat16"]
VocabularyKind = Literal["bpe", "wordpiece"]
Task = Literal["translation", "parsing"]

TREES = "trees"
"""The target "language" of parsing: trees as sequences of symbols."""


@dataclass(frozen=True)
class DataConfig:
    """What a run reads: a corpus, its direction, its vocabulary, and the splits that it is scored on.

    `max_train_pieces` drops training pairs with a longer side (in word pieces, end symbol included);
    the number dropped is recorded with the run.
    `vocab_kind` says how a word is cut into pieces: "bpe" (EN-DE) or "wordpiece" (EN-FR, section 5.1). The pieces
    are learned on both sides of `vocab_sample_pairs` training pairs, spread evenly; None takes all of them.

    `tgt="trees"` is parsing (6.3): the corpus is a treebank, sources are the words of its sentences, separated by
    blanks, and targets the symbols of their trees. `keep_tags`, `keep_words` and `bare_words` say what the symbols tell
    of a word (`core.data.tree_sequences.TreeFormat`): the paper follows Vinyals et al. 2015, who tell nothing.
    `train_share` takes the first trees alone, `recombined` adds so many times as many that are put together from these,
    and `more_trees` names a treebank whose trees are trained on besides: automatic parses (6.3, semi-supervised).
    """

    corpus: str
    src: str
    tgt: str
    vocab_size: int
    dev_split: str
    test_split: str
    max_train_pieces: int = 256
    vocab_kind: VocabularyKind = "bpe"
    vocab_sample_pairs: int | None = None
    keep_tags: bool = False
    keep_words: bool = False
    bare_words: bool = False
    train_share: float = 1.0
    recombined: int = 0
    more_trees: str | None = None

    @property
    def task(self) -> Task:
        """What is learned: the target tells."""
        return "parsing" if self.tgt == TREES else "translation"

    def __post_init__(self) -> None:
        require(self.src != self.tgt, f"src and tgt are both {self.src!r}; a translation needs two languages")
        require(
            self.vocab_size >= 16,
            f"vocab_size={self.vocab_size} is too small for a vocabulary with its special symbols",
        )
        require(self.max_train_pieces >= 2, f"max_train_pieces={self.max_train_pieces} must be at least 2")
        known = ("bpe", "wordpiece")
        require(self.vocab_kind in known, f"vocab_kind={self.vocab_kind!r} must be 'bpe' or 'wordpiece'")
        require(
            self.vocab_sample_pairs is None or self.vocab_sample_pairs >= 1,
            f"vocab_sample_pairs={self.vocab_sample_pairs} must be at least 1, or None for all training pairs",
        )
        require(0.0 < self.train_share <= 1.0, f"train_share={self.train_share} must lie in (0, 1]")
        require(self.recombined >= 0, f"recombined={self.recombined} must be at least 0")
        of_trees = ("keep_tags", "keep_words", "bare_words", "train_share", "recombined", "more_trees")
        changed = [name for name in of_trees if getattr(self, name) != getattr(type(self), name)]
        require(
            self.task == "parsing" or not changed,
            f"{', '.join(changed)} set, and tgt={self.tgt!r}; these are for trees: set tgt={TREES!r}",
        )


@dataclass(frozen=True)
class OptimConfig:
    """Adam and the learning rate of section 5.3. No weight decay: the paper has none.

    `learning_rate_scale` multiplies Eq. 3; `max_grad_norm` scales an update's gradient down to this norm where it is
    longer. The paper has neither, and the values here are 1 and None; other architectures, and the search on section
    22 (6.3), need others.
    """

    warmup_steps: int = 4000
    learning_rate_scale: float = 1.0
    max_grad_norm: float | None = None
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        require(self.warmup_steps >= 1, f"warmup_steps={self.warmup_steps} must be at least 1")
        scale, norm = self.learning_rate_scale, self.max_grad_norm
        require(0.0 < scale < math.inf, f"learning_rate_scale={scale} must be above 0 and finite")
        require(norm is None or 0.0 < norm < math.inf, f"max_grad_norm={norm} must be above 0 and finite, or None")
        require(0.0 <= self.label_smoothing < 1.0, f"label_smoothing={self.label_smoothing} must lie in [0, 1)")


@dataclass(frozen=True)
class TrainConfig:
    """How long a run trains and what it writes on the way.

    Token counts are real word pieces, padding not counted. One update sees about `source_tokens` source and
    `target_tokens` target pieces (5.1), filled by gradient accumulation over micro-batches of at most
    `micro_batch_tokens` on either side.

    The weights that are scored are the mean of the last `average_last` checkpoints, `average_every_steps` apart (6.1);
    1 is no averaging (6.2).

    At each evaluation `bleu_sentences` of the development set are translated greedily and scored, for a curve; 0 leaves
    that out.

    `precision` is that of products in training (`core.precision`); "tf32" differs from "float32" on NVIDIA GPUs alone.
    `compiled` has torch.compile fuse what lies between products on a GPU; on a CPU it is slower and left out.
    """

    train_steps: int = 100_000
    source_tokens: int = 25_000
    target_tokens: int = 25_000
    micro_batch_tokens: int = 4_096
    log_every_steps: int = 100
    eval_every_steps: int = 1_000
    checkpoint_every_steps: int = 1_000
    average_last: int = 1
    average_every_steps: int = 1_500
    bleu_sentences: int = 0
    precision: Precision = "float32"
    compiled: bool = False

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name not in ("precision", "compiled"):
                least = 0 if name == "bleu_sentences" else 1
                require(
                    isinstance(value, int) and value >= least,
                    f"{name}={value} must be a whole number of at least {least}",
                )
        require(
            self.precision in get_args(Precision),
            f"precision={self.precision!r} must be one of {', '.join(get_args(Precision))}",
        )
        require(isinstance(self.compiled, bool), f"compiled={self.compiled!r} must be True or False")
        earliest = self.train_steps - (self.average_last - 1) * self.average_every_steps
        require(
            self.average_last == 1 or earliest >= 1,
            f"average_last={self.average_last} checkpoints, {self.average_every_steps} updates apart, do not fit into "
            f"train_steps={self.train_steps}; lower one of them",
        )


@dataclass(frozen=True)
class DecodeConfig:
    """Beam search of section 6.1: beam 4, alpha 0.6, at most input + 50 word pieces; a beam of 1 is greedy search.

    `never_below_greedy`: where beam search loses the greedy path and ends below its score, the greedy path is returned.
    A batch has at most `batch_sentences`, and at most `batch_tokens` source pieces, counted with padding and once for
    each beam, which bounds its memory; neither decides what comes out, up to rounding.
    """

    beam_size: int = 4
    length_penalty: float = 0.6
    max_extra_pieces: int = 50
    never_below_greedy: bool = True
    batch_sentences: int = 64
    batch_tokens: int = 8_192

    def __post_init__(self) -> None:
        for name, most in (("beam_size", 1_000), ("max_extra_pieces", 10_000)):
            value = getattr(self, name)
            require(1 <= value <= most, f"{name}={value} must lie between 1 and {most:,}")
        require(0.0 <= self.length_penalty <= 10.0, f"length_penalty={self.length_penalty} must lie in [0, 10]")
        for name in ("batch_sentences", "batch_tokens"):
            require(getattr(self, name) >= 1, f"{name}={getattr(self, name)} must be at least 1")


@dataclass(frozen=True)
class RunConfig:
    """All that decides a run's numbers, apart from its seed, its data's content and the code."""

    model: ArchitectureConfig
    data: DataConfig
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self) -> None:
        require(
            self.model.vocab_size == self.data.vocab_size,
            f"model.vocab_size={self.model.vocab_size} and data.vocab_size={self.data.vocab_size} differ; "
            "they are one vocabulary",
        )
        longest = self.data.max_train_pieces + self.decode.max_extra_pieces
        limited = isinstance(self.model, ModelConfig | ConvS2SConfig)
        limit = self.model.most_positions if limited else None
        require(
            limit is None or limit >= longest,
            f"max_learned_positions={limit} must be at least {longest}, "
            "max_train_pieces + max_extra_pieces: a table of positions has no place for longer outputs",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries, ready for JSON; `from_dict` is the inverse."""
        return asdict(self) | {"model": architecture_to_dict(self.model)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """Rebuild a configuration written by `to_dict`; ValueError for other names, as another version writes."""
        try:
            return cls(
                model=architecture_from_dict(values["model"]),
                data=DataConfig(**values["data"]),
                optim=OptimConfig(**values["optim"]),
                train=TrainConfig(**values["train"]),
                decode=DecodeConfig(**values["decode"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the configuration is not one of this version ({error}); run it again with it") from error


def paper_base(vocab_size: int = 37_000) -> ModelConfig:
    """The base model (Table 3, first row). The vocabulary is the one number that the paper gives as "about" (5.1)."""
    return ModelConfig(vocab_size=vocab_size)


def paper_big(vocab_size: int = 37_000) -> ModelConfig:
    """The big model (Table 3, last row): d_model 1024, d_ff 4096, 16 heads of 64, dropout 0.3."""
    return ModelConfig(vocab_size=vocab_size, d_model=1024, d_ff=4096, num_heads=16, d_k=64, d_v=64, dropout=0.3)
