"""The lectures' table, its cells as claims, and a probe carried out, stored and shown like any run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from core.architectures import build_model
from core.config import RunConfig
from core.probe_tasks import TASKS
from results.records import PublishedCapabilityRow, RunRecord, RunResult, Score
from results.run_folder import RunFolder
from results.store import Store
from studies.capabilities import COLUMNS, LONGEST, PROPERTIES, STUDY, SUBJECTS
from studies.rows import published_rows
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import SCALES, SMOKE
from studies.scorecard import open_store
from studies.trials import capability_probe
from studies.trials.capability_probe import measure, train
from studies.work import CapabilityProbe, work_of

LECTURE = """
models word order                        0 1 1 1 1
models context                           0 1 1 1 1
takes input of any length                0 1 1 1 1
output length differs from input length  0 0 1 1 1
keeps long sequences (no forgetting)     0 0 0 1 1
tells important time steps apart         0 0 0 1 1
computes all positions in parallel       0 0 0 0 1
"""
TASK = {task.name: task for task in TASKS}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def record_of(trial: str, updates: int, seed: int = 1) -> RunRecord:
    config = STUDY.trial(trial).config(SMOKE)
    stored = replace(config, train=replace(config.train, train_steps=updates)).to_dict()
    stored |= STUDY.trial(trial).work.to_config(None)
    return RunRecord("0" * 12, "capabilities", trial, seed, "smoke", stored, "c0de", "none", {})


def measured(trial: str, updates: int = 1) -> dict[str, Score]:
    result = measure(CapabilityProbe(2e-3), record_of(trial, updates), CPU)
    return {score.name: score for score in result.scores}


# The table ------------------------------------------------------------------------------------------------------------


def test_the_table_is_the_lectures() -> None:
    assert len(COLUMNS) == 5
    ours = [f"{row.label:<40} {' '.join(str(int(cell)) for cell in row.lecture)}" for row in PROPERTIES]
    assert ours == LECTURE.strip().splitlines()


def test_every_cell_is_a_claim_on_its_side_of_a_threshold_laid_down_beforehand() -> None:
    cells = {claim.id: claim for claim in STUDY.claims}
    for row in PROPERTIES:
        for subject in SUBJECTS:
            claim = cells.pop(f"capabilities.{row.id}.{subject.trial}", None)
            if subject.column is None:
                assert claim is None
                continue
            bound = ">" if row.lecture[subject.column] else "<"
            assert (claim.kind, claim.metric, claim.expected, claim.bound) == ("threshold", f"has_{row.id}", 0.5, bound)
            assert claim.trials == (subject.trial,)
    assert not cells


def test_one_has_a_property_from_half_of_the_way_on_and_parallel_means_that_nothing_waits() -> None:
    by_id = {row.id: row for row in PROPERTIES}
    assert [by_id["order"].is_had(skill) for skill in (-0.1, 0.49, 0.5, 1.0)] == [False, False, True, True]
    assert [by_id["parallel"].is_had(steps) for steps in (0.0, 1.0, 4.0)] == [True, False, False]


def test_the_published_rows_carry_the_table_and_the_claims() -> None:
    rows = [row for row in published_rows() if isinstance(row, PublishedCapabilityRow)]
    assert len(rows) == 7 * 7
    assert {row.claim for row in rows} - {None} == {claim.id for claim in STUDY.claims}
    assert {row.has_it for row in rows if row.model == "memory_network"} == {None}


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_every_trial_builds_at_every_scale_and_needs_no_corpus(scale) -> None:
    for trial in STUDY.trials:
        config = trial.config(scale)
        assert config.train.train_steps <= 5_000
        assert not trial.work.reads_corpus
        stored = config.to_dict() | trial.work.to_config(None)
        assert work_of(stored) == trial.work
        assert RunConfig.from_dict(stored) == config


def test_models_are_of_one_width_and_see_the_longest_task() -> None:
    assert {subject.model.d_model for subject in SUBJECTS} == {64}
    memory = next(subject.model for subject in SUBJECTS if subject.trial == "memory_network")
    assert memory.memory_size >= max(task.longest for task in TASKS) == LONGEST


# What is measured -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trial", "waits"),
    [
        ("feed_forward_pooled", False),
        ("feed_forward_concatenated", False),
        ("recurrent", True),
        ("encoder_decoder", True),
        ("attention", True),
        ("transformer", False),
        ("memory_network", False),
    ],
)
def test_only_recurrence_makes_positions_wait_for_each_other(trial: str, waits: bool) -> None:
    score = capability_probe._count_steps(STUDY.trial(trial).config(SMOKE).model)
    assert score.value >= 1.0 if waits else score.value == 0.0


def test_a_plain_recurrence_adds_its_operations_by_hand() -> None:
    """Of Elman's layer each step adds a product with the last state, its sum with the input's, and a tanh, and what
    takes the state apart: a whole number of operations, the same at every step."""
    score = capability_probe._count_steps(STUDY.trial("recurrent").config(SMOKE).model)
    shorter, longer = (score.details["operations"][length] for length in ("32", "64"))
    assert (longer - shorter) % 32 == 0
    assert 3 <= score.value <= 6


def test_what_a_model_refuses_counts_as_not_having_it_and_says_why() -> None:
    scores = measured("feed_forward_concatenated")
    assert scores["output_skill"].value == 0.0
    assert "one output for each input piece" in scores["output_skill"].details["refused"]
    assert scores["length_skill"].value == 0.0
    assert "does not fit into the 11 places" in scores["length_skill"].details["refused"]


def test_a_score_says_what_chance_and_threshold_are_and_how_it_went_by_distance() -> None:
    scores = measured("recurrent")
    recall = scores["recall_skill"]
    assert recall.dataset == "probe/recall"
    assert recall.details["chance"] == 0.25
    assert scores["has_recall"].details == {"value": recall.value, "threshold": 0.5}
    points = recall.details["by_distance"]
    assert [point["distance"] for point in points] == list(range(1, 17))
    assert sum(point["items"] for point in points) == capability_probe.NUM_HELD_OUT
    far = [point for point in points if point["distance"] >= TASK["recall"].far]
    right = sum(point["accuracy"] * point["items"] for point in far)
    items = sum(point["items"] for point in far)
    assert recall.num_items == items
    assert recall.details["accuracy"] == pytest.approx(right / items)
    assert recall.value == pytest.approx((right / items - 0.25) / 0.75)


def test_the_same_seed_gives_the_same_scores_and_another_another() -> None:
    def nll(seed: int) -> list[float]:
        result = measure(CapabilityProbe(2e-3), record_of("recurrent", 2, seed), CPU)
        return [score.value for score in result.scores]

    assert nll(1) == nll(1)
    assert nll(1) != nll(2)


def test_a_perfect_and_a_blind_answer_end_at_one_and_at_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    config = STUDY.trial("recurrent").config(SMOKE)
    monkeypatch.setattr(capability_probe, "train", lambda *arguments: 0)
    for answer, skill in ((np.ones(1_000, bool), 1.0), (np.arange(1_000) % 2 == 0, 0.0)):
        monkeypatch.setattr(capability_probe, "ask", lambda *arguments, answer=answer: answer)
        score = capability_probe._measure_task(TASK["order"], 0, config, CapabilityProbe(2e-3), 1, CPU)
        assert score.value == pytest.approx(skill)


def test_training_learns_an_easy_task_and_stops_there() -> None:
    torch.manual_seed(1)
    model = build_model(STUDY.trial("recurrent").config(SMOKE).model)
    updates = train(model, TASK["length"], np.random.default_rng(1), 400, 5e-3, CPU)
    assert updates < 400
    held_out = TASK["length"].draw(np.random.default_rng(2), 200, False)
    assert capability_probe.ask(model, TASK["length"], held_out, CPU).mean() > 0.95


# Stored and shown -----------------------------------------------------------------------------------------------------


@pytest.fixture
def home(workspace: Workspace, pretend: Callable[..., RunFolder]) -> Path:
    """Two models with made-up scores at smoke scale: one has everything, one has nothing and refuses one task."""
    for run in plan_runs(STUDY, SMOKE, 1, workspace, ["transformer", "recurrent"]):
        has_it = run.record.trial == "transformer"
        pretend(run, list(_made_up(run, has_it)))
    return workspace.home


def _made_up(run: PlannedRun, has_it: bool):
    for task in TASKS:
        details = {"chance": task.chance, "task": task.description, "accuracy": float(has_it)}
        if task.name == "output" and not has_it:
            details["refused"] = "one output for each input piece"
        if task.name == "recall":
            details["by_distance"] = [{"distance": d, "accuracy": 0.9, "items": 5} for d in (1, 2)]
        value = 1.0 if has_it else 0.0
        for name in (f"{task.name}_skill", f"has_{task.name}"):
            yield Score(name, value, f"probe:{task.name}", f"probe/{task.name}", 1_000, details)
    for name, value in (("added_steps", 0.0 if has_it else 3.0), ("has_parallel", float(has_it))):
        yield Score(name, value, "counted:autograd-graph", "probe/parallel", 1, {})


def test_the_view_sets_lecture_and_measurement_side_by_side(home: Path) -> None:
    store: Store = open_store(Workspace(home))[0]
    rows = store.fetch("SELECT * FROM capabilities").to_pylist()
    assert len(rows) == 3 * 7 * 7
    cells = {(row["scale"], row["property"], row["model"]): row for row in rows}
    cell = cells["smoke", "output", "recurrent"]
    assert (cell["published"], cell["measured"], cell["value"]) == (False, False, 0.0)
    assert cell["refused"] == "one output for each input piece"
    cell = cells["smoke", "order", "recurrent"]
    assert (cell["published"], cell["measured"], cell["chance"]) == (True, False, 0.5)
    for name in ("order", "parallel"):
        cell = cells["smoke", name, "transformer"]
        assert (cell["published"], cell["measured"], cell["seeds"]) == (True, True, 1)
    assert cells["smoke", "order", "attention"]["measured"] is None
    assert cells["smoke", "order", "attention"]["verdict"] == "not run"
    assert cells["smoke", "order", "memory_network"]["published"] is None
    assert cells["smoke", "order", "memory_network"]["verdict"] is None
    assert cells["smoke", "parallel", "transformer"]["verdict"] == "agrees"
    assert cells["smoke", "order", "recurrent"]["verdict"] == "disagrees"
    assert not any(math.isnan(row["value"] or 0.0) for row in rows)


def test_the_report_shows_cells_refusals_and_the_recall_plot(home: Path) -> None:
    from reports import figures, tables

    database = open_store(Workspace(home))[0].home / "results.duckdb"
    table = str(tables.capabilities(database, "smoke"))
    assert table.count("lecture: ") == 7 * 6
    assert "refused" in table
    assert "recurrent, models word order: lecture yes, measured no" in table
    plot = str(figures.recall_by_distance(database, "smoke"))
    assert "Transformer 0.90 at 1, 0.90 at 2" in plot
    assert "No model has been asked" in str(figures.recall_by_distance(database, "small"))


def test_a_run_is_carried_out_into_its_folder(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from studies.trials.execution import execute

    monkeypatch.setattr(capability_probe, "train", lambda *arguments: 1)
    (run,) = plan_runs(STUDY, SMOKE, 1, workspace, ["recurrent"])
    execute(run.record, workspace, 1, CPU)
    result: RunResult = run.folder.result()
    assert [score.name for score in result.scores] == [name for row in PROPERTIES for name in (row.metric, row.cell)]
    assert set(result.phases) == {row.id for row in PROPERTIES}
    assert run.record.data_fingerprint == "none"
