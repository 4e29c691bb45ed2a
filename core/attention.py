"""Scaled dot-product attention (Eq. 1) and multi-head attention (section 3.2).

Shapes: B batch, H heads, T query positions, S key positions.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from core import cpu
from core.packing import AttentionPlan, Cells

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # a torch before 2.10
    varlen_attn = None


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Weighted sum of values, and the weights (Eq. 1, section 3.2.1).

    Args:
        query: (B, H, T, d_k) float.
        key: (B, H, S, d_k) float.
        value: (B, H, S, d_v) float.
        mask: bool, broadcastable to (B, H, T, S); True = may attend. A row without any True is the caller's error:
            its weights are spread evenly over all S keys, so that nothing downstream becomes NaN.
        dropout: share of the weights that is set to zero, the rest scaled up.

    Returns:
        output (B, H, T, d_v) in the dtype of `value`, and weights (B, H, T, S) in float32 or wider, before dropout:
        they sum to 1 over S. The softmax is never taken in half precision.

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
    kept = nn.functional.dropout(weights, dropout) if dropout else weights
    return torch.matmul(kept.to(value.dtype), value), weights


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


RowsPath = Literal["explicit", "variable_length", "sdpa"]


def rows_path(rows: Tensor, d_k: int, d_v: int) -> RowsPath:
    """How packed rows attend on the device where they are: the one place where that is chosen.

    "explicit": `core.cpu.attention`, products and softmax of groups, in three types. On a CPU, where sentences are
        short, the fused kernel takes three times as long.
    "variable_length": torch's flash kernel over rows as they are; on NVIDIA GPUs, in half precision.
    "sdpa": torch's fused attention over padded cells; everywhere.
    """
    if cpu.handles(rows):
        return "explicit"
    if rows.device.type == "cuda" and rows.dtype in (torch.float16, torch.bfloat16) and d_k == d_v and varlen_attn:
        return "variable_length"
    return "sdpa"


class _TakeCells(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, cells: Cells) -> Tensor:
        ctx.cells = cells
        return cells.take(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.cells.put(grad), None


class _PutCells(torch.autograd.Function):
    @staticmethod
    def forward(ctx, memory: Tensor, cells: Cells) -> Tensor:
        ctx.cells = cells
        return cells.put(memory)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.cells.take_gradient(grad), None


def sdpa_over_rows(
    queries: Tensor,
    keys: Tensor | None,
    plan: AttentionPlan,
    num_heads: int,
    d_k: int,
    d_v: int,
    dropout: float = 0.0,
) -> Tensor:
    """`core.cpu.attention` by torch's fused kernel over the groups' rectangles, on any device; with dropout on the
    weights where that is asked for.
    """
    if keys is None:
        query_cells = plan.cells("queries", num_heads, (d_k, d_k, d_v))
        query, key, value = query_cells.parts(_TakeCells.apply(queries, query_cells))
    else:
        query_cells, key_cells = plan.cells("queries", num_heads, (d_k,)), plan.cells("keys", num_heads, (d_k, d_v))
        (query,) = query_cells.parts(_TakeCells.apply(queries, query_cells))
        key, value = key_cells.parts(_TakeCells.apply(keys, key_cells))
    query_sizes = [g.num_sentences * num_heads * g.num_queries for g in plan.groups]
    key_sizes = [g.num_sentences * num_heads * g.num_keys for g in plan.groups]
    outputs = []
    for group, q, k, v in zip(
        plan.groups, query.split(query_sizes), key.split(key_sizes), value.split(key_sizes), strict=True
    ):
        q, k, v = (x.view(group.num_sentences, num_heads, -1, x.size(-1)) for x in (q, k, v))
        mask = None if plan.causal or group.barred is None else group.barred == 0.0
        attended = nn.functional.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=plan.causal)
        outputs.append(attended.flatten(0, 2))
    output_cells = plan.cells("queries", num_heads, (d_v,))
    return _PutCells.apply(torch.cat(outputs), output_cells)


def variable_length_over_rows(
    queries: Tensor, keys: Tensor | None, plan: AttentionPlan, num_heads: int, d_k: int, d_v: int
) -> Tensor:
    """`core.cpu.attention` by torch's variable-length flash kernel: half precision, on an NVIDIA GPU, d_k = d_v."""
    if keys is None:
        query, key, value = queries.view(-1, 3, num_heads, d_k).unbind(1)
    else:
        query = queries.view(-1, num_heads, d_k)
        key, value = keys.view(-1, 2, num_heads, d_k).unbind(1)
    query_bounds, key_bounds = plan.bounds
    longest = [int(packing.lengths.max()) for packing in (plan.queries, plan.keys)]
    window = (-1, 0) if plan.causal else (-1, -1)
    return varlen_attn(query, key, value, query_bounds, key_bounds, *longest, window_size=window).flatten(1)


_OVER_ROWS = {
    "explicit": cpu.attention,
    "variable_length": variable_length_over_rows,
    "sdpa": sdpa_over_rows,
}


def attend_over_rows(
    queries: Tensor,
    keys: Tensor | None,
    plan: AttentionPlan,
    num_heads: int,
    d_k: int,
    d_v: int,
    dropout: float = 0.0,
) -> Tensor:
    """Eq. 1 over packed rows, as `core.cpu.attention` takes and gives them, by the way that suits the device.

    Only torch's kernel drops weights: what the base model does not need, its own ways do not have.
    """
    if dropout:
        return sdpa_over_rows(queries, keys, plan, num_heads, d_k, d_v, dropout)
    return _OVER_ROWS[rows_path(queries, d_k, d_v)](queries, keys, plan, num_heads, d_k, d_v)


class MultiHeadAttention(nn.Module):
    """h parallel attentions over learned projections, concatenated and projected back (section 3.2.2).

    The paper's W^Q, W^K, W^V of all heads are stacked into one matrix each; W^O maps h * d_v back to d_model.
    No biases, as in the paper's equations. No dropout on the weights: section 5.4 names none.
    """

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads, self.d_k, self.d_v = num_heads, d_k, d_v
        # DEPARTURE(5.4): attention_dropout drops attention weights in training, because section 6.3 speaks of "dropout,
        # both attention and residual (section 5.4)", and 5.4 has none on attention. 0, no dropout, in every other row.
        self.dropout = dropout
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
        queries = self._split_heads(self.query(x))
        attended, weights = scaled_dot_product_attention(queries, keys, values, mask, self._dropout_now)
        return self._merge_heads(attended), weights

    def forward(self, x: Tensor, memory: Tensor, who: Tensor | AttentionPlan | None) -> Tensor:
        """Attend from `x` over `memory`.

        Args:
            x: (B, T, d_model) padded, or (n, d_model) packed rows.
            memory: (B, S, d_model), or (n', d_model); the same tensor as `x` for self-attention.
            who: who may attend to whom: a mask as in `attend`, or the plan of packed rows.

        Returns:
            The shape of `x`.
        """
        if isinstance(who, AttentionPlan):
            return self._over_rows(x, memory, who)
        return self.attend(x, *self.project_memory(memory), who)[0]

    def _over_rows(self, x: Tensor, memory: Tensor, plan: AttentionPlan) -> Tensor:
        linear = cpu.linear if cpu.handles(x) else _side_by_side
        if memory is x:
            queries, keys = linear(x, self.query.weight, self.key.weight, self.value.weight), None
        else:
            queries, keys = linear(x, self.query.weight), linear(memory, self.key.weight, self.value.weight)
        attended = attend_over_rows(queries, keys, plan, self.num_heads, self.d_k, self.d_v, self._dropout_now)
        return linear(attended, self.output.weight)

    @property
    def _dropout_now(self) -> float:
        return self.dropout if self.training else 0.0

    def _merge_heads(self, attended: Tensor) -> Tensor:
        # (B, H, T, d_v) -> (B, T, H * d_v) -> (B, T, d_model)
        return self.output(attended.transpose(1, 2).flatten(2))

    def _split_heads(self, projected: Tensor) -> Tensor:
        # (B, L, H * d) -> (B, H, L, d)
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def _side_by_side(x: Tensor, *weights: Tensor) -> Tensor:
    """The plain form of `core.cpu.linear`."""
    return nn.functional.linear(x, torch.cat(weights))
