"""SQL typed by people: read-only, closed to the outside, bounded in time and size, with errors of one line.

The connection's settings (`database.READ_CONFIG`) refuse files, network, extensions, Python variables and changes of
settings. DuckDB calls that hardening, not a sandbox. Nor does it count or interrupt all that it does: one text of
gigabytes is made in one piece. A process that is there for a question alone therefore bounds itself (`confined`).
"""

from __future__ import annotations

import difflib
import os
import re
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from results.errors import QueryError
from results.store import Store

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

QUERY_SECONDS = 30.0
MAX_ANSWER_BYTES = 2**30
BATCH_ROWS = 100_000
# What a confined process may take beside what it has, and how long after the end of its time it may take to stop.
CONFINED_BYTES = 4 * 2**30
GRACE_SECONDS = 5.0

# DuckDB calls PIVOT, which first looks up its columns, a statement of several.
ANSWERED = ("SELECT", "EXPLAIN", "MULTI")
# Types that Arrow has no place for: it would drop a time zone, wrap a large number, or hand out DuckDB's own bytes.
UNKNOWN_TO_ARROW = re.compile(r"\b(INTERVAL|TIME WITH TIME ZONE|TIME_NS|UHUGEINT|BIGNUM|BIT|VARIANT|GEOMETRY)\b")
TOO_MUCH_MEMORY = "the query needs more memory than a query may have; aggregate, filter, or add LIMIT"
EXAMPLE = 'aiayn query "SELECT * FROM table3"'


def query(store: Store, sql: str, seconds: float = QUERY_SECONDS) -> pyarrow.Table:
    """The answer to one SELECT (also WITH, FROM, VALUES, PIVOT, DESCRIBE, SHOW, EXPLAIN), NULLs kept.

    Columns of types that Arrow has no place for come as text, as DuckDB writes it.

    Raises:
        QueryError: the SQL is refused or wrong, takes longer than `seconds`, or its answer is above 1 GiB.
        ResultsError: the database cannot be opened.
    """
    import duckdb

    with store.read() as connection:
        try:
            _require_one_question(connection, sql)
            return _answer(connection, sql, seconds)
        except duckdb.Error as error:
            raise QueryError(_explain(connection, error)) from None


@contextmanager
def confined(seconds: float = QUERY_SECONDS + GRACE_SECONDS) -> Iterator[None]:
    """Bound this whole process, which must be there for one question alone: its memory, and its life.

    Where the block takes longer than `seconds`, the process ends with a line on stderr and exit code 2.
    """

    def end() -> None:
        os.write(2, f"stopped after {seconds:g} s, as it could not be interrupted; ask for less\n".encode())
        os._exit(2)

    # Before the limit, as libraries that it loads end the process where they find no memory. In a thread of its own, as
    # an interrupt from the keyboard in the middle of it would come out as another error.
    loading = threading.Thread(target=import_module, args=("pyarrow",))
    loading.start()
    loading.join()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    before = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # no such limit here, or a lower one already
        resource.setrlimit(resource.RLIMIT_AS, (_bytes_in_use() + CONFINED_BYTES, before[1]))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        resource.setrlimit(resource.RLIMIT_AS, before)


def _bytes_in_use() -> int:
    """The size of this process's address space, which is what the limit counts."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def table_names(store: Store) -> list[str]:
    """The tables and views that can be asked, by name."""
    with store.read() as connection:
        return _table_names(connection)


def _table_names(connection: DuckDBPyConnection) -> list[str]:
    return [name for (name,) in connection.execute("SHOW TABLES").fetchall()]


def _require_one_question(connection: DuckDBPyConnection, sql: str) -> None:
    try:
        sql.encode()
    except UnicodeEncodeError:  # bytes of the command line that no text stands for
        raise QueryError("the SQL is not valid UTF-8; type it again") from None
    statements = connection.extract_statements(sql)
    if not statements:
        raise QueryError(f"no SQL was given; for example: {EXAMPLE}")
    if len(statements) > 1:
        raise QueryError(f"{len(statements)} statements were given; ask one SELECT at a time")
    kind = statements[0].type.name
    if kind not in ANSWERED:
        raise QueryError(f"{kind} is refused: results are read-only; ask with SELECT, for example: {EXAMPLE}")


def _answer(connection: DuckDBPyConnection, sql: str, seconds: float) -> pyarrow.Table:
    stopping = threading.Event()
    # In a thread of its own, since Python sees no interrupt from the keyboard while DuckDB works in this one.
    with ThreadPoolExecutor(max_workers=1) as pool:
        answer = pool.submit(_read, connection, sql, stopping)
        try:
            wait([answer], timeout=seconds)
        finally:
            stopping.set()
            while not answer.done():
                connection.interrupt()  # again, because one that comes between two batches is lost
                wait([answer], timeout=0.1)
    table = answer.result()
    if table is None:
        raise QueryError(f"stopped after {seconds:g} s; ask for less, or copy the rows out with --format parquet")
    return table


def _read(connection: DuckDBPyConnection, sql: str, stopping: threading.Event) -> pyarrow.Table | None:
    """The whole answer; None if it was not there when it had to stop."""
    import duckdb
    import pyarrow

    try:
        reader = _for_arrow(connection.sql(sql)).to_arrow_reader(BATCH_ROWS)
        batches, size = [], 0
        for batch in reader:
            size += batch.nbytes
            if size > MAX_ANSWER_BYTES:
                raise QueryError("the answer is larger than 1 GiB; aggregate, or add LIMIT")
            if stopping.is_set():
                return None
            batches.append(batch)
    except (duckdb.InterruptException, pyarrow.ArrowException, OSError):
        if stopping.is_set():
            return None
        raise
    except MemoryError:
        raise QueryError(TOO_MUCH_MEMORY) from None
    return pyarrow.Table.from_batches(batches, reader.schema)


def _for_arrow(answer: DuckDBPyRelation) -> DuckDBPyRelation:
    """The answer with text in place of what Arrow would spoil, also inside lists and the like."""
    spoiled = [UNKNOWN_TO_ARROW.search(str(kind)) is not None for kind in answer.types]
    if not any(spoiled):
        return answer
    # By position, since two columns may have one name.
    names = ['"' + name.replace('"', '""') + '"' for name in answer.columns]
    return answer.project(
        ", ".join(
            f"CAST(#{position} AS VARCHAR) AS {name}" if cast else f"#{position} AS {name}"
            for position, (name, cast) in enumerate(zip(names, spoiled, strict=True), start=1)
        )
    )


def _explain(connection: DuckDBPyConnection, error: Exception) -> str:
    """One line: what DuckDB refused, and the names that were perhaps meant."""
    import duckdb

    # After the first blank line come the statement again and hints about settings that are locked here.
    message = " ".join(str(error).split("\n\n")[0].split())
    missing = re.search(r'Table with name "?(.+?)"? does not exist', message)
    if missing:
        names = _table_names(connection)
        near = difflib.get_close_matches(missing[1].lower(), names, cutoff=0.5)
        parts = [
            f"no table {missing[1]!r}",
            *([f"close: {', '.join(near)}"] if near else []),
            f"all: {', '.join(names)}",
        ]
        return "; ".join(parts)
    if isinstance(error, duckdb.OutOfMemoryException):
        return TOO_MUCH_MEMORY
    if isinstance(error, duckdb.PermissionException):
        return f"refused: queries see the results alone, no files, network or extensions ({message})"
    return message
