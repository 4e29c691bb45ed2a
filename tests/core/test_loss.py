from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from core import loss as loss_module
from core.loss import projected_cross_entropy, smoothed_cross_entropy

PAD = 0


def example(n: int, d_model: int, vocab_size: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (n, d), weight (V, d), both float64 that need gradients, and targets (n,)."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n, d_model, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(vocab_size, d_model, generator=generator, dtype=torch.float64).requires_grad_()
    return hidden, weight, torch.randint(vocab_size, (n,), generator=generator)


# --- the plain form


def test_loss_by_hand():
    # p = (3/4, 1/4); q = 0.8 * (1, 0) + 0.2 / 2 = (0.9, 0.1): -0.9 ln 0.75 - 0.1 ln 0.25 = 0.258914 + 0.138629.
    sums = smoothed_cross_entropy(torch.tensor([[math.log(3.0), 0.0]]).double(), torch.tensor([0]), 0.2)
    assert sums.smoothed.item() == pytest.approx(0.397543, abs=5e-7)
    assert sums.nll.item() == pytest.approx(0.287682, abs=5e-7)  # -ln 0.75


def test_losses_are_sums_and_not_means():
    logits = torch.zeros(5, 8)
    sums = smoothed_cross_entropy(logits, torch.arange(5), 0.1)
    assert sums.smoothed.item() == pytest.approx(5 * math.log(8), rel=1e-6)
    assert sums.nll.item() == pytest.approx(5 * math.log(8), rel=1e-6)


@given(st.integers(1, 12), st.integers(2, 9), st.sampled_from([0.0, 0.1, 0.2, 0.9]), st.integers(0, 99))
def test_loss_agrees_with_torchs_where_padding_is_its_ignored_index(n: int, vocab_size: int, eps: float, seed: int):
    """Pitfall C3: what is ignored is not averaged in."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, vocab_size, generator=generator, dtype=torch.float64)
    targets = torch.randint(vocab_size, (n,), generator=generator)  # some of them PAD, or all, or none
    real = targets != PAD
    sums = smoothed_cross_entropy(logits[real], targets[real], eps)
    torchs = nn.functional.cross_entropy(logits, targets, ignore_index=PAD, label_smoothing=eps, reduction="sum")
    plain = nn.functional.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum")
    assert_close(sums.smoothed, torchs, rtol=0.0, atol=1e-12)
    assert_close(sums.nll, plain, rtol=0.0, atol=1e-12)


def test_the_least_loss_at_37_000_pieces_is_that_of_the_uniform_form():
    """Pitfall C2: the mass is spread over all V pieces, and nothing is subtracted."""
    vocab_size, eps = 37_000, 0.1
    q = torch.full((1, vocab_size), eps / vocab_size, dtype=torch.float64)
    q[0, 7] += 1 - eps
    targets = torch.tensor([7])
    least = smoothed_cross_entropy(q.log(), targets, eps).smoothed.item()
    assert least == pytest.approx(1.376913, abs=5e-7)
    # The form that spreads eps over the wrong pieces alone has its least value elsewhere: not this one.
    spread_over_wrong = torch.full((1, vocab_size), eps / (vocab_size - 1), dtype=torch.float64)
    spread_over_wrong[0, 7] = 1 - eps
    assert -(spread_over_wrong * spread_over_wrong.log()).sum().item() == pytest.approx(1.376948, abs=5e-7)
    for other in (spread_over_wrong.log(), (0.9 * q + 0.1 / vocab_size).log(), 1.01 * q.log()):
        assert smoothed_cross_entropy(other, targets, eps).smoothed.item() > least


def test_smoothing_leaves_the_plain_cross_entropy_alone():
    logits, _, targets = example(6, 9, 5)
    values = {smoothed_cross_entropy(logits, targets, eps).nll.item() for eps in (0.0, 0.1, 0.5)}
    assert len(values) == 1
    unsmoothed = smoothed_cross_entropy(logits, targets, 0.0)
    assert unsmoothed.smoothed.item() == pytest.approx(unsmoothed.nll.item(), rel=1e-15)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_summed_in_float32(dtype: torch.dtype):
    logits = torch.randn(2_000, 11).to(dtype)
    targets = torch.randint(11, (2_000,))
    sums = smoothed_cross_entropy(logits, targets, 0.1)
    expected = nn.functional.cross_entropy(logits.double(), targets, label_smoothing=0.1, reduction="sum")
    assert sums.smoothed.dtype == torch.float32
    assert sums.smoothed.item() == pytest.approx(expected.item(), rel=1e-5)


# --- the projected form


def check_projected_against_torch(n: int, d_model: int, vocab_size: int, eps: float) -> None:
    """Losses and both gradients, under a factor as of the division by an update's pieces."""
    hidden, weight, targets = example(n, d_model, vocab_size)
    expected = nn.functional.cross_entropy(hidden @ weight.T, targets, label_smoothing=eps, reduction="sum")
    expected_gradients = torch.autograd.grad(expected * 0.37, (hidden, weight))
    sums = projected_cross_entropy(hidden, weight, targets, eps)
    gradients = torch.autograd.grad(sums.smoothed * 0.37, (hidden, weight))
    assert_close(sums.smoothed, expected, rtol=1e-12, atol=1e-12)
    assert_close(sums.nll, smoothed_cross_entropy(hidden @ weight.T, targets, eps).nll, rtol=1e-12, atol=1e-12)
    assert not sums.nll.requires_grad
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert_close(gradient, expected_gradient, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_projected_form_equals_torchs_loss_over_several_slices(eps: float):
    n, vocab_size = 430, 3_001
    assert n > loss_module._slice_rows(vocab_size, torch.device("cpu"))
    check_projected_against_torch(n, 4, vocab_size, eps)


@pytest.mark.parametrize("slice_rows", [1, 2, 3, 9, 10, 10_000])
@pytest.mark.parametrize("n", [1, 10])
def test_projected_form_does_not_depend_on_the_slices(monkeypatch: pytest.MonkeyPatch, slice_rows: int, n: int):
    monkeypatch.setattr(loss_module, "_slice_rows", lambda *_: slice_rows)
    check_projected_against_torch(n, 3, vocab_size=7, eps=0.1)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_projected_gradients_are_those_of_finite_differences(monkeypatch: pytest.MonkeyPatch, eps: float):
    monkeypatch.setattr(loss_module, "_slice_rows", lambda *_: 2)
    hidden, weight, targets = example(5, 3, 7)
    assert torch.autograd.gradcheck(
        lambda hidden, weight: projected_cross_entropy(hidden, weight, targets, eps).smoothed, (hidden, weight)
    )


@pytest.mark.parametrize("needed", ["hidden", "weight"])
def test_projected_form_may_need_one_gradient_only(needed: str):
    hidden, weight, targets = example(6, 3, 7)
    both = torch.autograd.grad(projected_cross_entropy(hidden, weight, targets, 0.1).smoothed, (hidden, weight))
    if needed == "hidden":
        sums, wanted, expected = projected_cross_entropy(hidden, weight.detach(), targets, 0.1), hidden, both[0]
    else:
        sums, wanted, expected = projected_cross_entropy(hidden.detach(), weight, targets, 0.1), weight, both[1]
    assert_close(torch.autograd.grad(sums.smoothed, wanted)[0], expected)


def test_no_targets_give_zero_and_zero_gradients():
    """Pitfall C1. B21: all padding."""
    hidden, weight, targets = example(0, 3, 7)
    sums = projected_cross_entropy(hidden, weight, targets, 0.1)
    sums.smoothed.backward()
    assert (sums.smoothed.item(), sums.nll.item()) == (0.0, 0.0)
    assert hidden.grad.shape == (0, 3)
    assert not weight.grad.any()
    plain = smoothed_cross_entropy(torch.empty(0, 7), targets, 0.1)
    assert (plain.smoothed.item(), plain.nll.item()) == (0.0, 0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_projected_form_in_half_precision_sums_in_float32(dtype: torch.dtype):
    hidden, weight, targets = example(40, 8, 11)
    low = [tensor.detach().to(dtype).requires_grad_() for tensor in (hidden, weight)]
    sums = projected_cross_entropy(*low, targets, 0.1)
    sums.smoothed.backward()
    assert sums.smoothed.dtype == torch.float32
    exact = smoothed_cross_entropy(hidden @ weight.T, targets, 0.1).smoothed
    assert sums.smoothed.item() == pytest.approx(exact.item(), rel=2e-2)
    assert all(tensor.grad.dtype == dtype and tensor.grad.isfinite().all() for tensor in low)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluation_pays_for_no_gradient(mode):
    hidden, weight, targets = example(10, 4, 7)
    with mode(), FlopCounterMode(display=False) as counter:
        sums = projected_cross_entropy(hidden, weight, targets, 0.0)
    assert counter.get_total_flops() == 2 * 10 * 4 * 7  # one product, forward
    assert not sums.smoothed.requires_grad
