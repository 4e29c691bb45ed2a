"""The registry in the database: claims with their identity, the tables as printed, and views beside measured runs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from results.run_folder import RunFolder
from results.store import Store
from studies import table1, table2, table3, table4
from studies.registry import STUDIES
from studies.runs import Workspace, plan_runs
from studies.scales import SMOKE
from studies.scorecard import open_store, sync_registry

Pretend = Callable[..., RunFolder]
CLAIMS = [claim for study in STUDIES for claim in study.claims]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """An empty workspace's store with its verdicts. Only to be read."""
    store, problems = open_store(Workspace(tmp_path_factory.mktemp("home")))
    assert problems == ()
    return store


def test_all_studies_and_claims_are_there_in_order(registry: Store) -> None:
    studies = registry.fetch("SELECT study, title, cells FROM studies ORDER BY rowid").to_pylist()
    assert studies == [{"study": s.name, "title": s.title, "cells": s.cells} for s in STUDIES]
    ids = registry.fetch("SELECT claim FROM claims ORDER BY rowid").to_pydict()["claim"]
    assert ids == [claim.id for claim in CLAIMS]


def test_claims_are_stored_whole(registry: Store) -> None:
    rows = {row["claim"]: row for row in registry.fetch("SELECT * FROM claims").to_pylist()}
    for claim in CLAIMS:
        row = rows[claim.id]
        for field in ("kind", "metric", "expected", "tolerance", "unit", "source", "reading", "misquote", "quoted"):
            assert row[field] == getattr(claim, field), (claim.id, field)
        assert row["full_size"] == claim.full_size
        assert row["trials"] == list(claim.trials)
    big = rows["table2.big.ende.bleu"]
    assert (big["dataset"], big["num_items"]) == ("wmt14/newstest2014/en-de", 3_003)
    assert "compounds:##AT##-##AT##" in big["protocol"]
    assert json.loads(big["budget"]) == [{"source_tokens": 25_000, "target_tokens": 25_000, "train_steps": 300_000}]
    assert rows["section5.beta1"]["budget"] is None


@pytest.mark.parametrize(
    ("claim", "direction"),
    [
        ("table3.a.base_over_h1.bleu", ">"),
        ("table3.a.base_over_h1.ppl", "<"),
        ("table2.big_over_earlier.ende", ">"),
        ("table2.printed.big_cost.enfr", "<"),
        ("table3.base.bleu", None),
    ],
)
def test_direction_is_that_of_the_order_or_the_bound(claim: str, direction: str | None, registry: Store) -> None:
    assert registry.fetch("SELECT direction FROM claims WHERE claim = ?", [claim]).to_pydict() == {
        "direction": [direction]
    }


def test_writing_it_again_changes_nothing(registry: Store) -> None:
    before = registry.fetch("SELECT * FROM claims ORDER BY rowid").to_pylist()
    sync_registry(registry)
    assert registry.fetch("SELECT * FROM claims ORDER BY rowid").to_pylist() == before


# Views ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "rows"), [("table1", len(table1.ROWS)), ("table2", len(table2.ROWS)), ("table4", len(table4.ROWS))]
)
def test_every_published_row_stands_at_every_scale_in_the_papers_order(view: str, rows: int, registry: Store) -> None:
    counts = registry.fetch(f"SELECT scale, count(*) AS n FROM {view} GROUP BY scale").to_pylist()
    assert {row["scale"]: row["n"] for row in counts} == dict.fromkeys(("smoke", "small", "paper"), rows)
    first = {"table1": "layer", "table2": "label", "table4": "parser"}[view]
    order = registry.fetch(f"SELECT {first} AS name FROM {view} WHERE scale = 'smoke'").to_pydict()["name"]
    assert order == [
        *{
            "table1": (row.id for row in table1.ROWS),
            "table2": (row.model for row in table2.ROWS),
            "table4": (row.parser for row in table4.ROWS),
        }[view]
    ]


def test_table1_has_counted_exponents_and_none_for_a_logarithm(registry: Store) -> None:
    rows = {row["layer"]: row for row in registry.fetch("SELECT * FROM table1 WHERE scale = 'small'").to_pylist()}
    attention, convolution = rows["self_attention"], rows["convolutional"]
    assert attention["counted_complexity_n"] == pytest.approx(2)
    assert attention["counted_complexity_k"] is None
    assert attention["counted_sequential_n"] == pytest.approx(0)
    assert convolution["counted_complexity_k"] == pytest.approx(1)
    assert convolution["counted_path_n"] is None
    # Hops are whole ones, so that the count steps where the formula is smooth.
    assert rows["self_attention_restricted"]["counted_path_r"] == pytest.approx(-1, abs=0.05)
    assert all(row["measured_complexity_n"] is None for row in rows.values())


def test_table2_has_published_cells_as_printed_and_marks_what_is_quoted(registry: Store) -> None:
    rows = registry.fetch("SELECT * FROM table2 WHERE scale = 'paper'").to_pylist()
    for row, printed in zip(rows, table2.ROWS, strict=True):
        assert row["quoted"] == (not printed.ours)
        for cell in ("bleu_ende", "bleu_enfr", "flops_ende", "flops_enfr"):
            assert row[f"published_{cell}"] == getattr(printed, cell)
        assert (row["measured_bleu_ende"], row["measured_bleu_enfr"]) == (None, None)
        assert (row["seeds_ende"], row["failed_enfr"]) == (0, 0)


def test_table4_marks_what_is_quoted(registry: Store) -> None:
    rows = registry.fetch("SELECT * FROM table4 WHERE scale = 'paper'").to_pylist()
    assert [row["trial"] for row in rows if not row["quoted"]] == ["wsj_only", "semi"]
    assert [row["published_f1"] for row in rows] == [row.f1 for row in table4.ROWS]


def test_figures_have_a_row_for_every_claim_and_scale(registry: Store) -> None:
    rows = registry.fetch("SELECT * FROM figures").to_pylist()
    claims = [claim for study in STUDIES if study.name.startswith("figure") for claim in study.claims]
    assert sorted((row["scale"], row["claim"]) for row in rows) == sorted(
        (scale, claim.id) for scale in ("smoke", "small", "paper") for claim in claims
    )
    assert {row["verdict"] for row in rows} <= {"not run", "blocked"}
    assert {row["figure"]: row["title"] for row in rows}["figure4"] == "Anaphora resolution"


def test_measured_runs_of_table2_stand_beside_the_published_row(workspace: Workspace, pretend: Pretend) -> None:
    base = plan_runs(table2.STUDY, SMOKE, 3, workspace, ("base.ende",))
    for run, bleu in zip(base[:2], (20.0, 23.0), strict=True):
        pretend(run, {"test_bleu_paper": bleu, "test_bleu": bleu + 1, "dev_bleu_paper": 99.0})
    pretend(base[2], failure=("loss nan", "diverged"))
    pretend(plan_runs(table2.STUDY, SMOKE, 1, workspace, ("big.enfr",))[0], {"test_bleu_paper": 30.0})
    store, _ = open_store(workspace)
    rows = {row["model"]: row for row in store.fetch("SELECT * FROM table2 WHERE scale = 'smoke'").to_pylist()}
    assert rows["base"]["measured_bleu_ende"] == pytest.approx(21.5)
    assert rows["base"]["sacrebleu_ende"] == pytest.approx(22.5)
    assert rows["base"]["bleu_sd_ende"] == pytest.approx(4.5**0.5)
    assert (rows["base"]["seeds_ende"], rows["base"]["failed_ende"], rows["base"]["seeds_enfr"]) == (2, 1, 0)
    assert rows["base"]["hours_ende"] == pytest.approx(1 / 3600)
    assert (rows["big"]["measured_bleu_ende"], rows["big"]["measured_bleu_enfr"]) == (None, 30.0)
    assert rows["moe"]["measured_bleu_ende"] is None


def test_every_claim_has_a_verdict_where_it_stands(registry: Store) -> None:
    """All that is about the paper's sizes alone stands at its scale, all else at every scale."""
    rows = registry.fetch("SELECT claim, scale FROM verdicts").to_pylist()
    stands = {
        (c.id, scale) for c in CLAIMS for scale in ("smoke", "small", "paper") if scale == "paper" or not c.full_size
    }
    assert {(row["claim"], row["scale"]) for row in rows} == stands


def test_claims_without_a_trial_are_not_run_or_blocked_and_say_why(registry: Store) -> None:
    """B74: Table 4 without its trials or files is no failure and no 0."""
    awaited = {
        claim.id: study.awaited_by(claim) for study in STUDIES for claim in study.claims if study.awaited_by(claim)
    }
    rows = registry.fetch("SELECT claim, verdict, measured, reason FROM verdicts").to_pylist()
    seen = [row for row in rows if row["claim"] in awaited]
    assert {row["verdict"] for row in seen} <= {"not run", "blocked"}
    for row in seen:
        assert row["measured"] is None
        if row["verdict"] == "not run":
            assert awaited[row["claim"]][0] in row["reason"]


def test_misquotations_and_quotations_end_as_they_should(registry: Store) -> None:
    rows = registry.fetch("SELECT verdict, misquote, quoted FROM verdicts JOIN claims USING (claim)").to_pylist()
    assert {row["verdict"] for row in rows if row["misquote"]} == {"not reproduced"}
    assert {row["verdict"] for row in rows if row["quoted"]} == {"quoted"}
    assert sum(row["verdict"] == "quoted" for row in rows) == 35


def test_table3_is_still_there(registry: Store) -> None:
    assert registry.fetch("SELECT count(*) AS n FROM table3").to_pydict() == {"n": [3 * len(table3.ROWS)]}
