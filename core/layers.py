"""The parts around attention: feed-forward (3.3), embeddings (3.4), positions (3.5), residual and norm (3.1)."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core import cpu


class Dropout(nn.Module):
    """Sets each number to zero with probability `rate` and scales the rest so that the mean stays (section 5.4).

    On a CPU the masks are cheaper ones than torch's (`core.cpu.draw_kept`). Elsewhere it is torch's.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; returns the same. The identity in eval mode."""
        if not self.training or self.rate == 0.0:
            return x
        return cpu.dropout(x, self.rate) if x.device.type == "cpu" else nn.functional.dropout(x, self.rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, the same at every position (Eq. 2, section 3.3)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) -> (..., d_model)."""
        if cpu.handles(x):
            return cpu.feed_forward(x, self.inner.weight, self.inner.bias, self.outer.weight, self.outer.bias)
        return self.outer(torch.relu(self.inner(x)))


class ResidualNorm(nn.Module):
    """LayerNorm(x + Dropout(sublayer output)): post-norm, the paper's order (sections 3.1 and 5.4).

    The epsilon is torch's 1e-5; the paper states none.
    """

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Both (..., d_model); returns the same shape."""
        if cpu.handles(x):
            rate = self.dropout.rate if self.training else 0.0
            return cpu.residual_norm(x, sublayer_output, self.norm.weight, self.norm.bias, self.norm.eps, rate)
        return self.norm(x + self.dropout(sublayer_output))


class Embedding(nn.Module):
    """One matrix for source, target and the projection before the softmax (section 3.4).

    Looked-up vectors are multiplied by sqrt(d_model); rows start as N(0, 1 / d_model), so that the scaled vectors have
    unit variance and the first logits are of order one.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))

    def forward(self, pieces: Tensor) -> Tensor:
        """Piece ids (...) int64 -> scaled vectors (..., d_model)."""
        return nn.functional.embedding(pieces, self.weight) * self.scale

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., d_model) -> unnormalised scores (..., vocab_size). Not scaled, and without a bias."""
        return nn.functional.linear(hidden, self.weight)


def sinusoid(num_positions: int, d_model: int, start: int = 0) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same (section 3.5).

    Sines and cosines interleave, as the formula says; the first public code put them in two halves and divided by
    d_model / 2 - 1, which differs by up to 0.072.

    Returns:
        (num_positions, d_model) float64, for positions start .. start + num_positions - 1.
    """
    position = torch.arange(start, start + num_positions, dtype=torch.float64).unsqueeze(1)
    wavelength_exponent = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    angle = position / 10_000.0**wavelength_exponent  # (num_positions, d_model / 2)
    return torch.stack((torch.sin(angle), torch.cos(angle)), dim=-1).flatten(1)


class SinusoidPositions(nn.Module):
    """Adds the sinusoid to embeddings (section 3.5). No parameters, and no longest sentence."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        # A cache of the first positions, made again when a longer sentence comes; not part of a checkpoint.
        self.register_buffer("table", torch.empty(0, d_model), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x (B, L, d_model), its first column at position `start`; returns x + PE, the same shape."""
        end = start + x.size(1)
        return x + self._rows(end, x)[start:end]

    def add_at(self, x: Tensor, positions: NDArray[np.int64]) -> Tensor:
        """x (n, d_model), row i at positions[i]; returns x + PE, the same shape."""
        return x + self._rows(int(positions.max()) + 1, x)[torch.from_numpy(positions).to(x.device)]

    def _rows(self, num: int, like: Tensor) -> Tensor:
        """The table, with `num` rows at least, in the type and on the device of `like`."""
        table = self.table  # another thread may make `self.table` anew meanwhile
        if table.size(0) < num or table.dtype != like.dtype or table.device != like.device:
            table = self.table = sinusoid(max(256, 2 * num), self.d_model).to(device=like.device, dtype=like.dtype)
        return table


class LearnedPositions(nn.Module):
    """Adds a learned vector for each position (Table 3, row E)."""

    def __init__(self, num_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_positions, d_model))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x (B, L, d_model), its first column at position `start`; returns the same shape.

        Raises:
            ValueError: a position beyond the table; it is refused, never cropped.
        """
        end = start + x.size(1)
        self._require(end)
        return x + self.weight[start:end]

    def add_at(self, x: Tensor, positions: NDArray[np.int64]) -> Tensor:
        """x (n, d_model), row i at positions[i]; returns the same shape. Raises as `forward` does."""
        self._require(int(positions.max()) + 1)
        return x + nn.functional.embedding(torch.from_numpy(positions).to(x.device), self.weight)

    def _require(self, num: int) -> None:
        if num > self.weight.size(0):
            raise ValueError(
                f"position {num - 1} lies beyond the {self.weight.size(0)} learned positions; "
                "train with a larger max_learned_positions or use sinusoidal positions"
            )
