"""The attention functions that section 3.2.1 sets against Eq. 1: dot products without scaling, and additive ones.

Shapes: B batch, H heads, T query positions, S key positions.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from core.attention import scaled_dot_product_attention


class AttentionFunction(nn.Module):
    """Queries, keys and values to outputs, over keys of d_k dimensions."""

    def __init__(self, d_k: int) -> None:
        super().__init__()
        self.d_k = d_k

    @abstractmethod
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Attend to all keys.

        Args:
            query: (B, H, T, d_k) float.
            key: (B, H, S, d_k).
            value: (B, H, S, d_v).

        Returns:
            output (B, H, T, d_v) and weights (B, H, T, S), which sum to 1 over S.
        """


class ScaledDotProduct(AttentionFunction):
    """Eq. 1."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """See `AttentionFunction`."""
        return scaled_dot_product_attention(query, key, value)


class DotProduct(AttentionFunction):
    """Eq. 1 without the division by sqrt(d_k)."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """See `AttentionFunction`."""
        return scaled_dot_product_attention(query * math.sqrt(self.d_k), key, value)


class Additive(AttentionFunction):
    """A feed-forward network with one hidden layer scores each pair: w . tanh(q + k) (Bahdanau et al. 2014).

    The hidden layer's matrices are the projections that queries and keys come from; w starts as N(0, 1 / d_k), so that
    scores are of order one.
    """

    def __init__(self, d_k: int) -> None:
        super().__init__(d_k)
        self.score = nn.Parameter(torch.empty(d_k))
        nn.init.normal_(self.score, std=d_k**-0.5)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """See `AttentionFunction`."""
        hidden = torch.tanh(query.unsqueeze(3) + key.unsqueeze(2))  # (B, H, T, S, d_k)
        weights = torch.softmax(hidden @ self.score, dim=-1)
        return weights @ value, weights


ATTENTION_FUNCTIONS: dict[str, type[AttentionFunction]] = {
    "scaled": ScaledDotProduct,
    "unscaled": DotProduct,
    "additive": Additive,
}
