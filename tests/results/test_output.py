"""Answers in six formats: nothing lost, NULL told apart, nothing in the data can harm a terminal."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.errors import QueryError
from results.output import format_of, write
from results.query import query


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text_of(table: pyarrow.Table, format: str) -> str:
    stream = io.StringIO()
    write(table, format, stream=stream)
    return stream.getvalue()


SAMPLE = pyarrow.table({"trial": ["base", "h,1", None, ""], "bleu": [25.8, 24.900000000000002, None, 0.0]})


def test_csv_tells_null_from_empty_text() -> None:
    assert text_of(SAMPLE, "csv") == 'trial,bleu\nbase,25.8\n"h,1",24.900000000000002\n,\n"",0.0\n'


def test_json_keeps_null_and_full_precision() -> None:
    assert json.loads(text_of(SAMPLE, "json")) == SAMPLE.to_pylist()
    assert json.loads(text_of(SAMPLE.slice(0, 0), "json")) == []


def test_json_has_no_nan() -> None:
    text = text_of(pyarrow.table({"x": [math.nan, math.inf, 1.0]}), "json")
    assert json.loads(text, parse_constant=pytest.fail) == [{"x": None}, {"x": None}, {"x": 1.0}]


def test_markdown_rounds_for_reading_and_escapes_bars() -> None:
    text = text_of(pyarrow.table({"a|b": ["x|y\nz", None], "bleu": [25.80000001, 1e-7]}), "markdown")
    assert text.splitlines() == ["| a\\|b | bleu |", "| --- | ---: |", "| x\\|y z | 25.8 |", "|  | 1e-07 |"]


def test_parquet_comes_back_as_it_was(tmp_path: Path) -> None:
    write(SAMPLE, "parquet", tmp_path / "answer.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "answer.parquet").equals(SAMPLE)
    assert [path.name for path in tmp_path.iterdir()] == ["answer.parquet"]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)


@given(st.lists(st.tuples(texts, st.none() | st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_csv_is_read_back_by_the_standard_reader(rows: list[tuple[str, int | None]]) -> None:
    table = pyarrow.table(
        {"text": pyarrow.array([row[0] for row in rows]), "n": pyarrow.array([row[1] for row in rows])}
    )
    read = list(csv.reader(io.StringIO(text_of(table, "csv"), newline="")))
    assert read[1:] == [[text, "" if number is None else str(number)] for text, number in rows]


def test_every_type_of_the_database_can_be_written(workspace, tmp_path: Path) -> None:
    workspace.store.ingest()
    table = workspace.store.fetch(
        "SELECT 10::HUGEINT AS h, 1.50::DECIMAL(4, 2) AS d, DATE '2020-01-01' AS day,"
        " TIMESTAMP '2020-01-01 10:00' AS t,"
        " TIME '10:00' AS clock, INTERVAL 1 DAY AS i, 'ab'::BLOB AS b, [1, 2] AS l, {'a': 1} AS s, MAP {'a': 1} AS m,"
        " true AS y, uuid() AS u, NULL AS nothing, '{\"a\": 1}'::JSON AS j"
    )
    for format in ("table", "csv", "json", "markdown", "latex"):
        assert text_of(table, format)
    row = json.loads(text_of(table, "json"))[0]
    assert (row["h"], row["d"], row["day"], row["t"]) == (10, 1.5, "2020-01-01", "2020-01-01T10:00:00")
    assert (row["l"], row["s"], row["b"], row["nothing"]) == ([1, 2], {"a": 1}, "6162", None)


def test_parquet_keeps_every_type_that_it_knows(workspace, tmp_path: Path) -> None:
    workspace.store.ingest()
    table = workspace.store.fetch(
        "SELECT 1.50::DECIMAL(4, 2) AS d, DATE '2020-01-01' AS day, TIMESTAMP '2020-01-01 10:00' AS t, 'ab'::BLOB AS b,"
        " [1, 2] AS l, {'a': 1} AS s, true AS y, 1::BIGINT AS i, 1::INTEGER AS j, 0.1 + 0.2 AS f, NULL::VARCHAR AS n"
    )
    write(table, "parquet", tmp_path / "answer.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "answer.parquet")
    assert read.to_pylist() == table.to_pylist()
    assert [(f.name, f.type) for f in read.schema] == [(f.name, f.type) for f in table.schema]


@pytest.mark.parametrize(
    ("value", "text", "is_text_in_json"),
    [
        ("INTERVAL '502189 milliseconds'", "00:08:22.189", True),
        ("[INTERVAL 1 DAY]", "[1 day]", True),
        ("123456789012345.123456789::DECIMAL(38, 9)", "123456789012345.123456789", False),
        ("[1.10::DECIMAL(38, 9), 100]", "[1.1, 100]", False),
        ("TIMETZ '10:00:00+02'", "10:00:00+02", True),
        ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455", True),
        ("'101'::BIT", "101", True),
        ("MAP {'k': 1}", '{"k": 1}', False),
        ("MAP {DATE '2020-01-01': 1}", '{"2020-01-01": 1}', False),
        ("MAP {[1]: 2}", "{[1]=2}", True),
        ("DATE '-4000-01-01'", "4001-01-01 (BC)", True),
        ("DATE 'infinity'", "infinity", True),
        ("{'day': DATE 'infinity'}", "{'day': infinity}", True),
        ("TIMESTAMP '290000-01-01'", "290000-01-01 00:00:00", True),
    ],
)
def test_value_that_python_or_arrow_lacks_is_written_as_the_database_has_it(
    shared_workspace, value: str, text: str, is_text_in_json: bool
) -> None:
    answer = query(shared_workspace.store, f"SELECT {value} AS x, 1 AS x")
    assert list(csv.reader(io.StringIO(text_of(answer, "csv"))))[1:] == [[text, "1"]]
    in_json = json.dumps(text) if is_text_in_json else text
    assert text_of(answer.select([0]), "json") == f'[\n {{"x": {in_json}}}\n]\n'
    assert text in text_of(answer, "table")


# LaTeX ----------------------------------------------------------------------------------------------------------------

# What TeX draws for each command that `write` uses, written down from the symbol tables of LaTeX, not from the code.
DRAWN = {
    **{rf"\{sign}": sign for sign in "&%$#_{}"},
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textbar{}": "|",
    r"\textquotedbl{}": '"',
    r"\textasciigrave{}": "`",
    r"\textquotesingle{}": "'",
    r"\textendash{}": "–",
    r"\dots{}": "…",
    "$<$": "<",
    "$>$": ">",
    "$-$": "−",
    r"$\leq$": "≤",
    r"$\geq$": "≥",
    r"$\pm$": "±",
    r"$\times$": "×",
    r"$\surd$": "√",
    r"$\epsilon$": "ε",
    r"$\alpha$": "α",
    "{}": "",
}
TOKEN = re.compile(
    "|".join(re.escape(command) for command in sorted(DRAWN, key=len, reverse=True)) + r"|[^\\${}&%#_^~]"
)


def drawn(cell: str) -> str:
    """What TeX makes of a cell; fails on any sign that it would not take as text."""
    assert "--" not in cell
    assert ",," not in cell
    tokens = TOKEN.findall(cell)
    assert "".join(tokens) == cell
    return "".join(DRAWN.get(token, token) for token in tokens)


def latex_rows(text: str) -> list[list[str]]:
    """The cells of a tabular, heads first, as drawn."""
    comment, begin, top, head, middle, *body, bottom, end = text.splitlines()
    assert comment.startswith("% ")
    assert (begin[:15], top, middle, bottom, end) == (
        r"\begin{tabular}",
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\end{tabular}",
    )
    assert all(line.endswith(r" \\") for line in (head, *body))
    return [[drawn(cell) for cell in re.split(r"(?<!\\) ?& ?", line[:-3])] for line in (head, *body)]


def test_latex_by_hand() -> None:
    table = pyarrow.table({"row_of": ["base & big", None, "[1]"], "bleu": [25.80000001, None, 1e-7]})
    assert text_of(table, "latex").splitlines()[1:] == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"row\_of & bleu \\",
        r"\midrule",
        r"base \& big & 25.8 \\",
        r" &  \\",
        r"{}[1] & 1e-07 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_latex_cells_are_drawn_as_they_were(rows: list[tuple[str, str]]) -> None:
    def shown(text: str) -> str:
        text = re.sub(r"[\n\r\t]", " ", text)
        return re.sub(r"[\x00-\x1f\x7f-\x9f]", "�", text).strip()

    table = pyarrow.table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})
    found = [[cell.strip() for cell in row] for row in latex_rows(text_of(table, "latex"))]
    assert found[1:] == [[shown(cell) for cell in row] for row in rows]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (TeX Live's texlive-latex-recommended)")
def test_tex_itself_takes_the_table(tmp_path: Path) -> None:
    hostile = [
        "[1, 2]",
        "* x",
        "a & b % c $ d # e _ f { g } h \\ i ~ j ^ k",
        "<t> | \" ' ` -- --- ,, ?`",
        "– √2 ± 1 ≤ ≥ ä ß",
    ]
    body = text_of(pyarrow.table({"[te_xt]": hostile, "n": range(5)}), "latex")
    packages = "".join(f"\\usepackage{package}" for package in ("[T1]{fontenc}", "{booktabs}", "{textcomp}"))
    document = f"\\documentclass{{article}}{packages}\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "x.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "x.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert result.returncode == 0, result.stdout[-2_000:]


def test_format_follows_the_files_name() -> None:
    names = ("a.csv", "a.json", "a.md", "a.markdown", "a.tex", "a.parquet", "a.TEX", "a.txt", "a")
    formats = ["csv", "json", "markdown", "markdown", "latex", "parquet", "latex", "table", "table"]
    assert [format_of(Path(name)) for name in names] == formats
    assert format_of(None) == "table"


def test_format_that_is_asked_for_wins_where_the_name_promises_none() -> None:
    assert [format_of(Path(name), "csv") for name in ("a.csv", "a.txt", "a", "a.xyz")] == ["csv"] * 4
    assert format_of(None, "json") == "json"


def test_name_that_contradicts_or_means_nothing_is_refused() -> None:
    with pytest.raises(QueryError, match=r"a.json is named as json, and --format says csv"):
        format_of(Path("a.json"), "csv")
    with pytest.raises(QueryError, match=r"into a.xyz\? .*\.csv, .*\.parquet, .*; or choose with --format"):
        format_of(Path("a.xyz"))


def test_two_columns_of_one_name_are_both_shown_or_refused() -> None:
    twice = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["run", "run"])
    assert text_of(twice, "csv") == "run,run\n1,2\n"
    for format in ("json", "parquet"):
        with pytest.raises(QueryError, match="two columns are named run; name them apart with AS"):
            write(twice, format, stream=io.StringIO())


def test_terminal_table_shows_every_column_within_the_width(workspace, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    workspace.register()
    table = workspace.store.fetch("SELECT * FROM table3")
    stream = Terminal()
    write(table, "table", stream=stream)
    plain = _without_colour(stream.getvalue())
    assert max(len(line) for line in plain.splitlines()) <= 80
    assert "…" not in plain
    # Long heads stand in several lines, broken at their underscores.
    for part in {part for name in table.column_names for part in name.split("_")}:
        assert part in plain
    assert plain.rstrip().endswith("60 rows")


def test_piped_table_is_one_block_without_colour(workspace) -> None:
    workspace.register()
    lines = text_of(workspace.store.fetch("SELECT * FROM table3"), "table").splitlines()
    assert len(lines) < 70
    assert "\x1b" not in "".join(lines)


def test_long_answers_say_how_many_rows_are_shown() -> None:
    lines = text_of(pyarrow.table({"x": range(1_500)}), "table").splitlines()
    assert lines[-1] == "1500 rows, the first 1000 shown; all: --format csv"


def test_data_cannot_speak_to_the_terminal() -> None:
    stream = Terminal()
    write(pyarrow.table({"[red]x": ["\x1b]0;title\x07[bold]y[/bold]\r\n"]}), "table", stream=stream)
    plain = _without_colour(stream.getvalue())
    assert "\x1b" not in plain
    assert "\x07" not in plain
    assert "[bold]y[/bold]" in plain
    assert "[red]x" in plain


def test_wrong_format_and_unwritable_file_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="no format 'xml'; there are: table, csv, json, markdown, latex, parquet"):
        write(SAMPLE, "xml")
    with pytest.raises(QueryError, match=r"cannot write .*nowhere/x.csv \(No such file or directory\)"):
        write(SAMPLE, "csv", tmp_path / "nowhere" / "x.csv")
    with pytest.raises(QueryError, match="parquet is not for a terminal"):
        write(SAMPLE, "parquet", stream=Terminal())


def _without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
