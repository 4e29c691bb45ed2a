"""Writing an answer: a table for the terminal, or csv, json, markdown, latex, parquet for whatever comes next.

NULL stays told apart: empty in csv, markdown and latex, null in json, a dash in the terminal's table. Parquet keeps all
types that it has; csv and json keep every digit of a number; markdown and latex round for reading.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from results.errors import QueryError, ResultsError
from results.store import DATABASE

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("table", "csv", "json", "markdown", "latex", "parquet")
SUFFIXES = {**{format: format for format in FORMATS}, "md": "markdown", "tex": "latex"}
# Names that promise nothing: a table, unless another format is asked for.
PLAIN_SUFFIXES = ("", "txt")
# What a workspace keeps beside its database: folders that no answer belongs into.
KEPT_FOLDERS = ("runs", "data", "ray")
MAX_TABLE_ROWS = 1_000  # in the terminal's table; the other formats write all
MAX_CELL = 60
NULL_MARK = "–"


def format_of(output: Path | None, asked: str | None = None) -> str:
    """The format that was asked for, else the one that the file's name promises; a table where neither says.

    Raises:
        QueryError: the name promises another format than was asked for, or has an ending that means none.
    """
    ending = output.suffix.removeprefix(".").lower() if output else ""
    promised = SUFFIXES.get(ending)
    if asked and promised not in (None, asked):
        raise QueryError(f"{output} is named as {promised}, and --format says {asked}; leave one of them out")
    if not (asked or promised or ending in PLAIN_SUFFIXES):
        endings = ", ".join(f".{known}" for known in (*SUFFIXES, "txt"))
        raise QueryError(f"what to write into {output}? endings that say so: {endings}; or choose with --format")
    return asked or promised or "table"


def require_outside(output: Path, home: Path) -> None:
    """Make sure that writing `output` touches nothing that the workspace `home` keeps.

    Raises:
        ResultsError: it lies among the runs or the data, or is the database or a file of it, also by way of a link.
    """
    place, root = (Path(os.path.realpath(path)) for path in (output, home))
    among = [name for name in KEPT_FOLDERS if place.is_relative_to(os.path.realpath(home / name))]
    is_database = place.parent == root and place.name.startswith(DATABASE)
    if among or is_database or place == Path(os.path.realpath(home / DATABASE)):
        kept = home / (among[0] if among else DATABASE)
        raise ResultsError(f"{output} belongs to {kept}, which is the workspace's own; choose another file with -o")


def write(table: pyarrow.Table, format: str, output: Path | None = None, stream: TextIO | None = None) -> None:
    """Write `table` to the file `output`, which appears whole or not at all, or to `stream` (standard output).

    Raises:
        QueryError: unknown format, a file that cannot be written, parquet to a terminal, or two columns of one name
            where the format has no place for both.
    """
    stream = stream or sys.stdout
    if format not in FORMATS:
        raise QueryError(f"no format {format!r}; there are: {', '.join(FORMATS)}")
    if format in ("json", "parquet"):
        _require_distinct_names(table)
    if output is not None:
        _write_file(output, lambda path: _write_path(table, format, path))
    elif format == "parquet":
        if stream.isatty():
            raise QueryError("parquet is not for a terminal; name a file with -o FILE")
        _write_parquet(table, stream.buffer)
    else:
        WRITERS[format](table, stream)


def _require_distinct_names(table: pyarrow.Table) -> None:
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise QueryError(f"two columns are named {', '.join(twice)}; name them apart with AS")


def _write_file(output: Path, write_to: Callable[[Path], None]) -> None:
    try:
        if output.exists() and not output.is_file():
            write_to(output)  # a device or a named pipe, which another file in its place would destroy
            return
        temporary = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
        try:
            write_to(temporary)
            temporary.replace(output)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise QueryError(f"cannot write {output} ({error.strerror or error}); choose another file with -o") from None


def _write_path(table: pyarrow.Table, format: str, path: Path) -> None:
    if format == "parquet":
        with path.open("wb") as file:
            _write_parquet(table, file)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            WRITERS[format](table, file)


def _write_parquet(table: pyarrow.Table, file: Any) -> None:
    import pyarrow
    import pyarrow.parquet

    try:
        pyarrow.parquet.write_table(table, file, compression="zstd")
    except pyarrow.ArrowNotImplementedError as error:
        raise QueryError(f"parquet has no type for a column ({error}); cast it to VARCHAR") from None


def _rows(table: pyarrow.Table, convert: Callable[[Any], Any]) -> Iterator[tuple[Any, ...]]:
    # By column, since rows as dictionaries would lose one of two columns of the same name.
    for batch in table.to_batches():
        yield from zip(*(map(convert, _values(column)) for column in batch.columns), strict=True)


def _values(column: pyarrow.Array | pyarrow.ChunkedArray) -> list[Any]:
    """A column as Python's values; as DuckDB's words where it holds what Python has no value for."""
    try:
        return column.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError, TypeError):  # a time without end or before year 1; a map whose keys are lists
        return _in_words(column)


def _in_words(column: pyarrow.Array | pyarrow.ChunkedArray) -> list[str | None]:
    import duckdb
    import pyarrow

    with duckdb.connect() as connection:
        words = connection.from_arrow(pyarrow.table({"value": column})).project("CAST(value AS VARCHAR)")
        return [word for (word,) in words.fetchall()]


def _plain(value: Any) -> Any:
    """The value as JSON has it: no NaN or infinity (null), times in ISO 8601, bytes in hexadecimal, keys as texts."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return {_text(key): _plain(entry) for key, entry in value.items()}
        case list():
            return [_plain(entry) for entry in value]
        case None | bool() | int() | str() | Decimal():
            return value
    return str(value)


def _json(plain: Any) -> str:
    """JSON of what `_plain` gives. The standard writer takes no decimals, and as floats they would lose digits."""
    match plain:
        case Decimal():
            digits = f"{plain:f}"
            return digits.rstrip("0").rstrip(".") if "." in digits else digits
        case dict():
            return "{" + ", ".join(f"{_json(key)}: {_json(entry)}" for key, entry in plain.items()) + "}"
        case list():
            return "[" + ", ".join(map(_json, plain)) + "]"
    return json.dumps(plain, ensure_ascii=False)


def _text(value: Any) -> str | None:
    plain = _plain(value)
    return plain if plain is None or isinstance(plain, str) else _json(plain)


def _write_csv(table: pyarrow.Table, stream: TextIO) -> None:
    def cell(value: Any) -> str:
        text = _text(value)
        if text is None:
            return ""
        needs_quotes = not text or any(mark in text for mark in ',"\r\n')
        return '"' + text.replace('"', '""') + '"' if needs_quotes else text

    stream.write(",".join(map(cell, table.column_names)) + "\n")
    stream.writelines(",".join(row) + "\n" for row in _rows(table, cell))


def _write_json(table: pyarrow.Table, stream: TextIO) -> None:
    # A column of JSON text, such as runs.config, is already JSON for whoever reads it on: it stays text, as in SQL.
    lines = (_json(dict(zip(table.column_names, row, strict=True))) for row in _rows(table, _plain))
    stream.write("[")
    for number, line in enumerate(lines):
        stream.write(("," if number else "") + "\n " + line)
    stream.write("\n]\n")


def _write_markdown(table: pyarrow.Table, stream: TextIO) -> None:
    def cell(value: Any) -> str:
        text = _human(value) if isinstance(value, float) else _text(value)
        return "" if text is None else one_line(text).replace("\\", "\\\\").replace("|", "\\|")

    stream.write("| " + " | ".join(map(cell, table.column_names)) + " |\n")
    stream.write("|" + "".join(" ---: |" if numeric else " --- |" for numeric in _numeric(table)) + "\n")
    stream.writelines("| " + " | ".join(row) + " |\n" for row in _rows(table, cell))


# What TeX reads as something else, and signs that its usual fonts lack.
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "<": "$<$",
    ">": "$>$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "√": r"$\surd$",
    "−": "$-$",
    "–": r"\textendash{}",
    "…": r"\dots{}",
    "ε": r"$\epsilon$",
    "α": r"$\alpha$",
}


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in one_line(text))
    return re.sub("([-,])(?=\\1)", r"\1{}", escaped)  # two hyphens or commas in a row are another sign to TeX


def _write_latex(table: pyarrow.Table, stream: TextIO) -> None:
    """A tabular with the rules of booktabs, to be put into a table or to be read in with \\input."""

    def cell(value: Any) -> str:
        text = _human(value) if isinstance(value, float) else _text(value)
        return "" if text is None else _latex(text)

    def line(cells: Sequence[str]) -> str:
        # The lines before would take a bracket or a star at its beginning for their option.
        return ("{}" if cells[0][:1] in ("[", "*") else "") + " & ".join(cells) + " \\\\\n"

    alignment = "".join("r" if numeric else "l" for numeric in _numeric(table))
    stream.write("% \\usepackage[T1]{fontenc}, \\usepackage{booktabs}, \\usepackage{textcomp}\n")
    stream.write(f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n")
    stream.write(line([_latex(name) for name in table.column_names]) + "\\midrule\n")
    stream.writelines(map(line, _rows(table, cell)))
    stream.write("\\bottomrule\n\\end{tabular}\n")


def _numeric(table: pyarrow.Table) -> list[bool]:
    import pyarrow.types as types

    tests = (types.is_integer, types.is_floating, types.is_decimal)
    return [any(test(kind) for test in tests) for kind in table.schema.types]


def _human(value: float) -> str:
    """Four decimals at most, or four digits where that would leave nothing."""
    if value and abs(value) < 1e-3:
        return f"{value:.4g}"
    if not math.isfinite(value) or abs(value) >= 1e15:
        return str(value)
    return f"{value:.4f}".rstrip("0").rstrip(".")


def one_line(text: str) -> str:
    """Without line breaks and control characters, which could move a terminal's cursor or colour it."""
    return "".join(
        " " if character in "\n\r\t" else "�" if unicodedata.category(character) == "Cc" else character
        for character in text
    )


def _shown(value: Any) -> str:
    text = _human(value) if isinstance(value, float) else _text(value)
    if text is None:
        return NULL_MARK
    text = one_line(text)
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"


def _write_table(table: pyarrow.Table, stream: TextIO) -> None:
    """Columns that do not fit side by side go into further blocks below, each led by the row's number."""
    from rich.cells import cell_len
    from rich.console import Console

    # Into a file or pipe there is no edge to fit to.
    console = Console(file=stream, width=None if stream.isatty() else 1_000_000, highlight=False, soft_wrap=False)
    shown = table.slice(0, MAX_TABLE_ROWS)
    columns = [[_shown(value) for value in _values(column)] for column in shown.columns]
    # Heads break at underscores, as published_params_millions is far wider than what stands below it.
    heads = [one_line(name).replace("_", "_\n") if len(name) > 12 else one_line(name) for name in table.column_names]
    widths = [
        max(cell_len(text) for text in (*head.split("\n"), *cells)) for head, cells in zip(heads, columns, strict=True)
    ]
    blocks = _blocks(widths, console.width, number_width=len(str(shown.num_rows)))
    numeric = _numeric(table)
    for block in blocks:
        console.print(_block(block, heads, columns, numeric, shown.num_rows, numbered=len(blocks) > 1))
        console.print()
    rows = f"{table.num_rows} row{'' if table.num_rows == 1 else 's'}"
    if shown.num_rows < table.num_rows:
        rows += f", the first {shown.num_rows} shown; all: --format csv"
    console.print(rows, style="dim")


def _blocks(widths: Sequence[int], console_width: int, number_width: int) -> list[list[int]]:
    """Column numbers, in as few blocks as fit the width, each with two spaces a column."""
    if sum(width + 2 for width in widths) <= console_width:
        return [list(range(len(widths)))]
    blocks: list[list[int]] = [[]]
    room = console_width - number_width - 2
    left = room
    for column, width in enumerate(widths):
        if blocks[-1] and width + 2 > left:
            blocks.append([])
            left = room
        blocks[-1].append(column)
        left -= width + 2
    return blocks


def _block(
    block: Sequence[int],
    heads: Sequence[str],
    columns: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    num_rows: int,
    numbered: bool,
) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    # One space of padding and one of the box between columns: the two that _blocks reckons with.
    grid = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    if numbered:
        grid.add_column("#", justify="right", style="dim", no_wrap=True)
    for column in block:
        grid.add_column(Text(heads[column]), justify="right" if numeric[column] else "left")
    for row in range(num_rows):
        # Text objects, because a text of the data may look like rich's markup.
        cells = [Text(columns[column][row]) for column in block]
        grid.add_row(*([str(row + 1)] if numbered else []), *cells)
    return grid


WRITERS: dict[str, Callable[[Any, TextIO], None]] = {
    "table": _write_table,
    "csv": _write_csv,
    "json": _write_json,
    "markdown": _write_markdown,
    "latex": _write_latex,
}
