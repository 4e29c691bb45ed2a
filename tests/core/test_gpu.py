"""What only a GPU can show: its paths agree with each other and with a CPU's float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from core import attention
from core.attention import MultiHeadAttention
from core.checkpoint import load_checkpoint, save_checkpoint
from core.config import DataConfig, DecodeConfig, ModelConfig, RunConfig, TrainConfig
from core.data.split import ParallelSplit, Sentences
from core.decode import translate
from core.packing import AttentionPlan, Packing, pack
from core.trainer import Trainer, batch_loss
from core.transformer import Transformer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU that torch sees"),
]

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
VOCAB = 60
CONFIG = RunConfig(
    model=ModelConfig(VOCAB, num_layers=2, d_model=64, d_ff=128, num_heads=2, d_k=32, d_v=32),
    data=DataConfig("tiny", "en", "de", vocab_size=VOCAB, dev_split="dev", test_split="test"),
    train=TrainConfig(
        train_steps=12, source_tokens=300, target_tokens=300, micro_batch_tokens=200, log_every_steps=3,
        eval_every_steps=6, checkpoint_every_steps=5,
    ),
)  # fmt: skip


def random_split(num_pairs: int, longest: int = 60, seed: int = 0) -> ParallelSplit:
    rng = np.random.default_rng(seed)
    sides = ([rng.integers(3, VOCAB, rng.integers(0, longest)).tolist() for _ in range(num_pairs)] for _ in range(2))
    return ParallelSplit(*(Sentences.from_lists(side, VOCAB) for side in sides), read_lines=lambda: ([], []))


def loss_and_gradients(model: Transformer, device: torch.device) -> tuple[float, dict[str, Tensor]]:
    model.zero_grad()
    sums = batch_loss(model, pack(random_split(20), np.arange(20), device), label_smoothing=0.1)
    sums.smoothed.backward()
    return float(sums.smoothed), {name: p.grad.double().cpu() for name, p in model.named_parameters()}


def relative_error(grads: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    difference = sum(float((grads[name] - each).square().sum()) for name, each in expected.items())
    return (difference / sum(float(each.square().sum()) for each in expected.values())) ** 0.5


@pytest.fixture
def models() -> tuple[Transformer, Transformer]:
    """The same weights twice: on the CPU in float64, on the GPU in float32."""
    torch.manual_seed(1)
    config = replace(CONFIG.model, dropout=0.0)
    reference, model = Transformer(config).double(), Transformer(config)
    model.load_state_dict(reference.state_dict())
    return reference.train(), model.to(CUDA).train()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("dtype", "loss_error", "error"), [(None, 1e-5, 1e-4), (torch.bfloat16, 5e-3, 3e-2)])
def test_loss_and_gradients_are_the_cpus(
    models: tuple[Transformer, Transformer], dtype: torch.dtype | None, loss_error: float, error: float, compiled: bool
):
    reference, model = models
    expected_loss, expected = loss_and_gradients(reference, CPU)
    if compiled:
        model.compile_between_products()
    with torch.autocast("cuda", dtype, enabled=dtype is not None):
        loss, grads = loss_and_gradients(model, CUDA)
    assert loss == pytest.approx(expected_loss, rel=loss_error)
    assert relative_error(grads, expected) < error


@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_the_variable_length_kernel_is_sdpa_over_cells(kind: str):
    torch.manual_seed(2)
    layer = MultiHeadAttention(d_model=64, num_heads=2, d_k=32, d_v=32).to(CUDA, torch.bfloat16)
    queries = Packing(np.array([1, 2, 17, 50, 130]))
    keys = Packing(np.array([3, 1, 20, 41, 128])) if kind == "cross" else queries
    plan = AttentionPlan(queries, keys, kind == "causal", CUDA)
    x = torch.randn(queries.num_rows, 64, device=CUDA, dtype=torch.bfloat16)
    memory = torch.randn(keys.num_rows, 64, device=CUDA, dtype=torch.bfloat16) if kind == "cross" else x
    assert attention.rows_path(x, 32, 32) == "variable_length"
    outputs = {}
    for path in ("variable_length", "sdpa"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attention, "rows_path", lambda *_, p=path: p)
            outputs[path] = layer(x, memory, plan)
    torch.testing.assert_close(outputs["variable_length"], outputs["sdpa"], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_b24_sentences_of_one_symbol_and_of_many_give_no_nan(
    models: tuple[Transformer, Transformer], dtype: torch.dtype | None
):
    _, model = models
    sides = (Sentences.from_lists([[5] * n for n in order], VOCAB) for order in ([0, 0, 49, 300], [0, 300, 1, 2]))
    batch = pack(ParallelSplit(*sides, read_lines=lambda: ([], [])), np.arange(4), CUDA)
    with torch.autocast("cuda", dtype, enabled=dtype is not None):
        loss = batch_loss(model, batch, label_smoothing=0.1).smoothed
    loss.backward()
    assert bool(loss.isfinite())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_score_as_the_cpus(models: tuple[Transformer, Transformer], beam_size: int):
    reference, model = models
    split, config = random_split(12, longest=20), DecodeConfig(beam_size=beam_size, max_extra_pieces=8)
    sources = [split.src[i] for i in range(len(split))]
    scores = [[each.score for each in translate(m, sources, config)] for m in (reference, model)]
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_a_run_trains_resumes_and_learns(tmp_path, precision: str):
    config = replace(CONFIG, train=replace(CONFIG.train, precision=precision))
    split = random_split(60, longest=12)

    def build() -> Trainer:
        return Trainer("0123456789ab", config, split, split, seed=1, device=CUDA)

    losses: list[float] = []

    def on_metrics(step: int, part: str, values: dict[str, float], seconds: float) -> None:
        if "loss" in values:
            losses.append(values["loss"])

    build().train(on_metrics, lambda checkpoint: save_checkpoint(tmp_path, checkpoint, keep=9))
    whole, resumed = list(losses), build()
    resumed.restore(load_checkpoint(tmp_path / "step-00000005.pt", "0123456789ab"))
    losses.clear()
    resumed.train(on_metrics, lambda checkpoint: None)
    assert losses == pytest.approx(whole[1:], rel=1e-3)  # sums on a GPU have no fixed order
    assert whole[-1] < whole[0]
