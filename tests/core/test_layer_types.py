"""The layer types of Table 1 at work: against torch's own layers, hand-worked operations, and paths drawn by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from core.layer_measures import bytes_kept, count_flops, hops_between, longest_chain, seconds_of
from core.layer_types import (
    Convolutional,
    DilatedConvolutional,
    LayerType,
    PositionWise,
    Recurrent,
    RestrictedSelfAttention,
    SelfAttention,
    SeparableConvolutional,
)


@pytest.fixture(autouse=True)
def _seed_and_one_thread():
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# What they compute ----------------------------------------------------------------------------------------------------


def test_self_attention_is_torchs() -> None:
    x = torch.randn(2, 20, 8)
    assert torch.allclose(SelfAttention()(x), nn.functional.scaled_dot_product_attention(x, x, x), atol=1e-6)


@pytest.mark.parametrize("n", [3, 4, 20])
def test_restricted_self_attention_is_torchs_under_a_band(n: int) -> None:
    x = torch.randn(2, n, 8)
    apart = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    banded = nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=apart <= 2)
    assert torch.allclose(RestrictedSelfAttention(5)(x), banded, atol=1e-6)


def test_a_neighbourhood_without_a_middle_is_refused() -> None:
    with pytest.raises(ValueError, match="r=4 positions have no middle"):
        RestrictedSelfAttention(4)


def test_recurrence_is_torchs() -> None:
    layer, theirs, x = Recurrent(8), nn.RNN(8, 8, bias=False, batch_first=True), torch.randn(2, 9, 8)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(layer.input.weight)
        theirs.weight_hh_l0.copy_(layer.state.weight)
    assert torch.allclose(layer(x), theirs(x)[0], atol=1e-6)


def test_steps_of_all_positions_at_once_are_the_recurrence_after_n_of_them_and_no_sooner() -> None:
    layer, x = Recurrent(8).double(), torch.randn(2, 9, 8, dtype=torch.float64)
    states = [state for _, state in zip(range(9), layer.hops(x), strict=False)]
    assert torch.allclose(states[-1], layer(x))
    assert not torch.allclose(states[-2][:, -1], layer(x)[:, -1], atol=1e-12)


def test_convolution_reads_a_position_and_those_before_it() -> None:
    layer, x = Convolutional(4, 3), torch.randn(1, 6, 4)
    weight = layer.convolution.weight  # (out, in, k), the last of the kernel at the position itself
    by_hand = sum(x[:, 4 - back] @ weight[:, :, 2 - back].T for back in range(3))
    assert torch.allclose(layer(x)[:, 4], by_hand, atol=1e-6)
    assert torch.allclose(layer(x)[:, 0], x[:, 0] @ weight[:, :, 2].T, atol=1e-6)


def test_separable_convolution_is_a_kernel_for_each_dimension_and_a_product() -> None:
    layer, x = SeparableConvolutional(4, 3), torch.randn(1, 6, 4)
    kernel = layer.each.weight[:, 0]  # (d, k)
    by_hand = sum(x[:, 4 - back] * kernel[:, 2 - back] for back in range(3)) @ layer.across.weight.T
    assert torch.allclose(layer(x)[:, 4], by_hand, atol=1e-6)


# Operations -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "multiplications"),
    [
        (SelfAttention(), 2 * 7 * 7 * 6),
        (Recurrent(6), 2 * 7 * 6 * 6),
        (Convolutional(6, 3), 7 * 3 * 6 * 6),
        (DilatedConvolutional(6, 3), 7 * 3 * 6 * 6),
        (RestrictedSelfAttention(5), 2 * 7 * 5 * 6),
        (SeparableConvolutional(6, 3), 7 * 6 * 3 + 7 * 6 * 6),
        (PositionWise(6), 2 * 7 * 6 * 24),
    ],
    ids=lambda value: type(value).__name__,
)
def test_operations_of_7_positions_of_6_dimensions_by_hand(layer: LayerType, multiplications: int) -> None:
    assert count_flops(layer, 7, 6) == 2 * multiplications


# Steps ----------------------------------------------------------------------------------------------------------------


def test_only_a_recurrence_has_a_chain_that_grows_with_n() -> None:
    layers = (SelfAttention(), Convolutional(8, 3), RestrictedSelfAttention(5), SeparableConvolutional(8, 3))
    for layer in layers:
        assert longest_chain(layer, 20, 8) == longest_chain(layer, 80, 8)
    ten, twenty, thirty = (longest_chain(Recurrent(8), n, 8) for n in (10, 20, 30))
    assert thirty - twenty == twenty - ten >= 10


def test_chain_by_hand() -> None:
    """The input's own node, two products and two sums; not the shorter way beside them."""

    class Deep(LayerType):
        def forward(self, x):
            return (2 * x + 1) * 3 + x

    assert longest_chain(Deep(), 5, 2) == 5


# Paths ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "n", "farthest"),
    [
        (SelfAttention(), 30, 1),
        (Recurrent(4), 30, 30),
        (Convolutional(4, 3), 31, 15),  # two positions further a layer
        (Convolutional(4, 31), 31, 1),
        (DilatedConvolutional(4, 3), 27, 3),  # 2 + 6 + 18 = 26 positions further
        (DilatedConvolutional(4, 3), 28, 4),
        (RestrictedSelfAttention(7), 31, 10),  # three to either side
        (SeparableConvolutional(4, 4), 31, 10),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, LayerType) else str(value),
)
def test_longest_paths_by_hand(layer: LayerType, n: int, farthest: int) -> None:
    assert hops_between(layer, n, 4, n).max() == farthest


def test_hops_between_all_pairs_by_hand() -> None:
    apart = np.arange(9)[None, :] - np.arange(9)[:, None]  # (from, to)
    expected = np.where(apart >= 0, np.maximum(1, np.ceil(apart / 2)), 0)
    assert (hops_between(Convolutional(4, 3), 9, 4, 9) == expected).all()
    assert (hops_between(RestrictedSelfAttention(3), 9, 4, 9) == np.maximum(1, abs(apart))).all()
    assert (hops_between(PositionWise(4), 9, 4, 5) == np.eye(9)).all()


# Seconds and memory ---------------------------------------------------------------------------------------------------


def test_seconds_are_of_each_call_in_each_round_and_only_of_work() -> None:
    def work() -> None:
        sum(range(200_000))

    calls: list[str] = []
    seconds = seconds_of([lambda: (calls.append("long"), work()), lambda: calls.append("short")], 3)
    assert seconds.shape == (3, 2)
    assert calls == ["long", "long", "short", "short"] * 3  # in turn, each once before it is timed
    assert (seconds[:, 0] > seconds[:, 1]).all()


def test_more_threads_than_one_are_refused() -> None:
    torch.set_num_threads(2)
    with pytest.raises(RuntimeError, match="2 threads"):
        seconds_of([lambda: None], 1)


def test_bytes_kept_by_hand() -> None:
    """exp keeps its result; a product of two keeps both factors; the same memory counts once."""
    x = torch.randn(100, requires_grad=True)
    y = torch.randn(100, requires_grad=True)
    assert bytes_kept(lambda: x.exp()) == 400
    assert bytes_kept(lambda: x * y) == 800
    assert bytes_kept(lambda: x * x) == 400
    assert bytes_kept(lambda: x + y) == 0
    assert math.isclose(bytes_kept(lambda: x.exp() * y), 800)
