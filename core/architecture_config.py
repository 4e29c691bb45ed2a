"""The sizes of every architecture as frozen dataclasses: the Transformer's, and of what the paper sets it against.

Each class is one architecture; `ARCHITECTURES` gives it the name that a stored configuration has under "architecture".
This module imports neither torch nor ray; `core.architectures` builds the models.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

Positions = Literal["sinusoid", "learned"]
Cell = Literal["elman", "gru", "lstm"]
RecurrentAttention = Literal["none", "bahdanau", "gnmt"]
WordVectors = Literal["pooled", "concatenated"]


def require(condition: bool, message: str) -> None:
    """Refuse a configuration that cannot be meant.

    Raises:
        ValueError: with `message`, where `condition` does not hold.
    """
    if not condition:
        raise ValueError(message)


def unfold(ratio: float, length: int) -> int:
    """ceil(ratio * length); the product is rounded first, as 1.2 * 5 is a little above 6 in floats."""
    return math.ceil(round(ratio * length, 6))


def _require_sizes(config: Any, *names: str) -> None:
    """Whole numbers of at least 1 under these names, and a dropout below 1."""
    for name in names:
        value = getattr(config, name)
        require(isinstance(value, int) and value >= 1, f"{name}={value} must be a whole number of at least 1")
    require(0.0 <= config.dropout < 1.0, f"dropout={config.dropout} must lie in [0, 1)")


def _require_one_of(name: str, value: str, kind: Any) -> None:
    known = get_args(kind)
    require(value in known, f"{name}={value!r} must be one of {', '.join(known)}")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one Transformer (section 3; the columns of Table 3).

    `d_k` and `d_v` are per head. `num_layers` is the paper's N, `num_heads` its h.
    `vocab_size` counts word pieces of the shared vocabulary, special symbols included. `attention_dropout` is a rate
    for attention weights; the base model has none (5.4).
    """

    vocab_size: int
    num_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int = 64
    d_v: int = 64
    dropout: float = 0.1
    attention_dropout: float = 0.0
    positions: Positions = "sinusoid"
    # Only learned positions have a table that can run out; the sinusoid has no limit (3.5).
    max_learned_positions: int = 1024

    def __post_init__(self) -> None:
        _require_sizes(
            self, "vocab_size", "num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "max_learned_positions"
        )
        require(0.0 <= self.attention_dropout < 1.0, f"attention_dropout={self.attention_dropout} must lie in [0, 1)")
        known = ("sinusoid", "learned")
        require(self.positions in known, f"positions={self.positions!r} must be 'sinusoid' or 'learned'")
        require(
            self.positions == "learned" or self.d_model % 2 == 0,
            f"d_model={self.d_model} is odd; sinusoidal positions come in pairs of sine and cosine (3.5)",
        )

    @property
    def most_positions(self) -> int | None:
        """Places that a sentence may have; None: any number."""
        return self.max_learned_positions if self.positions == "learned" else None

    def with_heads(self, num_heads: int) -> ModelConfig:
        """Another number of heads at constant computation (Table 3, row A): d_k = d_v = d_model / h."""
        remainder = self.d_model % num_heads
        require(
            remainder == 0,
            f"num_heads={num_heads} does not divide d_model={self.d_model} (remainder {remainder}); "
            "set d_k and d_v explicitly",
        )
        return replace(self, num_heads=num_heads, d_k=self.d_model // num_heads, d_v=self.d_model // num_heads)


@dataclass(frozen=True)
class ConvS2SConfig:
    """Sizes of a ConvS2S (Gehring et al. 2017); those of its English-German model by default.

    `blocks` are the layers of the encoder, and likewise of the decoder: (units, kernel size) of each. `d_model` is the
    width of words and of attention. The authors' words are 768 wide, and their output is cut to 512; here the table is
    one. `weight_norm`: each weight has a direction and a length of its own, as in their training.
    """

    vocab_size: int
    d_model: int = 768
    blocks: tuple[tuple[int, int], ...] = ((512, 3),) * 9 + ((1024, 3),) * 4 + ((2048, 1),) * 2
    dropout: float = 0.2
    max_learned_positions: int = 1024
    weight_norm: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(tuple(block) for block in self.blocks))  # from JSON they are lists
        _require_sizes(self, "vocab_size", "d_model", "max_learned_positions")
        require(
            len(self.blocks) > 0 and all(len(block) == 2 and min(block) >= 1 for block in self.blocks),
            f"blocks={self.blocks} must be one or more pairs (units, kernel size), all of at least 1",
        )

    @property
    def most_positions(self) -> int:
        """Places that a sentence may have."""
        return self.max_learned_positions


@dataclass(frozen=True)
class ByteNetConfig:
    """Sizes of a ByteNet (Kalchbrenner et al. 2016); those of its English-German model by default.

    `d_model` is the width between blocks; within them it is half. Encoder and decoder have `num_sets` sets of blocks
    each; within a set dilations are 1, 2, 4, ... A source of S pieces is unfolded to ceil(`length_ratio` * S) +
    `length_extra` places. `dropout` is on the last ReLU, as theirs.
    """

    vocab_size: int
    d_model: int = 1600
    num_sets: int = 6
    set_size: int = 5
    kernel_size: int = 3
    length_ratio: float = 1.2
    length_extra: int = 0
    dropout: float = 0.1

    def __post_init__(self) -> None:
        _require_sizes(self, "vocab_size", "d_model", "num_sets", "set_size", "kernel_size")
        require(self.d_model % 2 == 0, f"d_model={self.d_model} is odd; blocks work at half of it")
        require(self.kernel_size % 2 == 1, f"kernel_size={self.kernel_size} is even; the encoder's has a middle")
        require(1.0 <= self.length_ratio <= 10.0, f"length_ratio={self.length_ratio} must lie in [1, 10]")
        require(self.length_extra >= 0, f"length_extra={self.length_extra} must be at least 0")

    @property
    def d_inner(self) -> int:
        """Width within a block."""
        return self.d_model // 2

    @property
    def dilations(self) -> tuple[int, ...]:
        """Of the blocks of one side, in their order."""
        return tuple(2**place for place in range(self.set_size)) * self.num_sets

    def unfolded(self, length: int) -> int:
        """Places of a source of `length` pieces."""
        return unfold(self.length_ratio, length) + self.length_extra


@dataclass(frozen=True)
class ExtendedNeuralGPUConfig:
    """Sizes of an Extended Neural GPU (Kaiser and Bengio 2016); those of its English-German model by default.

    The state of a sentence is an image as long as the sentence, `image_width` wide, with `d_model` maps. A source of S
    pieces has an image of ceil(`length_ratio` * S) columns, so that most outputs find room; it grows for longer ones.
    Each step is `num_layers` gated convolutions of `kernel_size` squared.
    """

    vocab_size: int
    d_model: int = 512
    image_width: int = 4
    num_layers: int = 2
    kernel_size: int = 3
    length_ratio: float = 1.2
    dropout: float = 0.1

    def __post_init__(self) -> None:
        _require_sizes(self, "vocab_size", "d_model", "image_width", "num_layers", "kernel_size")
        require(self.kernel_size % 2 == 1, f"kernel_size={self.kernel_size} is even; a convolution here has a middle")
        require(1.0 <= self.length_ratio <= 10.0, f"length_ratio={self.length_ratio} must lie in [1, 10]")


@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes of a recurrent encoder-decoder: `sutskever`, `bahdanau` and `gnmt` have their papers' values.

    Attributes:
        num_layers: of either stack.
        d_model: of embeddings, of every state, and of the attention's inner layer.
        cell: Elman's plain one, the gated one of Cho et al., or the LSTM.
        attention: to the source, additive. "bahdanau": from the first decoder layer's state before it reads a piece,
            and part of what it reads. "gnmt": from its state after that, for the layers above it, of which there must
            be one.
        bidirectional: the first encoder layer reads both ways.
        reversed_source: the encoder reads the source backwards.
        residual_from: the first layer of either stack, counted from 1, whose input is added to its output.
    """

    vocab_size: int
    num_layers: int = 4
    d_model: int = 1000
    cell: Cell = "lstm"
    attention: RecurrentAttention = "none"
    bidirectional: bool = False
    reversed_source: bool = False
    residual_from: int | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require_sizes(self, "vocab_size", "num_layers", "d_model")
        _require_one_of("cell", self.cell, Cell)
        _require_one_of("attention", self.attention, RecurrentAttention)
        require(
            self.attention != "gnmt" or self.num_layers >= 2,
            "attention='gnmt' feeds the decoder layers above the first, and num_layers=1 has none; use 'bahdanau'",
        )
        first = self.residual_from
        require(
            first is None or 2 <= first <= self.num_layers,
            f"residual_from={first} must lie between 2 and num_layers={self.num_layers}, or be None",
        )
        require(
            not (self.bidirectional and first == 2),
            "residual_from=2 adds the two directions of the first encoder layer to one; with bidirectional use 3",
        )

    @property
    def memory_width(self) -> int:
        """Numbers in the encoder's output for each source piece."""
        return 2 * self.d_model if self.bidirectional and self.num_layers == 1 else self.d_model

    @classmethod
    def sutskever(cls, vocab_size: int, **changes: Any) -> RecurrentConfig:
        """Sutskever et al. 2014: 4 layers of 1000 LSTM cells, the source read backwards, its last states handed on."""
        return cls(vocab_size, **{"num_layers": 4, "d_model": 1000, "reversed_source": True} | changes)

    @classmethod
    def bahdanau(cls, vocab_size: int, **changes: Any) -> RecurrentConfig:
        """Bahdanau et al. 2014 (RNNsearch): one layer of 1000 gated units, both ways in the encoder.

        Theirs are embeddings of 620 and a maxout layer of 500; here both are `d_model`.
        """
        sizes = {"num_layers": 1, "d_model": 1000, "cell": "gru", "attention": "bahdanau", "bidirectional": True}
        return cls(vocab_size, **sizes | changes)

    @classmethod
    def gnmt(cls, vocab_size: int, **changes: Any) -> RecurrentConfig:
        """Wu et al. 2016: 8 layers of 1024 LSTM cells, residual connections from the third, dropout 0.2 (EN-DE 0.3)."""
        sizes = {"num_layers": 8, "d_model": 1024, "attention": "gnmt", "bidirectional": True, "residual_from": 3}
        return cls(vocab_size, **sizes | {"dropout": 0.2} | changes)


@dataclass(frozen=True)
class FeedForwardConfig:
    """Sizes of a feed-forward network over word vectors, a labeller.

    Attributes:
        word_vectors: "pooled": a piece's vector beside the mean of its sentence's. "concatenated": the vectors of
            `max_pieces` places side by side, of which a shorter sentence leaves the last ones empty.
        max_pieces: places, the end symbol's included; only concatenated vectors have a limit.
        d_ff, num_layers: of the hidden layers.
    """

    vocab_size: int
    word_vectors: WordVectors
    d_model: int
    d_ff: int
    num_layers: int = 1
    max_pieces: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require_sizes(self, "vocab_size", "d_model", "d_ff", "num_layers", "max_pieces")
        _require_one_of("word_vectors", self.word_vectors, WordVectors)


@dataclass(frozen=True)
class RecurrentLabellerConfig:
    """Sizes of a recurrent network that answers each piece as it reads it (Elman 1990), a labeller."""

    vocab_size: int
    d_model: int
    num_layers: int = 1
    cell: Cell = "elman"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require_sizes(self, "vocab_size", "d_model", "num_layers")
        _require_one_of("cell", self.cell, Cell)


@dataclass(frozen=True)
class MemoryNetworkConfig:
    """Sizes of an end-to-end memory network (Sukhbaatar et al. 2015), a labeller.

    Attributes:
        num_hops: how often it looks at its memory; the paper's language models have 5 to 7.
        memory_size: the newest pieces that it can see; the paper's language models have 100 or 150.
    """

    vocab_size: int
    d_model: int
    num_hops: int = 3
    memory_size: int = 100
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require_sizes(self, "vocab_size", "d_model", "num_hops", "memory_size")


LabellerConfig = FeedForwardConfig | RecurrentLabellerConfig | MemoryNetworkConfig
"""The sizes of what gives one output for each input piece, or one for the whole sentence, and no other number."""

ArchitectureConfig = (
    ModelConfig | RecurrentConfig | ConvS2SConfig | ByteNetConfig | ExtendedNeuralGPUConfig | LabellerConfig
)
"""The sizes of any architecture. All have `vocab_size`, `d_model` and `dropout`."""

ARCHITECTURES: dict[str, type[ArchitectureConfig]] = {
    "transformer": ModelConfig,
    "convs2s": ConvS2SConfig,
    "bytenet": ByteNetConfig,
    "extended_neural_gpu": ExtendedNeuralGPUConfig,
    "recurrent": RecurrentConfig,
    "feed_forward": FeedForwardConfig,
    "recurrent_labeller": RecurrentLabellerConfig,
    "memory_network": MemoryNetworkConfig,
}


def architecture_name(config: ArchitectureConfig) -> str:
    """The name of a configuration's architecture."""
    return next(name for name, kind in ARCHITECTURES.items() if type(config) is kind)


def architecture_to_dict(config: ArchitectureConfig) -> dict[str, Any]:
    """The sizes and the architecture's name, ready for JSON; `architecture_from_dict` is the inverse."""
    return {"architecture": architecture_name(config), **asdict(config)}


def architecture_from_dict(values: dict[str, Any]) -> ArchitectureConfig:
    """Sizes written by `architecture_to_dict`; unknown or missing names raise TypeError.

    Raises:
        ValueError: an architecture that is not known here.
    """
    sizes = dict(values)
    name = sizes.pop("architecture")
    if name not in ARCHITECTURES:
        raise ValueError(f"architecture {name!r} is not known here; known: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name](**sizes)
