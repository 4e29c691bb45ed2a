"""Products of fewer bits by a switch; everything else, and every stored number, stays float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from core.config import DataConfig, ModelConfig, Precision, RunConfig, TrainConfig
from core.data.batching import collate
from core.data.split import ParallelSplit, Sentences
from core.data.vocabulary import PAD_ID
from core.precision import float32_products, forward_types
from core.schedule import learning_rate
from core.trainer import Trainer
from core.transformer import Transformer

VOCAB = 20
CONFIG = RunConfig(
    model=ModelConfig(VOCAB, num_layers=1, d_model=32, d_ff=48, num_heads=2, d_k=16, d_v=16),
    data=DataConfig("tiny", "en", "de", vocab_size=VOCAB, dev_split="dev", test_split="test"),
    train=TrainConfig(train_steps=6, source_tokens=60, target_tokens=60, micro_batch_tokens=40),
)


def random_split(num_pairs: int = 40) -> ParallelSplit:
    rng = np.random.default_rng(0)
    sides = ([rng.integers(3, VOCAB, rng.integers(1, 9)).tolist() for _ in range(num_pairs)] for _ in range(2))
    return ParallelSplit(*(Sentences.from_lists(side, VOCAB) for side in sides), read_lines=lambda: ([], []))


def build_trainer(precision: Precision) -> Trainer:
    config = replace(CONFIG, train=replace(CONFIG.train, precision=precision))
    split = random_split()
    trainer = Trainer("0123456789ab", config, split, split, seed=1, device=torch.device("cpu"))
    trainer.model.train()
    return trainer


def test_bfloat16_is_close_to_float32_and_not_the_same():
    losses = {}
    for precision in ("float32", "tf32", "bfloat16"):
        trainer = build_trainer(precision)
        losses[precision] = [float(trainer.update()) for _ in range(6)]
    assert losses["tf32"] == losses["float32"]  # there is no such product on a CPU
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=1e-2)


def test_master_weights_gradients_and_optimiser_stay_float32():
    trainer = build_trainer("bfloat16")
    trainer.update()
    for parameter in trainer.model.parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32
        assert all(v.dtype == torch.float32 for v in trainer.optimizer.state[parameter].values())


def test_b20_c8_the_schedule_steps_with_the_optimiser_and_with_nothing_else():
    """B20: no loss scaling could skip an update, so in any precision update n has the rate of update n."""
    for precision in ("float32", "bfloat16"):
        trainer = build_trainer(precision)
        rates, optimizer_steps = [], []
        trainer.optimizer.register_step_post_hook(
            lambda optimizer, *_, r=rates: r.append(optimizer.param_groups[0]["lr"])
        )
        for _ in range(4):
            trainer.update()
            optimizer_steps = [int(state["step"]) for state in trainer.optimizer.state.values()]
        assert rates == [learning_rate(step, 32, 4_000) for step in (1, 2, 3, 4)]
        assert set(optimizer_steps) == {4}
        assert trainer.step == 4


def test_a_forward_pass_leaves_autocast_as_it_was():
    with forward_types("bfloat16", torch.device("cpu")):
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
    before = torch.get_float32_matmul_precision()
    with float32_products("tf32", torch.device("cpu")):
        assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("precision", ["bf16", "float16", ""])
def test_a_precision_that_there_is_not_is_refused(precision: str):
    with pytest.raises(ValueError, match=f"precision='{precision}' must be one of float32, tf32, bfloat16"):
        TrainConfig(precision=precision)


@pytest.mark.slow
def test_a_compiled_model_has_the_same_outputs_and_gradients():
    """Traced and differentiated by torch.compile, without the step that needs a C++ compiler."""
    torch.manual_seed(1)
    model = Transformer(replace(CONFIG.model, dropout=0.0)).double().train()
    compiled = Transformer(replace(CONFIG.model, dropout=0.0)).double().train()
    compiled.load_state_dict(model.state_dict())
    compiled.compile_between_products(backend="aot_eager")
    split = random_split(30)
    for indices in (np.arange(4), np.arange(4, 15), np.arange(15, 30)):  # other sizes without compiling anew
        batch = collate(split, indices)
        outputs = [each(batch.src, batch.tgt_in)[batch.tgt_out != PAD_ID] for each in (model, compiled)]
        torch.testing.assert_close(*outputs, rtol=0.0, atol=1e-10)
        for each, output in zip((model, compiled), outputs, strict=True):
            each.zero_grad()
            output.square().sum().backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(compiled.get_parameter(name).grad, parameter.grad, rtol=0.0, atol=1e-10)
