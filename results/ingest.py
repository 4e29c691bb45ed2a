"""Run folders into database rows: which folders changed, what they say, and one transaction that makes the rows equal.

A run's rows depend on its files alone, and a batch leaves exactly those rows behind whatever was there before.
So ingest may be repeated, interrupted and rebuilt from nothing, and the same rows come out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.database import insert, stage
from results.errors import ResultsError
from results.records import MAX_INTEGER, RunRecord, RunResult, parse_time
from results.run_folder import (
    DAMAGED,
    METRICS,
    Attempt,
    RunFolder,
    RunStatus,
    read_json,
    require_characters,
    storable_json,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Bounds of one transaction: what a reader may have to wait for (some 0.1 s).
BATCH_METRICS = 100_000
BATCH_RUNS = 500

_MACHINE = ("hardware", "gpus", "versions")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "runs": (
        *("run", "study", "trial", "seed", "scale", "status", "reason", "created", "started", "finished", "seconds"),
        *("attempts", "config", "params", "phases", "code_version", "git_commit", "dirty", "data_fingerprint"),
        *_MACHINE,
    ),
    "metrics": ("run", "step", "split", "name", "value", "seconds", "attempt"),
    "scores": ("run", "name", "value", "signature", "dataset", "num_items", "details"),
    "artifacts": ("run", "kind", "path", "bytes", "sha256"),
    "problems": ("run", "file", "problem"),
    "internal.ingested": ("run", "signature"),
}

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Known:
    """What the database has: each run's signature, and its rows of `problems`."""

    signatures: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[Row] = ()


@dataclass(frozen=True)
class IngestReport:
    """What an ingest did. `problems` are all that the database knows of, one line each: run/file: what is wrong."""

    read: int
    unchanged: int
    removed: int
    problems: tuple[str, ...]


@dataclass
class RunRows:
    """All rows of one run folder, by table in the column order of `COLUMNS`."""

    run: str
    tables: dict[str, list[Row]] = field(default_factory=lambda: {table: [] for table in COLUMNS})

    def add_problem(self, file: str, problem: object) -> None:
        self.tables["problems"].append((self.run, _readable(file), _readable(str(problem))))


def _readable(text: str) -> str:
    r"""Text for people, with what is no character written out, as \udc80 for a byte of a name that is not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def find_runs(runs_dir: Path) -> list[RunFolder]:
    """The run folders, by name. Folders whose name begins with a dot are being made or were set aside."""
    try:
        with os.scandir(runs_dir) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ResultsError(f"cannot read {runs_dir} ({error.strerror}); the database is left as it is") from None
    return [RunFolder(runs_dir / name) for name in sorted(names)]


def signature(folder: RunFolder) -> str:
    """A text that changes when reading the folder could give other rows; needs no file's content once a run is done.

    An unfinished run can change its status by silence alone, so the status is part of it.
    """
    # Paths as text: this is asked of every run at every look, and making a Path costs more than the question.
    home = os.fspath(folder.path)
    files = [(folder.path.name, home, name) for name in ("run.json", "result.json")]
    for attempt in folder.attempt_names():
        names = ("started.json", "error.json", "metrics.jsonl", "notes.jsonl")
        files += [(attempt, f"{home}/{attempt}", name) for name in names]
    seen = []
    for parent, place, name in files:
        try:
            stat = os.stat(f"{place}/{name}")
        except FileNotFoundError:
            continue
        seen.append(f"{parent}/{name} {stat.st_size} {stat.st_mtime_ns}")
    if not folder.result_file.exists():
        status = folder.status()
        seen.append(f"{status.status} {status.reason}")
    return _readable("\n".join(seen))


def read_run(folder: RunFolder, seen: str) -> RunRows:
    """All rows of a run. What cannot be read becomes a problem row, and the rest is kept."""
    rows = RunRows(_readable(folder.path.name))
    rows.tables["internal.ingested"].append((rows.run, seen))
    try:
        record = folder.record()
    except (ResultsError, ValueError) as error:
        rows.add_problem("run.json", error)
        return rows
    status, result = folder.status(record), None
    if folder.result_file.exists():
        try:
            result = folder.result()
        except (ResultsError, ValueError) as error:
            status, result = RunStatus("failed", f"{error}; {DAMAGED}"), None
            rows.add_problem("result.json", error)
    attempts = folder.attempts()
    started, finished = _times(rows, attempts)
    machine = _machine(rows, attempts, record)
    rows.tables["runs"].append(_run_row(record, status, result, len(attempts), machine, started, finished))
    rows.tables["metrics"] = _metric_rows(rows, attempts)
    if result is None:
        for attempt in attempts:
            for note in attempt.notes():
                rows.add_problem(f"{attempt.path.name}/{attempt.notes_file.name}", note)
    else:
        _check_metrics_are_whole(rows, folder, result)
        rows.tables["scores"] = [
            (rows.run, s.name, s.value, s.signature, s.dataset, s.num_items, storable_json(s.details))
            for s in result.scores
        ]
        rows.tables["artifacts"] = [(rows.run, a.kind, a.path, a.bytes, a.sha256) for a in result.artifacts]
    return rows


def _check_metrics_are_whole(rows: RunRows, folder: RunFolder, result: RunResult) -> None:
    """A finished run's metrics have at least the size that its result names; one taken for dead may have added some."""
    for artifact in result.artifacts:
        if artifact.kind == METRICS:
            file = folder.path / artifact.path
            size = file.stat().st_size if file.exists() else 0
            if size < artifact.bytes:
                rows.add_problem(artifact.path, f"{size:,} bytes are left of {artifact.bytes:,}; the curve has gaps")


def _times(rows: RunRows, attempts: Sequence[Attempt]) -> tuple[datetime | None, datetime | None]:
    """When the first attempt started, and when the newest failed, if it did."""
    moments = {}
    wanted = [(attempts[0].started_file, "started"), (attempts[-1].error_file, "finished")] if attempts else []
    for file, key in wanted:
        if file.exists():
            try:
                moments[key] = parse_time(read_json(file)[key])
            except (ResultsError, KeyError, TypeError, ValueError) as error:
                rows.add_problem(f"{file.parent.name}/{file.name}", f"no time {key!r} in it ({error})")
    return moments.get("started"), moments.get("finished")


def _machine(rows: RunRows, attempts: Sequence[Attempt], record: RunRecord) -> tuple[str, ...]:
    """Hardware, GPUs and versions: of the newest attempt that tells of them, since where it was planned is not where
    it ran; older runs tell only of that.
    """
    for attempt in reversed(attempts):
        machine = attempt.machine()
        if machine:
            try:
                return tuple(storable_json(machine.get(key)) for key in _MACHINE)
            except ValueError as error:
                rows.add_problem(f"{attempt.path.name}/{attempt.machine_file.name}", error)
    return tuple(storable_json(record.provenance.get(key)) for key in _MACHINE)


def _run_row(
    record: RunRecord,
    status: RunStatus,
    result: RunResult | None,
    num_attempts: int,
    machine: tuple[str, ...],
    started: datetime | None,
    failed: datetime | None,
) -> Row:
    commit, dirty = (record.provenance.get(key) for key in ("git_commit", "dirty"))
    return (
        *(record.run, record.study, record.trial, record.seed, record.scale),
        *(status.status, _readable(status.reason) or None, parse_time(record.created), started),
        parse_time(result.finished) if result else failed,
        float(result.seconds) if result else None,
        num_attempts,
        storable_json(record.config),
        result.params if result else None,
        storable_json(result.phases) if result else None,
        record.code_version,
        commit if isinstance(commit, str) else None,
        dirty if isinstance(dirty, bool) else None,
        record.data_fingerprint,
        *machine,
    )


def _metric_rows(rows: RunRows, attempts: Sequence[Attempt]) -> list[Row]:
    """One row per step, split and name: of the newest attempt that has it, and in that one its last line."""
    newest: dict[tuple[int, str, str], Row] = {}
    for attempt in attempts:
        for step, split, name, value, seconds in _metric_lines(rows, attempt):
            newest[step, split, name] = (rows.run, step, split, name, value, seconds, attempt.number)
    return list(newest.values())


def _metric_lines(rows: RunRows, attempt: Attempt) -> Iterator[tuple[int, str, str, float | None, float | None]]:
    try:
        content = attempt.metrics_file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    lines = content.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            yield _metric(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            # Only the last line can be torn, by a kill in mid-write; its writer lost it, and so did we.
            if number < len(lines):
                rows.add_problem(f"{attempt.path.name}/metrics.jsonl", f"line {number} is not a metric ({error})")


def _metric(values: Mapping[str, Any]) -> tuple[int, str, str, float | None, float | None]:
    step, split, name = values["step"], values["split"], values["name"]
    if type(step) is not int or not 0 <= step <= MAX_INTEGER:
        raise ValueError(f"step={step!r} must be a whole number of at least 0")
    if not isinstance(split, str) or not isinstance(name, str):
        raise ValueError(f"split={split!r} and name={name!r} must be texts")
    require_characters(split + name)
    return step, split, name, _finite(values["value"]), _finite(values.get("seconds"))


def _finite(value: object) -> float | None:
    """A diverged loss is not a number: NULL, so that no maximum or mean is taken over it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} must be a number")
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def load(
    runs_dir: Path,
    known: Known,
    transaction: Callable[[], AbstractContextManager[DuckDBPyConnection]],
) -> IngestReport:
    """Bring the database up to the folders in short transactions. None is open while files are read."""
    unchanged: set[str] = set()
    read: set[str] = set()
    problems: list[Row] = []
    batch: list[RunRows] = []
    for folder in find_runs(runs_dir):
        run = _readable(folder.path.name)
        try:
            seen = signature(folder)
            if known.signatures.get(run) == seen:
                unchanged.add(run)
                continue
            rows = read_run(folder, seen)
        except FileNotFoundError:  # set aside or deleted in this very moment
            continue
        except OSError as error:  # the others go on; this one is tried again each time
            rows = RunRows(run)
            rows.tables["internal.ingested"].append((run, "unreadable"))
            rows.add_problem(".", f"cannot be read ({error.strerror})")
        read.add(run)
        batch.append(rows)
        problems += rows.tables["problems"]
        if len(batch) >= BATCH_RUNS or sum(len(rows.tables["metrics"]) for rows in batch) >= BATCH_METRICS:
            with transaction() as connection:
                _write(connection, batch)
            batch = []
    removed = sorted(known.signatures.keys() - unchanged - read)
    batch += [RunRows(run) for run in removed]  # whose rows are none
    if batch:
        with transaction() as connection:
            _write(connection, batch)
    problems += [row for row in known.problems if row[0] in unchanged]
    lines = tuple(f"{run}/{file}: {problem}" for run, file, problem in sorted(problems))
    return IngestReport(len(read), len(unchanged), len(removed), lines)


def _write(connection: DuckDBPyConnection, batch: Sequence[RunRows]) -> None:
    """Make the rows of the batch's runs equal to those given."""
    stage(connection, "batch", ("run",), [(rows.run,) for rows in batch])
    for table, columns in COLUMNS.items():
        new = [row for rows in batch for row in rows.tables[table]]
        if table == "metrics" and new:
            _write_metrics(connection, columns, new)
        else:
            connection.execute(f"DELETE FROM {table} WHERE run IN (SELECT run FROM batch)")
            insert(connection, table, columns, new)


def _write_metrics(connection: DuckDBPyConnection, columns: Sequence[str], new: Sequence[Row]) -> None:
    """The one big table: rows that are right already stay where they are, so that a growing run only appends."""
    stage(connection, "staged", columns, new)
    equal = " AND ".join(f"staged.{column} IS NOT DISTINCT FROM metrics.{column}" for column in columns)
    connection.execute(
        f"DELETE FROM metrics WHERE run IN (SELECT run FROM batch) AND NOT EXISTS (FROM staged WHERE {equal})"
    )
    connection.execute(
        f"INSERT INTO metrics SELECT {', '.join(columns)} FROM staged ANTI JOIN metrics USING (run, step, split, name)"
    )
