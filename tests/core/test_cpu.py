"""Each path of `core.cpu`, and of packed attention, held against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from core import attention, cpu
from core.attention import MultiHeadAttention, RowsPath
from core.config import ModelConfig
from core.data.batching import collate
from core.data.split import ParallelSplit, Sentences
from core.data.vocabulary import PAD_ID
from core.layers import FeedForward, ResidualNorm
from core.packing import AttentionPlan, Packing, pack
from core.trainer import batch_loss
from core.transformer import Transformer

CPU = torch.device("cpu")
TIGHT = {"rtol": 0.0, "atol": 1e-10}
# Products through MKL and through oneDNN, whatever this machine's processor is.
onednn = pytest.mark.parametrize("through_onednn", [False, True], ids=["mkl", "onednn"])


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def choose(through_onednn: bool) -> None:
        if through_onednn and not torch.backends.mkldnn.is_available():
            pytest.skip("this torch was built without oneDNN")
        monkeypatch.setattr(cpu, "mkl_is_slow", lambda: through_onednn)
        monkeypatch.setattr(cpu, "_FEWEST_MULTIPLICATIONS", 0 if through_onednn else 2**62)

    return choose


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_split(num_pairs: int, longest: int, vocab_size: int, seed: int = 0, shortest: int = 0) -> ParallelSplit:
    rng = np.random.default_rng(seed)

    def side() -> Sentences:
        return Sentences.from_lists(
            [rng.integers(3, vocab_size, rng.integers(shortest, longest)).tolist() for _ in range(num_pairs)],
            vocab_size,
        )

    return ParallelSplit(side(), side(), read_lines=lambda: ([], []))


def gradients(output: Tensor, *inputs: Tensor, seed: int = 9) -> tuple[Tensor, ...]:
    return torch.autograd.grad(output, inputs, normal(*output.shape, seed=seed, dtype=output.dtype))


# --- products


@onednn
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("n", "i", "o"), [(1, 4, 3), (50, 8, 24), (33, 24, 8), (7, 5, 5)])
def test_the_three_products_of_a_linear_layer(
    products, through_onednn: bool, dtype: torch.dtype, n: int, i: int, o: int
):
    products(through_onednn)
    x, weight, grad = (normal(*shape, dtype=dtype) for shape in ((n, i), (o, i), (n, o)))
    close = TIGHT if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-5}
    assert_close(cpu.times_transposed(x, weight), x @ weight.T, **close)
    assert_close(cpu.times(grad, weight), grad @ weight, **close)
    product = cpu.transposed_times(grad, x)
    assert_close(product, grad.T @ x, **close)
    assert product.is_contiguous()


def test_products_too_small_to_make_code_for_are_not_onednns(monkeypatch: pytest.MonkeyPatch):
    """oneDNN makes code for each new shape, and batches of one shape hardly come twice."""
    monkeypatch.setattr(cpu, "mkl_is_slow", lambda: True)
    assert cpu.through_onednn(torch.empty(4_096, 128), 512)
    assert not cpu.through_onednn(torch.empty(400, 64), 128)
    assert not cpu.through_onednn(torch.empty(4_096, 128, dtype=torch.float64), 512)

    monkeypatch.setattr(cpu, "_onednn", lambda *_: pytest.fail("oneDNN was asked"))
    x, weight, grad = normal(400, 64, dtype=torch.float32), torch.ones(128, 64), torch.ones(400, 128)
    cpu.times_transposed(x, weight), cpu.times(grad, weight), cpu.transposed_times(grad, x)
    cpu.feed_forward(x, weight, weight[:, 0], weight.T.contiguous(), x[0])


@pytest.mark.parametrize(
    ("capability", "maker", "slow"),
    [("AVX512", "AuthenticAMD", True), ("AVX512", "GenuineIntel", False), ("AVX2", "AuthenticAMD", False)],
)
def test_mkl_is_slow_where_it_leaves_avx_512_unused(
    monkeypatch: pytest.MonkeyPatch, capability: str, maker: str, slow: bool
):
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("this torch was built without MKL or oneDNN")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(cpu.Path, "read_text", lambda *_, **__: f"vendor_id\t: {maker}\n")
    assert cpu.mkl_is_slow.__wrapped__() is slow


@onednn
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_feed_forward_and_its_gradients_are_those_of_eq_2(products, through_onednn: bool, dtype: torch.dtype):
    products(through_onednn)
    torch.manual_seed(1)
    layer = FeedForward(6, 20).to(dtype)
    nn.init.normal_(layer.inner.bias)
    x = normal(9, 6, dtype=dtype).requires_grad_()
    rows, plain = layer(x), layer.outer(torch.relu(layer.inner(x)))
    close = TIGHT if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    assert_close(rows, plain, **close)
    for ours, expected in zip(
        gradients(rows, x, *layer.parameters()), gradients(plain, x, *layer.parameters()), strict=True
    ):
        assert_close(ours, expected, **close)


# --- residual and norm


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_residual_norm_and_its_gradients_are_the_plain_ones_under_the_same_mask(rate: float):
    block = ResidualNorm(8, rate).double().train()
    nn.init.normal_(block.norm.weight)
    x, branch = normal(30, 8).requires_grad_(), normal(30, 8, seed=1).requires_grad_()
    torch.manual_seed(4)
    rows = block(x, branch)
    torch.manual_seed(4)
    plain = block(x.unsqueeze(0), branch.unsqueeze(0)).squeeze(0)
    assert_close(rows, plain, **TIGHT)
    wanted = (x, branch, *block.parameters())
    for ours, expected in zip(gradients(rows, *wanted), gradients(plain, *wanted), strict=True):
        assert_close(ours, expected, **TIGHT)


def test_residual_norm_drops_nothing_in_eval_mode():
    block = ResidualNorm(8, 0.5).double().eval()
    x, branch = normal(30, 8), normal(30, 8, seed=1)
    assert_close(block(x, branch), block.norm(x + branch), **TIGHT)


# --- attention over rows


def plan_of(first: list[int], second: list[int], causal: bool) -> AttentionPlan:
    queries = Packing(np.array(first))
    return AttentionPlan(queries, queries if first is second else Packing(np.array(second)), causal, CPU)


@pytest.mark.parametrize("path", ["explicit", "sdpa"])
@pytest.mark.parametrize(("d_k", "d_v"), [(4, 4), (4, 6), (3, 5)])
@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_attention_over_rows_is_torchs_sentence_by_sentence(
    monkeypatch: pytest.MonkeyPatch, path: RowsPath, d_k: int, d_v: int, kind: str
):
    monkeypatch.setattr(attention, "rows_path", lambda *_: path)
    torch.manual_seed(2)
    ours = MultiHeadAttention(d_model=10, num_heads=3, d_k=d_k, d_v=d_v).double()
    first = [1, 2, 2, 17, 18, 50]
    second = [3, 1, 4, 20, 2, 41] if kind == "cross" else first
    x = normal(sum(first), 10).requires_grad_()
    memory = normal(sum(second), 10, seed=1).requires_grad_() if kind == "cross" else x
    output = ours(x, memory, plan_of(first, second, causal=kind == "causal"))

    def heads(projected: Tensor) -> Tensor:
        return projected.unflatten(-1, (3, -1)).transpose(0, 1)

    expected = []
    for own, other in zip(x.split(first), memory.split(second), strict=True):
        query, key, value = heads(ours.query(own)), heads(ours.key(other)), heads(ours.value(other))
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=kind == "causal")
        expected.append(ours.output(attended.transpose(0, 1).flatten(1)))
    expected = torch.cat(expected)
    assert_close(output, expected, **TIGHT)
    wanted = [x, *ours.parameters()] + ([memory] if kind == "cross" else [])
    for gradient, expected_gradient in zip(gradients(output, *wanted), gradients(expected, *wanted), strict=True):
        assert_close(gradient, expected_gradient, **TIGHT)


# --- the whole model

CONFIG = ModelConfig(40, num_layers=2, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8, dropout=0.0)


def loss_and_gradients(model: Transformer, split: ParallelSplit) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    sums = batch_loss(model, pack(split, np.arange(len(split)), CPU), label_smoothing=0.1)
    sums.smoothed.backward()
    return sums.smoothed.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def plain_loss_and_gradients(model: Transformer, split: ParallelSplit) -> tuple[Tensor, dict[str, Tensor]]:
    """Padded batches, masks, all through autograd, and torch's loss."""
    model.zero_grad()
    batch = collate(split, np.arange(len(split)))
    logits = model.logits(model(batch.src, batch.tgt_in))
    loss = nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD_ID, label_smoothing=0.1, reduction="sum"
    )
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("path", ["explicit", "sdpa"])
@pytest.mark.parametrize("positions", ["sinusoid", "learned"])
def test_the_packed_model_is_the_padded_one(monkeypatch: pytest.MonkeyPatch, path: RowsPath, positions: str):
    monkeypatch.setattr(attention, "rows_path", lambda *_: path)
    torch.manual_seed(3)
    model = Transformer(replace(CONFIG, positions=positions)).double().train()
    split = random_split(14, longest=60, vocab_size=40)
    loss, grads = loss_and_gradients(model, split)
    expected_loss, expected_grads = plain_loss_and_gradients(model, split)
    assert_close(loss, expected_loss, **TIGHT)
    for name, expected in expected_grads.items():
        assert_close(grads[name], expected, **TIGHT)


@onednn
def test_in_float32_the_packed_model_is_the_padded_one_to_rounding(products, through_onednn: bool):
    products(through_onednn)
    torch.manual_seed(3)
    model = Transformer(CONFIG).train()
    split = random_split(14, longest=60, vocab_size=40)
    loss, grads = loss_and_gradients(model, split)
    expected_loss, expected_grads = plain_loss_and_gradients(model, split)
    assert_close(loss, expected_loss, rtol=1e-5, atol=0.0)
    for name, expected in expected_grads.items():
        assert_close(grads[name], expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_bf16_products_move_loss_and_gradients_by_rounding_alone():
    torch.manual_seed(3)
    model = Transformer(replace(CONFIG, d_model=64, d_ff=128, d_k=32, d_v=32)).train()
    split = random_split(14, longest=60, vocab_size=40)
    expected_loss, expected_grads = loss_and_gradients(model, split)
    with torch.autocast("cpu", torch.bfloat16):
        loss, grads = loss_and_gradients(model, split)
    assert loss.dtype == torch.float32
    assert_close(loss, expected_loss, rtol=3e-3, atol=0.0)
    difference = sum(float((grads[n] - g).square().sum()) for n, g in expected_grads.items())
    norm = sum(float(g.square().sum()) for g in expected_grads.values())
    assert all(grad.dtype == torch.float32 for grad in grads.values())
    assert 0.0 < (difference / norm) ** 0.5 < 0.03


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("path", ["explicit", "sdpa"])
def test_b24_lengths_from_1_to_300_in_one_batch_give_no_nan(
    monkeypatch: pytest.MonkeyPatch, path: RowsPath, dtype: torch.dtype | None
):
    monkeypatch.setattr(attention, "rows_path", lambda *_: path)
    torch.manual_seed(3)
    model = Transformer(replace(CONFIG, dropout=0.1)).train()
    lengths = [0, 0, 49, 300]  # and a symbol each; the first is a pair of nothing but symbols
    sides = (Sentences.from_lists([[5] * n for n in order], 40) for order in (lengths, [0, 300, 1, 2]))
    split = ParallelSplit(*sides, read_lines=lambda: ([], []))
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        loss, grads = loss_and_gradients(model, split)
    assert bool(loss.isfinite())
    assert all(bool(grad.isfinite().all()) for grad in grads.values())
