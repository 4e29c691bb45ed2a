from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from core import cpu
from core.layers import Dropout, Embedding, FeedForward, LearnedPositions, ResidualNorm, SinusoidPositions, sinusoid

# --- positions (3.5)


def test_sinusoid_by_hand():
    table = sinusoid(4, 4)
    assert table.dtype == torch.float64
    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    # d_model = 4: the frequencies are 1 and 1 / 10000^(2 / 4) = 0.01.
    expected = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    assert table[3].tolist() == pytest.approx(expected, abs=1e-15)


def test_sinusoid_is_the_papers_formula_at_d_512():
    table = sinusoid(51, 512)
    for position in (0, 1, 7, 50):
        for i in (0, 1, 100, 255):
            angle = position / 10_000 ** (2 * i / 512)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-14)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-14)


def test_sinusoid_is_not_the_half_split_form_which_differs_by_up_to_0_072():
    """Pitfall B7."""
    num_positions, d_model = 51, 512
    position = torch.arange(num_positions, dtype=torch.float64).unsqueeze(1)
    # The first public code: one half of sines, one of cosines, and frequencies that end at exactly 1 / 10000.
    frequencies = 10_000.0 ** (-torch.arange(d_model // 2, dtype=torch.float64) / (d_model // 2 - 1))
    paper = sinusoid(num_positions, d_model)
    assert (paper[:, 0::2] - torch.sin(position * frequencies)).abs().max().item() == pytest.approx(0.072, abs=5e-4)
    assert frequencies[-1].item() == pytest.approx(1.0e-4, rel=1e-12)
    # The paper's exponent is 510 / 512 there, not 1.
    last_frequency = math.asin(paper[1, -2].item())
    assert last_frequency == pytest.approx(1.0366e-4, abs=5e-9)


@given(st.integers(0, 2_000), st.integers(0, 500))
def test_a_shift_of_position_is_a_linear_function_that_does_not_depend_on_the_position(position: int, shift: int):
    d_model = 16
    here, there = (sinusoid(1, d_model, start)[0] for start in (position, position + shift))
    for i in range(0, d_model, 2):
        angle = shift / 10_000 ** (i / d_model)
        rotation = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
        assert_close(there[i : i + 2], rotation.double() @ here[i : i + 2], rtol=0.0, atol=1e-6)


def test_sinusoid_positions_have_no_longest_sentence_and_one_value_whatever_came_before():
    positions = SinusoidPositions(8).double()
    for length in (3, 300, 5_000, 4):
        assert_close(positions(torch.zeros(1, length, 8).double())[0], sinusoid(length, 8), rtol=0.0, atol=1e-15)
    far = positions(torch.zeros(1, 2, 8).double(), start=9_000)[0]
    assert_close(far, sinusoid(2, 8, start=9_000), rtol=0.0, atol=1e-15)


def test_sinusoid_table_follows_the_inputs_type_and_is_not_saved():
    positions = SinusoidPositions(8)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        assert positions(torch.zeros(1, 3, 8, dtype=dtype)).dtype == dtype
    # After half precision the table is made anew, not widened.
    assert_close(positions(torch.zeros(1, 300, 8).double())[0], sinusoid(300, 8), rtol=0.0, atol=1e-15)
    assert not positions.state_dict()
    assert not list(positions.parameters())


def test_learned_positions_add_their_row_and_refuse_what_lies_beyond_the_table():
    positions = LearnedPositions(5, 4)
    torch.nn.init.normal_(positions.weight)
    x = torch.ones(2, 3, 4)
    assert_close(positions(x, start=2), x + positions.weight[2:5])
    with pytest.raises(ValueError, match="position 5 lies beyond the 5 learned positions"):
        positions(x, start=3)
    with pytest.raises(ValueError, match="max_learned_positions"):
        positions(torch.ones(1, 6, 4))


# --- embedding (3.4)


def test_embedding_is_scaled_by_the_root_of_d_model_and_its_logits_are_not():
    """Pitfall B5."""
    embedding = Embedding(5, 4)
    with torch.no_grad():
        embedding.weight.copy_(torch.arange(20.0).view(5, 4))
    assert embedding(torch.tensor([[1, 4]])).tolist() == [[[8.0, 10.0, 12.0, 14.0], [32.0, 34.0, 36.0, 38.0]]]
    assert embedding.logits(torch.tensor([1.0, 0.0, 0.0, 0.0])).tolist() == [0.0, 4.0, 8.0, 12.0, 16.0]


# --- feed-forward (3.3), residual and norm (3.1)


def test_feed_forward_is_eq_2_at_every_position():
    layer = FeedForward(3, 5).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    for row in range(2):
        for position in range(4):
            inner = (layer.inner.weight @ x[row, position] + layer.inner.bias).clamp(min=0.0)
            expected = layer.outer.weight @ inner + layer.outer.bias
            assert_close(layer(x)[row, position], expected, rtol=0.0, atol=1e-14)


def test_norm_comes_after_the_addition():
    block = ResidualNorm(4, dropout=0.0).double()
    x, sublayer = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    total = x + sublayer
    mean, variance = total.mean(-1, keepdim=True), total.var(-1, unbiased=False, keepdim=True)
    assert_close(block(x, sublayer), (total - mean) / (variance + 1e-5).sqrt(), rtol=0.0, atol=1e-12)


def test_the_norms_epsilon_is_torchs():
    """Pitfall B19: 1e-5, where the first public code has 1e-6; with a variance of 1e-5 the two differ by 30%."""
    norm = ResidualNorm(2, dropout=0.0)
    x = torch.tensor([[1.0, -1.0]]) * 1e-5**0.5
    expected = torch.tensor([[1.0, -1.0]]) / 2**0.5
    assert_close(norm(x, torch.zeros_like(x)), expected)
    assert_close(norm(x.unsqueeze(0), torch.zeros(1, 1, 2)), expected.unsqueeze(0))


def test_dropout_falls_on_the_sublayers_output_and_spares_the_residual():
    block = ResidualNorm(4, dropout=0.5).train()
    block.norm = torch.nn.Identity()
    x = torch.full((5, 10, 4), 7.0)
    values = block(x, torch.ones(5, 10, 4)).unique().tolist()
    assert values == [7.0, 9.0]


# --- dropout (5.4)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3, 0.5])
def test_dropout_drops_at_its_rate_everywhere_and_scales_by_the_rate_that_it_applies(rate: float):
    dropout = Dropout(rate)
    count = 400_000
    dropped = (dropout(torch.ones(count)) == 0.0).view(-1, 4)
    applied = cpu.dropped_patterns(rate) / 65_536
    assert applied == pytest.approx(rate, abs=1 / 65_536)
    five_sigma = 5 * math.sqrt(rate * (1 - rate) / (count / 4))
    # Four numbers come of one draw; none of the four may be special, nor follow its neighbour.
    assert dropped.double().mean(0).tolist() == pytest.approx([applied] * 4, abs=five_sigma)
    correlations = torch.corrcoef(dropped.double().T) - torch.eye(4)
    assert correlations.abs().max().item() < 5 / math.sqrt(count / 4)
    kept = dropout(torch.full((1_000,), 3.0, dtype=torch.float64)).unique().tolist()
    assert kept == pytest.approx([0.0, 3.0 / (1.0 - applied)], rel=1e-15)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_keeps_the_mean(rate: float):
    x = torch.randn(400_000) + 2.0
    five_sigma = 5 * math.sqrt(5.0 * rate / (1 - rate) / 400_000)  # E x^2 = 5
    assert Dropout(rate)(x).mean().item() == pytest.approx(x.mean().item(), abs=five_sigma)


def test_dropout_is_the_identity_in_eval_mode_and_at_rate_zero():
    x = torch.randn(3, 5)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 5), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dropout_keeps_shape_and_type(shape: tuple[int, ...], dtype: torch.dtype):
    y = Dropout(0.5)(torch.ones(shape, dtype=dtype))
    assert (y.shape, y.dtype) == (shape, dtype)


def test_dropouts_gradient_passes_where_its_values_passed():
    x = torch.randn(1_000, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert_close(x.grad, y.detach() / x.detach())


def test_dropout_follows_torchs_generator():
    dropout, x = Dropout(0.5), torch.ones(64)
    state = torch.get_rng_state()
    first, second = dropout(x), dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)
