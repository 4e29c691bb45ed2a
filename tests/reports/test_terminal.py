from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import terminal
from reports.terminal import cell, markdown_table, print_rows

HEADS = ("run_name", "what it says", "updates")
ROWS = [("one", "a sentence that has a good many words in it, so that it is wide", 1_500), ("two", None, 20)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (False, "NO"),
        (1234567, "1,234,567"),
        (0.0, "0.00"),
        (25.81, "25.81"),
        (0.00123, "1.23e-03"),
        (2.5e19, "2.50e+19"),
        (math.inf, "inf"),
        ("[red]text[/]", "[red]text[/]"),
    ],
)
def test_values_are_short_and_text_is_itself(value, shown):
    assert cell(value) == shown


def test_json_has_every_value_as_it_is(capsys):
    print_rows(HEADS, ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == [dict(zip(HEADS, row, strict=True)) for row in ROWS]


def test_into_a_pipe_a_row_is_a_line(capsys):
    print_rows(HEADS, ROWS, as_json=False)
    title, rule, *rows = capsys.readouterr().out.rstrip().splitlines()
    assert re.split(r" {2,}", title.strip()) == ["run name", "what it says", "updates"]
    assert set(rule.strip()) == {"─"}
    assert re.split(r" {2,}", rows[0].strip()) == ["one", ROWS[0][1], "1,500"]
    assert re.split(r" {2,}", rows[1].strip()) == ["two", "–", "20"]


@pytest.mark.parametrize("width", [80, 40, 20])
def test_a_table_fits_the_terminal_and_keeps_every_word(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(terminal.sys.stdout, "isatty", lambda: True, raising=False)
    print_rows(HEADS, ROWS, as_json=False)
    out = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    assert all(len(line) <= max(width, 34) for line in out.splitlines())  # a name, and 20 columns beside it
    assert [out.split().count(word) for word in ("one", "sentence", "1,500", "two", "20")] == [1] * 5


def test_a_markdown_table_stays_one_whatever_its_text():
    lines = markdown_table("Title", ("a", "b"), [("x|y", "two\nlines"), (None, 3)]).splitlines()
    assert lines[0] == "**Title**"
    assert lines[2:] == ["| a | b |", "| --- | --- |", r"| x\|y | two lines |", "| – | 3 |"]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=8), st.integers(0, 200))
def test_columns_give_way_from_the_widest_and_never_below_their_least(pairs, spare):
    natural = [max(pair) for pair in pairs]
    least = [min(pair) for pair in pairs]
    room = sum(least) + spare
    widths = terminal._fitted(natural, least, room)
    assert sum(widths) == min(room, sum(natural))
    assert all(low <= width <= high for low, width, high in zip(least, widths, natural, strict=True))
    narrowed = [width for width, high in zip(widths, natural, strict=True) if width < high]
    can_give = [width for width, low in zip(widths, least, strict=True) if width > low]
    assert not narrowed or max(can_give, default=0) <= max(narrowed) + 1
