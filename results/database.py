"""Opening the DuckDB file so that many processes get along.

DuckDB lets one process write, or many read, and refuses the rest at once. Here everybody waits a little instead:
connections are held for one short transaction or one query, and opening one is tried again until a deadline.
Writers also hold a lock file, for as long as their whole piece of work takes. That keeps two writers (processes or
threads) from doing the same work twice, and a rebuild from replacing the file under a writer. Readers never touch it.

Readers overlap, so without a rule a stream of them would keep a writer out for ever. A writer that has waited for long
therefore says so in a file beside the database, and whoever comes to read then lets it go first.

The database file itself is never opened here except by DuckDB: its locks belong to the process, and closing
any other handle of the file would drop them.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.errors import BusyError, ResultsError

if TYPE_CHECKING:  # importing DuckDB takes 0.1 s, which `aiayn --help` need not wait for
    from duckdb import DuckDBPyConnection

# Longer than any one query may take (query.QUERY_SECONDS), so that a slow question never fails a writer.
LOCK_SECONDS = 60.0
# After so long a person is told what a command waits for.
_SILENT_SECONDS = 1.5
# A writer that was kept out for so long asks readers to let it go first, and what it asked holds for a moment.
_PATIENT_SECONDS = 3.0
_ASKED_SECONDS = 1.0
MEMORY_LIMIT = "4GiB"
THREADS = min(4, os.cpu_count() or 1)
OTHER_HOME = "choose another home with --home DIR or AIAYN_HOME"
REBUILD = "rebuild it from the run folders: aiayn query --rebuild"

_CLOSED_TO_THE_OUTSIDE = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": MEMORY_LIMIT,
    "threads": str(THREADS),
}
# All readers of a process must agree on these; they are those under which people's SQL is harmless.
READ_CONFIG = {
    **_CLOSED_TO_THE_OUTSIDE,
    "enable_external_access": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}
WRITE_CONFIG = _CLOSED_TO_THE_OUTSIDE


def not_writable(home: Path, error: OSError) -> ResultsError:
    why = error.strerror or str(error)
    return ResultsError(f"cannot write to {home} ({why}); {OTHER_HOME}")


logger = logging.getLogger(__name__)


class _Wait:
    """Waiting for `database` in short sleeps, up to `seconds`; a person is told once, after a while, for whom."""

    def __init__(self, database: Path, seconds: float) -> None:
        self._database, self.began = database, time.monotonic()
        self._until, self._told = self.began + seconds, False

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        return time.monotonic() > self._until

    def sleep(self, holder: str) -> None:
        """Wait a little for `holder`, which is described in words."""
        if not self._told and self.seconds > _SILENT_SECONDS:
            self._told = True
            left = self._until - time.monotonic()
            logger.warning("waiting up to %.0f s for %s, held by %s", left, self._database, holder)
        time.sleep(random.uniform(0.005, 0.05))


def lock_file(database: Path) -> Path:
    """What writers of `database` lock; it lies beside it and stays there."""
    return database.with_name(f"{database.name}.lock")


@contextmanager
def writer_lock(database: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Be the only writer of `database` inside the block; the kernel frees the lock of a process that dies.

    Raises:
        ResultsError: the folder cannot be written, or (BusyError) another writer holds the lock for all of `seconds`.
    """
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock_file(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise not_writable(database.parent, error) from None
    try:
        wait = _Wait(database, seconds)
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                if wait.over:
                    raise BusyError(
                        f"{database} is held by writing process {holder} for {seconds:.0f} s; wait, or end that process"
                    ) from None
            wait.sleep(f"writing process {holder}")
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def connect(
    database: Path, *, read_only: bool, seconds: float = LOCK_SECONDS, config: Mapping[str, str] | None = None
) -> DuckDBPyConnection:
    """A connection, waiting for other processes where DuckDB would refuse; close it soon.

    `config` is the one that fits `read_only` unless it is given.

    Raises:
        ResultsError: no database, not a database, or (BusyError) held by another process for all of `seconds`.
    """
    import duckdb

    config = dict(config or (READ_CONFIG if read_only else WRITE_CONFIG))
    wait, asking = _Wait(database, seconds), database.with_name(f"{database.name}.writer-waits")
    try:
        while True:
            if read_only and not wait.over and _was_touched(asking):
                wait.sleep("a process that has long waited to write")
                continue
            try:
                return duckdb.connect(str(database), read_only=read_only, config=config)
            except duckdb.Error as error:
                if not _is_busy(error):
                    raise _cannot_open(database, error) from None
                if wait.over:
                    raise BusyError(
                        f"{database} stayed locked for {seconds:.0f} s: {first_line(error)}; "
                        "end that process or try again"
                    ) from None
                if not read_only and wait.seconds > _PATIENT_SECONDS:
                    with suppress(OSError):
                        asking.touch()
                wait.sleep(_holder(error))
    finally:
        if not read_only and wait.seconds > _PATIENT_SECONDS:
            asking.unlink(missing_ok=True)


def _was_touched(file: Path) -> bool:
    """Whether a waiting writer touched its file just now; one that died in waiting does so no more."""
    try:
        return time.time() - file.stat().st_mtime < _ASKED_SECONDS
    except OSError:
        return False


def _holder(error: Exception) -> str:
    """The process that DuckDB says holds the file, such as `/usr/bin/python3.11 (PID 12)`."""
    named = re.search(r"held in (.+? \(PID \d+\))", str(error))
    return named[1] if named else "another part of this process"


def _is_busy(error: Exception) -> bool:
    # The second is this process's own other thread, reading while this one writes or the other way round.
    return "Could not set lock on file" in str(error) or "different configuration than existing" in str(error)


def _cannot_open(database: Path, error: Exception) -> ResultsError:
    if not database.exists():
        return ResultsError(f"no results in {database.parent} yet; start with: aiayn run table3")
    if "not a valid DuckDB database" in str(error) or "Loading external extensions" in str(error):  # such as SQLite's
        return ResultsError(f"{database} is not a DuckDB database; move it away or run: aiayn query --rebuild")
    if "ermission denied" in str(error) or "Read-only file system" in str(error):
        return ResultsError(f"cannot open {database}: {first_line(error)}; {OTHER_HOME}")
    return ResultsError(f"cannot open {database}: {first_line(error)}; {REBUILD}")


def first_line(error: Exception) -> str:
    """DuckDB's message without its suggestions, which name statements that a person cannot use here."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(" However, ")[0].split(" See also ")[0]


@contextmanager
def transaction(database: Path, seconds: float = LOCK_SECONDS) -> Iterator[DuckDBPyConnection]:
    """A connection with an open transaction: committed at the end of the block, rolled back if it raises.

    Call it under `writer_lock`. Raises ResultsError for whatever DuckDB refuses.
    """
    import duckdb

    connection = connect(database, read_only=False, seconds=seconds)
    try:
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")
    except duckdb.Error as error:
        raise ResultsError(
            f"cannot write {database}: {first_line(error)}; if the disk is not full, {REBUILD}"
        ) from error
    finally:
        connection.close()  # without COMMIT, nothing of the transaction stays


def stage(connection: DuckDBPyConnection, name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Make rows, at least one, visible to SQL as table `name`; Arrow keeps None as NULL and is fast."""
    import pyarrow

    values = map(list, zip(*rows, strict=True))
    connection.register(name, pyarrow.table(dict(zip(columns, values, strict=True))))


def insert(connection: DuckDBPyConnection, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Append rows, given in the order of `columns`, to a table."""
    if rows:
        stage(connection, "inserted", columns, rows)
        names = ", ".join(f'"{column}"' for column in columns)
        connection.execute(f"INSERT INTO {table} ({names}) SELECT * FROM inserted")


def snapshot(database: Path, target: Path) -> str:
    """Write all that is committed in `database` to a new file `target`, and return the sha256 of that file.

    It is copied inside one transaction, so runs may go on meanwhile; an older file of the same name is replaced at the
    end.

    Raises:
        ResultsError: there is no database, or the copy cannot be written.
    """
    import duckdb

    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    connection = connect(database, read_only=True, config=WRITE_CONFIG)
    try:
        unfinished.unlink(missing_ok=True)
        # Its own name, since "results" or a person's file name would have to be quoted by the rules of identifiers.
        source = connection.execute("SELECT current_database()").fetchone()[0].replace('"', '""')
        connection.execute(f"ATTACH '{str(unfinished).replace(chr(39), chr(39) * 2)}' AS snapshot (READ_WRITE)")
        connection.execute(f'COPY FROM DATABASE "{source}" TO snapshot')
        connection.execute("DETACH snapshot")
        with unfinished.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        unfinished.replace(target)
    except duckdb.Error as error:
        raise ResultsError(f"cannot copy {database} to {target}: {first_line(error)}") from error
    except OSError as error:
        raise not_writable(target.parent, error) from None
    finally:
        connection.close()
        unfinished.unlink(missing_ok=True)
    return digest
