"""Table 1 at work: counts are exact, seconds have an error, and a run means the same at every scale."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from results.records import Score
from studies.claim import METRICS
from studies.layer_types import Sizes, multiply_adds
from studies.runs import Workspace, plan_runs
from studies.scales import SCALES, get_scale
from studies.table1 import ROWS, STUDY
from studies.trials import complexity_probe
from studies.trials.complexity_probe import SUBJECTS, TIMED, Sweep, measure
from studies.work import ComplexityProbe, work_of


@pytest.fixture(autouse=True)
def _one_thread_and_small_sweeps(monkeypatch: pytest.MonkeyPatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    small = {key: Sweep((8, 16, 32), Sizes(n=16, d=16, k=3, r=9)) for key in TIMED}
    small |= {key: Sweep((9, 17, 33), Sizes(n=16, d=16)) for key in TIMED if key[1] == "r"}
    monkeypatch.setattr(complexity_probe, "TIMED", small)
    monkeypatch.setattr(complexity_probe, "GRID", (8, 16, 32))
    yield
    torch.set_num_threads(threads)


@cache
def scores_of(trial: str) -> dict[str, Score]:
    return {score.name: score for score in measure(STUDY.trial(trial).work, seed=1).scores}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_counted_operations_are_the_closed_form_and_grow_as_printed(row) -> None:
    for size, power in row.complexity.items():
        scores = scores_of(f"{row.id}.cost.{size}")
        assert scores["flops_exponent"].value == pytest.approx(power, abs=1e-9)
        assert scores["flops_difference"].value == 0.0
        fit = scores["time_exponent"].details["fit"]
        assert fit["degrees"] == 1
        assert fit["standard_error"] > 0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_steps_and_paths_grow_as_printed(row) -> None:
    assert scores_of(f"{row.id}.steps.n")["steps_exponent"].value == pytest.approx(row.sequential, abs=0.05)
    for size, power in (row.path or {}).items():
        assert scores_of(f"{row.id}.path.{size}")["path_exponent"].value == pytest.approx(power, abs=0.06)


def test_six_layers_of_dilated_kernels_of_3_connect_729_positions() -> None:
    score = scores_of("convolutional.path.n")["path_length"]
    assert score.value == 6
    assert score.details["costs"] == [1, 2, 3, 4, 5, 6]
    assert len(score.details["hops"]) == 27


def test_contiguous_kernels_take_as_many_layers_as_widths_fit_in() -> None:
    scores = scores_of("contiguous.path.k")
    assert scores["path_exponent"].value == pytest.approx(-1, abs=0.1)
    assert scores["path_length"].value == 2  # 63 positions wide, 64 to cross


def test_attention_and_recurrence_cost_the_same_where_n_is_d() -> None:
    scores = scores_of("self_attention_against_recurrent")
    assert scores["flops_ratio"].value == 1.0
    assert scores["flops_ratio"].details["ratios"] == [[1, 0.5, 0.25], [2, 1, 0.5], [4, 2, 1]]
    assert scores["time_ratio"].details["n"] < scores["time_ratio"].details["d"]
    assert scores["time_ratio"].details["repeats"]["degrees"] == complexity_probe.ROUNDS - 1


def test_separable_convolution_stays_in_proportion_to_attention_and_feed_forward() -> None:
    score = scores_of("separable_against_attention")["flops_exponent"]
    assert score.value == pytest.approx(0, abs=1e-9)
    assert score.details["costs"] == pytest.approx([0.25] * 4)  # (1/2 + 1/4) / (1 + 2) of n^3


@pytest.mark.parametrize(
    ("ratios", "at"), [([0.25, 0.5, 2.0], 16 * 2**0.5), ([0.1, 0.2, 0.3], None), ([2.0, 3.0, 4.0], None)]
)
def test_crossover_lies_between_sizes(ratios: list[float], at: float | None) -> None:
    found = complexity_probe._crossover(np.array(ratios))
    assert found == (at if at is None else pytest.approx(at))


def test_every_subject_has_the_formula_of_what_it_builds() -> None:
    sizes = Sizes(n=12, d=6, k=3, r=5)
    for name, subject in SUBJECTS.items():
        counted = complexity_probe.count_flops(subject.build(sizes), sizes.n, sizes.d)
        assert counted == 2 * multiply_adds(subject.formula, sizes), name


def test_every_claim_of_a_layer_at_work_finds_its_score() -> None:
    for claim in STUDY.claims:
        for trial in claim.trials:
            assert claim.metric in scores_of(trial), claim.id
            assert METRICS[claim.metric].counted or claim.metric.startswith("time_")


def test_a_run_is_the_same_at_every_scale_and_needs_no_corpus(tmp_path: Path) -> None:
    planned = [plan_runs(STUDY, scale, 1, Workspace(tmp_path)) for scale in SCALES]
    ids = [[run.record.run for run in runs] for runs in planned]
    assert ids[0] == ids[1] == ids[2]
    assert {run.record.scale for run in planned[0]} == {"paper"}
    assert {run.status.status for run in planned[0]} == {"queued"}
    assert {run.record.data_fingerprint for run in planned[0]} == {"none"}


def test_stored_work_is_read_back(tmp_path: Path) -> None:
    run = plan_runs(STUDY, get_scale("smoke"), 1, Workspace(tmp_path), ["recurrent.steps.n"])[0]
    assert work_of(run.record.config) == ComplexityProbe("recurrent", "steps", "n")
