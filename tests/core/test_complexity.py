from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from core.complexity import num_parameters, training_flops
from core.config import ModelConfig, TrainConfig, paper_base, paper_big
from core.sequence_model import num_parameters as counted_parameters
from core.transformer import Transformer


class Row(NamedTuple):
    """One line of Table 3 as printed: sizes, and the parameters in millions where the cell is not empty."""

    N: int = 6
    d_model: int = 512
    d_ff: int = 2048
    h: int = 8
    d_k: int = 64
    d_v: int = 64
    positions: str = "sinusoid"
    millions: int | None = None

    def model(self, vocab_size: int) -> ModelConfig:
        sizes = (self.N, self.d_model, self.d_ff, self.h, self.d_k, self.d_v)
        return ModelConfig(vocab_size, *sizes, positions=self.positions)


TABLE_3 = {
    "base": Row(millions=65),
    "h=1": Row(h=1, d_k=512, d_v=512),
    "h=4": Row(h=4, d_k=128, d_v=128),
    "h=16": Row(h=16, d_k=32, d_v=32),
    "h=32": Row(h=32, d_k=16, d_v=16),
    "d_k=16": Row(d_k=16, millions=58),
    "d_k=32": Row(d_k=32, millions=60),
    "N=2": Row(N=2, millions=36),
    "N=4": Row(N=4, millions=50),
    "N=8": Row(N=8, millions=80),
    "d_model=256": Row(d_model=256, d_k=32, d_v=32, millions=28),
    "d_model=1024": Row(d_model=1024, d_k=128, d_v=128, millions=168),
    "d_ff=1024": Row(d_ff=1024, millions=53),
    "d_ff=4096": Row(d_ff=4096, millions=90),
    "P_drop=0.0": Row(),
    "P_drop=0.2": Row(),
    "eps_ls=0.0": Row(),
    "eps_ls=0.2": Row(),
    "learned": Row(positions="learned"),
    "big": Row(d_model=1024, d_ff=4096, h=16, millions=213),
}
PRINTED = {name: row for name, row in TABLE_3.items() if row.millions is not None}


def test_table_3_has_20_rows_and_11_printed_counts():
    assert (len(TABLE_3), len(PRINTED)) == (20, 11)


@pytest.mark.parametrize("vocab_size", [37_000, 40_960])
@pytest.mark.parametrize("name", TABLE_3)
def test_closed_form_counts_the_built_model_at_full_size(name: str, vocab_size: int):
    config = TABLE_3[name].model(vocab_size)
    with torch.device("meta"):
        model = Transformer(config)
    assert num_parameters(config) == counted_parameters(model)


def test_base_and_big_by_hand():
    # Base. A layer's attention: 4 * 512 * 512; feed-forward: 2 * 512 * 2048 + 2048 + 512; a norm: 2 * 512.
    encoder_layer = 1_048_576 + 2_099_712 + 2 * 1_024
    decoder_layer = 2 * 1_048_576 + 2_099_712 + 3 * 1_024
    layers = 6 * (encoder_layer + decoder_layer)
    assert layers == 44_101_632
    assert num_parameters(paper_base()) == 37_000 * 512 + layers == 63_045_632
    assert num_parameters(paper_base(40_960)) == 40_960 * 512 + layers == 65_073_152
    assert num_parameters(paper_big(36_000)) / 1e6 == pytest.approx(213.15, abs=0.005)
    assert num_parameters(paper_big(40_960)) / 1e6 == pytest.approx(218.23, abs=0.005)


def millions(name: str, vocab_size: int) -> float:
    return num_parameters(PRINTED[name].model(vocab_size)) / 1e6


def fitting_vocabulary(name: str) -> tuple[float, float]:
    """The least and the largest vocabulary with which the row has its printed count, to the rounding."""
    row = PRINTED[name]
    without_vocabulary = num_parameters(row.model(vocab_size=1)) - row.d_model
    return tuple(((row.millions + half) * 1e6 - without_vocabulary) / row.d_model for half in (-0.5, 0.5))


def test_rows_of_equal_computation_have_equal_counts():
    names = [name for name in TABLE_3 if name.startswith(("h=", "P_drop", "eps_ls"))]
    assert {num_parameters(TABLE_3[name].model(37_000)) for name in names} == {num_parameters(paper_base())}


def test_at_40_960_pieces_nine_printed_counts_hold_to_their_rounding():
    """Pitfall B15."""
    holds = {name for name in PRINTED if round(millions(name, 40_960)) == PRINTED[name].millions}
    assert set(PRINTED) - holds == {"d_ff=1024", "big"}
    assert millions("d_ff=1024", 40_960) == pytest.approx(52.48, abs=0.005)  # printed 53


def test_about_41_000_pieces_fit_every_printed_count_but_the_big_models():
    least, most = zip(*(fitting_vocabulary(name) for name in PRINTED if name != "big"), strict=True)
    assert max(least) == pytest.approx(41_003, abs=1)  # of d_ff = 1024
    assert min(most) == pytest.approx(41_209, abs=1)  # of N = 4


def test_the_big_models_count_fits_about_36_000_pieces_only():
    assert fitting_vocabulary("big") == pytest.approx((35_368, 36_344), abs=1)


def test_at_37_000_pieces_every_count_is_below_the_printed_one_but_the_big_models():
    below = {name for name in PRINTED if round(millions(name, 37_000)) < PRINTED[name].millions}
    assert set(PRINTED) - below == {"big"}
    assert round(millions("big", 37_000)) == 214


@pytest.mark.parametrize(
    "changes", [{}, {"num_heads": 3, "d_k": 5, "d_v": 7}, {"num_layers": 3, "positions": "learned"}]
)
def test_training_flops_are_three_times_what_torch_counts_in_a_forward_pass(changes: dict):
    config = replace(
        ModelConfig(50, num_layers=2, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8, dropout=0.0), **changes
    )
    src_tokens, tgt_tokens = 9, 7
    with torch.device("meta"):
        model = Transformer(config)
        src, tgt_in = (torch.empty(1, length, dtype=torch.int64) for length in (src_tokens, tgt_tokens))
        with FlopCounterMode(display=False) as counter:
            model.logits(model(src, tgt_in))
    counted = counter.get_flop_counts()["Global"]
    # Attention's own products are batched ones, which the closed form leaves out.
    forward = sum(flops for operation, flops in counted.items() if operation is not torch.ops.aten.bmm)
    assert forward > 0
    train = TrainConfig(train_steps=11, source_tokens=src_tokens, target_tokens=tgt_tokens)
    assert training_flops(config, train) == 3 * 11 * forward


@pytest.mark.parametrize(
    ("model", "steps", "expected"), [(paper_base(), 100_000, 9.45e17), (paper_big(), 300_000, 9.63e18)]
)
def test_a_papers_training_costs_six_operations_a_parameter_and_token(model: ModelConfig, steps: int, expected: float):
    # Every weight meets 25,000 tokens an update: the encoder's the source, the decoder's and the softmax's the target.
    assert training_flops(model, TrainConfig(train_steps=steps)) == pytest.approx(expected, rel=2e-3)
