"""What the reports read from the results database: one small function per view, each opens, reads and closes.

Rows are dictionaries, so that a NULL stays None and is never taken for a number. Nothing stays open between two
reads, because an open reader keeps the writer out. Every function raises ResultsError where the database is missing,
stays locked or is none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results.database import REBUILD, connect, first_line
from results.errors import ResultsError

Row = dict[str, Any]


def read(database: Path | str, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """The rows of one SELECT of our own, `parameters` filling its question marks."""
    import duckdb

    connection = connect(Path(database), read_only=True)
    try:
        cursor = connection.execute(sql, list(parameters))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except duckdb.Error as error:
        raise ResultsError(f"cannot read {database}: {first_line(error)}; {REBUILD}") from error
    finally:
        connection.close()


def code_version(database: Path | str) -> str | None:
    """The code that the database was last judged by; None where nobody has judged anything."""
    rows = read(database, "SELECT value FROM internal.meta WHERE key = 'code_version'")
    return rows[0]["value"] if rows else None


def studies(database: Path | str) -> list[Row]:
    """All registered studies, in the registry's order: study, title, cells."""
    return read(database, "SELECT study, title, cells FROM studies ORDER BY rowid")


def claims(database: Path | str, scale: str, study: str | None = None) -> list[Row]:
    """Claims in the registry's order with their verdict at one scale; a claim that nobody has judged is `not run`.

    Claims about the paper's own sizes alone stand at that scale only.
    """
    return read(
        database,
        """
        SELECT c.claim, c.study, c.cell, c.statement, c.kind, c.metric, c.expected, c.tolerance, c.unit, c.source,
               c.direction, c.trials, c.reading, c.misquote, c.full_size,
               CAST(? AS VARCHAR) AS scale, coalesce(v.verdict, 'not run') AS verdict,
               v.measured, v.low, v.high, v.num_runs, v.reason, v.test_low, v.test_high, v.decided
        FROM claims AS c LEFT JOIN verdicts AS v ON v.claim = c.claim AND v.scale = ?
        WHERE (? IS NULL OR c.study = ?) AND (c.full_size IS NOT TRUE OR ? = 'paper')
        ORDER BY c.rowid
        """,
        [scale, scale, study, study, scale],
    )


def table3(database: Path | str, scale: str) -> list[Row]:
    """Table 3 at one scale in the paper's order: published and measured values side by side."""
    return read(
        database,
        """
        SELECT table3.* FROM table3 JOIN published_table3 AS published USING (trial)
        WHERE scale = ? ORDER BY published.position
        """,
        [scale],
    )


def table1(database: Path | str, scale: str) -> list[Row]:
    """Table 1 at one scale in the paper's order: orders of growth as printed, exponents counted and measured."""
    return read(
        database,
        """
        SELECT table1.* FROM table1 JOIN published_table1 AS published USING (layer)
        WHERE scale = ? ORDER BY published.position
        """,
        [scale],
    )


def table2(database: Path | str, scale: str) -> list[Row]:
    """Table 2 at one scale in the paper's order; rows of other systems are `quoted`."""
    return read(
        database,
        """
        SELECT table2.* FROM table2 JOIN published_table2 AS published USING (model)
        WHERE scale = ? ORDER BY published.position
        """,
        [scale],
    )


def table4(database: Path | str, scale: str) -> list[Row]:
    """Table 4 at one scale in the paper's order; rows of other parsers are `quoted`."""
    return read(
        database,
        """
        SELECT table4.* FROM table4 JOIN published_table4 AS published USING (parser, training)
        WHERE scale = ? ORDER BY published.position
        """,
        [scale],
    )


def capabilities(database: Path | str, scale: str) -> list[Row]:
    """The capability table at one scale, row by row: each cell as lectures have it and as its probe measured it."""
    return read(
        database,
        """
        SELECT capabilities.* FROM capabilities JOIN published_capabilities AS published USING (property, model)
        WHERE scale = ? ORDER BY published.position
        """,
        [scale],
    )


def curves(database: Path | str, study: str, scale: str, split: str, name: str) -> list[Row]:
    """One metric over the steps of a study's latest runs: trial, seed, step, value (None where it was not finite)."""
    return read(
        database,
        """
        SELECT trial, seed, step, value FROM curves
        WHERE study = ? AND scale = ? AND split = ? AND name = ?
        ORDER BY trial, seed, step
        """,
        [study, scale, split, name],
    )


def budget(database: Path | str, scale: str) -> list[Row]:
    """The architectures that were trained under one budget at a scale, the best BLEU first."""
    return read(database, "SELECT * FROM budget WHERE scale = ? ORDER BY bleu DESC NULLS LAST, trial", [scale])


def budget_curve(database: Path | str, scale: str, name: str) -> list[Row]:
    """A metric of the development set over counted operations, for the trainings of one budget: trial, seed,
    counted_flops, value (None where it was not finite).
    """
    return read(
        database,
        """
        SELECT trial, seed, counted_flops, value FROM cost_curves
        WHERE study = 'budget' AND scale = ? AND split = 'dev' AND name = ?
        ORDER BY trial, seed, step
        """,
        [scale, name],
    )


def runs(database: Path | str, study: str | None = None, scale: str | None = None) -> list[Row]:
    """Runs with their provenance, all or those of one study and scale, the newest first within trial and seed.

    `hardware` and `versions` come as dictionaries, `gpus` as a list of names.
    """
    rows = read(
        database,
        """
        SELECT run, study, trial, seed, scale, status, reason, started, finished, seconds, params, code_version, dirty,
               data_fingerprint, hardware, gpus, versions
        FROM runs
        WHERE (? IS NULL OR study = ?) AND (? IS NULL OR scale = ?)
        ORDER BY study, trial, seed, started DESC NULLS LAST, run
        """,
        [study, study, scale, scale],
    )
    for row in rows:
        for column, empty in (("hardware", "{}"), ("gpus", "[]"), ("versions", "{}")):
            row[column] = json.loads(row[column] or empty)
    return rows


def run_sources(database: Path | str) -> dict[str, str]:
    """For every run that could be read, what its files looked like then; equal where nothing changed."""
    rows = read(database, "SELECT run, signature FROM internal.ingested SEMI JOIN runs USING (run)")
    return {row["run"]: row["signature"] for row in rows}


def run(database: Path | str, run: str) -> Row:
    """All about one run: its row of `runs`, and under `scores` and `artifacts` its rows of these.

    JSON columns come as what they hold.
    """
    (row,) = read(database, "SELECT * FROM runs WHERE run = ?", [run])
    for column in ("config", "phases", "hardware", "gpus", "versions"):
        row[column] = json.loads(row[column] or "null") or ([] if column == "gpus" else {})
    row["scores"] = read(
        database, "SELECT name, value, signature, dataset, num_items, details FROM scores WHERE run = ?", [run]
    )
    for score in row["scores"]:
        score["details"] = json.loads(score["details"] or "{}")
    row["artifacts"] = read(database, "SELECT kind, path, bytes, sha256 FROM artifacts WHERE run = ?", [run])
    return row


def run_metrics(database: Path | str, run: str, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[Row]]:
    """Some of a run's metrics over its steps, by (split, name): step, value, seconds."""
    rows = read(database, "SELECT split, name, step, value, seconds FROM metrics WHERE run = ? ORDER BY step", [run])
    return {
        (split, name): [row for row in rows if row["split"] == split and row["name"] == name] for split, name in names
    }


def attention_artifacts(database: Path | str, study: str, scale: str, trial: str) -> list[Row]:
    """Where a trial's finished runs keep their attention weights: run, seed, path in its folder; lowest seed first."""
    return read(
        database,
        """
        SELECT r.run, r.seed, a.path FROM latest_runs AS r JOIN artifacts AS a USING (run)
        WHERE r.study = ? AND r.scale = ? AND r.trial = ? AND r.status = 'done' AND a.kind = 'attention'
        ORDER BY r.seed
        """,
        [study, scale, trial],
    )


def study_scores(database: Path | str, study: str, scale: str) -> list[Row]:
    """All scores of a study's latest finished runs: run, trial, seed, name, value, details (a dictionary)."""
    rows = read(
        database,
        """
        SELECT s.run, r.trial, r.seed, s.name, s.value, s.details FROM scores AS s JOIN latest_runs AS r USING (run)
        WHERE r.study = ? AND r.scale = ? AND r.status = 'done' ORDER BY r.trial, r.seed, s.name
        """,
        [study, scale],
    )
    for row in rows:
        row["details"] = json.loads(row["details"] or "{}")
    return rows


def departures(database: Path | str) -> list[Row]:
    """Where the code departs from the paper's letter: section, reason, file, line."""
    return read(database, "SELECT section, reason, file, line FROM departures ORDER BY rowid")


def problems(database: Path | str) -> list[Row]:
    """What could not be read from which run folder: run, file, problem."""
    return read(database, "SELECT run, file, problem FROM problems ORDER BY run, file")
