"""Cross-entropy with label smoothing (section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from core import cpu


@dataclass(frozen=True)
class LossSums:
    """Sums over target pieces, not means: the caller divides by the whole update's pieces.

    `smoothed` is what training minimises; `nll` is plain cross-entropy in nats, whose mean gives the perplexity.
    """

    smoothed: Tensor
    nll: Tensor


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float) -> LossSums:
    """Sum of -sum_v q(v) log p(v) with q = (1 - eps) * one_hot + eps / V: the uniform form over all V pieces.

    That is Szegedy et al.'s form, which the paper cites, and torch's; the first public code spread eps over the V - 1
    wrong pieces instead. With V = 37,000 and eps = 0.1 the least reachable mean is 1.376913 here, 1.376948 there.

    Args:
        logits: (n, V) for real target positions only; padding is left out before the vocabulary product.
        targets: (n,) int64.
        label_smoothing: eps in [0, 1).

    Returns:
        LossSums of scalars in float32 or wider; zero, and not NaN, when n = 0.
    """
    sums, _ = _sums_and_log_probs(logits, targets, label_smoothing)
    return LossSums(sums.smoothed, sums.nll.detach())


def projected_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, label_smoothing: float) -> LossSums:
    """`smoothed_cross_entropy(hidden @ weight.T, ...)`, but the (n, V) logits never exist as a whole.

    The vocabulary product, the loss and both gradients are made slice by slice while a slice lies in the cache, so a
    backward pass finds its gradients ready. Equal to the plain form, which the tests hold it against.

    Args:
        hidden: (n, d_model) at real target positions.
        weight: (V, d_model), the shared embedding.
        targets: (n,) int64.
    """
    if not torch.is_grad_enabled():
        # Inside an autograd function a parameter asks for its gradient even here: two products out of three in vain.
        hidden, weight = hidden.detach(), weight.detach()
    return LossSums(*_ProjectedCrossEntropy.apply(hidden, weight, targets, label_smoothing, cpu.product_type(hidden)))


# Numbers in one slice of logits. On a CPU 4 MiB of float32, which a cache holds; elsewhere as much as memory allows
# without notice, since each slice reads and writes the whole gradient of the vocabulary matrix. For that reason no
# slice has fewer rows than 256: with 28 (V = 37,000 in 4 MiB) the three products take twice as long.
_SLICE_NUMBERS_CPU, _SLICE_NUMBERS_ELSEWHERE = 2**20, 2**28
_FEWEST_ROWS = 256


def _slice_rows(vocab_size: int, device: torch.device) -> int:
    numbers = _SLICE_NUMBERS_CPU if device.type == "cpu" else _SLICE_NUMBERS_ELSEWHERE
    return max(_FEWEST_ROWS, numbers // vocab_size)


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    @cpu.in_own_types
    def forward(
        ctx, hidden: Tensor, weight: Tensor, targets: Tensor, label_smoothing: float, kind: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        ctx.types = hidden.dtype, weight.dtype
        hidden, weight = hidden.to(kind), weight.to(kind)
        wide = torch.float64 if kind == torch.float64 else torch.float32
        smoothed, nll = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
        grad_hidden = torch.empty_like(hidden, dtype=wide) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=wide) if needs_weight else None
        rows = _slice_rows(weight.size(0), hidden.device)
        for start in range(0, hidden.size(0), rows):
            part = slice(start, start + rows)
            x, piece = hidden[part], targets[part].unsqueeze(-1)
            # z = logits - max, so that exp(z) is at most 1 and log p = z - log sum exp(z).
            z = cpu.times_transposed(x, weight).to(wide)
            z.sub_(z.amax(dim=-1, keepdim=True))
            z_target, z_sum = z.gather(-1, piece).sum(), z.sum()
            exp_z = z.exp_()
            normaliser = exp_z.sum(dim=-1, keepdim=True)  # (rows, 1)
            log_normaliser = normaliser.log().sum()
            part_nll = log_normaliser - z_target
            nll += part_nll
            smoothed += (1.0 - label_smoothing) * part_nll
            smoothed += label_smoothing * (log_normaliser - z_sum / weight.size(0))
            if not (needs_hidden or needs_weight):
                continue
            # d loss / d logits = p - q, here times the row's normaliser: to divide the products touches less.
            scaled = exp_z.sub_(normaliser * (label_smoothing / weight.size(0)))
            scaled = scaled.scatter_add_(-1, piece, normaliser * (label_smoothing - 1.0)).to(kind)
            if needs_hidden:
                torch.div(cpu.times(scaled, weight), normaliser, out=grad_hidden[part])
            if needs_weight:
                _add_transposed_product(grad_weight, scaled, (x / normaliser).to(kind))
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_smoothed: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        grads = (
            None if grad is None else (grad * grad_smoothed).to(kind)
            for grad, kind in zip(ctx.saved_tensors, ctx.types, strict=True)
        )
        return *grads, None, None, None


def _add_transposed_product(total: Tensor, grad: Tensor, x: Tensor) -> None:
    """total (V, d) += grad (n, V).T @ x (n, d)."""
    if total.dtype == x.dtype and not cpu.through_onednn(x, grad.size(1)):
        total.addmm_(grad.t(), x)
    else:
        total += cpu.transposed_times(grad, x)


def _sums_and_log_probs(logits: Tensor, targets: Tensor, label_smoothing: float) -> tuple[LossSums, Tensor]:
    log_probs = torch.log_softmax(_at_least_float32(logits), dim=-1)
    nll = -log_probs.gather(-1, targets.unsqueeze(-1)).sum()
    uniform = -log_probs.sum() / log_probs.size(-1)
    return LossSums((1.0 - label_smoothing) * nll + label_smoothing * uniform, nll), log_probs


def _at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
