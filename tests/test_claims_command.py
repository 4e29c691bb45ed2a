"""`aiayn claims` and the exports of `aiayn query`, through the installed script."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from results.records import RunResult, Score
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace

SCRIPT = Path(sys.executable).with_name("aiayn")
Cli = Callable[..., str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, plan: Callable[..., list[PlannedRun]]) -> Path:
    """A workspace with made-up runs: h1 is clearly worse than base, dk16 diverged once."""
    workspace = Workspace(tmp_path_factory.mktemp("home"))
    for run in plan(workspace, "base", "h1", "dk16", seeds=5):
        folder = RunFolder.create(run.folder.path.parent, run.record)
        attempt = folder.claim_attempt()
        attempt.close()
        if (run.record.trial, run.record.seed) == ("dk16", 2):
            attempt.fail("loss nan", "diverged")
            continue
        value = {"base": 30.0, "h1": 20.0, "dk16": 25.0}[run.record.trial] + math.sin(run.record.seed)
        scores = [Score("dev_bleu_paper", value, "made up", "grammar/dev/en-de", 300)]
        folder.finish(RunResult(seconds=1.0, params=1_000, phases={"train": 1.0}, scores=tuple(scores)))
    return workspace.home


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Runs `aiayn` on that workspace and gives what it prints; it must succeed."""

    def run(*arguments: str) -> str:
        command = [str(SCRIPT), *arguments, "--home", str(home)]
        environment = {name: value for name, value in os.environ.items() if name != "AIAYN_HOME"}
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, env=environment, check=False)
        assert result.returncode == 0, result.stderr
        assert result.stderr == b""
        return result.stdout.decode()

    return run


def test_scorecard_counts_first_and_then_says_why(cli: Cli) -> None:
    lines = cli("claims", "table3", "--scale", "smoke").splitlines()
    assert lines[0].startswith("table3 at smoke: 69 claims, ✓ ")
    place = next(
        k for k, line in enumerate(lines) if line.startswith("  ✓ agrees         table3.a.base_over_h1.bleu  ")
    )
    assert "claimed > 0, measured 10.00" in lines[place]
    assert lines[place + 1].startswith("    base minus h1: +10 BLEU; 5 seeds")
    assert any("1 of 5 runs of dk16 ended badly (seed 2 diverged): the rest is a selection" in line for line in lines)
    assert lines[-1].startswith("gathered: ")


def test_verdict_asked_for_is_shown_claim_by_claim(cli: Cli) -> None:
    text = cli("claims", "table3", "--scale", "smoke", "--verdict", "not run")
    assert "table3.b.base_over_dk32.bleu  claimed > 0" in text
    assert "no finished run of dk32" in text
    assert "gathered" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["table3", "--scale", "smoke", "--verdict", "reproduced"],
            "no claim of table3 at scale smoke has the verdict reproduced",
        ),
        (["figure5", "--verdict", "agrees"], "no claim of figure5 has the verdict agrees"),
        (["figure4", "figure5", "--verdict", "agrees"], "no claim of figure4, figure5 has the verdict agrees"),
        (["--verdict", "quoted", "--scale", "small"], "no claim at scale small has the verdict quoted"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_filter_that_nothing_passes_says_so_in_words(arguments: list[str], words: str, cli: Cli) -> None:
    assert cli("claims", *arguments) == words + "\n"
    assert json.loads(cli("claims", *arguments, "--format", "json")) == []
    assert len(cli("claims", *arguments, "--format", "csv").splitlines()) == 1


def test_several_studies_are_asked_for_at_once(cli: Cli) -> None:
    rows = json.loads(cli("claims", "table3", "figure5", "--scale", "smoke", "--json"))
    assert {row["study"] for row in rows} == {"table3", "figure5"}
    assert sum(row["study"] == "figure5" for row in rows) == 5


def test_csv_and_json_have_every_claim_and_column(cli: Cli) -> None:
    rows = json.loads(cli("claims", "--format", "json"))
    assert rows == json.loads(cli("claims", "--json"))
    table = list(csv.DictReader(io.StringIO(cli("claims", "--format", "csv"), newline="")))
    assert [row["claim"] for row in table] == [row["claim"] for row in rows]
    for wanted, read in zip(rows, table, strict=True):
        assert read.keys() == wanted.keys()
        assert read["measured"] == ("" if wanted["measured"] is None else str(wanted["measured"]))
    (order,) = [row for row in rows if (row["claim"], row["scale"]) == ("table3.a.base_over_h1.bleu", "smoke")]
    assert (order["verdict"], order["alone"], order["num_runs"]) == ("agrees", "agrees", 10)
    assert order["p_value"] <= order["p_adjusted"] <= 0.025
    assert order["family_size"] > 1


def test_markdown_is_a_table_a_study_and_scale(cli: Cli) -> None:
    lines = cli("claims", "table3", "--format", "markdown").splitlines()
    assert lines[0].startswith("| study | scale | claims | ")
    assert [line for line in lines if line.startswith("## ")] == [
        "## table3 at smoke",
        "## table3 at small",
        "## table3 at paper",
    ]
    for line in lines:
        if line.startswith("| ✓ agrees"):
            assert line.count("|") == 6


def test_answers_go_to_files_of_every_form(cli: Cli, tmp_path: Path) -> None:
    sql = "SELECT trial, published_bleu, measured_bleu FROM table3 WHERE scale = 'smoke' ORDER BY trial"
    for name in ("a.tex", "a.md", "a.csv", "a.parquet", "a.json"):
        assert cli("query", sql, "-o", name) == ""
    parquet = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert len(parquet) == 20
    written = json.loads((tmp_path / "a.json").read_text())
    # Each file is a query of its own, and a mean over threads may differ in its last digit.
    assert [row["trial"] for row in written] == [row["trial"] for row in parquet]
    for row, same in zip(written, parquet, strict=True):
        assert row == {name: value if value is None or name == "trial" else pytest.approx(value, rel=1e-12)
                       for name, value in same.items()}  # fmt: skip
    latex = (tmp_path / "a.tex").read_text()
    assert r"trial & published\_bleu & measured\_bleu \\" in latex
    assert latex.count(r" \\") == 21
    assert (tmp_path / "a.md").read_text().count("\n") == 22
    assert cli("query", sql, "--format", "latex") == latex
