"""The sizes of every architecture as frozen dataclasses: the Transformer's, and of what the paper sets it against.

Each class is one architecture; `ARCHITECTURES` gives it the name that a stored configuration has under "architecture".
This module imports neither torch nor ray; `core.architectures` builds the models.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Positions = Literal["sinusoid", "learned"]


def require(condition: bool, message: str) -> None:
    """Refuse a configuration that cannot be meant.

    Raises:
        ValueError: with `message`, where `condition` does not hold.
    """
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
            require(isinstance(value, int) and value >= 1, f"{name}={value} must be a whole number of at least 1")
        require(0.0 <= self.dropout < 1.0, f"dropout={self.dropout} must lie in [0, 1)")
        known = ("sinusoid", "learned")
        require(self.positions in known, f"positions={self.positions!r} must be 'sinusoid' or 'learned'")
        require(
            self.positions == "learned" or self.d_model % 2 == 0,
            f"d_model={self.d_model} is odd; sinusoidal positions come in pairs of sine and cosine (3.5)",
        )

    def with_heads(self, num_heads: int) -> ModelConfig:
        """Another number of heads at constant computation (Table 3, row A): d_k = d_v = d_model / h."""
        remainder = self.d_model % num_heads
        require(
            remainder == 0,
            f"num_heads={num_heads} does not divide d_model={self.d_model} (remainder {remainder}); "
            "set d_k and d_v explicitly",
        )
        return replace(self, num_heads=num_heads, d_k=self.d_model // num_heads, d_v=self.d_model // num_heads)


ArchitectureConfig = ModelConfig
"""The sizes of any architecture. All have `vocab_size`, `d_model` and `dropout`."""

ARCHITECTURES: dict[str, type[ArchitectureConfig]] = {"transformer": ModelConfig}


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
