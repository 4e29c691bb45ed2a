"""All runs of a workspace as their folders tell, for a person who asks how things stand.

Reads little and imports little, since it answers at once for a thousand runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from results.errors import ResultsError
from results.ingest import find_runs
from results.records import RUN_ID
from results.run_folder import DAMAGED, RunFolder, unreadable
from studies.runs import Workspace
from studies.scheduling.progress import last_step


@dataclass(frozen=True)
class SurveyedRun:
    """One run of the workspace as its folder tells: identity, state, last step, reason, and where its log is."""

    run: str
    study: str
    trial: str
    scale: str
    seed: int
    status: str
    step: int
    reason: str
    log: str


def survey(workspace: Workspace) -> list[SurveyedRun]:
    """All runs of a workspace, whatever code made them, from their folders.

    Raises:
        ResultsError: the folder of the runs cannot be read.
    """
    return [_surveyed(folder) for folder in find_runs(workspace.runs)]


def finished_runs(workspace: Workspace) -> Iterator[RunFolder]:
    """The runs that have a result. Of what cannot be read `survey` tells, and it is no reason to refuse another."""
    for folder in find_runs(workspace.runs):
        with suppress(OSError):
            if folder.result_file.exists():
                yield folder


def _surveyed(folder: RunFolder) -> SurveyedRun:
    try:
        record = folder.record()
        state = folder.status(record)
        attempts = folder.attempts()
        log = attempts[-1].log_file if attempts else None
        notes = attempts[-1].notes() if attempts and state.status != "done" else []
        return SurveyedRun(
            run=record.run,
            study=record.study,
            trial=record.trial,
            scale=record.scale,
            seed=record.seed,
            status=state.status,
            step=last_step(attempts[-1]) if attempts else 0,
            reason="; ".join(filter(None, (state.reason, *notes))),
            log=str(log) if log is not None and log.exists() else "",
        )
    except (ResultsError, OSError) as error:
        reason = unreadable(error) if isinstance(error, OSError) else str(error)
        remedy = DAMAGED if RUN_ID.fullmatch(folder.path.name) else "no run is named so: move it away"
        return SurveyedRun(folder.path.name, "?", "?", "?", 0, "failed", 0, f"{reason}; {remedy}", "")
