from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import pytest

from core.config import (
    DataConfig,
    DecodeConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    TrainConfig,
    paper_base,
    paper_big,
)

DATA = DataConfig("tiny", "en", "de", vocab_size=37_000, dev_split="dev", test_split="test")


def test_defaults_are_the_papers_values():
    base, big = paper_base(), paper_big()
    assert (base.num_layers, base.d_model, base.d_ff, base.num_heads, base.d_k, base.d_v) == (6, 512, 2048, 8, 64, 64)
    assert (big.num_layers, big.d_model, big.d_ff, big.num_heads, big.d_k, big.d_v) == (6, 1024, 4096, 16, 64, 64)
    assert (base.dropout, big.dropout, base.positions, base.vocab_size) == (0.1, 0.3, "sinusoid", 37_000)
    optim, train, decode = OptimConfig(), TrainConfig(), DecodeConfig()
    assert (optim.warmup_steps, optim.beta1, optim.beta2, optim.eps) == (4_000, 0.9, 0.98, 1e-9)
    assert optim.label_smoothing == 0.1
    assert (train.train_steps, train.source_tokens, train.target_tokens) == (100_000, 25_000, 25_000)
    assert (decode.beam_size, decode.length_penalty, decode.max_extra_pieces) == (4, 0.6, 50)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 0}, "num_heads=0 must be a whole number of at least 1"),
        ({"d_ff": 2.5}, r"d_ff=2\.5 must be a whole number"),
        ({"dropout": 1.0}, r"dropout=1\.0 must lie in \[0, 1\)"),
        ({"dropout": -0.1}, r"dropout=-0\.1"),
        ({"positions": "rotary"}, "positions='rotary'"),
        ({"d_model": 511}, "d_model=511 is odd"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_by_name_and_value(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        replace(paper_base(), **changes)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: OptimConfig(warmup_steps=0), "warmup_steps=0"),
        (lambda: OptimConfig(label_smoothing=1.0), r"label_smoothing=1\.0"),
        (lambda: TrainConfig(log_every_steps=0), "log_every_steps=0"),
        (lambda: DecodeConfig(beam_size=0), "beam_size=0"),
        (lambda: DecodeConfig(length_penalty=-0.1), r"length_penalty=-0\.1"),
        (lambda: DecodeConfig(max_extra_pieces=0), "max_extra_pieces=0"),
        (lambda: DecodeConfig(batch_sentences=0), "batch_sentences=0"),
        (lambda: DecodeConfig(batch_tokens=0), "batch_tokens=0"),
        (lambda: DecodeConfig(beam_size=5_000), "beam_size=5000 must lie between 1 and 1,000"),
        (lambda: DecodeConfig(max_extra_pieces=20_000), "max_extra_pieces=20000 must lie between 1 and 10,000"),
        (lambda: DecodeConfig(length_penalty=float("nan")), r"length_penalty=nan must lie in \[0, 10\]"),
        (lambda: replace(DATA, tgt="en"), "'en'; a translation needs two languages"),
        (lambda: replace(DATA, vocab_size=3), "vocab_size=3"),
        (lambda: replace(DATA, max_train_pieces=1), "max_train_pieces=1"),
        (lambda: replace(DATA, vocab_kind="unigram"), "vocab_kind='unigram' must be 'bpe' or 'wordpiece'"),
        (lambda: replace(DATA, vocab_sample_pairs=0), "vocab_sample_pairs=0 must be at least 1, or None"),
        (lambda: RunConfig(paper_base(40_960), DATA), r"model\.vocab_size=40960 and data\.vocab_size=37000"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name_and_value(build, message: str):
    with pytest.raises(ValueError, match=message):
        build()


def test_odd_width_is_fine_where_positions_are_learned():
    assert replace(paper_base(), d_model=511, positions="learned").d_model == 511


def test_heads_at_constant_computation():
    """Pitfall B16."""
    for num_heads in (1, 4, 16, 32):
        model = paper_base().with_heads(num_heads)
        assert (model.num_heads, model.d_k, model.d_v) == (num_heads, 512 // num_heads, 512 // num_heads)
    with pytest.raises(ValueError, match=r"num_heads=6 does not divide d_model=512 \(remainder 2\); set d_k and d_v"):
        paper_base().with_heads(6)


def test_a_configuration_survives_json():
    config = RunConfig(
        model=replace(paper_base(), positions="learned", dropout=0.2),
        data=DATA,
        optim=OptimConfig(label_smoothing=0.0),
        train=TrainConfig(train_steps=7),
        decode=DecodeConfig(beam_size=1),
    )
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_unknown_names_in_a_saved_configuration_are_refused():
    values = RunConfig(paper_base(), DATA).to_dict()
    values["model"]["num_haeds"] = 4
    with pytest.raises(ValueError, match="num_haeds"):
        RunConfig.from_dict(values)


def test_configurations_are_frozen_and_equal_by_value():
    assert hash(paper_base()) == hash(ModelConfig(vocab_size=37_000))
    with pytest.raises(FrozenInstanceError):
        paper_base().d_model = 1


def test_listing_and_planning_need_no_torch():
    code = "import sys, core.config, core.complexity, core.schedule; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
