"""What a command has to show, as a table for whoever reads it: fitted to the terminal, as JSON, or as Markdown."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Rows as JSON objects, or as a table that fits the terminal; into a pipe no line is broken."""
    if as_json:
        print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows], indent=1, ensure_ascii=False))
        return
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    titles = [head.replace("_", " ") for head in heads]
    columns = [[cell(row[position]) for row in rows] for position in range(len(heads))]
    numeric = [
        any(isinstance(row[i], (int, float)) and not isinstance(row[i], bool) for row in rows)
        for i in range(len(heads))
    ]
    # Words are not broken, nor numbers and what a row is named by.
    natural = [max(map(cell_len, (title, *cells))) for title, cells in zip(titles, columns, strict=True)]
    least = [
        max(
            cell_len(word)
            for text in (title, *cells)
            for word in ([text] if whole and text is not title else text.split() or [""])
        )
        for title, cells, whole in zip(titles, columns, [True, *numeric[1:]], strict=True)
    ]
    room = console.width - 2 * len(heads)
    if sum(least) > room:
        _print_row_by_row(titles, zip(*columns, strict=True), console.width)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for title, right, width in zip(titles, numeric, _fitted(natural, least, room), strict=True):
        table.add_column(title, justify="right" if right else "left", width=width)
    for cells in zip(*columns, strict=True):
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print()


def markdown_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The same rows as a Markdown table under its title."""
    cells = [[cell(value).replace("|", r"\|").replace("\n", " ") for value in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return f"**{title}**\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _fitted(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths of columns that together fit `room`, taken from the widest first and never below `least`."""
    widths = list(natural)
    while sum(widths) > room:
        widest = max((i for i, width in enumerate(widths) if width > least[i]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _print_row_by_row(titles: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> None:
    """What is too wide for columns: a line for each value that there is, and an empty line after each row."""
    indent = max(map(len, titles)) + 2
    for row in rows:
        for title, text in zip(titles, row, strict=True):
            if text:
                print(textwrap.fill(f"{title:{indent}}{text}", max(width, indent + 20), subsequent_indent=" " * indent))
        print()


def cell(value: Any) -> str:
    """A value for reading: numbers short, a dash where there is none."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "NO"
        case float():
            return f"{value:.2f}" if value == 0 or 0.005 <= abs(value) < 1e6 else f"{value:.2e}"
        case int():
            return f"{value:,}"
    return str(value)
