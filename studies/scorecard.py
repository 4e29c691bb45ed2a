"""Registry and verdicts into the store: what is claimed, and how each claim stands given the runs that are there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from results.records import DepartureRow, VerdictRow
from results.store import SCHEMA_VERSION, Store
from studies.claim import METRICS
from studies.departures import list_departures
from studies.registry import STUDIES
from studies.rows import claim_rows, published_rows, study_rows
from studies.runs import Workspace, code_version, judging_version, missing_corpus
from studies.scales import SCALES, Scale
from studies.study import Study
from studies.verdict import FULL_SCALE, Measurements, decide


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
    """Decide every claim of every study at every scale from the runs in the store, and write the verdicts."""
    sync_registry(store)
    basis = _basis(store)  # before the runs are read: of what changes meanwhile, the next look takes account
    measurements = _measurements(store)
    rows = []
    for study in STUDIES:
        for scale in SCALES:
            blocked = _blocked(study, scale, store)
            for claim in study.claims:
                if claim.full_size and scale.name != FULL_SCALE:
                    continue  # about the paper's own sizes, so it stands at that scale alone
                awaited = study.awaited_by(claim)
                if awaited:
                    reason = f"this version has no trial {' or '.join(awaited)}"
                    rows.append(VerdictRow(claim.id, scale.name, "not run", None, None, None, 0, reason))
                    continue
                computed = claim.compute() if claim.compute else None
                by_trial = measurements.get((study.name, scale.name, claim.metric), {})
                verdict = decide(claim, scale, by_trial, computed, blocked)
                rows.append(VerdictRow(claim=claim.id, scale=scale.name, **asdict(verdict)))
    store.write_verdicts(rows, basis)


def _blocked(study: Study, scale: Scale, store: Store) -> str | None:
    """Why a study cannot run at a scale in this workspace; None where it can."""
    folder = Workspace(store.home).data
    return next(filter(None, (missing_corpus(trial.config(scale), folder) for trial in study.trials)), None)


def _basis(store: Store) -> str:
    """What verdicts follow from: the source that states and judges claims, the runs that have ended, the data here."""
    blocked = [_blocked(study, scale, store) for study in STUDIES for scale in SCALES]
    (row,) = store.fetch(
        """
        SELECT
            (SELECT md5(string_agg(concat_ws(' ', run, status), ' ' ORDER BY run)) FROM runs) AS runs,
            (SELECT md5(string_agg(concat_ws(' ', run, name, value, signature), ' ' ORDER BY run, name)) FROM scores)
                AS scores
        """
    ).to_pylist()
    return f"{judging_version()} {SCHEMA_VERSION} {row['runs']} {row['scores']} {blocked}"


def open_store(workspace: Workspace, rebuild: bool = False) -> tuple[Store, tuple[str, ...]]:
    """The workspace's store, up to date: run folders read, registry and verdicts written; and what could not be read.

    Where the home may only be read, the store is shown as it is.

    Raises:
        ResultsError: there is no database and none can be made, or the file is not one.
    """
    store = Store(workspace.home)
    report = store.rebuild() if rebuild else store.refresh()
    if report is None:
        return store, ()
    # Not only if this call read something: a command that was killed has read runs and decided nothing.
    if store.verdicts_basis() != _basis(store):
        write_verdicts(store)
    return store, report.problems


def claim_verdicts(store: Store, study: str | None, verdict: str | None, scale: str | None) -> list[tuple]:
    """(claim, scale, kind, expected, measured, low, high, verdict, reason), in the registry's order, filtered."""
    order = {claim.id: number for number, claim in enumerate(claim for study in STUDIES for claim in study.claims)}
    table = store.fetch(
        """
        SELECT claim, v.scale, c.kind, c.expected, v.measured, v.low, v.high, v.verdict, v.reason
        FROM verdicts AS v JOIN claims AS c USING (claim)
        WHERE ($study IS NULL OR c.study = $study)
          AND ($verdict IS NULL OR v.verdict = $verdict)
          AND ($scale IS NULL OR v.scale = $scale)
        """,
        {"study": study, "verdict": verdict, "scale": scale},
    )
    rows = [tuple(row.values()) for row in table.to_pylist()]
    sizes = [scale.name for scale in SCALES]
    return sorted(rows, key=lambda row: (order.get(row[0], len(order)), sizes.index(row[1])))


def _measurements(store: Store) -> Mapping[tuple[str, str, str], dict[str, Measurements]]:
    """(study, scale, metric) -> trial -> its measurements, from the runs that speak for each seed."""
    table = store.fetch(
        """
        SELECT r.study, r.scale, r.trial, r.seed, r.status, r.code_version, s.name, s.value,
               concat_ws(' ', s.dataset, r.data_fingerprint, s.signature) AS protocol
        FROM latest_runs AS r LEFT JOIN scores AS s USING (run)
        WHERE r.status IN ('done', 'failed', 'diverged')
        """
    )
    scored: dict[tuple[str, str, str, str], list[dict]] = defaultdict(list)
    failed: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for row in table.to_pylist():
        if row["status"] != "done":
            failed[row["study"], row["scale"], row["trial"]].add(row["seed"])
        elif row["value"] is not None:
            scored[row["study"], row["scale"], row["name"], row["trial"]].append(row)
    return {
        (study.name, scale.name, metric): {
            trial.name: _trial_measurements(
                scored[study.name, scale.name, metric, trial.name], failed[study.name, scale.name, trial.name]
            )
            for trial in study.trials
        }
        for study in STUDIES
        for scale in SCALES
        for metric in METRICS
    }


def _trial_measurements(rows: Sequence[Mapping[str, Any]], failed_seeds: Collection[int]) -> Measurements:
    return Measurements(
        values={row["seed"]: row["value"] for row in rows},
        failed_seeds=tuple(sorted(failed_seeds)),
        protocols=frozenset(row["protocol"] for row in rows),
        code_versions=frozenset(row["code_version"] for row in rows),
    )
