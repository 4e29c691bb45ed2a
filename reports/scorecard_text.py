"""The scorecard as text: for a terminal, fitted to its width and coloured there, and as Markdown.

Per study and scale a line that counts verdicts, then the claims. Claims whose verdict tells nothing yet are gathered
into one line a verdict; whoever asks for that verdict sees them one by one.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TextIO

from reports.pages import VERDICTS
from reports.tables import TELLING, count_verdicts

Row = dict[str, Any]

COLOURS = {
    "reproduced": "green",
    "agrees": "green",
    "not reproduced": "red",
    "disagrees": "red",
    "undecided": "yellow",
    "blocked": "magenta",
}
_VERDICT_WIDTH = max(len(verdict) for verdict in VERDICTS) + 2
_LEAST_WIDTH = 40


@dataclass(frozen=True)
class Section:
    """A study at a scale: how many claims have each verdict, those shown one by one, and those gathered.

    `gathered` has (verdict, number, reason), the reason empty where claims have different ones.
    """

    study: str
    scale: str
    counts: Sequence[tuple[str, int]]
    rows: Sequence[Row]
    gathered: Sequence[tuple[str, int, str]]

    @property
    def num_claims(self) -> int:
        """All claims of the section."""
        return sum(number for _, number in self.counts)


def sections(rows: Iterable[Row], gather: bool = True) -> list[Section]:
    """Claims by study and scale, in the order in which these first occur.

    Args:
        rows: as `studies.scorecard.claim_verdicts` has them.
        gather: whether claims with nothing to tell yet are gathered.
    """
    order: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        order.setdefault((row["study"], row["scale"]), []).append(row)
    return [_section(study, scale, members, gather) for (study, scale), members in order.items()]


def _section(study: str, scale: str, members: list[Row], gather: bool) -> Section:
    counts = count_verdicts(row["verdict"] for row in members)
    silent = [verdict for verdict, number in counts if gather and verdict not in TELLING and number > 1]
    gathered = []
    for verdict in silent:
        reasons = [row["reason"] for row in members if row["verdict"] == verdict]
        gathered.append((verdict, len(reasons), reasons[0] if len(set(reasons)) == 1 else ""))
    places = {verdict: place for place, verdict in enumerate(VERDICTS)}
    shown = sorted((row for row in members if row["verdict"] not in silent), key=lambda row: places[row["verdict"]])
    return Section(study, scale, counts, shown, gathered)


# Cells --------------------------------------------------------------------------------------------------------------


def claimed(row: Row) -> str:
    """What a claim says of its number: `> 0`, `25.8 ± 0.5`, `≥ 2`."""
    if row["kind"] == "order":
        return f"{row['direction']} 0"
    if row["direction"]:
        return f"{row['direction']} {number(row['expected'])}"
    margin = f" ± {number(row['tolerance'])}" if row["tolerance"] else ""
    return number(row["expected"]) + margin


def measured(row: Row) -> str:
    """The measured value and its 95% interval; empty where nothing was measured."""
    if row["measured"] is None:
        return ""
    if row["low"] is None or row["low"] == row["high"]:
        return number(row["measured"])
    # As many decimals as tell the interval's ends apart, the same for all three.
    digits = max(2, 1 - math.floor(math.log10(row["high"] - row["low"])))
    value, low, high = (f"{row[name]:.{digits}f}" for name in ("measured", "low", "high"))
    return f"{value} [{low}, {high}]"


def number(value: float | None) -> str:
    """For reading: two decimals, or four digits of what is very small or large."""
    if value is None:
        return ""
    if value and not 0.01 <= abs(value) < 1e5:
        return f"{value:.3g}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if value == round(value, 2) else f"{value:.2f}"


def _counts_in_words(counts: Sequence[tuple[str, int]]) -> list[str]:
    return [f"{VERDICTS[verdict].sign} {number} {verdict}" for verdict, number in counts]


# The terminal -------------------------------------------------------------------------------------------------------


def print_text(found: Sequence[Section], stream: TextIO) -> None:
    """Print sections for a person: wrapped and coloured on a terminal, one line a paragraph elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    width = max(console.width, _LEAST_WIDTH) if stream.isatty() else None
    for place, section in enumerate(found):
        if place:
            console.print()
        head = f"{section.study} at {section.scale}: {section.num_claims} claim{'s' if section.num_claims > 1 else ''}"
        for line in _wrap(", ".join([head, *_counts_in_words(section.counts)]), width, "", "  "):
            console.print(Text(line, "bold"))
        for row in section.rows:
            for line, style in _claim_lines(row, width):
                console.print(Text(line, style))
        for verdict, count, reason in section.gathered:
            line = f"{_label(verdict)} {count} claims{': ' + reason if reason else ''}"
            for wrapped in _wrap(line, width, "  ", "    "):
                console.print(Text(wrapped, "dim"))


def _label(verdict: str) -> str:
    return f"{VERDICTS[verdict].sign} {verdict}".ljust(_VERDICT_WIDTH)


def _claim_lines(row: Row, width: int | None) -> list[tuple[str, str]]:
    """A claim's first line, with its numbers where there is room, and why it has its verdict."""
    first = f"  {_label(row['verdict'])} {row['claim']}"
    value = measured(row)
    numbers = f"claimed {claimed(row)}" + (f", measured {value}" if value else "")
    if width is None or len(first) + 2 + len(numbers) <= width:
        padding = " " * (width - len(first) - len(numbers)) if width else "  "
        first, reason = first + padding + numbers, row["reason"]
    else:
        reason = f"{numbers}; {row['reason']}"
    style = COLOURS.get(row["verdict"], "dim")
    return [(first, style), *((line, "") for line in _wrap(reason, width, "    ", "    "))]


def _wrap(text: str, width: int | None, first: str, rest: str) -> list[str]:
    if width is None:
        return [first + text]
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


# Markdown -----------------------------------------------------------------------------------------------------------


def as_markdown(found: Sequence[Section]) -> str:
    """A table of counts, then a table of claims for each study and scale."""
    verdicts = [verdict for verdict in VERDICTS if any(verdict in dict(section.counts) for section in found)]
    lines = ["| study | scale | claims | " + " | ".join(f"{VERDICTS[v].sign} {v}" for v in verdicts) + " |"]
    lines.append("| --- | --- | ---: |" + " ---: |" * len(verdicts))
    for section in found:
        counts = dict(section.counts)
        cells = [section.study, section.scale, str(section.num_claims), *(str(counts.get(v, "")) for v in verdicts)]
        lines.append(_markdown_row(cells))
    for study, of_study in groupby(found, key=lambda section: section.study):
        lines += ["", f"## {study}"]
        for section in of_study:
            lines += ["", f"### {study} at {section.scale}", ""]
            if section.rows:
                lines += ["| verdict | claim | claimed | measured | why |", "| --- | --- | ---: | ---: | --- |"]
                lines += [_markdown_row(_markdown_cells(row)) for row in section.rows]
                lines += [""] if section.gathered else []
            lines += [
                f"- {VERDICTS[verdict].sign} {verdict}: {count} claims{_escape('; ' + reason) if reason else ''}"
                for verdict, count, reason in section.gathered
            ]
    return "\n".join(lines) + "\n"


def _markdown_cells(row: Row) -> list[str]:
    return [
        f"{VERDICTS[row['verdict']].sign} {row['verdict']}",
        f"`{row['claim']}`",
        claimed(row),
        measured(row),
        row["reason"],
    ]


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_escape, cells)) + " |"


def _escape(text: str) -> str:
    """Text as Markdown shows it: no cell ends early, no tag begins, no word leans."""
    for sign in "\\|<*_[":
        text = text.replace(sign, "\\" + sign)
    return " ".join(text.split())
