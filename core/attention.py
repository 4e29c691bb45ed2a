"""Scaled dot-product attention (Eq. 1) and multi-head attention (section 3.2).

Shapes: B batch, H heads, T query positions, S key positions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Weighted sum of values, and the weights (Eq. 1, section 3.2.1).

    Args:
        query: (B, H, T, d_k) float.
        key: (B, H, S, d_k) float.
        value: (B, H, S, d_v) float.
        mask: bool, broadcastable to (B, H, T, S); True = may attend. A row without any True is the caller's error:
            its weights are spread evenly over all S keys, so that nothing downstream becomes NaN.

    Returns:
        output (B, H, T, d_v) in the dtype of `value`, and weights (B, H, T, S) in float32 or wider, which sum to 1
        over S. The softmax is never taken in half precision.

    Raises:
        ValueError: query and key differ in d_k.
    """
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"query has d_k={query.size(-1)} and key has d_k={key.size(-1)}; the dot product needs them equal"
        )
    # Scaling the query touches T * d_k numbers; scaling the scores would touch T * S.
    scores = torch.matmul(query * (1.0 / math.sqrt(query.size(-1))), key.transpose(-2, -1))
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if mask is not None:
        # Set, not added: a large negative addend overflows in half precision.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = _softmax_over_keys(scores)
    return torch.matmul(weights.to(value.dtype), value), weights


# Floats in one AVX-512 register. Torch's CPU softmax leaves its vector code for rows shorter than that, and is then
# ten times slower (torch 2.13: 0.30 ms against 0.03 ms for 16,000 numbers in rows of 15 and of 16).
_SHORTEST_FAST_ROW = 16


def _softmax_over_keys(scores: Tensor) -> Tensor:
    """softmax(scores, dim=-1); short rows on a CPU take a detour through rows of 16 whose tail has no weight."""
    num_keys = scores.size(-1)
    if num_keys >= _SHORTEST_FAST_ROW or scores.device.type != "cpu":
        return torch.softmax(scores, dim=-1)
    padded = nn.functional.pad(scores, (0, _SHORTEST_FAST_ROW - num_keys), value=-torch.inf)
    return torch.softmax(padded, dim=-1)[..., :num_keys]


class _Attention(torch.autograd.Function):
    """The output of `scaled_dot_product_attention` alone, with its gradient written down.

    Heads and sentences become one batch axis, so each product is a single batched one over contiguous numbers, and
    nothing but the weights is kept between the passes. Autograd over the plain form copies each operand several times,
    which at a few hundred tokens costs more than the products.
    """

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        batch = query.shape[:2]  # (B, H)
        scale = 1.0 / math.sqrt(query.size(-1))
        query, key, value = (x.flatten(0, 1) for x in (query, key, value))  # (B * H, L, d)
        scores = torch.bmm(query, key.transpose(1, 2)).mul_(scale)
        if mask is not None:
            scores.unflatten(0, batch).masked_fill_(~mask, torch.finfo(scores.dtype).min)
        weights = _softmax_over_keys(scores)
        ctx.save_for_backward(query, key, value, weights)
        ctx.batch, ctx.scale = batch, scale
        return torch.bmm(weights, value).unflatten(0, batch)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, key, value, weights = ctx.saved_tensors
        grad_output = grad_output.flatten(0, 1)
        grad_value = torch.bmm(weights.transpose(1, 2), grad_output)
        grad_weights = torch.bmm(grad_output, value.transpose(1, 2))
        # Through the softmax, row by row: w * (g - sum(w * g)).
        grad_scores = grad_weights.sub_((grad_weights * weights).sum(-1, keepdim=True)).mul_(weights).mul_(ctx.scale)
        grad_query = torch.bmm(grad_scores, key)
        grad_key = torch.bmm(grad_scores.transpose(1, 2), query)
        return *(grad.unflatten(0, ctx.batch) for grad in (grad_query, grad_key, grad_value)), None


class MultiHeadAttention(nn.Module):
    """h parallel attentions over learned projections, concatenated and projected back (section 3.2.2).

    The paper's W^Q, W^K, W^V of all heads are stacked into one matrix each; W^O maps h * d_v back to d_model.
    No biases, as in the paper's equations. No dropout on the weights: section 5.4 names none.
    """

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.key = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.value = nn.Linear(d_model, num_heads * d_v, bias=False)
        self.output = nn.Linear(num_heads * d_v, d_model, bias=False)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, H, S, d_k) and values (B, H, S, d_v) of `memory` (B, S, d_model), to be attended to or kept."""
        return self._split_heads(self.key(memory)), self._split_heads(self.value(memory))

    def attend(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attend from `x` (B, T, d_model) over projected keys and values.

        Args:
            mask: bool, broadcastable to (B, H, T, S); True = may attend; None = all may.

        Returns:
            output (B, T, d_model) and weights (B, H, T, S), one matrix a head, never their mean.
        """
        attended, weights = scaled_dot_product_attention(self._split_heads(self.query(x)), keys, values, mask)
        return self._merge_heads(attended), weights

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from `x` (B, T, d_model) over `memory` (B, S, d_model); returns (B, T, d_model)."""
        query, (keys, values) = self._split_heads(self.query(x)), self.project_memory(memory)
        if x.device.type == "cpu" and query.dtype in (torch.float32, torch.float64):
            return self._merge_heads(_Attention.apply(query, keys, values, mask))
        return self._merge_heads(scaled_dot_product_attention(query, keys, values, mask)[0])

    def _merge_heads(self, attended: Tensor) -> Tensor:
        # (B, H, T, d_v) -> (B, T, H * d_v) -> (B, T, d_model)
        return self.output(attended.transpose(1, 2).flatten(2))

    def _split_heads(self, projected: Tensor) -> Tensor:
        # (B, L, H * d) -> (B, H, L, d)
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
