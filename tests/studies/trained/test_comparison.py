"""Two finished runs compared by their outputs: the numbers, what they say, and what is not compared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from core.config import RunConfig
from core.data.corpora import GRAMMAR
from core.scoring.bleu import score_text
from core.scoring.bootstrap import compare_paired
from core.scoring.protocol import PAPER_ENDE
from results.errors import ResultsError
from results.records import RunResult, Score
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.trained.comparison import RunComparison, compare_runs
from studies.trained.loading import find_run

SCRIPT = Path(sys.executable).with_name("aiayn")

Plan = Callable[..., list[PlannedRun]]


@pytest.fixture(scope="module")
def references(tiny_data: Path) -> dict[str, list[str]]:
    return {split: GRAMMAR.load_pair(split, "en", "de", tiny_data)[1] for split in ("dev", "test")}


def write_run(run: PlannedRun, outputs: dict[str, list[str]], references: dict[str, list[str]], **changes) -> RunFolder:
    """Leaves a run as if it had been trained and had written these outputs; `changes` alter all its scores."""
    folder = RunFolder.create(run.folder.path.parent, run.record)
    attempt = folder.claim_attempt()
    scores, artifacts = [], []
    data = RunConfig.from_dict(run.record.config).data
    for split, lines in outputs.items():
        file = attempt.path / f"{split}.output.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        artifacts.append(folder.artifact("output", file))
        for made in score_text(lines, references[split], data.src, data.tgt):
            score = Score(
                f"{split}_{made.name}",
                made.value,
                made.signature,
                f"grammar/{split}/en-de",
                made.num_items,
                made.details,
            )
            scores.append(replace(score, **changes))
    attempt.close()
    folder.finish(RunResult(1.0, 1_000, {"train": 1.0}, tuple(scores), tuple(artifacts)))
    return folder


def spoil(lines: list[str], every: int, start: int = 0) -> list[str]:
    """Two words changed for one in every `every`th line."""
    return [
        " ".join(["falsch", *line.split()[2:]]) if number % every == start else line
        for number, line in enumerate(lines)
    ]


@pytest.fixture
def empty(new_workspace: Callable[[], Workspace]) -> Workspace:
    """A workspace without runs."""
    return new_workspace()


@pytest.fixture(scope="module")
def workspace(new_workspace: Callable[[], Workspace], plan: Plan, references: dict[str, list[str]]) -> Workspace:
    """base, better on both splits, and h1. Only to be read."""
    made = new_workspace()
    for run, every in zip(plan(made, "base", "h1"), (4, 2), strict=True):
        write_run(run, {split: spoil(lines, every) for split, lines in references.items()}, references)
    return made


@pytest.fixture
def damaged(workspace: Workspace, empty: Workspace) -> Workspace:
    """A copy of `workspace`, to be damaged."""
    shutil.copytree(workspace.runs, empty.runs)
    return empty


def runs_of(workspace: Workspace) -> tuple[RunFolder, RunFolder]:
    return find_run(workspace, "table3/base"), find_run(workspace, "table3/h1")


def compare(workspace: Workspace, split: str = "dev", metric: str = "bleu", **options) -> RunComparison:
    return compare_runs(workspace, ("table3/base", "table3/h1"), split, metric, **options)


# Numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("metric", ["bleu", "bleu_paper", "chrf"])
def test_scores_are_those_stored_and_the_better_run_is_named(split: str, metric: str, workspace: Workspace) -> None:
    found = compare(workspace, split, metric)
    stored = [next(s for s in folder.result().scores if s.name == f"{split}_{metric}") for folder in runs_of(workspace)]
    assert found.bootstrap.scores == pytest.approx([score.value for score in stored], abs=1e-9)
    for interval, score in zip(found.bootstrap.intervals, stored, strict=True):
        low, high = (score.details["test_set_interval"][name] for name in ("low", "high"))
        assert (interval.low, interval.high) == pytest.approx((low, high))  # one draw, there and here
    assert found.bootstrap.difference > 0
    assert found.bootstrap.interval.low > 0
    assert found.bootstrap.p_value == pytest.approx(1 / 1_001)
    assert (
        f"{runs_of(workspace)[0].path.name} is better on the 300 sentences of grammar/{split}/en-de" in found.conclusion
    )
    assert "uncertainty of the test set alone" in found.conclusion


def test_numbers_are_the_bootstraps(workspace: Workspace, references: dict[str, list[str]]) -> None:
    found = compare(workspace, metric="bleu_paper", samples=200, seed=5)
    statistics = [PAPER_ENDE.statistics(spoil(references["dev"], every), references["dev"]) for every in (4, 2)]
    assert found.bootstrap == compare_paired(*statistics, PAPER_ENDE, samples=200, seed=5)
    assert (found.samples, found.seed) == (200, 5)
    assert [Path(row[-1]).read_text() for row in found.rows] == [
        "".join(f"{line}\n" for line in spoil(references["dev"], every)) for every in (4, 2)
    ]


def test_outputs_equally_good_are_not_told_apart(
    empty: Workspace, plan: Plan, references: dict[str, list[str]]
) -> None:
    for run, start in zip(plan(empty, "base", "h1"), (0, 1), strict=True):
        write_run(run, {"dev": spoil(references["dev"], 3, start)}, references)
    found = compare(empty)
    assert found.bootstrap.p_value > 0.05
    assert found.bootstrap.interval.low < 0 < found.bootstrap.interval.high
    assert "No difference can be told on the 300 sentences" in found.conclusion


def test_examples_begin_with_the_greatest_difference(
    empty: Workspace, plan: Plan, references: dict[str, list[str]], tiny_data: Path
) -> None:
    lines = references["dev"]
    changed = [*lines[:6], "", *lines[7:9], f"{lines[9]} Ja.", *lines[10:]]
    for run, output in zip(plan(empty, "base", "h1"), (lines, changed), strict=True):
        write_run(run, {"dev": output}, references)
    found = compare(empty, num_examples=5).examples
    assert [example.line for example in found] == [7, 10]  # no other differs
    sources = GRAMMAR.load_pair("dev", "en", "de", tiny_data)[0]
    assert (found[0].source, found[0].reference) == (sources[6], lines[6])
    assert (found[0].outputs, found[1].outputs) == ((lines[6], ""), (lines[9], f"{lines[9]} Ja."))
    assert found[0].scores == pytest.approx((100.0, 0.0))
    assert 0 < found[1].scores[1] < found[1].scores[0]
    assert compare(empty).examples == ()


def test_a_trained_run_gives_the_scores_that_it_stored(
    unbroken: RunFolder, empty: Workspace, plan: Plan, references: dict[str, list[str]]
) -> None:
    empty.runs.mkdir()
    (empty.runs / unbroken.path.name).symlink_to(unbroken.path)
    write_run(plan(empty, "h1")[0], references, references)
    found = compare(empty, "test", "chrf")
    assert found.bootstrap.scores[1] == pytest.approx(100.0)
    assert found.bootstrap.difference < -50
    assert "warning: " in found.summary()  # twelve updates write nothing like German


# What is not compared -------------------------------------------------------------------------------------------------


def test_a_run_is_not_compared_with_itself(workspace: Workspace) -> None:
    name = runs_of(workspace)[0].path.name
    with pytest.raises(ValueError, match=f"{name[:6]} and table3/base are one run, {name}; name two"):
        compare_runs(workspace, (name[:6], "table3/base"), "dev", "bleu")


def test_a_score_that_a_run_does_not_have_is_told(
    empty: Workspace, plan: Plan, references: dict[str, list[str]]
) -> None:
    for run in plan(empty, "base", "h1"):
        write_run(run, {"dev": references["dev"]}, references)
    with pytest.raises(ValueError, match=r"has no score test_bleu; it has dev_bleu, dev_bleu_paper, dev_chrf"):
        compare(empty, "test")
    with pytest.raises(ValueError, match="has no score dev_ter"):
        compare(empty, metric="ter")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "grammar/dev/en-fr"}, "other test sets .*: grammar/dev/en-de and grammar/dev/en-fr"),
        ({"num_items": 299}, "other test sets .*: 300 lines and 299 lines"),
        ({"signature": "nrefs:1|tok:intl"}, r"other protocols .*tok:13a.* and nrefs:1\|tok:intl"),
    ],
)
def test_b07_other_test_sets_and_protocols_are_not_compared(
    change: dict[str, object], message: str, empty: Workspace, plan: Plan, references: dict[str, list[str]]
) -> None:
    """A2, A7."""
    for run, changes in zip(plan(empty, "base", "h1"), ({}, change), strict=True):
        write_run(run, {"dev": references["dev"]}, references, **changes)
    with pytest.raises(ValueError, match=f"were scored on {message}"):
        compare(empty)


def test_a7_references_of_one_name_and_another_text_are_not_compared(
    empty: Workspace, plan: Plan, references: dict[str, list[str]]
) -> None:
    altered = {"dev": [*references["dev"][:-1], "Ein anderer Satz."]}
    for run, known in zip(plan(empty, "base", "h1"), (references, altered), strict=True):
        write_run(run, {"dev": references["dev"]}, known)
    with pytest.raises(ValueError, match=r"other test sets .*: references with sha256 [0-9a-f]{12} and references"):
        compare(empty)


def test_a7_a_corpus_that_changed_since_is_refused(
    empty: Workspace, plan: Plan, references: dict[str, list[str]]
) -> None:
    altered = {"dev": [*references["dev"][:-1], "Ein anderer Satz."]}
    for run in plan(empty, "base", "h1"):
        write_run(run, {"dev": references["dev"]}, altered)
    with pytest.raises(ResultsError, match=r"grammar/dev/en-de is not the text that run .* was scored on"):
        compare(empty)


def test_an_output_that_is_gone_or_changed_is_refused(damaged: Workspace) -> None:
    pair = runs_of(damaged)
    file = pair[1].attempts()[0].path / "dev.output.txt"
    text = file.read_text()
    file.write_text(text.replace("falsch", "richtig", 1))
    with pytest.raises(
        ResultsError, match=r"output\.txt is not what run .* wrote: its checksum differs; put .* --rerun"
    ):
        compare(damaged)
    file.unlink()
    with pytest.raises(ResultsError, match=r"cannot read .*dev\.output\.txt \(No such file.*\); put .* --rerun"):
        compare(damaged)
    compare(damaged, "test")
    result = pair[1].result()
    pair[1].finish(replace(result, artifacts=()))
    with pytest.raises(ResultsError, match="kept no output of its test split; run it again with --rerun"):
        compare(damaged, "test")


def test_a_stored_score_that_the_output_does_not_give_is_refused(damaged: Workspace) -> None:
    pair = runs_of(damaged)
    result = pair[0].result()
    scores = [replace(score, value=99.0) if score.name == "dev_bleu" else score for score in result.scores]
    pair[0].finish(replace(result, scores=tuple(scores)))
    with pytest.raises(ResultsError, match=r"stored 99\.0000 by .*; its output scores \d"):
        compare(damaged)
    compare(damaged, metric="chrf")


def test_comparing_needs_no_torch() -> None:
    program = "import sys, studies.trained.comparison; sys.exit('torch' in sys.modules or 'ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


# The command ----------------------------------------------------------------------------------------------------------


def command(workspace: Workspace, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(SCRIPT), "compare", *arguments, "--home", str(workspace.home)],
        capture_output=True,
        text=True,
        check=False,
        cwd=workspace.home,
        timeout=120,
    )


def test_command_prints_scores_difference_and_what_it_means(workspace: Workspace) -> None:
    result = command(
        workspace, "table3/base", runs_of(workspace)[1].path.name[:8], "--metric", "bleu_paper", "--examples", "1"
    )
    assert (result.returncode, result.stderr) == (0, "")
    found = compare(workspace, metric="bleu_paper", num_examples=1)
    assert found.summary() in result.stdout
    lines = result.stdout.splitlines()
    for folder, score in zip(runs_of(workspace), found.bootstrap.scores, strict=True):
        row = next(line for line in lines if line.strip().startswith(folder.path.name))
        assert f"{score:.2f}" in row
        assert row.strip().endswith(str(folder.attempts()[0].path / "dev.output.txt"))
    assert f"score: dev_bleu_paper by {PAPER_ENDE.signature}" in lines
    assert any(line.startswith("difference: +") and "p = 0.001 (1,000 samples, seed 12345)" in line for line in lines)
    assert result.stdout.count("\nline ") == 1


def test_command_as_json_has_it_all(workspace: Workspace) -> None:
    result = command(workspace, "table3/base", "table3/h1", "--json", "--samples", "100", "--seed", "3")
    assert result.returncode == 0, result.stderr
    parsed = json.loads(result.stdout)
    found = compare(workspace, samples=100, seed=3)
    assert parsed == json.loads(json.dumps(found.to_json()))
    assert {name: parsed[name] for name in ("low", "high")} == asdict(found.bootstrap.interval)
    assert [run["run"] for run in parsed["runs"]] == [folder.path.name for folder in runs_of(workspace)]
    assert (parsed["metric"], parsed["samples"], parsed["seed"]) == ("dev_bleu", 100, 3)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["table3/base", "table3/base"], "are one run"),
        (["table3/base", "table3/h2"], "no finished run of table3/h2"),
        (["table3/base"], "Missing argument"),
        (["table3/base", "table3/h1", "--metric", "ter"], "'bleu_paper'"),
        (["table3/base", "table3/h1", "--split", "train"], "'--split'"),
        (["table3/base", "table3/h1", "--samples", "10"], "'--samples'"),
        (["table3/base", "table3/h1", "--seed", "-1"], "'--seed'"),
    ],
    ids=" ".join,
)
def test_command_refuses_with_what_to_do(arguments: list[str], part: str, workspace: Workspace) -> None:
    result = command(workspace, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert 1 <= len(result.stderr.splitlines()) <= 2
    assert part in result.stderr
