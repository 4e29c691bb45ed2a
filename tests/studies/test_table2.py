"""Table 2 as printed (table2_published.csv): rows, costs by the paper's method, sentences, and the trials behind it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from core.complexity import num_parameters
from core.sequence_model import num_parameters as num_built_parameters
from core.transformer import Transformer
from studies import table3
from studies.scales import PAPER, SCALES, SMALL, SMOKE, Scale
from studies.study import Trial
from studies.table2 import EARLIER, OURS, ROWS, STUDY, best_earlier, training_flops

PUBLISHED = list(csv.DictReader(Path(__file__).with_name("table2_published.csv").open(encoding="utf-8")))
BY_ID = {claim.id: claim for claim in STUDY.claims}
COLUMNS = ("bleu_ende", "bleu_enfr", "flops_ende", "flops_enfr")


def test_rows_are_the_printed_ones() -> None:
    assert [row.model for row in ROWS] == [row["model"] for row in PUBLISHED]
    assert [row.ours for row in ROWS] == [row["ours"] == "yes" for row in PUBLISHED]
    for row, printed in zip(ROWS, PUBLISHED, strict=True):
        for column in COLUMNS:
            assert getattr(row, column) == (float(printed[column]) if printed[column] else None), (row.model, column)


def test_every_printed_cell_is_a_claim_and_empty_ones_are_none() -> None:
    for row, printed in zip(ROWS, PUBLISHED, strict=True):
        for column in COLUMNS:
            label, direction = column.split("_")
            claim = BY_ID.get(f"table2.{row.id}.{direction}.{label}")
            if printed[column]:
                assert claim.expected == float(printed[column])
                assert claim.quoted == (printed["ours"] == "no")
            else:
                assert claim is None
    assert sum(claim.quoted for claim in STUDY.claims) == 25


@pytest.mark.parametrize(
    ("hours", "by_hand"),
    [(12, 12 * 3600 * 8 * 9.5e12), (100_000 * 0.4 / 3600, 3.04e18), (300_000 / 3600, 2.28e19), (84, 2.298e19)],
)
def test_costs_by_time_gpus_and_rate(hours: float, by_hand: float) -> None:
    """Pitfall G1's numbers."""
    assert training_flops(hours) == pytest.approx(by_hand, rel=1e-3)


def test_only_the_printed_time_gives_the_base_models_cost_and_both_give_the_big_ones() -> None:
    fits = {}
    for model in ("base", "big"):
        for label in ("flops", "flops_by_steps"):
            claim = BY_ID[f"table2.{model}.ende.{label}"]
            fits[model, label] = abs(claim.compute() - claim.expected) <= claim.tolerance
    assert fits == {
        ("base", "flops"): True,
        ("base", "flops_by_steps"): False,
        ("big", "flops"): True,
        ("big", "flops_by_steps"): True,
    }


def test_best_earlier_systems() -> None:
    assert best_earlier("ende", ensembles=True).id == "convs2s_ensemble"
    assert best_earlier("ende", ensembles=False).id == "moe"
    assert best_earlier("enfr", ensembles=False).id == "moe"
    assert best_earlier("enfr", ensembles=True).id == "convs2s_ensemble"
    assert all(not row.ours for row in EARLIER)


def test_thresholds_of_the_text() -> None:
    assert BY_ID["table2.big_over_earlier.ende"].expected == 28.36
    assert BY_ID["table2.base_over_earlier.ende"].expected == 26.36
    assert BY_ID["table2.big_over_single.enfr"].expected == 40.56
    assert all(BY_ID[f"table2.{name}"].bound == ">" for name in ("big_over_earlier.ende", "base_over_earlier.ende"))
    # The paper's own numbers pass them.
    assert OURS["big"].bleu_ende > 28.36
    assert OURS["base"].bleu_ende > 26.36
    assert OURS["big"].bleu_enfr > 41.0 > 40.56


def test_printed_sentences_by_hand() -> None:
    assert BY_ID["table2.printed.big_over_earlier.ende"].compute() == pytest.approx(28.4 - 26.36)
    assert BY_ID["table2.printed.base_cost.ende"].compute() == pytest.approx(3.3e18 / 9.6e18)
    assert BY_ID["table2.printed.big_cost.enfr"].compute() == pytest.approx(2.3e19 / 1.2e20)


# The trials -----------------------------------------------------------------------------------------------------------


def test_trials_at_paper_scale_are_the_papers() -> None:
    configs = {trial.name: trial.config(PAPER) for trial in STUDY.trials}
    assert list(configs) == ["base.ende", "big.ende", "base.enfr", "big.enfr"]
    for name, config in configs.items():
        model, direction = name.split(".")
        sizes = (config.model.num_layers, config.model.d_model, config.model.d_ff, config.model.num_heads)
        assert sizes == ((6, 512, 2048, 8) if model == "base" else (6, 1024, 4096, 16))
        assert config.train.train_steps == (100_000 if model == "base" else 300_000)
        assert config.train.average_last == (5 if model == "base" else 20)
        assert (config.data.tgt, config.data.vocab_size) == (("de", 37_000) if direction == "ende" else ("fr", 32_000))
        assert config.data.test_split == "newstest2014"
    assert [config.model.dropout for config in configs.values()] == [0.1, 0.3, 0.1, 0.1]


def test_averaged_checkpoints_are_ten_minutes_apart() -> None:
    """1,500 updates of 0.4 s, 600 of 1.0 s."""
    spacing = {trial.name: trial.config(PAPER).train.average_every_steps for trial in STUDY.trials}
    assert spacing == {"base.ende": 1_500, "big.ende": 600, "base.enfr": 1_500, "big.enfr": 600}


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_averaged_checkpoints_lie_within_the_training_at_every_scale(scale: Scale) -> None:
    for trial in STUDY.trials:
        train = trial.config(scale).train
        assert 1 <= (train.average_last - 1) * train.average_every_steps < train.train_steps / 4


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_english_german_is_table_3s_row_with_averaging(scale: Scale) -> None:
    from dataclasses import replace

    for name in ("base", "big"):
        averaged, plain = STUDY.trial(f"{name}.ende").config(scale), table3.STUDY.trial(name).config(scale)
        assert averaged != plain
        settings = {"average_last": plain.train.average_last, "average_every_steps": plain.train.average_every_steps}
        assert replace(averaged, train=replace(averaged.train, **settings)) == plain


@pytest.mark.parametrize("scale", [SMOKE, SMALL], ids=lambda scale: scale.name)
@pytest.mark.parametrize("trial", STUDY.trials, ids=lambda trial: trial.name)
def test_trial_builds_with_the_counted_parameters(trial: Trial, scale: Scale) -> None:
    config = trial.config(scale)
    with torch.device("meta"):
        assert num_built_parameters(Transformer(config.model)) == num_parameters(config.model)
