"""The figures of Table 1 and section 3: from runs at full size, whatever the page's scale, and from none at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports import layer_figures, tables
from results.provenance import run_id
from results.records import ClaimRow, PublishedTable1Row, RunRecord, RunResult, Score, StudyRow, VerdictRow
from results.run_folder import RunFolder
from results.store import Store

CODE = "c0de00000001"
PROVENANCE = {"hardware": {}, "gpus": [], "versions": {}, "git_commit": None, "dirty": False}
FIT = {"standard_error": 0.02, "degrees": 2}
HOPS = [[1, 2, 3], [0, 1, 2], [0, 0, 1]]


def add(home: Path, study: str, trial: str, scores: Sequence[tuple[str, float, dict[str, Any]]], scale: str = "paper"):
    run = run_id(study, trial, 1, scale, {}, "none", CODE)
    folder = RunFolder.create(home / "runs", RunRecord(run, study, trial, 1, scale, {}, CODE, "none", PROVENANCE))
    folder.claim_attempt().close()
    scored = tuple(Score(name, value, "made up", "sizes", 3, details) for name, value, details in scores)
    folder.finish(RunResult(1.0, 0, {"measure": 1.0}, scored))


def grown(size: str, *costs: float, **more: Any) -> dict[str, Any]:
    return {"size": size, "sizes": [64, 128, 256], "costs": list(costs), "fit": FIT, **more}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("layers")
    store = Store(home)
    names = {
        "table1.recurrent.complexity.n": "exponent",
        "table1.recurrent.complexity.n.flops": "flops_exponent",
        "table1.recurrent.complexity.n.measured": "time_exponent",
        "table1.recurrent.sequential.n.measured": "steps_exponent",
    }
    claims = [
        ClaimRow(name, "table1", "Table 1", "Grows.", "exponent", metric, 1.0, 0.1, "power", "Table 1", full_size=True)
        for name, metric in names.items()
    ]
    store.sync_registry(
        [StudyRow("table1", "Complexity", "Table 1"), StudyRow("section3", "Statements", "Section 3")],
        claims,
        [PublishedTable1Row(0, "recurrent", "Recurrent", "O(n * d^2)", "O(n)", "O(n)")],
    )
    store.set_code_version(CODE)
    for layer, power in (("recurrent", 1.0), ("self_attention", 2.0)):
        costs = [size**power for size in (64, 128, 256)]
        add(home, "table1", f"{layer}.cost.n", [
            ("flops_exponent", power, grown("n", *costs)), ("time_exponent", power, grown("n", *costs)),
        ])  # fmt: skip
        add(home, "table1", f"{layer}.path.n", [("path_exponent", 1.0, grown("n", 64, 128, 256, hops=HOPS))])
    ratios = [[1.0, 0.5, 0.25], [2.0, 1.0, 0.5], [4.0, 2.0, 1.0]]
    add(home, "table1", "self_attention_against_recurrent", [
        ("time_ratio", 0.5, {"sizes": [64, 128, 256], "ratios": ratios, "crossovers": [64.0, 128.0, None]}),
    ])  # fmt: skip
    for trial in ("scaled", "unscaled"):
        details = {"sizes": [4, 16, 64], "values": [1.0, 1.0, 1.0], "fit": FIT}
        add(home, "section3", trial, [("variance_exponent", 0.0, details), ("gradient_exponent", 0.0, details)])
        for size in (4, 64):
            details = {"variant": trial, "size": size, "sizes": [size], "accuracies": [[90.0], [80.0]]}
            add(home, "section3", f"{trial}.dk{size}", [("recall_accuracy", 85.0, details)], scale="smoke")
    store.ingest()
    store.write_verdicts([
        VerdictRow(name, "paper", "reproduced", value, value, value, 1, "counted")
        for name, value in zip(names, (1.0, 1.01, 0.95, 0.99), strict=True)
    ])  # fmt: skip
    return home / "results.duckdb"


def panels(html: str) -> list[str]:
    return re.findall(r'aria-label="([^"]*)"><svg', html)


def test_growth_names_each_fitted_power_with_its_error(database: Path) -> None:
    words = panels(layer_figures.growth(database))
    assert len(words) == 2
    assert "recurrent grows as n to the 1.00 ± 0.02" in words[0]
    assert "self-attention grows as n to the 2.00 ± 0.02" in words[1]


def test_paths_are_drawn_by_layer_and_over_n(database: Path) -> None:
    words = panels(layer_figures.paths(database))
    assert words[1] == "recurrent: at most 3 hops between 3 positions; 6 pairs are connected"
    assert words[-1].startswith("Longest path over n: ")


def test_crossover_says_where_times_cross(database: Path) -> None:
    html = layer_figures.crossover(database)
    assert "d = 64: n = 64, d = 128: n = 128, d = 256: none up to 256" in html
    assert len(panels(html)) == 2


def test_parts_are_read_at_full_size_and_trainings_at_the_pages_scale(database: Path) -> None:
    assert len(panels(layer_figures.scaling(database))) == 2
    assert "scaled 85.0, 85.0" in panels(layer_figures.attention_quality(database, "smoke"))[0]
    assert "Not measured yet" in layer_figures.attention_quality(database, "small")


@pytest.mark.parametrize(
    "draw",
    [
        layer_figures.growth,
        layer_figures.paths,
        layer_figures.crossover,
        layer_figures.scaling,
        lambda home: layer_figures.attention_quality(home, "smoke"),
        layer_figures.costs,
        lambda home: layer_figures.positions(home, "smoke"),
    ],
)
def test_figures_of_an_empty_database_say_what_to_run(empty_home: Path, draw) -> None:
    assert "aiayn run" in draw(empty_home / "results.duckdb")


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_table1_has_printed_counted_and_measured_side_by_side_at_every_scale(database: Path, scale: str) -> None:
    html = " ".join(re.sub(r"<[^>]*>", " ", tables.table1(database, scale)).split())
    assert "O(n * d^2) n : by formula 1.00, counted at work 1.01, timed 0.95" in html
    assert "O(n) n : counted at work 0.99" in html
