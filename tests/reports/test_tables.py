from __future__ import annotations

import re
from html import escape

import pytest

from reports import data, tables
from results.errors import ResultsError


def _row(html: str, trial: str) -> list[str]:
    """The text of the cells of one row of Table 3, tags removed and white space joined."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL)
    row = next(row for row in rows if re.search(rf'class="sticky">(<span.*?</span> )?{trial}</th>', row))
    cells = re.findall(r"<t[hd]\b.*?</t[hd]>", row, flags=re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in cells]


def test_table3_has_published_and_measured_values_and_differences_side_by_side(mixed_database):
    html = tables.table3(mixed_database, "smoke")
    head, change, verdicts, *numbers = _row(html, "h1")
    assert head == "(A) h1"
    assert change == "h = 1 , d k = 512 , d v = 512"
    assert "agrees" in verdicts
    assert "2.0 better" in verdicts
    bleu, ppl, params, runs = numbers[:2], numbers[2:4], numbers[4:6], numbers[6]
    assert bleu == ["24.9 −0.9", "29.5 ± 0.7 −2.0"]
    assert ppl == ["5.29 +0.37", "5.40 ± 0.00 +0.40"]
    assert params == ["–", "0.312"]
    assert runs == "2 seeds, 300 steps"


def test_table3_shows_failed_runs_and_leaves_unmeasured_cells_empty(mixed_database):
    html = tables.table3(mixed_database, "smoke")
    assert _row(html, "N2")[-1] == "1 seed, 300 steps 1 failed"
    dropout = _row(html, "drop0.0")
    assert dropout[-1] == "1 failed"
    assert dropout[4] == dropout[6] == "– –"  # neither a value nor a difference
    assert dropout[8] == "–"
    assert _row(html, "big")[-1] == "none"


def test_rows_of_table3_keep_the_papers_order(mixed_database):
    html = tables.table3(mixed_database, "smoke")
    order = re.findall(r'<th scope="row" class="sticky">(?:<span.*?</span> )?(.*?)</th>', html)
    assert order == ["base", "h1", "N2", "drop0.0", "learned", "big"]


def test_a_claim_stands_with_the_rows_that_it_names(mixed_database):
    html = tables.table3(mixed_database, "smoke")
    assert "undecided" in _row(html, "drop0.0")[2]
    assert _row(html, "big")[2] == "–"  # its exact claim is about the paper's sizes, and stands there
    assert "reproduced" in _row(tables.table3(mixed_database, "paper"), "big")[2]
    assert _row(html, "base")[2] == "–"  # comparisons with base stand with the other row


def test_every_count_is_that_of_the_scorecard_view(mixed_database):
    view = data.read(mixed_database, "SELECT * FROM scorecard WHERE scale = 'smoke'")[0]
    counts = dict(tables.count_verdicts(claim["verdict"] for claim in data.claims(mixed_database, "smoke")))
    assert sum(counts.values()) == view["claims"] == 3
    for verdict, count in counts.items():
        assert view[verdict.replace(" ", "_")] == count


def test_claims_show_published_and_measured_value_interval_and_reason(mixed_database):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", tables.claims(mixed_database, "table3", "smoke")))
    assert "published 24.9 ± 0.5 BLEU" in text
    assert "measured 2.00 [1.20, 2.80] BLEU" in text
    assert "3 seeds would settle it" in text


def test_runs_show_provenance_and_the_reason_of_a_failure(mixed_database):
    html = tables.runs(mixed_database, "table3", "smoke")
    assert "the loss is NaN at step 200" in html
    assert "c0de00000001" in html
    assert "da7a00000001" in html
    assert "Test CPU, 2 cores, 8.0 GiB" in html
    assert "aiayn run table3 --scale smoke --seeds 2" in html
    assert "5 done, 1 failed, 1 diverged, 1 queued" in html


def test_hostile_text_is_escaped_everywhere(mixed_database, hostile):
    for html in (
        tables.table3(mixed_database, "smoke"),
        tables.claims(mixed_database, "table3", "smoke"),
        tables.runs(mixed_database, "table3", "smoke"),
    ):
        assert "<script" not in html
        assert "<unk>" not in html
        assert escape(hostile).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in html


def test_an_empty_database_gives_sentences_instead_of_tables(empty_home):
    database = empty_home / "results.duckdb"
    assert "No claims of this study" in tables.verdict_summary(database, "table3", "smoke")
    assert "No claims of this study" in tables.claims(database, "table3", "smoke")
    assert "No runs of this study" in tables.runs(database, "table3", "smoke")
    assert "<tbody>" not in tables.table3(database, "smoke")


def test_machine_names_gpus_before_the_processor():
    run = {"gpus": ["NVIDIA H200"] * 8, "hardware": {"cpu": "Xeon", "cores": 96, "memory_gib": 512.0}}
    assert tables.machine(run) == "8 × NVIDIA H200, Xeon, 96 cores, 512.0 GiB"
    assert tables.machine({"gpus": [], "hardware": {}}) == ""


def test_reading_leaves_the_database_free_for_a_writer(mixed_home, mixed_database):
    import duckdb

    tables.runs(mixed_database, "table3", "smoke")
    duckdb.connect(str(mixed_database)).close()  # raises if a reader were still there


def test_a_database_of_something_else_is_an_error_that_says_what_to_do(tmp_path):
    import duckdb

    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    with pytest.raises(ResultsError, match="aiayn query --rebuild"):
        data.studies(tmp_path / "other.duckdb")
