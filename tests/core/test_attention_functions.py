"""The attention functions that section 3.2.1 compares, by their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from core.attention_functions import ATTENTION_FUNCTIONS, Additive

QUERY, KEY, VALUE = (torch.randn(2, 3, length, 5, generator=torch.Generator().manual_seed(0)) for length in (4, 6, 6))


def test_dot_products_with_and_without_scaling() -> None:
    for name, divisor in (("scaled", math.sqrt(5)), ("unscaled", 1.0)):
        output, weights = ATTENTION_FUNCTIONS[name](5)(QUERY, KEY, VALUE)
        by_hand = torch.softmax(QUERY @ KEY.transpose(2, 3) / divisor, dim=-1)
        assert torch.allclose(weights, by_hand, atol=1e-6)
        assert torch.allclose(output, by_hand @ VALUE, atol=1e-6)


def test_additive_attention_scores_each_pair_by_a_hidden_layer() -> None:
    attention = Additive(5)
    output, weights = attention(QUERY, KEY, VALUE)
    score = attention.score @ torch.tanh(QUERY[1, 2, 3] + KEY[1, 2, 4])
    other = attention.score @ torch.tanh(QUERY[1, 2, 3] + KEY[1, 2, 0])
    assert (weights[1, 2, 3, 4] / weights[1, 2, 3, 0]).log().item() == pytest.approx((score - other).item(), abs=1e-5)
    assert output.shape == (2, 3, 4, 5)


@pytest.mark.parametrize("name", ATTENTION_FUNCTIONS)
def test_weights_sum_to_1(name: str) -> None:
    _, weights = ATTENTION_FUNCTIONS[name](5)(QUERY, KEY, VALUE)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3, 4), atol=1e-6)
