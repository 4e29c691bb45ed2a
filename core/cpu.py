"""What a CPU does faster by hand than through autograd over plain operations, for packed rows (n, d).

Each function has a plain form in `core.layers` or `core.attention`, which the tests hold it against; `handles` says
when these are used instead. What they save (one core, 4,096 tokens, d_model 128): relu and biases cost nothing inside
oneDNN's product, a dropout mask costs a fifth of torch's, and attention over short sentences a third of the fused
kernel's, gradients included.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from core.packing import AttentionPlan


def handles(rows: Tensor) -> bool:
    """Whether these paths are for such rows: packed, on a CPU."""
    return rows.dim() == 2 and rows.device.type == "cpu"


# --- products


def product_type(x: Tensor) -> torch.dtype:
    """The type that products of `x` are made in: that of autocast where it is on, else that of `x`."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def in_own_types(function: Callable) -> Callable:
    """For the passes of an autograd function that chooses its types itself: autocast is off inside."""

    @functools.wraps(function)
    def wrapped(ctx, *args):
        kind = args[0].device.type
        if not torch.is_autocast_enabled(kind):
            return function(ctx, *args)
        with torch.autocast(kind, enabled=False):
            return function(ctx, *args)

    return wrapped


@functools.cache
def mkl_is_slow() -> bool:
    """Whether torch's float32 products, which are MKL's, stay below the processor's rate and oneDNN's do not.

    MKL keeps to AVX2 on processors of another maker; with AVX-512 oneDNN is then nearly twice as fast. On Intel's, and
    on those without AVX-512, the two are level.
    """
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        return "GenuineIntel" not in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


# For each new shape oneDNN makes code, which takes 0.3 to 1.5 ms, and in training nearly every shape is new. Products
# of fewer multiplications than this take less time than that.
_FEWEST_MULTIPLICATIONS = 2**25


def prefers_onednn(x: Tensor) -> bool:
    """Whether float32 products with `x` are oneDNN's wherever their shapes come again."""
    return x.dtype == torch.float32 and x.device.type == "cpu" and mkl_is_slow()


def through_onednn(x: Tensor, outputs: int) -> bool:
    """Whether the product of `x` (n, i) that makes (n, outputs) is oneDNN's."""
    return prefers_onednn(x) and _is_large(x, outputs)


def _is_large(x: Tensor, outputs: int) -> bool:
    return x.numel() * outputs >= _FEWEST_MULTIPLICATIONS


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """x (n, i) @ weight (o, i).T + bias, and relu; one call of oneDNN that touches the result once."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "relu" if relu else "none", [], "")


def times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x (n, i) @ weight (o, i).T."""
    return _onednn(x, weight) if through_onednn(x, weight.size(0)) else torch.mm(x, weight.t())


def times(grad: Tensor, weight: Tensor) -> Tensor:
    """grad (n, o) @ weight (o, i): the gradient of a product's input."""
    return _onednn(grad, weight.t()) if through_onednn(grad, weight.size(1)) else torch.mm(grad, weight)


def transposed_times(grad: Tensor, x: Tensor) -> Tensor:
    """grad (n, o).T @ x (n, i): the gradient of a product's weight, (o, i)."""
    if not through_onednn(grad, x.size(1)):
        return torch.mm(grad.t(), x)
    # oneDNN's call copies its first operand into rows, so that is the narrower one.
    if grad.size(1) <= x.size(1):
        return _onednn(grad.t(), x.t())
    return _onednn(x.t(), grad.t()).t().contiguous()


def _affine(x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """x @ weight.T + bias, with relu where asked for."""
    if _fuses(x, weight.size(0)):
        return _onednn(x, weight, bias, relu)
    out = torch.addmm(bias, x, weight.t())
    return out.relu_() if relu else out


def _fuses(x: Tensor, outputs: int) -> bool:
    """Whether oneDNN makes this product at no loss, so that bias and relu cost nothing.

    In bfloat16 all products are its own, on processors for which it has them.
    """
    if not torch.backends.mkldnn.is_available():
        return False
    if x.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return x.dtype == torch.float32 and _is_large(x, outputs)


def _column_sums(grad: Tensor) -> Tensor:
    """(n, o) -> (o,): the gradient of a bias; as a product, which torch does faster than a sum over rows."""
    if grad.dtype == torch.bfloat16:
        return grad.sum(0, dtype=torch.float32)
    return torch.mv(grad.t(), grad.new_ones(()).expand(grad.size(0)).contiguous())


class _Linear(torch.autograd.Function):
    @staticmethod
    @in_own_types
    def forward(ctx, x: Tensor, weight: Tensor, kind: torch.dtype) -> Tensor:
        ctx.types = x.dtype, weight.dtype
        x, weight = x.to(kind), weight.to(kind)
        ctx.save_for_backward(x, weight)
        return times_transposed(x, weight)

    @staticmethod
    @once_differentiable
    @in_own_types
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        return times(grad, weight).to(ctx.types[0]), transposed_times(grad, x).to(ctx.types[1]), None


def linear(x: Tensor, *weights: Tensor) -> Tensor:
    """x (n, i) -> (n, o1 + o2 + ...), the products with (o1, i), (o2, i), ... side by side, made as one."""
    return _Linear.apply(x, weights[0] if len(weights) == 1 else torch.cat(weights), product_type(x))


class _Affine(torch.autograd.Function):
    @staticmethod
    @in_own_types
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, kind: torch.dtype) -> Tensor:
        ctx.types = x.dtype, weight.dtype, bias.dtype
        x, weight, bias = x.to(kind), weight.to(kind), bias.to(kind)
        ctx.save_for_backward(x, weight)
        return _affine(x, weight, bias, relu=False)

    @staticmethod
    @once_differentiable
    @in_own_types
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grads = times(grad, weight), transposed_times(grad, x), _column_sums(grad)
        return *(g.to(kind) for g, kind in zip(grads, ctx.types, strict=True)), None


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (n, i) @ weight (o, i).T + bias (o,) -> (n, o)."""
    return _Affine.apply(x, weight, bias, product_type(x))


class _FeedForward(torch.autograd.Function):
    @staticmethod
    @in_own_types
    def forward(ctx, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, kind: torch.dtype) -> Tensor:
        ctx.types = tuple(tensor.dtype for tensor in (x, w1, b1, w2, b2))
        x, w1, b1, w2, b2 = (tensor.to(kind) for tensor in (x, w1, b1, w2, b2))
        inner = _affine(x, w1, b1, relu=True)
        ctx.save_for_backward(x, inner, w1, w2)
        return _affine(inner, w2, b2, relu=False)

    @staticmethod
    @once_differentiable
    @in_own_types
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, inner, w1, w2 = ctx.saved_tensors
        grad_inner = times(grad, w2)
        torch.ops.aten.threshold_backward.grad_input(grad_inner, inner, 0, grad_input=grad_inner)
        grads = (
            times(grad_inner, w1),
            transposed_times(grad_inner, x),
            _column_sums(grad_inner),
            transposed_times(grad, inner),
            _column_sums(grad),
        )
        return *(g.to(kind) for g, kind in zip(grads, ctx.types, strict=True)), None


def feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """max(0, x w1.T + b1) w2.T + b2 (Eq. 2): x (n, d_model), w1 (d_ff, d_model), w2 (d_model, d_ff)."""
    return _FeedForward.apply(x, w1, b1, w2, b2, product_type(x))


# --- dropout, residual and norm


def dropped_patterns(rate: float) -> int:
    """How many of 65,536 equally likely patterns of 16 bits drop a number: `rate` is met to 1 / 65536."""
    return round(rate * 65_536)


def draw_kept(shape: torch.Size, rate: float) -> Tensor:
    """int16, 1 where a number is kept and 0 where it is dropped.

    16 random bits decide over each number, four numbers to a draw from torch's generator, where torch's own dropout
    spends a draw on each.
    """
    num, dropped = shape.numel(), dropped_patterns(rate)
    bits = torch.empty((num + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    # Whole numbers cut to two neighbours: torch compares much more slowly.
    first_kept = dropped - 32_768
    return bits.view(torch.int16)[:num].view(shape).clamp_(first_kept - 1, first_kept).sub_(first_kept - 1)


def kept_scale(rate: float) -> float:
    """What kept numbers are multiplied by, so that the mean stays: it follows the rate that is applied."""
    return 65_536 / (65_536 - dropped_patterns(rate))


class _Dropout(torch.autograd.Function):
    @staticmethod
    @in_own_types
    def forward(ctx, x: Tensor, rate: float) -> Tensor:
        kept = draw_kept(x.shape, rate)
        ctx.save_for_backward(kept)
        ctx.scale = kept_scale(rate)
        return kept.to(x.dtype).mul_(x).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    @in_own_types
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return kept.to(grad.dtype).mul_(grad).mul_(ctx.scale), None


def dropout(x: Tensor, rate: float) -> Tensor:
    """Zero with probability `rate`, else scaled; any shape. `rate` is above 0."""
    return _Dropout.apply(x, rate)


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    @in_own_types
    def forward(ctx, x: Tensor, branch: Tensor, weight: Tensor, bias: Tensor, eps: float, rate: float) -> Tensor:
        ctx.branch_type, ctx.scale = branch.dtype, kept_scale(rate)
        if rate > 0.0:
            kept = draw_kept(x.shape, rate)
            total = torch.addcmul(x, branch.to(x.dtype), kept.to(x.dtype), value=ctx.scale)
        else:
            kept, total = None, x + branch.to(x.dtype)
        out, mean, rstd = torch.native_layer_norm(total, [x.size(-1)], weight, bias, eps)
        ctx.save_for_backward(total, mean, rstd, weight, bias, kept)
        return out

    @staticmethod
    @once_differentiable
    @in_own_types
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, mean, rstd, weight, bias, kept = ctx.saved_tensors
        grad, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
            grad.contiguous(), total, [total.size(-1)], mean, rstd, weight, bias, [True, True, True]
        )
        if kept is None:
            grad_branch = grad.to(ctx.branch_type)
        else:
            grad_branch = kept.to(grad.dtype).mul_(grad).mul_(ctx.scale).to(ctx.branch_type)
        return grad, grad_branch, grad_weight, grad_bias, None, None


def residual_norm(x: Tensor, branch: Tensor, weight: Tensor, bias: Tensor, eps: float, rate: float) -> Tensor:
    """LayerNorm(x + Dropout(branch)); both (n, d_model), the norm in the type of `x`."""
    return _ResidualNorm.apply(x, branch, weight, bias, eps, rate)


# --- attention


class _Attention(torch.autograd.Function):
    """Eq. 1 over groups of sentences, with its gradient written down; scores and softmax in float32 or wider.

    Heads and sentences of a group are one batch axis, so each product is a single batched one over contiguous numbers,
    and nothing but the cells and the weights is kept between the passes.
    """

    @staticmethod
    @in_own_types
    def forward(ctx, queries: Tensor, keys: Tensor | None, plan: AttentionPlan, sizes: tuple[int, int, int]) -> Tensor:
        num_heads, d_k, d_v = sizes
        own = keys is None
        ctx.plan, ctx.type, ctx.scale = plan, queries.dtype, 1.0 / math.sqrt(d_k)
        ctx.query_cells = plan.cells("queries", num_heads, (d_k, d_k, d_v) if own else (d_k,))
        ctx.key_cells = None if own else plan.cells("keys", num_heads, (d_k, d_v))
        ctx.output_cells = plan.cells("queries", num_heads, (d_v,))
        ctx.num_heads = num_heads

        memory = [_wide(ctx.query_cells.take(queries))]
        if not own:
            memory.append(_wide(ctx.key_cells.take(keys)))
        output = ctx.output_cells.empty(memory[0])
        weights = []
        for group, (query, key, value), out in _Attention._groups(ctx, memory, output):
            scores = query.new_empty(*query.shape[:2], key.size(1))
            if group.barred is None:
                torch.baddbmm(scores, query, key.transpose(1, 2), beta=0.0, alpha=ctx.scale, out=scores)
            else:
                scores.unflatten(0, (group.num_sentences, num_heads)).copy_(group.barred)
                scores.baddbmm_(query, key.transpose(1, 2), alpha=ctx.scale)
            weights.append(torch.softmax(scores, dim=-1))
            torch.bmm(weights[-1], value, out=out)
        ctx.save_for_backward(*weights, *memory)
        return ctx.output_cells.put(output).to(ctx.type)

    @staticmethod
    @once_differentiable
    @in_own_types
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        num_groups = len(ctx.plan.groups)
        weights, memory = ctx.saved_tensors[:num_groups], ctx.saved_tensors[num_groups:]
        grad_output = _wide(ctx.output_cells.take_gradient(grad))
        grad_memory = [torch.empty_like(cells) for cells in memory]
        groups = _Attention._groups(ctx, memory, grad_output)
        grads = _Attention._groups(ctx, grad_memory, grad_output)
        for w, (_, (query, key, value), g), (_, (grad_query, grad_key, grad_value), _) in zip(
            weights, groups, grads, strict=True
        ):
            torch.bmm(w.transpose(1, 2), g, out=grad_value)
            grad_scores = torch._softmax_backward_data(torch.bmm(g, value.transpose(1, 2)), w, -1, w.dtype)
            torch.baddbmm(grad_query, grad_scores, key, beta=0.0, alpha=ctx.scale, out=grad_query)
            torch.baddbmm(grad_key, grad_scores.transpose(1, 2), query, beta=0.0, alpha=ctx.scale, out=grad_key)
        grad_queries = ctx.query_cells.put(grad_memory[0]).to(ctx.type)
        grad_keys = None if ctx.key_cells is None else ctx.key_cells.put(grad_memory[1]).to(ctx.type)
        return grad_queries, grad_keys, None, None

    @staticmethod
    def _groups(ctx, memory, output):
        """For each group: itself, its queries, keys and values (B * H, L, d), and its part of the output."""
        parts = [
            part
            for cells, one in zip((ctx.query_cells, ctx.key_cells), memory, strict=False)
            for part in cells.parts(one)
        ]
        (outputs,) = ctx.output_cells.parts(output)
        query_cell = key_cell = 0
        for group in ctx.plan.groups:
            batch = group.num_sentences * ctx.num_heads
            queries = slice(query_cell, query_cell + batch * group.num_queries)
            keys = slice(key_cell, key_cell + batch * group.num_keys)
            spans = (queries, keys, keys)
            yield (
                group,
                [part[span].view(batch, -1, part.size(1)) for part, span in zip(parts, spans, strict=True)],
                outputs[queries].view(batch, -1, outputs.size(1)),
            )
            query_cell, key_cell = queries.stop, keys.stop


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def attention(queries: Tensor, keys: Tensor | None, plan: AttentionPlan, num_heads: int, d_k: int, d_v: int) -> Tensor:
    """Every head's attention over packed rows.

    Args:
        queries: (n, H * d_k); or, with `keys` None, (n, H * (d_k + d_k + d_v)): queries, keys and values of one side.
        keys: (n', H * (d_k + d_v)), keys and values of the other side.

    Returns:
        (n, H * d_v), in the type of `queries`.
    """
    return _Attention.apply(queries, keys, plan, (num_heads, d_k, d_v))
