"""Registry and verdicts into the store: what is claimed, and how each claim stands given the runs that are there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from results.errors import BusyError
from results.records import DepartureRow, VerdictRow
from results.store import SCHEMA_VERSION, Store
from studies.claim import Claim
from studies.departures import list_departures
from studies.gather import read_measured
from studies.registry import STUDIES
from studies.rows import claim_rows, published_rows, study_rows
from studies.runs import Workspace, code_version, corpus_obstacle, judging_version
from studies.scales import SCALES, Scale
from studies.study import Study
from studies.verdict import FULL_SCALE, Question, decide_family

if TYPE_CHECKING:
    import pyarrow

REFRESH_SECONDS = 3.0

logger = logging.getLogger(__name__)

# A corpus and the languages of it that are read; none for trees.
Data = tuple[str, tuple[str, ...]]


def sync_registry(store: Store) -> None:
    """Write studies, claims, published numbers and the present code's version into the store."""
    store.sync_registry(
        study_rows(),
        claim_rows(),
        published_rows(),
        [DepartureRow(**asdict(departure)) for departure in list_departures()],
    )
    store.set_code_version(code_version())


def write_verdicts(store: Store) -> None:
    """Decide every claim of every study at every scale from the runs in the store, and write the verdicts.

    The claims of one study at one scale are a family: a table is read as a whole, and its best row found in it.
    """
    sync_registry(store)
    obstacles = _obstacles(store)
    basis = _basis(store, obstacles)  # before the runs are read: of what changes meanwhile, the next look takes account
    measured = read_measured(store)
    rows = []
    for study in STUDIES:
        for scale in SCALES:
            questions = [
                Question(
                    claim=claim,
                    scale=scale,
                    measured={
                        trial: measured.of(study.name, scale.name, trial, claim.metric) for trial in claim.trials
                    },
                    blocked=next(filter(None, (obstacles[data] for data in _data_of(study, claim, scale))), None),
                    awaited=study.awaited_by(claim),
                )
                for claim in study.claims
                if scale.name == FULL_SCALE or not claim.full_size  # what is about the paper's sizes stands there alone
            ]
            for question, verdict in zip(questions, decide_family(questions), strict=True):
                rows.append(VerdictRow(claim=question.claim.id, scale=scale.name, **asdict(verdict)))
    store.write_verdicts(rows, basis)


def _data_of(study: Study, claim: Claim, scale: Scale) -> Iterator[Data]:
    """What a claim's runs read at a scale: its trials' corpora or, where these do not exist yet, the claim's own."""
    for name in claim.trials:
        if name not in study.awaited:
            trial = study.trial(name)
            if not trial.work.reads_corpus:
                continue
            data = trial.config(scale).data
            yield data.corpus, (data.src, data.tgt)
            if data.more_trees is not None:
                yield data.more_trees, ()
        elif claim.identity is not None and scale.name == claim.identity.scale:
            corpus, _, *languages = claim.identity.dataset.split("/")
            yield corpus, tuple(languages[0].split("-")) if languages else ()


def _obstacles(store: Store) -> dict[Data, str | None]:
    """Why runs cannot begin in this workspace, for all data that claims are about; None where they can."""
    wanted = {
        data
        for study in STUDIES
        for scale in SCALES
        for claim in study.claims
        for data in _data_of(study, claim, scale)
    }
    folder = Workspace(store.home).data
    return {(corpus, languages): corpus_obstacle(corpus, languages or None, folder) for corpus, languages in wanted}


def _basis(store: Store, obstacles: dict[Data, str | None]) -> str:
    """What verdicts follow from: the source that states and judges claims, the runs that have ended, the data here."""
    (row,) = store.fetch(
        """
        SELECT
            (SELECT md5(string_agg(concat_ws(' ', run, status), ' ' ORDER BY run)) FROM runs) AS runs,
            (SELECT md5(string_agg(concat_ws(' ', run, name, value, signature), ' ' ORDER BY run, name)) FROM scores)
                AS scores
        """
    ).to_pylist()
    return f"{judging_version()} {SCHEMA_VERSION} {row['runs']} {row['scores']} {sorted(obstacles.items())}"


def open_store(workspace: Workspace, rebuild: bool = False) -> tuple[Store, tuple[str, ...]]:
    """The workspace's store, up to date: run folders read, registry and verdicts written; and what could not be read.

    Where the home may only be read, or another process keeps writers out, the store is shown as it is.

    Raises:
        ResultsError: there is no database and none can be made, or the file is not one.
    """
    store = Store(workspace.home)
    # Whoever only asks need not wait long to be the writer: the next one will do the same work.
    writer = Store(workspace.home, patience=REFRESH_SECONDS) if store.database.exists() and not rebuild else store
    try:
        report = writer.rebuild() if rebuild else writer.refresh()
        # Not only if this call read something: a command that was killed has read runs and decided nothing.
        if report is not None and writer.verdicts_basis() != _basis(writer, _obstacles(writer)):
            write_verdicts(writer)
    except BusyError as error:
        if writer is store:
            raise
        logger.warning("not brought up to date: %s", error)
        return store, ()
    return store, report.problems if report else ()


def claim_verdicts(
    store: Store, studies: Sequence[str] = (), verdict: str | None = None, scale: str | None = None
) -> pyarrow.Table:
    """Claims with their verdicts, of these studies or of all: by study, each from the smallest scale, in order."""
    return store.fetch(
        """
        SELECT c.study, claim, v.scale, c.cell, c.statement, c.kind, c.metric,
               c.direction, c.expected, c.tolerance, c.unit, c.misquote,
               v.measured, v.low, v.high, v.test_low, v.test_high, v.num_runs,
               v.verdict, v.p_value, v.p_adjusted, v.family_size, v.alone, v.reason
        FROM verdicts AS v JOIN claims AS c USING (claim) JOIN studies USING (study)
        JOIN internal.scales AS s USING (scale)
        WHERE ($studies IS NULL OR list_contains($studies, c.study))
          AND ($verdict IS NULL OR v.verdict = $verdict)
          AND ($scale IS NULL OR v.scale = $scale)
        ORDER BY studies.rowid, s.size, c.rowid
        """,
        {"studies": list(studies) or None, "verdict": verdict, "scale": scale},
    )
