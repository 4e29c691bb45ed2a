"""The page of one budget, and Table 2's two columns of cost, from a workspace of synthetic runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports import budget, data, tables
from results.provenance import run_id
from results.records import PublishedTable2Row, RunRecord, RunResult, Score, StudyRow
from results.run_folder import RunFolder
from results.store import Store

CODE = "c0de00000001"
COUNTED = "cost:counted operations|of:matrix products, attention's too|backward:twice the forward"
TIMED = "cost:training time x devices x sustained rate|rate:measured|hardware:Test CPU"
PROVENANCE = {"host": "h", "platform": "Linux", "hardware": {"cpu": "Test CPU"}, "gpus": [], "versions": {}}


def add_run(home: Path, study: str, trial: str, seed: int = 1, bleu: float = 20.0, **costs: float) -> None:
    """A finished run with both costs, or a diverged one without any."""
    config = {
        "trial": trial,
        "model": {"architecture": "transformer"},
        "optim": {"learning_rate_scale": 0.5, "max_grad_norm": None},
    }
    run = run_id(study, trial, seed, "smoke", config, "da7a00000001", CODE)
    folder = RunFolder.create(
        home / "runs", RunRecord(run, study, trial, seed, "smoke", config, CODE, "da7a00000001", PROVENANCE)
    )
    attempt = folder.claim_attempt()
    if not costs:
        attempt.fail("the loss is NaN", "diverged")
        return
    for step in (100, 200, 400):
        attempt.log_metrics(step, "dev", {"ppl": 1_000 / step, "greedy_bleu_paper": bleu * step / 400}, step / 10)
    attempt.close()
    details = {"seconds": costs["timed"] / 5e10, "devices": 1, "flops_per_second": 5e10, "benchmark": "products"}
    scores = [
        Score("test_bleu_paper", bleu, "tok:moses-de", "grammar/test/en-de", 50),
        Score("test_bleu", bleu + 1, "tok:13a", "grammar/test/en-de", 50),
        Score("dev_ppl", 2.5, "per word piece", "grammar/dev/en-de", 50),
        Score("counted_flops", costs["counted"], COUNTED, "grammar/train/en-de", 20_000, {"updates": 400}),
        Score("timed_flops", costs["timed"], TIMED, "grammar/train/en-de", 20_000, details),
    ]
    folder.finish(RunResult(details["seconds"], 312_000, {"train": 28.0}, scores))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("budget")
    store = Store(home)
    published = [
        PublishedTable2Row(0, "convs2s", "ConvS2S", True, False, 25.16, 40.46, 9.6e18, 1.5e20),
        PublishedTable2Row(1, "base", "Transformer (base model)", False, False, 27.3, 38.1, 3.3e18, 3.3e18),
    ]
    store.sync_registry([StudyRow("budget", "One budget", "ours"), StudyRow("table2", "t", "c")], [], published)
    store.set_code_version(CODE)
    add_run(home, "budget", "transformer", 1, bleu=30.0, counted=4e11, timed=2e12)
    add_run(home, "budget", "transformer", 2, bleu=32.0, counted=4e11, timed=3e12)
    add_run(home, "budget", "bytenet", 1, bleu=10.0, counted=4.1e11, timed=9e12)
    add_run(home, "budget", "convs2s", 1)
    add_run(home, "table2", "base.ende", 1, bleu=30.0, counted=4e11, timed=2e12)
    store.ingest()
    return home / "results.duckdb"


def rows_of(html: str) -> dict[str, list[str]]:
    """The text of each row's cells by its head."""
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL):
        cells = re.findall(r"<t[hd]\b.*?</t[hd]>", row, flags=re.DOTALL)
        texts = [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in cells]
        found[texts[0]] = texts[1:]
    return found


def test_architectures_stand_by_bleu_with_both_costs_apart(database: Path) -> None:
    html = budget.costs(database, "smoke")
    rows = rows_of(html)
    assert [name for name in rows if name in ("Transformer", "ByteNet", "ConvS2S")] == [
        "Transformer", "ByteNet", "ConvS2S",
    ]  # fmt: skip
    assert rows["Transformer"][2].startswith("31.0 ± 1.4 32.0 13a")
    assert (rows["Transformer"][4], rows["Transformer"][5][:10]) == ("4.0 · 10 11", "2.5 · 10 1")
    assert rows["ByteNet"][6:8] == ["0.5", "not"]
    assert "1 failed" in rows["ConvS2S"][-1]
    assert "Test CPU sustained 5.0" in " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_curves_are_over_the_operations_that_were_counted(database: Path) -> None:
    points = data.budget_curve(database, "smoke", "ppl")
    costs = [point["counted_flops"] for point in points if point["trial"] == "bytenet"]
    assert costs == [pytest.approx(4.1e11 * share) for share in (0.25, 0.5, 1.0)]
    html = budget.quality_against_cost(database, "smoke")
    assert "BLEU by counted operations of training, at the end: Transformer 31.0; ByteNet 10.0" in html
    assert "counted operations of training (log scale)" in html


def test_table2_shows_both_costs_and_gives_earlier_systems_none_of_ours(database: Path) -> None:
    rows = rows_of(tables.table2(database, "smoke"))
    base = next(cells for name, cells in rows.items() if name.startswith("Transformer"))
    assert base[4:7] == ["3.3 · 10 18", base[5], "4.0 · 10 11"]
    assert base[5].startswith("2.0 · 10 12")
    quoted = next(cells for name, cells in rows.items() if name.startswith("ConvS2S"))
    assert quoted[4:7] == ["9.6 · 10 18", "quoted", "quoted"]


def test_costs_of_a_direction_are_of_its_own_language_pair(database: Path) -> None:
    (row,) = data.read(database, "SELECT * FROM table2 WHERE model = 'base' AND scale = 'smoke'")
    assert (row["counted_flops_ende"], row["counted_flops_enfr"]) == (4e11, None)
    (cost,) = data.read(database, "SELECT * FROM costs WHERE study = 'table2'")
    assert (cost["dataset"], cost["hardware"], cost["devices"]) == ("grammar/train/en-de", "Test CPU", 1)


def test_nothing_under_the_budget_is_no_error(empty_home: Path) -> None:
    empty = empty_home / "results.duckdb"
    assert "aiayn run budget" in budget.costs(empty, "smoke")
    assert "No training under the budget" in budget.quality_against_cost(empty, "smoke")
