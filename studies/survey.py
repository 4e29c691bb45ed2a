"""All runs of a workspace as their folders tell, for a person who asks how things stand.

Reads little and imports little, since it answers at once for a thousand runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from results.errors import ResultsError
from results.run_folder import RunFolder
from studies.progress import last_step
from studies.runs import Workspace


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
    """All runs of a workspace, whatever code made them, from their folders."""
    found = []
    for path in sorted(workspace.runs.glob("[0-9a-f]*")):
        folder = RunFolder(path)
        try:
            record = folder.record()
            state = folder.status(record)
        except ResultsError as error:
            found.append(SurveyedRun(path.name, "?", "?", "?", 0, "failed", 0, f"{error}", ""))
            continue
        attempts = folder.attempts()
        log = attempts[-1].log_file if attempts else None
        notes = attempts[-1].notes() if attempts and state.status != "done" else []
        found.append(
            SurveyedRun(
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
        )
    return found
