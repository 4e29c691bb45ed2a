"""The command line as a person meets it: the installed script, in a folder of its own."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

import aiayn
from core.data.report import Report
from results.run_folder import RunFolder
from studies.claim import Claim
from studies.registry import STUDIES
from studies.runs import Workspace
from studies.study import Study

SCRIPT = Path(sys.executable).with_name("aiayn")
WITHOUT = ("AIAYN_HOME", "AIAYN_DATA", "PYTHONUNBUFFERED")

Cli = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs `aiayn` with these arguments in a temporary folder; `env` adds to the environment."""

    def run(*arguments: object, stdin: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(SCRIPT), *map(str, arguments)],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            env={name: value for name, value in os.environ.items() if name not in WITHOUT} | (env or {}),
            check=False,
            timeout=300,
        )

    return run


@pytest.fixture(scope="session")
def home(unbroken: RunFolder) -> Path:
    """A workspace with one finished run, table3/base."""
    return Workspace(unbroken.path.parent.parent).home


def refused(result: subprocess.CompletedProcess, *parts: str) -> str:
    """The message of a command that must be refused: one or two lines, exit 2, no traceback, nothing on stdout."""
    message = result.stderr.decode()
    assert result.returncode == 2, message
    assert 1 <= len(message.splitlines()) <= 2, message
    assert "Traceback" not in message
    assert result.stdout == b""
    for part in parts:
        assert part in message
    return message


# Help and lists -------------------------------------------------------------------------------------------------------


def commands(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(aiayn.app)))


def test_every_command_that_the_design_names_is_there() -> None:
    named = {
        "list",
        "plan",
        "run",
        "reproduce",
        "status",
        "claims",
        "query",
        "report",
        "compare",
        "translate",
        "parse",
        "attend",
        "doctor",
        "data",
        "clean",
        "submit",
    }
    assert named == {path[0] for path in COMMANDS}
    assert {path[1] for path in COMMANDS if len(path) == 2} == {
        "list",
        "show",
        "fetch",
        "add",
        "remove",
        "check",
        "export",
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_of_every_command_has_an_example_that_is_a_command(path: tuple[str, ...]) -> None:
    text = COMMANDS[path].help
    assert "Example" in text
    examples = [line.strip() for line in text.splitlines() if "aiayn " in line]
    assert examples
    for example in examples:
        assert f"aiayn {path[0]}" in example


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], [], ["run", "--help"]], ids=" ".join)
def test_help_ends_well(arguments: list[str], cli: Cli) -> None:
    result = cli(*arguments)
    assert result.returncode == 0
    assert result.stdout.startswith(b"Usage: aiayn")
    assert result.stderr == b""


def test_list_shows_the_study_and_its_scales(cli: Cli) -> None:
    result = cli("list")
    assert result.returncode == 0
    text = result.stdout.decode()
    assert "table3" in text
    for scale in ("smoke", "small", "paper"):
        assert f"scale {scale}: " in text


# JSON -----------------------------------------------------------------------------------------------------------------


def needs_corpus(study: Study, claim: Claim) -> bool:
    """Whether a claim is about runs that read a corpus: of its trials, or of awaited ones whose data it names."""
    if claim.full_size or claim.own_sizes:
        return False
    if study.awaited_by(claim):
        return claim.identity is not None
    return any(study.trial(name).work.reads_corpus for name in claim.trials)


# At paper scale all corpora are missing here.
NUM_BLOCKED = sum(needs_corpus(study, claim) for study in STUDIES for claim in study.claims)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["list"], len(STUDIES)),
        (["list", "table3"], 20),
        (["list", "--claims"], sum(len(study.claims) for study in STUDIES)),
        (["list", "table3", "--claims"], 95),
        (["list", "section5"], 0),
        (["status"], 1),
        (["claims", "table3", "--scale", "smoke"], 69),
        (["claims", "--scale", "paper", "--verdict", "blocked"], NUM_BLOCKED),
        (["data", "list"], 6),
        (["query", "SELECT * FROM table3", "--format", "json"], 60),
        (["query", "FROM runs", "--format", "json"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_json_parses_and_is_all_there(arguments: list[str], number: int, cli: Cli, home: Path) -> None:
    if arguments[0] not in ("list",):
        arguments = [*arguments, "--home", str(home)]
    if arguments[0] != "query":
        arguments = [*arguments, "--json"]
    result = cli(*arguments)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert len(rows) == number
    assert all(isinstance(row, dict) and row for row in rows)


# Plan -----------------------------------------------------------------------------------------------------------------


def test_plan_starts_nothing_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    result = cli("plan", "table3", "--seeds", "3")
    assert result.returncode == 0
    assert "60 runs, 0 done and skipped; to run: 60 with" in result.stdout.decode()
    assert list(tmp_path.iterdir()) == []


def test_plan_at_paper_scale_says_what_is_missing(cli: Cli) -> None:
    result = cli("plan", "table3", "--scale", "paper", "--runs")
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    missing = "corpus wmt14 en-de is not here; get it with: aiayn data fetch wmt14 --pair en-de"
    assert f"- blocked: 20 runs, {missing}; their price is in the plan" in lines
    assert sum(" blocked " in line and " base " not in line for line in lines) >= 19


def test_plan_of_all_studies_at_paper_scale_has_a_price_to_hand_on(cli: Cli) -> None:
    arguments = ("--scale", "paper", "--seeds", "3", "--gpus", "64", "--gpu-type", "H100", "--price", "2.5")
    plan = json.loads(cli("plan", *arguments, "--json").stdout)
    assert [line["study"] for line in plan["lines"]] == [study.name for study in STUDIES if study.trials]
    num_runs = 3 * sum(len(study.trials) for study in STUDIES)
    assert len(plan["runs"]) == plan["total"]["runs"] == num_runs
    assert plan["total"]["money"] == pytest.approx(2.5 * plan["total"]["device_hours"])
    assert (plan["device"]["type"], plan["devices"], plan["devices_per_trial"]) == ("H100", 64, 8)
    assert {"value", "order", "difference", "threshold"} <= {prospect["kind"] for prospect in plan["prospects"]}
    page = cli("plan", *arguments, "--markdown").stdout.decode()
    assert "| table2 | 4 | 12 | 0 | 12 |" in page
    assert sum(line.startswith("| --- |") for line in page.splitlines()) == 3
    to_run, blocked = (plan["total"][what] for what in ("to_run", "blocked"))
    assert to_run + blocked == num_runs
    assert f"{num_runs} runs, 0 done and skipped; to run: {to_run}, and {blocked} that are blocked, with" in page


def test_plan_of_a_study_without_runs_says_so(cli: Cli) -> None:
    result = cli("plan", "section5")
    assert result.returncode == 0
    assert "no runs of section5: their claims are computed" in result.stdout.decode()


def test_run_of_a_study_without_runs_has_nothing_to_do(cli: Cli) -> None:
    result = cli("run", "section5")
    assert result.returncode == 0
    assert result.stdout.startswith(b"nothing to run: ")


def test_claims_are_listed_with_what_makes_them_special(cli: Cli) -> None:
    text = cli("list", "--claims").stdout.decode()
    for part in (
        "reading: section 6.1, and the abstract and Table 2 of earlier versions",
        "a misquotation: should fail",
        "quoted: another system's number",
        "awaits wsj_corpus",
        "> 28.36",
        "24.90 ± 0.50",
        "1.75e-07",
    ):
        assert part in text
    rows = json.loads(cli("list", "--claims", "--json").stdout)
    (claim,) = [row for row in rows if row["claim"] == "table3.base.bleu"]
    assert claim["identity"]["dataset"] == "wmt14/newstest2013/en-de"
    assert claim["identity"]["budgets"] == [{"source_tokens": 25_000, "target_tokens": 25_000, "train_steps": 100_000}]


# What a person may get wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["lst"], ["No such command 'lst'", "list", "aiayn --help"]),
        (["list", "tabel3"], ["no study 'tabel3'; close: table3"]),
        (["plan", "table5"], ["no study 'table5'; close: table4"]),
        (["plan", "--scale", "paper", "--gpu-type", "A10"], ["no GPU type 'A10'", "A100"]),
        (["plan", "--gpus", "0"], ["'--gpus'", "aiayn plan --help"]),
        (["plan", "--gpus", "100000000000000000000"], ["'--gpus'", "aiayn plan --help"]),
        (["plan", "table3", "--trial", "bse"], ["no trial 'bse' in study table3; close: base"]),
        (["plan", "table3", "--scale", "smal"], ["no scale 'smal'", "smoke, small, paper"]),
        (["plan", "table3", "--seeds", "0"], ["0 seeds: at least 1 is needed"]),
        (["plan", "table3", "--seeds", "x"], ["'--seeds'", "integer", "aiayn plan --help"]),
        (["plan", "table3", "--seed", "1"], ["--seed", "aiayn plan --help"]),
        (["run", "table3", "--scale", "paper"], ["scale paper cannot run here", "wmt14"]),
        (["run", "table3", "--max-concurrent", "0"], ["'--max-concurrent'"]),
        (["claims", "--verdict", "agree"], ["no verdict 'agree'; close: agrees"]),
        (["claims", "table5"], ["no study 'table5'"]),
        (["claims", "--scale", "big"], ["no scale 'big'"]),
        (["report", "table9"], ["no study 'table9'"]),
        (["data", "show", "multi3k"], ["no corpus 'multi3k'; close: multi30k"]),
        (["data", "check", "wmt14"], ["corpus wmt14 en-de is not here", "aiayn data fetch wmt14 --pair en-de"]),
        (["data", "check", "multi30k"], ["corpus multi30k is not here", "aiayn data fetch multi30k"]),
        (["data", "check", "grammar", "--pair", "en-es"], ["grammar has no pair 'en-es'", "en-de, en-fr, de-fr"]),
        (["data", "fetch", "wmt14", "--pair", "de-fr"], ["wmt14 has no pair 'de-fr'", "en-de, en-fr"]),
        (["data", "remove", "grammar"], ["no corpus was added under the name 'grammar'; there is none"]),
        (["data", "add", "x", "--src", "a", "--tgt", "b", "--src-lang", "en"], ["--tgt-lang", "aiayn data add --help"]),
        (
            ["data", "add", "x", "--src", "a", "--tgt", "b", "--src-lang", "en", "--tgt-lang", "en"],
            ["both sides are 'en'"],
        ),
        (
            ["data", "add", "x", "--src", "a", "--tgt", "b", "--src-lang", "en", "--tgt-lang", "de", "--dev-src", "c"],
            ["give both --dev-src and --dev-tgt"],
        ),
        (["data", "fetch", "gramar"], ["no corpus 'gramar'; close: grammar"]),
        (["data"], ["Missing command", "aiayn data --help"]),
        (["translate", "abcdef"], ["no finished run 'abcdef'", "aiayn status"]),
        (["translate", "table3/base"], ["no finished run of table3/base", "aiayn status"]),
        (["query"], ["no SQL was given", "aiayn query"]),
        (["query", "SELECT 1", "--format", "xml"], ["--format", "table", "parquet"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_wrong_usage_is_refused_with_what_to_do(arguments: list[str], parts: list[str], cli: Cli) -> None:
    refused(cli(*arguments), *parts)


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("DROP TABLE runs", "DROP is refused: results are read-only"),
        ("INSERT INTO runs SELECT * FROM runs", "INSERT is refused"),
        ("COPY runs TO 'stolen.csv'", "COPY is refused"),
        ("SELECT * FROM read_text('/etc/passwd')", "refused: queries see the results alone"),
        ("SELECT * FROM 'secret.csv'", "secret.csv"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT * FROM tabl3", "no table 'tabl3'; close: table3"),
        ("SELECT nonsense FROM runs", "nonsense"),
        ("", "no SQL was given"),
    ],
)
def test_sql_that_is_refused_says_why(sql: str, part: str, cli: Cli, home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    refused(cli("query", sql, "--home", home), part)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize(
    "arguments",
    [["run", "table3", "--trial", "base"], ["query", "SELECT 1"], ["claims"], ["report"]],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("place", ["file", "/proc/x"])
def test_home_that_cannot_be_written_is_refused(arguments: list[str], place: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused(cli(*arguments, "--home", place), "--home")
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["plan", "table3"], ["run", "table3"], ["claims"], ["data", "list"], ["translate", "x"]],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("place", ["", "runs", "data"])
def test_file_where_a_folder_is_meant_is_refused_at_once(
    arguments: list[str], place: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / place).parent.mkdir(exist_ok=True)
    (home / place).write_text("in the way")
    monkeypatch.setattr(sys, "argv", ["aiayn", *arguments, "--home", str(home)])
    with pytest.raises(SystemExit) as end:
        aiayn.main()
    out, message = capsys.readouterr()
    assert end.value.code == 2
    assert out == ""
    assert re.fullmatch(rf"{home / place} is a file where a folder is meant; move it away, or .* --home\n", message)


def test_a_damaged_corpus_of_ones_own_hides_no_other(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tmp_path / "data" / "own" / "letters" / "corpus.json"
    record.parent.mkdir(parents=True)
    record.write_bytes(b"\xff garbage")
    for arguments, code, words in (
        (["list"], 0, "grammar"),
        (["check"], 2, "grammar"),
        (["check", "grammar"], 0, "grammar"),
        (["check", "letters"], 2, ""),
    ):
        monkeypatch.setattr("core.data.check.check", lambda corpus, *_: [Report(corpus.name, "", (), ())])
        monkeypatch.setattr(sys, "argv", ["aiayn", "data", *arguments, "--home", str(tmp_path)])
        with pytest.raises(SystemExit) as end:
            aiayn.main()
        out, message = capsys.readouterr()
        assert (end.value.code or 0) == code
        assert words in out
        assert ("aiayn data remove letters" in message) == (arguments != ["check", "grammar"])


def test_database_that_is_none_is_refused_and_can_be_rebuilt(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "workspace"
    home.mkdir()
    (home / "results.duckdb").write_bytes(b"this is no database" * 1_000)
    for arguments in (["query", "SELECT 1"], ["claims"]):
        refused(cli(*arguments), "is not a DuckDB database", "aiayn query --rebuild")
    assert cli("query", "--rebuild").returncode == 0
    assert cli("query", "SELECT count(*) AS n FROM table3", "--format", "csv").stdout == b"n\n60\n"


# Translating ----------------------------------------------------------------------------------------------------------


def test_translation_has_a_line_for_each_line(cli: Cli, home: Path, tmp_path: Path) -> None:
    result = cli("translate", "table3/base", "--home", home, stdin=b"The old teacher sleeps.\n\nA dog sees a house.\n")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.decode().split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""
    (tmp_path / "source.txt").write_text("The old teacher sleeps.\n\nA dog sees a house.\n")
    cli("translate", "table3/base", "source.txt", "-o", "target.txt", "--home", home)
    assert (tmp_path / "target.txt").read_bytes() == result.stdout


def test_translation_that_cannot_be_read_or_written_is_refused(cli: Cli, home: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\xfe\n")
    refused(cli("translate", "table3/base", "bad.txt", "--home", home), "bad.txt line 2 is not UTF-8")
    refused(cli("translate", "table3/base", "absent.txt", "--home", home), "absent.txt", "No such file")
    result = cli("translate", "table3/base", "-o", "absent/target.txt", "--home", home, stdin=b"A dog sleeps.\n")
    refused(result, "cannot write absent/target.txt", "-o")
    refused(cli("translate", "table3/base", "--beam", "0", "--home", home), "'--beam'")


def test_answer_that_cannot_be_written_is_refused(cli: Cli, home: Path) -> None:
    refused(cli("query", "FROM runs", "-o", "absent/runs.csv", "--format", "csv", "--home", home), "absent/runs.csv")


# Data -----------------------------------------------------------------------------------------------------------------

SPLITS = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000, "test_2017_flickr": 1_000}


def write_corpus(root: Path, change: Callable[[str, list[bytes]], list[bytes] | None]) -> None:
    """Files named and counted as Multi30k's, with made-up lines; `change` alters a file's lines or leaves it out."""
    folder = root / "multi30k"
    folder.mkdir(parents=True)
    for split, count in SPLITS.items():
        for language in ("en", "de", "fr"):
            name = f"{split}.{language}.gz"
            lines = change(name, [f"made up {language} {number}".encode() for number in range(count)])
            if lines is not None:
                (folder / name).write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines), compresslevel=1))


BROKEN = {
    "a file missing": (lambda name, lines: None if name == "train.en.gz" else lines, "train.en.gz missing"),
    "a line missing": (lambda name, lines: lines[1:] if name == "train.en.gz" else lines, "29000"),
    "no UTF-8": (
        lambda name, lines: [*lines[:4], b"\xff", *lines[5:]] if name == "train.en.gz" else lines,
        "train.en.gz line 5 is not UTF-8",
    ),
    "other text": (lambda name, lines: lines, "is not the text expected"),
}


@pytest.mark.parametrize("fault", [name for name in BROKEN if name != "a file missing"])
def test_broken_corpus_is_found_by_the_check(fault: str, cli: Cli, tmp_path: Path) -> None:
    change, part = BROKEN[fault]
    write_corpus(tmp_path / "corpora", change)
    arguments = ("data", "check", "multi30k", "--pair", "en-de")
    result = cli(*arguments, env={"AIAYN_DATA": "corpora"})
    assert result.returncode == 1, result.stderr
    assert result.stderr == b""
    assert part in result.stdout.decode()


def test_corpus_with_a_file_missing_is_refused_by_the_check(cli: Cli, tmp_path: Path) -> None:
    change, part = BROKEN["a file missing"]
    write_corpus(tmp_path / "corpora", change)
    refused(cli("data", "check", "multi30k", "--pair", "en-de", env={"AIAYN_DATA": "corpora"}), part)


@pytest.mark.parametrize(
    "fault", ["no UTF-8", *(pytest.param(f, marks=pytest.mark.slow) for f in BROKEN if f != "no UTF-8")]
)
def test_run_on_a_broken_corpus_is_refused_before_it_starts(fault: str, cli: Cli, tmp_path: Path) -> None:
    change, part = BROKEN[fault]
    write_corpus(tmp_path / "corpora", change)
    result = cli("run", "table3", "--scale", "small", "--trial", "base", env={"AIAYN_DATA": "corpora"})
    refused(result, part)
    assert not (tmp_path / "workspace" / "runs").exists()


def test_data_folder_that_is_none_is_refused(cli: Cli) -> None:
    for arguments in (["data", "list"], ["data", "check", "multi30k"], ["data", "fetch", "multi30k"]):
        refused(cli(*arguments, env={"AIAYN_DATA": "absent"}), "absent is not a folder", "AIAYN_DATA")


def test_corpora_are_listed_shown_fetched_and_checked(cli: Cli, tmp_path: Path) -> None:
    listed = {row["corpus"]: row for row in json.loads(cli("data", "list", "--json").stdout)}
    assert listed["grammar"]["state"] == "embedded"
    assert (listed["multi30k"]["state"], listed["multi30k"]["lines"]) == ("not fetched", 32_014)
    assert (listed["wmt14"]["state"], listed["wmt14"]["lines"]) == ("not fetched", None)
    shown = json.loads(cli("data", "show", "multi30k", "--json").stdout)
    assert shown["splits"]["train"] == 29_000
    assert len(shown["parts"]["en-fr"]["fingerprint"]) == 16
    assert {source["file"]: source["checksum"][:7] for source in shown["sources"]}["train.en.gz"] == "sha256:"
    text = cli("data", "show", "wmt14").stdout.decode()
    for part in ("step train.en-fr", "at most 175 words a side", "training-giga-fren.tar", "Bojar et al. 2014"):
        assert part in text
    assert cli("data", "fetch", "grammar").stdout == b"grammar: embedded\n"
    checked = cli("data", "check", "grammar", "--pair", "en-de")
    assert checked.returncode == 0
    assert "grammar en-de: no faults, no warnings" in checked.stdout.decode()
    assert list(tmp_path.iterdir()) == []


def write_side(path: Path, language: str, numbers: range) -> Path:
    words = {"en": "the house of the {} is in the old town", "de": "das Haus der {} ist in der alten Stadt"}[language]
    path.write_text("".join(f"{words.format(number)} .\n" for number in numbers), encoding="utf-8")
    return path


def test_corpus_of_ones_own_is_added_shown_checked_and_removed(cli: Cli, tmp_path: Path) -> None:
    for split, numbers in (("train", range(500)), ("dev", range(500, 540))):
        for language in ("en", "de"):
            write_side(tmp_path / f"{split}.{language}", language, numbers)
    sides = ["--src", "train.en", "--tgt", "train.de", "--src-lang", "en", "--tgt-lang", "de"]
    scored = ["--dev-src", "dev.en", "--dev-tgt", "dev.de", "--test-src", "test.en", "--test-tgt", "test.de"]
    refused(cli("data", "add", "houses", *sides, *scored), "there is no file test.en")
    added = cli("data", "add", "houses", *sides, *scored[:4], "--clean", "repeated", "--licence", "free")
    assert added.returncode == 0, added.stderr
    assert added.stdout == b"houses: train 500, dev 40 pairs en-de; look for faults with: aiayn data check houses\n"
    refused(cli("data", "add", "houses", *sides), "there is a corpus houses already", "aiayn data remove houses")
    refused(cli("data", "add", "wmt14", *sides), "wmt14 is a corpus of this project")
    rows = {row["corpus"]: row for row in json.loads(cli("data", "list", "--json").stdout)}
    assert (rows["houses"]["lines"], rows["houses"]["licence"]) == (540, "free")
    shown = json.loads(cli("data", "show", "houses", "--json").stdout)
    assert [step["kept"] for step in shown["steps"]] == [500, 500, 40]
    checked = cli("data", "check", "houses", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)[0]["splits"][0]["pairs"] == 500
    write_side(tmp_path / "workspace" / "data" / "own" / "houses" / "dev.de", "en", range(540))
    refused(cli("data", "check", "houses"), "corpus houses en-de is incomplete", "aiayn data remove houses")
    assert cli("data", "remove", "houses").stdout == b"houses: removed\n"
    refused(cli("data", "show", "houses"), "no corpus 'houses'")
    assert (tmp_path / "train.en").exists()


def test_corpus_with_its_sides_swapped_fails_the_check(cli: Cli, tmp_path: Path) -> None:
    """B06."""
    for language in ("en", "de"):
        write_side(tmp_path / f"train.{language}", language, range(500))
    sides = ["--src", "train.de", "--tgt", "train.en", "--src-lang", "en", "--tgt-lang", "de"]
    assert cli("data", "add", "houses", *sides).returncode == 0
    checked = cli("data", "check", "houses")
    assert checked.returncode == 1
    assert "the source is declared en and reads like de" in checked.stdout.decode()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("AIAYN_DATA"), reason="set AIAYN_DATA to a folder with multi30k")
def test_real_corpus_passes_the_check(cli: Cli) -> None:
    result = cli("data", "check", "multi30k", "--pair", "en-de", env={"AIAYN_DATA": os.environ["AIAYN_DATA"]})
    assert result.returncode == 0, result.stdout
    assert "multi30k en-de: no faults, 4 warnings" in result.stdout.decode()


# Machine, terminal, pipes ---------------------------------------------------------------------------------------------


def test_more_gpus_than_there_are_is_refused_at_once(cli: Cli, tmp_path: Path) -> None:
    """B55."""
    result = cli("run", "table3", "--trial", "base", "--gpus-per-trial", "8", env={"CUDA_VISIBLE_DEVICES": ""})
    refused(result, "asks for 8 GPUs and this machine has none", "--gpus-per-trial 0", "--address")
    assert not (tmp_path / "workspace" / "runs").exists()


def test_traceback_is_shown_when_asked_for_and_the_exit_code_stays(cli: Cli) -> None:
    result = cli("translate", "abcdef", "--debug")
    assert result.returncode == 2
    assert result.stderr.startswith(b"Traceback")
    assert b"ValueError: no finished run 'abcdef'" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--claims"], ["list", "--json"], ["claims"], ["query", "FROM claims"], ["--help"]],
    ids=" ".join,
)
@pytest.mark.parametrize("reader", ["head -1", "true"], ids=["head", "closed"])
def test_reader_that_had_enough_is_no_error(arguments: list[str], reader: str, home: Path, tmp_path: Path) -> None:
    if arguments[0] in ("claims", "query"):
        arguments = [*arguments, "--home", str(home)]
    result = subprocess.run(
        ["bash", "-c", f'"$@" | ({reader}); exit ${{PIPESTATUS[0]}}', "bash", str(SCRIPT), *arguments],
        cwd=tmp_path,
        capture_output=True,
        env={name: value for name, value in os.environ.items() if name not in WITHOUT},
        check=False,
        timeout=300,
    )
    assert result.stderr == b""
    assert result.returncode == 0


def test_status_of_an_empty_workspace_says_how_to_begin(cli: Cli) -> None:
    result = cli("status")
    assert result.returncode == 0
    assert b"aiayn run table3" in result.stdout


def test_home_comes_from_the_environment_and_the_option_wins(cli: Cli, home: Path, tmp_path: Path) -> None:
    asked = ("query", "SELECT count(*) AS n FROM runs", "--format", "csv")
    assert cli(*asked, env={"AIAYN_HOME": str(home)}).stdout == b"n\n1\n"
    assert cli(*asked, "--home", home, env={"AIAYN_HOME": str(tmp_path / "other")}).stdout == b"n\n1\n"
    refused(cli(*asked, "--home", "absent", env={"AIAYN_HOME": str(home)}), "no workspace at", "absent", "--home")
    assert list(tmp_path.iterdir()) == []


def test_sql_is_read_from_standard_input(cli: Cli, home: Path) -> None:
    result = cli("query", "-", "--format", "csv", "--home", home, stdin=b"SELECT trial FROM runs")
    assert result.stdout == b"trial\nbase\n"
