"""HOME/results.duckdb: one database, built from the run folders, written by one process at a time, read by many.

The run folders are the truth about runs (`results.run_folder`), so a lost, broken or outdated database is built anew
from them. The registry (studies, claims, published numbers) and the verdicts are written by the command.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results import ingest
from results.database import LOCK_SECONDS, REBUILD, connect, first_line, insert, not_writable, transaction, writer_lock
from results.errors import BusyError, ResultsError
from results.ingest import IngestReport, Known
from results.records import (
    ClaimRow,
    DepartureRow,
    PublishedCapabilityRow,
    PublishedFigureRow,
    PublishedRow,
    PublishedTable1Row,
    PublishedTable2Row,
    PublishedTable3Row,
    PublishedTable4Row,
    StudyRow,
    VerdictRow,
    parse_time,
)

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

DATABASE = "results.duckdb"  # in the workspace's folder; what lies beside it for a time has a name that begins so
SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
SCHEMA_VERSION = hashlib.sha256(SCHEMA.encode()).hexdigest()[:12]


def _columns(kind: type) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))


# The paper's tables as printed, by the kind of their rows.
PUBLISHED: Mapping[type, str] = {
    PublishedTable1Row: "published_table1",
    PublishedTable2Row: "published_table2",
    PublishedTable3Row: "published_table3",
    PublishedTable4Row: "published_table4",
    PublishedFigureRow: "published_figures",
    PublishedCapabilityRow: "published_capabilities",
}

# What the run folders cannot give back, and a rebuild therefore takes over from the old database: table and columns.
CARRIED = {
    "studies": _columns(StudyRow),
    "claims": _columns(ClaimRow),
    **{table: _columns(kind) for kind, table in PUBLISHED.items()},
    "departures": _columns(DepartureRow),
    "verdicts": _columns(VerdictRow),
    "internal.meta": ("key", "value"),
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _State:
    """The database as a writer found it. One just built has a report (`made`) and nothing of the rest that matters."""

    meta: Mapping[str, str] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    made: IngestReport | None = None


class Store:
    """The database of a workspace. Making the object opens and creates nothing.

    Every method raises ResultsError, with what to do, where the home cannot be written, the file is no database of
    this tool, or another process holds it for too long.
    """

    def __init__(self, home: Path, patience: float = LOCK_SECONDS) -> None:
        """`patience` is how many seconds a method waits where another process holds the database."""
        self.home, self.patience = Path(home).absolute(), patience
        self.database = self.home / DATABASE
        self.runs_dir = self.home / "runs"

    @contextmanager
    def read(self) -> Iterator[DuckDBPyConnection]:
        """A read-only connection; leave the block soon, because a writer waits for it."""
        import duckdb

        connection = connect(self.database, read_only=True, seconds=self.patience)
        try:
            yield connection
        except duckdb.Error as error:
            raise ResultsError(f"cannot read {self.database}: {first_line(error)}; {REBUILD}") from error
        finally:
            connection.close()

    def fetch(self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = ()) -> pyarrow.Table:
        """The answer to SQL of our own, `parameters` filling its ? or $name. What people type: `results.query`."""
        with self.read() as connection:
            return connection.sql(sql, params=parameters or None).to_arrow_table()

    def ingest(self) -> IngestReport:
        """Bring the database up to the run folders, making it where it is missing; unchanged folders are not read."""
        with self._writing() as state:
            return state.made or ingest.load(self.runs_dir, state.known, self._transaction)

    def refresh(self) -> IngestReport | None:
        """`ingest`, or None where the home may only be read: its database is then shown as it is."""
        writable = os.access(self.home, os.W_OK | os.X_OK)
        if self.database.exists() and not (writable and os.access(self.database, os.W_OK)):
            return None
        return self.ingest()

    def rebuild(self) -> IngestReport:
        """Build the database anew from the run folders and put it in place of the old one, which may be broken.

        The registry and the verdicts are taken over as far as the old database can be read.
        """
        with writer_lock(self.database, self.patience):
            return self._build()

    def sync_registry(
        self,
        studies: Sequence[StudyRow],
        claims: Sequence[ClaimRow],
        published: Sequence[PublishedRow],
        departures: Sequence[DepartureRow] = (),
    ) -> None:
        """Make the registry's tables equal to these rows, and drop verdicts on claims that are no more.

        Raises:
            ValueError: an id is given twice, or a claim names no study.
        """
        _require_unique("study", [row.study for row in studies])
        _require_unique("claim", [row.claim for row in claims])
        _require_unique("published row", [f"{PUBLISHED[type(row)]} {row.position}" for row in published])
        strays = sorted({row.study for row in claims} - {row.study for row in studies})
        if strays:
            raise ValueError(f"claims name no study: {', '.join(strays)}")
        state = hashlib.sha256(
            repr((list(studies), list(claims), list(published), list(departures))).encode()
        ).hexdigest()
        with self._writing() as present:
            if present.meta.get("registry") == state:
                return
            with self._transaction() as connection:
                _replace(connection, "studies", StudyRow, studies)
                _replace(connection, "claims", ClaimRow, claims)
                for kind, table in PUBLISHED.items():
                    _replace(connection, table, kind, [row for row in published if type(row) is kind])
                _replace(connection, "departures", DepartureRow, departures)
                connection.execute("DELETE FROM verdicts WHERE claim NOT IN (SELECT claim FROM claims)")
                _set_meta(connection, "registry", state)

    def write_verdicts(self, rows: Sequence[VerdictRow], basis: str = "") -> None:
        """Put these in place of all verdicts on the same studies at the same scales.

        `basis` stands for all that they were decided from; `verdicts_basis` gives it back, to tell whether they are
        still true.

        Raises:
            ValueError: two verdicts on one claim and scale, or a claim that the registry does not have.
        """
        _require_unique("verdict", [f"{row.claim} at scale {row.scale}" for row in rows])
        if not rows:
            return
        with self._writing(), self._transaction() as connection:
            study_of = dict(connection.execute("SELECT claim, study FROM claims").fetchall())
            unknown = sorted({row.claim for row in rows} - study_of.keys())
            if unknown:
                raise ValueError(f"verdicts on claims that the registry does not have: {', '.join(unknown)}")
            connection.executemany(
                "DELETE FROM verdicts WHERE scale = ? AND claim IN (SELECT claim FROM claims WHERE study = ?)",
                sorted({(row.scale, study_of[row.claim]) for row in rows}),
            )
            values = [(*astuple(row)[:-1], parse_time(row.decided)) for row in rows]
            insert(connection, "verdicts", _columns(VerdictRow), values)
            _set_meta(connection, "verdicts_basis", basis)

    def verdicts_basis(self) -> str:
        """What `write_verdicts` was last told; empty before."""
        rows = self.fetch("SELECT value FROM internal.meta WHERE key = 'verdicts_basis'").to_pylist()
        return rows[0]["value"] if rows else ""

    def set_code_version(self, code_version: str) -> None:
        """Say which code is the present one; runs made by other code are marked by the views."""
        with self._writing() as state:
            if state.meta.get("code_version") != code_version:
                with self._transaction() as connection:
                    _set_meta(connection, "code_version", code_version)

    def _transaction(self) -> AbstractContextManager[DuckDBPyConnection]:
        return transaction(self.database, self.patience)

    @contextmanager
    def _writing(self) -> Iterator[_State]:
        """Hold the writers' lock over a database of the present schema, built first where there is none."""
        with writer_lock(self.database, self.patience):
            if not self.database.exists():
                yield _State(made=self._build())
                return
            state = self._state()
            if state is None:
                state = _State(made=self._build())
                logger.warning(
                    "%s had the schema of another version; rebuilt it from %d run folders",
                    self.database,
                    state.made.read,
                )
            yield state

    def _state(self) -> _State | None:
        """What writers need to know of the database, or None if its schema is of another version."""
        import duckdb

        with self.read() as connection:
            try:
                meta = dict(connection.execute("SELECT key, value FROM internal.meta").fetchall())
            except duckdb.CatalogException:
                raise ResultsError(
                    f"{self.database} is another tool's DuckDB database; move it away or run: aiayn query --rebuild"
                ) from None
            if meta.get("schema_version") != SCHEMA_VERSION:
                return None
            signatures = dict(connection.execute("SELECT run, signature FROM internal.ingested").fetchall())
            problems = connection.execute("SELECT run, file, problem FROM problems").fetchall()
            return _State(meta, Known(signatures, problems))

    def _build(self) -> IngestReport:
        """Make the database under another name and rename it into place, so that nobody ever sees half of one."""
        fresh = self.database.with_name(f"{DATABASE}.building")
        carried = self._carried()
        try:
            _remove(fresh)
            with transaction(fresh) as connection:
                connection.execute(SCHEMA)
                for table, rows in carried.items():
                    connection.register("carried", rows)
                    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM carried")
                _set_meta(connection, "schema_version", SCHEMA_VERSION)
            report = ingest.load(self.runs_dir, Known(), partial(transaction, fresh))
            # A log left by a killed writer belongs to the old file and must not be replayed into the new one.
            self.database.with_name(f"{self.database.name}.wal").unlink(missing_ok=True)
            fresh.replace(self.database)
        except OSError as error:
            raise not_writable(self.home, error) from None
        finally:
            _remove(fresh)
        return report

    def _carried(self) -> dict[str, pyarrow.Table]:
        """The old database's rows that no run folder holds, in the columns that the present schema still has."""
        import duckdb

        carried: dict[str, pyarrow.Table] = {}
        try:
            with self.read() as connection:
                for table, kept in CARRIED.items():
                    try:
                        rows = connection.sql(f"SELECT * FROM {table}").to_arrow_table()
                    except duckdb.CatalogException:  # an older schema lacks it
                        continue
                    carried[table] = rows.select([name for name in rows.column_names if name in kept])
        except BusyError:
            raise
        except ResultsError as error:  # missing or broken, which is why it is built anew
            logger.debug("nothing taken over from %s: %s", self.database, error)
        return carried


def _remove(database: Path) -> None:
    for name in (database.name, f"{database.name}.wal"):
        database.with_name(name).unlink(missing_ok=True)


def _replace(connection: DuckDBPyConnection, table: str, kind: type, rows: Sequence[Any]) -> None:
    connection.execute(f"DELETE FROM {table}")
    insert(connection, table, _columns(kind), [astuple(row) for row in rows])


def _set_meta(connection: DuckDBPyConnection, key: str, value: str) -> None:
    connection.execute("DELETE FROM internal.meta WHERE key = ?", [key])
    connection.execute("INSERT INTO internal.meta VALUES (?, ?)", [key, value])


def _require_unique(what: str, names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"{what} given twice: {', '.join(twice)}")
