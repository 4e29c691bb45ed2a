"""The scorecard as text: every claim counted, nothing wider than the terminal, nothing in the data that harms it."""

from __future__ import annotations

import io
import re
from collections import Counter

import pytest

from reports.pages import VERDICTS
from reports.scorecard_text import as_markdown, claimed, measured, number, print_text, sections


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def row(claim: str = "table3.a.base_over_h1.bleu", verdict: str = "agrees", **more) -> dict:
    plain = {
        "study": "table3",
        "claim": claim,
        "scale": "smoke",
        "kind": "order",
        "direction": ">",
        "expected": None,
        "tolerance": None,
        "measured": 1.2,
        "low": 0.68,
        "high": 1.72,
        "verdict": verdict,
        "reason": "base minus h1: +1.2 BLEU; 3 seeds, spread of the difference 0.21; p 0.0017",
    }
    return plain | more


def unmeasured(claim: str, verdict: str, reason: str, **more) -> dict:
    return row(claim, verdict, reason=reason, measured=None, low=None, high=None, **more)


ROWS = [
    row(),
    row("table3.a.base_over_h32.bleu", "undecided"),
    row("table3.base.bleu", "disagrees", kind="difference", direction=None, expected=0.9, tolerance=0.5),
    *(unmeasured(f"table3.c.{k}", "not run", f"no finished run of {k}") for k in range(7)),
    unmeasured("table3.d.1", "blocked", "no corpus", scale="paper"),
    unmeasured("table3.d.2", "blocked", "no corpus", scale="paper"),
]


def printed(rows: list[dict], stream: io.StringIO | None = None, gather: bool = True) -> str:
    stream = stream or io.StringIO()
    print_text(sections(rows, gather), stream)
    return stream.getvalue()


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({}, "> 0"),
        ({"direction": "<"}, "< 0"),
        ({"kind": "threshold", "direction": ">=", "expected": 2.0}, ">= 2"),
        ({"kind": "value", "direction": None, "expected": 25.8, "tolerance": 0.5}, "25.8 ± 0.5"),
        ({"kind": "exact", "direction": None, "expected": 37_000.0, "tolerance": 0.0}, "37,000"),
        ({"kind": "exact", "direction": None, "expected": 2.3e19, "tolerance": 5e17}, "2.3e+19 ± 5e+17"),
    ],
)
def test_claimed_number_is_written_as_it_is_meant(cells: dict, text: str) -> None:
    assert claimed(row(**cells)) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1.2, 0.68, 1.72), "1.20 [0.68, 1.72]"),
        ((-0.0312, -0.0351, -0.0274), "-0.0312 [-0.0351, -0.0274]"),
        ((25.8, None, None), "25.8"),
        ((65.07, 65.07, 65.07), "65.07"),
        ((None, None, None), ""),
    ],
    ids=str,
)
def test_interval_has_as_many_decimals_as_tell_its_ends_apart(values: tuple, text: str) -> None:
    assert measured(row(**dict(zip(("measured", "low", "high"), values, strict=True)))) == text


def test_numbers_are_short_and_keep_what_matters() -> None:
    values = (0.0, 4.0, 100_000.0, 0.99, 11.1111, 1e-9, 2.3e19, 0.000699, -1.0)
    texts = ["0", "4", "100,000", "0.99", "11.11", "1e-09", "2.3e+19", "0.000699", "-1"]
    assert [number(value) for value in values] == texts


def test_sections_count_every_claim_and_gather_what_no_run_had_a_say_in() -> None:
    smoke, paper = sections(ROWS)
    assert (smoke.name, smoke.num_claims, paper.num_claims) == ("table3 at smoke", 10, 2)
    assert dict(smoke.counts) == Counter(row["verdict"] for row in ROWS if row["scale"] == "smoke")
    assert [row["verdict"] for row in smoke.rows] == ["agrees", "disagrees", "undecided"]
    assert smoke.gathered == [("not run", 7, "")]  # seven reasons are a list of their own
    assert (paper.rows, paper.gathered) == ([], [("blocked", 2, "no corpus")])
    assert smoke.summary == "table3 at smoke: 10 claims, ✓ 1 agrees, ✕ 1 disagrees, ? 1 undecided, · 7 not run"


def test_whoever_asks_for_a_verdict_sees_its_claims_one_by_one() -> None:
    rows = [row for row in ROWS if row["verdict"] == "not run"]
    (section,) = sections(rows, gather=False)
    assert [row["claim"] for row in section.rows] == [row["claim"] for row in rows]
    assert section.gathered == []
    text = printed(rows, gather=False)
    assert all(f"{row['claim']}" in text and row["reason"] in text for row in rows)
    assert "gathered" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_text_fits_the_terminal_and_loses_nothing(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = row("table1.self_attention_restricted.complexity.n.measured", reason="why " * 60)
    text = without_colour(printed([*ROWS, long], Terminal()))
    assert max(map(len, text.splitlines())) <= width
    squeezed = "".join(text.split())
    for shown in (*ROWS[:3], long):
        for part in (shown["claim"], shown["reason"], f"claimed {claimed(shown)}", f"measured {measured(shown)}"):
            assert "".join(part.split()) in squeezed
    if width == 120:
        assert any(line.endswith("claimed > 0, measured 1.20 [0.68, 1.72]") for line in text.splitlines())


def test_piped_text_has_a_line_a_claim_and_one_for_its_reason_without_colour() -> None:
    lines = printed(ROWS).splitlines()
    assert "\x1b" not in "".join(lines)
    place = lines.index("  ✓ agrees         table3.a.base_over_h1.bleu  claimed > 0, measured 1.20 [0.68, 1.72]")
    assert lines[place + 1].strip() == ROWS[0]["reason"]
    assert lines[0].startswith("table3 at smoke: 10 claims")
    assert lines[1].startswith("table3 at paper: 2 claims")
    assert lines[-1] == "gathered: blocked, not run; one by one: aiayn claims --verdict 'blocked'"


def test_signs_and_colours_tell_verdicts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = printed(ROWS, Terminal())
    assert re.search(r"\x1b\[32m  ✓ agrees", text)
    assert re.search(r"\x1b\[31m  ✕ disagrees", text)
    assert re.search(r"\x1b\[33m  \? undecided", text)


def test_text_of_the_data_cannot_speak_to_the_terminal_or_end_a_cell() -> None:
    hostile = row(reason="[bold]a|b[/bold] <script> `x` *y*\nnext \x1b]0;title\x07 line")
    stream = Terminal()
    text = without_colour(printed([hostile], stream))
    assert "\x07" not in text
    assert "\x1b" not in text
    assert "[bold]a|b[/bold]" in text
    table = as_markdown(sections([hostile]))
    (line,) = [line for line in table.splitlines() if "base_over_h1" in line]
    assert len(re.findall(r"(?<!\\)\|", line)) == 6
    assert r"\<script>" in line


def test_markdown_has_counts_and_a_row_a_claim() -> None:
    lines = as_markdown(sections(ROWS)).splitlines()
    assert lines[0] == ("| study | scale | claims | ✓ agrees | ✕ disagrees | ? undecided | ! blocked | · not run |")
    assert lines[2:4] == ["| table3 | smoke | 10 | 1 | 1 | 1 |  | 7 |", "| table3 | paper | 2 |  |  |  | 2 |  |"]
    assert "## table3 at smoke" in lines
    first = r"| ✓ agrees | `table3.a.base_over_h1.bleu` | > 0 | 1.20 \[0.68, 1.72] | base minus h1: +1.2 BLEU; "
    assert any(line.startswith(first) for line in lines)
    assert any(line.startswith("- ! blocked") and line.endswith("2 claims: no corpus") for line in lines)


def test_every_verdict_of_the_database_has_a_sign() -> None:
    for verdict in VERDICTS:
        assert VERDICTS[verdict].sign in printed([row(verdict=verdict)], gather=False)
