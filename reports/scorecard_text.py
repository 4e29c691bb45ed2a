"""The scorecard as text: for a terminal, fitted to its width and coloured there, and as Markdown.

First a line for each study and scale that counts verdicts, then the claims. Those that no run has had a say in are
gathered into a line for each reason; whoever asks for their verdict sees them one by one.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from reports.pages import VERDICTS
from reports.tables import DECIDED, count_verdicts
from results.output import one_line

Row = dict[str, Any]

COLOURS = {
    "reproduced": "green",
    "agrees": "green",
    "not reproduced": "red",
    "disagrees": "red",
    "undecided": "yellow",
    "blocked": "magenta",
}
# Gathered reasons are told where they are few; where they differ from claim to claim, their number is.
_MOST_REASONS = 2
_VERDICT_WIDTH = max(len(verdict) for verdict in VERDICTS) + 2
_LEAST_WIDTH = 40


@dataclass(frozen=True)
class Section:
    """A study at a scale: how many claims have each verdict, those shown one by one, and those gathered.

    `gathered` has (verdict, number, reason), the reason empty where claims have many.
    """

    study: str
    scale: str
    counts: Sequence[tuple[str, int]]
    rows: Sequence[Row]
    gathered: Sequence[tuple[str, int, str]]

    @property
    def name(self) -> str:
        """The study and the scale."""
        return f"{self.study} at {self.scale}"

    @property
    def num_claims(self) -> int:
        """All claims of the section."""
        return sum(number for _, number in self.counts)

    @property
    def summary(self) -> str:
        """How its claims stand, in one line."""
        counts = ", ".join(f"{VERDICTS[verdict].sign} {number} {verdict}" for verdict, number in self.counts)
        return f"{self.name}: {self.num_claims} claim{'s' if self.num_claims > 1 else ''}, {counts}"


def sections(rows: Iterable[Row], gather: bool = True) -> list[Section]:
    """Claims by study and scale, in the order in which these first occur.

    Args:
        rows: as `studies.scorecard.claim_verdicts` has them.
        gather: whether claims that no run has had a say in are gathered.
    """
    order: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        order.setdefault((row["study"], row["scale"]), []).append(row)
    return [_section(study, scale, members, gather) for (study, scale), members in order.items()]


def _section(study: str, scale: str, members: list[Row], gather: bool) -> Section:
    counts = count_verdicts(row["verdict"] for row in members)
    silent = [verdict for verdict, _ in counts if gather and verdict not in (*DECIDED, "undecided")]
    gathered = []
    for verdict in silent:
        reasons = Counter(row["reason"] for row in members if row["verdict"] == verdict)
        if len(reasons) > _MOST_REASONS:
            reasons = {"": reasons.total()}
        gathered += [(verdict, number, reason) for reason, number in reasons.items()]
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
    """For reading: all digits of a count, else two decimals, or three digits of what is very small or large."""
    if value is None:
        return ""
    if value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}"
    if not 0.01 <= abs(value) < 1e5:
        return f"{value:.3g}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if value == round(value, 2) else f"{value:.2f}"


# The terminal -------------------------------------------------------------------------------------------------------


def print_text(found: Sequence[Section], stream: TextIO) -> None:
    """Print sections for a person: wrapped and coloured on a terminal, one line a paragraph elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    width = max(console.width, _LEAST_WIDTH) if stream.isatty() else None

    def say(text: str, style: str, first: str = "", rest: str = "  ") -> None:
        for line in _wrap(text, width, first, rest):
            console.print(Text(line, style))

    for section in found:
        say(section.summary, "bold")
    for section in found:
        if len(found) > 1 and (section.rows or any(reason for *_, reason in section.gathered)):
            console.print()
            say(section.name, "bold")
        for row in section.rows:
            for line, style in _claim_lines(row, width):
                console.print(Text(line, style))
        for verdict, count, reason in section.gathered:
            if reason or len(found) == 1:
                say(_gathered_in_words(verdict, count, reason), "dim", "  ", "    ")
    silent = sorted({verdict for section in found for verdict, *_ in section.gathered})
    if silent:
        console.print()
        say(f"gathered: {', '.join(silent)}; one by one: aiayn claims --verdict '{silent[0]}'", "dim")


def _gathered_in_words(verdict: str, count: int, reason: str) -> str:
    claims = f"{count} claim{'s' if count > 1 else ''}"
    return f"{_label(verdict)} {claims}" + (f": {reason}" if reason else "")


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
    text = one_line(text)
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
    for section in found:
        lines += ["", f"## {section.name}", ""]
        if section.rows:
            lines += ["| verdict | claim | claimed | measured | why |", "| --- | --- | ---: | ---: | --- |"]
            lines += [_markdown_row(_markdown_cells(row)) for row in section.rows]
            lines += [""] if section.gathered else []
        lines += [f"- {_escape(_gathered_in_words(*gathered))}" for gathered in section.gathered]
    return "\n".join(lines) + "\n"


def _markdown_cells(row: Row) -> list[str]:
    return [
        f"{VERDICTS[row['verdict']].sign} {row['verdict']}",
        f"`{row['claim']}`",
        *map(_escape, (claimed(row), measured(row), row["reason"])),
    ]


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escape(text: str) -> str:
    """Text as Markdown shows it: no cell ends early, no tag begins, no word leans."""
    for sign in "\\|<*_[":
        text = text.replace(sign, "\\" + sign)
    return one_line(text)
