from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from core.attention import MultiHeadAttention, scaled_dot_product_attention
from core.packing import AttentionPlan, Packing

TIGHT = {"rtol": 0.0, "atol": 1e-10}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_mask(*shape: int, seed: int = 9) -> Tensor:
    """About half of it True, and the first key of every row."""
    mask = normal(*shape, seed=seed) > 0
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("num_keys", [5, 33])
def test_eq_1_agrees_with_torchs_attention_also_where_d_k_is_not_d_v(num_keys: int, masked: bool):
    query, key, value = normal(2, 3, 7, 4), normal(2, 3, num_keys, 4, seed=1), normal(2, 3, num_keys, 9, seed=2)
    mask = random_mask(2, 1, 7, num_keys) if masked else None
    output, _ = scaled_dot_product_attention(query, key, value, mask)
    assert_close(output, nn.functional.scaled_dot_product_attention(query, key, value, mask), **TIGHT)


def test_weights_by_hand():
    # One query (2, 0, 0, 0) and keys whose dot products with it are ln 9 and 0 after division by sqrt(4) = 2.
    query = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]], dtype=torch.float64)
    key = torch.tensor([[[[math.log(9.0), 1.0, 1.0, 1.0], [0.0, 5.0, 5.0, 5.0]]]], dtype=torch.float64)
    value = torch.tensor([[[[1.0], [11.0]]]], dtype=torch.float64)
    output, weights = scaled_dot_product_attention(query, key, value)
    assert_close(weights.flatten(), torch.tensor([0.9, 0.1], dtype=torch.float64), **TIGHT)
    assert output.item() == pytest.approx(0.9 * 1 + 0.1 * 11, abs=1e-12)


@pytest.mark.parametrize("num_keys", range(1, 19))
def test_short_rows_have_the_weights_of_a_plain_softmax(num_keys: int):
    query, key = normal(2, 2, 3, 4), normal(2, 2, num_keys, 4, seed=1)
    mask = random_mask(2, 1, 3, num_keys)
    scores = (query @ key.transpose(-2, -1) / 2.0).masked_fill(~mask, -torch.inf)
    _, weights = scaled_dot_product_attention(query, key, normal(2, 2, num_keys, 5), mask)
    assert weights.shape == scores.shape
    assert_close(weights, scores.softmax(-1), rtol=0.0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_keys", [3, 40])
def test_rows_of_weights_sum_to_one_and_masked_keys_have_none(dtype: torch.dtype, num_keys: int):
    query, key = normal(2, 2, 6, 8, dtype=dtype), normal(2, 2, num_keys, 8, seed=1, dtype=dtype)
    mask = random_mask(2, 1, 6, num_keys)
    output, weights = scaled_dot_product_attention(query, key, normal(2, 2, num_keys, 8, dtype=dtype), mask)
    assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0.0, atol=1e-6)
    assert weights.masked_select(~mask).count_nonzero() == 0
    assert output.dtype == dtype
    # Half precision would sum to 1 within 1e-2 only.
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_keys", [4, 20])
def test_a_row_without_any_key_is_spread_evenly_and_finite(dtype: torch.dtype, num_keys: int):
    query, key = normal(1, 1, 2, 8, dtype=dtype).requires_grad_(), normal(1, 1, num_keys, 8, seed=1, dtype=dtype)
    mask = torch.ones(2, num_keys, dtype=torch.bool)
    mask[1] = False
    output, weights = scaled_dot_product_attention(query, key, normal(1, 1, num_keys, 3, dtype=dtype), mask)
    assert_close(weights[0, 0, 1], torch.full((num_keys,), 1 / num_keys))
    output.sum().backward()
    assert output.isfinite().all()
    assert query.grad.isfinite().all()


def test_query_and_key_of_unequal_d_k_are_refused():
    with pytest.raises(ValueError, match="d_k=4 and key has d_k=5"):
        scaled_dot_product_attention(normal(1, 1, 2, 4), normal(1, 1, 3, 5), normal(1, 1, 3, 5))


def torchs_attention(ours: MultiHeadAttention, d_model: int) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(d_model, ours.num_heads, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.out_proj.weight.copy_(ours.output.weight)
    return theirs


@pytest.mark.parametrize(("num_queries", "num_keys"), [(7, 5), (4, 40)])
def test_multi_head_attention_agrees_with_torchs_in_output_and_each_heads_weights(num_queries: int, num_keys: int):
    ours = MultiHeadAttention(d_model=12, num_heads=3, d_k=4, d_v=4).double()
    theirs = torchs_attention(ours, 12)
    x, memory = normal(2, num_queries, 12), normal(2, num_keys, 12, seed=1)
    padding = torch.zeros(2, num_keys, dtype=torch.bool)
    padding[1, 3:] = True

    output, weights = ours.attend(x, *ours.project_memory(memory), ~padding[:, None, None, :])
    expected, expected_weights = theirs(x, memory, memory, key_padding_mask=padding, average_attn_weights=False)
    assert_close(output, expected, **TIGHT)
    assert_close(weights, expected_weights, **TIGHT)
    assert_close(ours(x, memory, ~padding[:, None, None, :]), expected, **TIGHT)


@pytest.mark.parametrize("num_keys", [5, 16, 40])
@pytest.mark.parametrize("mask_shape", [None, (2, 1, 1), (7,), (2, 3, 7)])
def test_gradients_are_those_of_torchs_attention(num_keys: int, mask_shape: tuple[int, ...] | None):
    ours = MultiHeadAttention(d_model=10, num_heads=3, d_k=4, d_v=7).double()
    x, memory = normal(2, 7, 10).requires_grad_(), normal(2, num_keys, 10, seed=1).requires_grad_()
    mask = None if mask_shape is None else random_mask(*mask_shape, num_keys)

    def heads(projected: Tensor) -> Tensor:
        return projected.unflatten(-1, (3, -1)).transpose(1, 2)

    attended = nn.functional.scaled_dot_product_attention(
        heads(ours.query(x)), heads(ours.key(memory)), heads(ours.value(memory)), mask
    )
    expected = ours.output(attended.transpose(1, 2).flatten(2))
    output = ours(x, memory, mask)
    assert_close(output, expected, **TIGHT)

    wanted = [x, memory, *ours.parameters()]
    direction = normal(2, 7, 10, seed=2)
    gradients, expected_gradients = (torch.autograd.grad(y, wanted, direction) for y in (output, expected))
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert_close(gradient, expected_gradient, **TIGHT)
    # The way that also gives the weights is differentiable, and the same.
    also = torch.autograd.grad(ours.attend(x, *ours.project_memory(memory), mask)[0], wanted, direction)
    for gradient, expected_gradient in zip(also, expected_gradients, strict=True):
        assert_close(gradient, expected_gradient, **TIGHT)


def test_gradients_are_those_of_finite_differences():
    attention = MultiHeadAttention(d_model=4, num_heads=2, d_k=3, d_v=2).double()
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    assert torch.autograd.gradcheck(lambda x: attention(x, x, mask), normal(2, 3, 4).requires_grad_())


def test_heads_follow_the_papers_equations_where_d_k_d_v_and_d_model_over_h_all_differ():
    d_model, num_heads, d_k, d_v = 10, 3, 4, 7
    attention = MultiHeadAttention(d_model, num_heads, d_k, d_v).double()
    x, memory = normal(2, 5, d_model), normal(2, 6, d_model, seed=1)
    heads, head_weights = [], []
    for head in range(num_heads):
        w_q = attention.query.weight[head * d_k : (head + 1) * d_k].T  # (d_model, d_k), as the paper writes it
        w_k = attention.key.weight[head * d_k : (head + 1) * d_k].T
        w_v = attention.value.weight[head * d_v : (head + 1) * d_v].T
        weights = torch.softmax((x @ w_q) @ (memory @ w_k).mT / math.sqrt(d_k), dim=-1)
        head_weights.append(weights)
        heads.append(weights @ (memory @ w_v))
    output, weights = attention.attend(x, *attention.project_memory(memory), mask=None)
    assert_close(output, torch.cat(heads, dim=-1) @ attention.output.weight.T, **TIGHT)
    assert_close(weights, torch.stack(head_weights, dim=1), **TIGHT)


def test_weights_come_one_matrix_a_head_and_not_their_mean():
    attention = MultiHeadAttention(d_model=8, num_heads=4, d_k=2, d_v=2).double()
    x = normal(1, 5, 8)
    _, weights = attention.attend(x, *attention.project_memory(x), mask=None)
    assert weights.shape == (1, 4, 5, 5)
    for head in range(1, 4):
        assert not torch.allclose(weights[:, 0], weights[:, head], atol=1e-3)


def test_projections_have_no_biases():
    attention = MultiHeadAttention(d_model=8, num_heads=2, d_k=3, d_v=5)
    assert {name: tuple(parameter.shape) for name, parameter in attention.named_parameters()} == {
        "query.weight": (6, 8),
        "key.weight": (6, 8),
        "value.weight": (10, 8),
        "output.weight": (8, 10),
    }


def test_training_mode_drops_no_attention_weight():
    attention = MultiHeadAttention(d_model=8, num_heads=2, d_k=4, d_v=4).double().train()
    x = normal(3, 20, 8)
    _, weights = attention.attend(x, *attention.project_memory(x), mask=None)
    assert (weights > 0).all()
    assert torch.equal(attention(x, x, None), attention.eval()(x, x, None))


def test_attention_dropout_drops_weights_in_training_alone() -> None:
    # With values that are the identity, what comes out are the weights.
    torch.manual_seed(3)
    query, key = torch.randn(2, 1, 6, 4), torch.randn(2, 1, 6, 4)
    value = torch.eye(6).expand(2, 1, 6, 6)
    dropped, weights = scaled_dot_product_attention(query, key, value, dropout=0.5)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 1, 6))  # B12: as they were before dropout
    assert ((dropped == 0) | torch.isclose(dropped, 2 * weights)).all()
    assert 0.2 < (dropped == 0).float().mean() < 0.8


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_packed_rows_with_attention_dropout_equal_the_padded_form_in_eval_mode(dropout: float) -> None:
    torch.manual_seed(4)
    attention = MultiHeadAttention(d_model=8, num_heads=2, d_k=4, d_v=4, dropout=dropout).eval()
    packing = Packing(np.array([5, 5]))
    plan = AttentionPlan(packing, packing, causal=True, device=torch.device("cpu"))
    x = torch.randn(2, 5, 8)
    padded = attention(x, x, torch.ones(5, 5, dtype=torch.bool).tril())
    rows = x.flatten(0, 1)
    assert torch.allclose(attention(rows, rows, plan), padded.flatten(0, 1), atol=1e-6)
    attention.train()
    torch.manual_seed(5)
    trained = attention(rows, rows, plan)
    assert torch.allclose(trained, padded.flatten(0, 1), atol=1e-6) == (dropout == 0.0)
    mean = torch.stack([attention(rows, rows, plan) for _ in range(400)]).mean(0)
    assert torch.allclose(mean, padded.flatten(0, 1), atol=0.15)
