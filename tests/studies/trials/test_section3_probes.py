"""Section 3 at work: known variances, equal outputs, counted heads, and small tasks that can be learned."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from results.records import Score
from studies.runs import Workspace, plan_runs
from studies.scales import SCALES
from studies.section3 import STUDY
from studies.trials import statement_probe, task_probe
from studies.work import StatementProbe, TaskProbe


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def scores_of(statement: str) -> dict[str, Score]:
    return {score.name: score for score in statement_probe.measure(StatementProbe(statement), seed=1).scores}


def test_variance_of_dot_products_is_d_k_and_1_after_scaling() -> None:
    unscaled, scaled = (scores_of(name)["variance_exponent"] for name in ("unscaled", "scaled"))
    assert unscaled.details["values"] == pytest.approx(statement_probe.WIDTHS, rel=0.1)
    assert scaled.details["values"] == pytest.approx([1.0] * 5, rel=0.1)
    assert unscaled.value == pytest.approx(1, abs=0.05)
    assert scaled.value == pytest.approx(0, abs=0.05)


def test_gradient_of_the_softmax_falls_only_without_scaling() -> None:
    unscaled, scaled = (scores_of(name)["gradient_exponent"].details["values"] for name in ("unscaled", "scaled"))
    assert unscaled == sorted(unscaled, reverse=True)
    assert min(scaled) > 0.9  # of 64 nearly equal weights; all equal, it would be 63 / 64


def test_heads_of_any_number_take_the_same_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_probe, "ROUNDS", 2)
    scores = scores_of("eight_heads_against_one")
    assert scores["flops_ratio"].details["ratios"] == [1.0] * 6
    assert scores["time_ratio"].details["ratios"][0] == 1.0


def test_parts_of_the_model_are_what_the_sentences_say() -> None:
    assert scores_of("feed_forward")["output_difference"].value < 1e-12
    assert scores_of("embedding")["embedding_scale"].value == pytest.approx(math.sqrt(512))
    positions = scores_of("positions")["output_difference"]
    assert positions.value < 1e-7
    wavelengths = positions.details["wavelengths"]
    assert wavelengths[0] == pytest.approx(2 * math.pi)
    assert wavelengths[-1] == pytest.approx(2 * math.pi * 10_000 ** (510 / 512))


def test_positions_without_a_linear_map_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rhythm that quickens turns by another angle at each position."""

    def quickening(num: int, d_model: int) -> torch.Tensor:
        angle = torch.arange(num, dtype=torch.float64)[:, None] ** 1.5 / 10.0 ** (torch.arange(d_model // 2) / d_model)
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)

    monkeypatch.setattr(statement_probe, "sinusoid", quickening)
    assert scores_of("positions")["output_difference"].value > 0.1


def test_memory_of_additive_attention_grows_with_d_k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_probe, "ROUNDS", 2)
    monkeypatch.setattr(statement_probe, "LENGTH", 8)
    ratios = scores_of("dot_product_against_additive")["memory_ratio"].details["ratios"]
    assert all(ratio < 1 for ratio in ratios)


@pytest.mark.parametrize(("task", "variant", "size"), [("recall", "scaled", 8), ("longer", "sinusoid", 2)])
def test_a_task_is_measured_over_trainings_with_the_error_of_their_mean(
    task: str, variant: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RECALL_STEPS", "LONGER_STEPS"):
        monkeypatch.setattr(task_probe, name, 2)
    monkeypatch.setattr(task_probe, "NUM_TRAININGS", 3)
    (score,) = task_probe.measure(TaskProbe(task, variant, size), seed=1).scores
    assert score.name == f"{task}_accuracy"
    assert score.details["repeats"]["degrees"] == 2
    column = score.details["sizes"].index(size)
    assert score.value == pytest.approx(sum(row[column] for row in score.details["accuracies"]) / 3)


def test_recall_is_about_the_asked_pair() -> None:
    """The right answer is the value beside the key that is asked for, and no key stands twice."""
    given, wanted = task_probe.recall_batch(torch.Generator().manual_seed(0), 50)
    keys, values, asked = given.split((task_probe.NUM_PAIRS, task_probe.NUM_PAIRS, 1), dim=1)
    for row in range(50):
        assert len(set(keys[row].tolist())) == task_probe.NUM_PAIRS
        assert values[row, keys[row].tolist().index(int(asked[row]))] == wanted[row, 0]


def test_parts_have_sizes_of_their_own_and_trainings_belong_to_a_scale(tmp_path: Path) -> None:
    smoke, small = (plan_runs(STUDY, scale, 1, Workspace(tmp_path)) for scale in SCALES[:2])
    for here, there in zip(smoke, small, strict=True):
        own = isinstance(here.work, StatementProbe)
        assert (here.record.run == there.record.run) is own
        assert here.record.scale == ("paper" if own else "smoke")
