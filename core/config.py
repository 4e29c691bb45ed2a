"""The paper's configuration as frozen dataclasses, and nothing else.

`paper_base()` and `paper_big()` hold the values that the paper prints; a row of Table 3 is
`dataclasses.replace` on one of them, and a smaller scale is another base (`studies/scales.py`).
This module imports neither torch nor ray, so that listing and planning answer at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

Positions = Literal["sinusoid", "learned"]
Precision = Literal["float32", "tf32", "bfloat16"]
VocabularyKind = Literal["bpe", "wordpiece"]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one Transformer (section 3; the columns of Table 3).

    `d_k` and `d_v` are per head. `num_layers` is the paper's N, `num_heads` its h.
    `vocab_size` counts word pieces of the shared vocabulary, special symbols included.
    """

    vocab_size: int
    num_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int = 64
    d_v: int = 64
    dropout: float = 0.1
    positions: Positions = "sinusoid"
    # Only learned positions have a table that can run out; the sinusoid has no limit (3.5).
    max_learned_positions: int = 1024

    def __post_init__(self) -> None:
        for name in ("vocab_size", "num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "max_learned_positions"):
            value = getattr(self, name)
            _require(isinstance(value, int) and value >= 1, f"{name}={value} must be a whole number of at least 1")
        _require(0.0 <= self.dropout < 1.0, f"dropout={self.dropout} must lie in [0, 1)")
        known = ("sinusoid", "learned")
        _require(self.positions in known, f"positions={self.positions!r} must be 'sinusoid' or 'learned'")
        _require(
            self.positions == "learned" or self.d_model % 2 == 0,
            f"d_model={self.d_model} is odd; sinusoidal positions come in pairs of sine and cosine (3.5)",
        )

    def with_heads(self, num_heads: int) -> ModelConfig:
        """Another number of heads at constant computation (Table 3, row A): d_k = d_v = d_model / h."""
        remainder = self.d_model % num_heads
        _require(
            remainder == 0,
            f"num_heads={num_heads} does not divide d_model={self.d_model} (remainder {remainder}); "
            "set d_k and d_v explicitly",
        )
        return replace(self, num_heads=num_heads, d_k=self.d_model // num_heads, d_v=self.d_model // num_heads)


@dataclass(frozen=True)
class DataConfig:
    """What a run reads: a corpus, its direction, its vocabulary, and the splits that it is scored on.

    `max_train_pieces` drops training pairs with a longer side (in word pieces, end symbol included);
    the number dropped is recorded with the run.
    `vocab_kind` says how a word is cut into pieces: "bpe" (EN-DE) or "wordpiece" (EN-FR, section 5.1). The pieces
    are learned on both sides of `vocab_sample_pairs` training pairs, spread evenly; None takes all of them.
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

    def __post_init__(self) -> None:
        _require(self.src != self.tgt, f"src and tgt are both {self.src!r}; a translation needs two languages")
        _require(
            self.vocab_size >= 16,
            f"vocab_size={self.vocab_size} is too small for a vocabulary with its special symbols",
        )
        _require(self.max_train_pieces >= 2, f"max_train_pieces={self.max_train_pieces} must be at least 2")
        known = ("bpe", "wordpiece")
        _require(self.vocab_kind in known, f"vocab_kind={self.vocab_kind!r} must be 'bpe' or 'wordpiece'")
        _require(
            self.vocab_sample_pairs is None or self.vocab_sample_pairs >= 1,
            f"vocab_sample_pairs={self.vocab_sample_pairs} must be at least 1, or None for all training pairs",
        )


@dataclass(frozen=True)
class OptimConfig:
    """Adam and the learning rate of section 5.3. No gradient clipping and no weight decay: the paper has none."""

    warmup_steps: int = 4000
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        _require(self.warmup_steps >= 1, f"warmup_steps={self.warmup_steps} must be at least 1")
        _require(0.0 <= self.label_smoothing < 1.0, f"label_smoothing={self.label_smoothing} must lie in [0, 1)")


@dataclass(frozen=True)
class TrainConfig:
    """How long a run trains and what it writes on the way.

    Token counts are real word pieces, padding not counted. One update sees about `source_tokens` source and
    `target_tokens` target pieces (5.1), filled by gradient accumulation over micro-batches of at most
    `micro_batch_tokens` on either side.

    The weights that are scored are the mean of the last `average_last` checkpoints, `average_every_steps` apart (6.1);
    1 is no averaging (6.2).

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
    precision: Precision = "float32"
    compiled: bool = False

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name not in ("precision", "compiled"):
                _require(isinstance(value, int) and value >= 1, f"{name}={value} must be a whole number of at least 1")
        _require(
            self.precision in get_args(Precision),
            f"precision={self.precision!r} must be one of {', '.join(get_args(Precision))}",
        )
        _require(isinstance(self.compiled, bool), f"compiled={self.compiled!r} must be True or False")
        earliest = self.train_steps - (self.average_last - 1) * self.average_every_steps
        _require(
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
            _require(1 <= value <= most, f"{name}={value} must lie between 1 and {most:,}")
        _require(0.0 <= self.length_penalty <= 10.0, f"length_penalty={self.length_penalty} must lie in [0, 10]")
        for name in ("batch_sentences", "batch_tokens"):
            _require(getattr(self, name) >= 1, f"{name}={getattr(self, name)} must be at least 1")


@dataclass(frozen=True)
class RunConfig:
    """All that decides a run's numbers, apart from its seed, its data's content and the code."""

    model: ModelConfig
    data: DataConfig
    optim: OptimConfig = OptimConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self) -> None:
        _require(
            self.model.vocab_size == self.data.vocab_size,
            f"model.vocab_size={self.model.vocab_size} and data.vocab_size={self.data.vocab_size} differ; "
            "they are one vocabulary",
        )
        longest = self.data.max_train_pieces + self.decode.max_extra_pieces
        _require(
            self.model.positions == "sinusoid" or self.model.max_learned_positions >= longest,
            f"max_learned_positions={self.model.max_learned_positions} must be at least {longest}, "
            "max_train_pieces + max_extra_pieces: a table of positions has no place for longer outputs",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries, ready for JSON; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """Rebuild a configuration written by `to_dict`; unknown or missing names raise TypeError."""
        return cls(
            model=ModelConfig(**values["model"]),
            data=DataConfig(**values["data"]),
            optim=OptimConfig(**values["optim"]),
            train=TrainConfig(**values["train"]),
            decode=DecodeConfig(**values["decode"]),
        )


def paper_base(vocab_size: int = 37_000) -> ModelConfig:
    """The base model (Table 3, first row). The vocabulary is the one number that the paper gives as "about" (5.1)."""
    return ModelConfig(vocab_size=vocab_size)


def paper_big(vocab_size: int = 37_000) -> ModelConfig:
    """The big model (Table 3, last row): d_model 1024, d_ff 4096, 16 heads of 64, dropout 0.3."""
    return ModelConfig(vocab_size=vocab_size, d_model=1024, d_ff=4096, num_heads=16, d_k=64, d_v=64, dropout=0.3)
