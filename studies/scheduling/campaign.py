"""A command's whole work: which of the planned runs to start, watching them, and what came of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from results.errors import ResultsError
from results.run_folder import ORPHAN_SECONDS
from results.store import Store
from studies.runs import PlannedRun, Workspace, needed_runs
from studies.scales import Scale
from studies.scheduling.preflight import ScheduleError
from studies.scheduling.progress import Progress, read_state
from studies.scheduling.resources import Sizes
from studies.scheduling.schedule import run_on_ray
from studies.scorecard import REFRESH_SECONDS, sync_registry, write_verdicts


@dataclass(frozen=True)
class Outcome:
    """What became of the runs asked for: counts, and the failures with their reasons."""

    total: int
    skipped: int
    done: int
    failures: tuple[str, ...]
    unfinished: int
    elsewhere: int

    @property
    def complete(self) -> bool:
        """Whether every run asked for is done."""
        return self.done == self.total

    def summary(self) -> str:
        """A line, and one more for each failure."""
        if not self.total:
            return "nothing to run: the claims asked for are computed, quoted, or await trials; aiayn claims shows them"
        parts = [f"{self.done} of {self.total} runs done ({self.skipped} were done before)"]
        if self.failures:
            parts.append(f"{len(self.failures)} failed")
        if self.elsewhere:
            parts.append(f"{self.elsewhere} running in another command")
        if self.unfinished:
            parts.append(f"{self.unfinished} not finished: the same command goes on from their checkpoints")
        return "\n".join([", ".join(parts), *self.failures])


def carry_out(
    planned: Sequence[PlannedRun],
    workspace: Workspace,
    scale: Scale,
    sizes: Sizes | None,
    address: str | None,
    max_concurrent: int | None,
    rerun: bool,
    oom_halvings: int = 0,
) -> Outcome:
    """Run what is not done, keep the database up to date meanwhile, and write the verdicts.

    A run that measures another brings that one along, if it is not among the request. A diverged run is a result and is
    not tried again; a failed one is, unless its files are damaged. The database may lag: what keeps it back is said in
    a line, and a later command fills it. `rerun` sets every run of the request aside and starts it from nothing.
    Without `sizes` trials are as large as the scale says. `oom_halvings`: `studies.trials.execution.execute`.

    Commands may share a workspace: each run is whose process claims it first, the others leave it and go on with the
    rest.

    Raises:
        ScheduleError: the request cannot be met here; nothing was started.
        ValueError: `sizes` are of a trial that is not asked for.
        DataError, ResultsError: the corpus or the home folder cannot be used.
    """
    blocked = sorted({run.status.reason for run in planned if run.status.status == "blocked"})
    if blocked:
        raise ScheduleError(f"scale {scale.name} cannot run here: {'; '.join(blocked)}")
    sizes = sizes or Sizes()
    sizes.require_asked({run.record.trial for run in planned})
    _require_writable(workspace.home)
    asked = {run.record.run for run in planned}
    planned = _let_orphans_end([*needed_runs(planned), *planned])
    again = asked if rerun else ()
    to_run = [
        run
        for run in planned
        if run.is_to_start or (run.record.run in again and run.status.status in ("done", "failed", "diverged"))
    ]
    skipped = sum(run.status.status == "done" and run.record.run not in again for run in planned)
    store = Store(workspace.home)
    studies = ", ".join(dict.fromkeys(run.record.study for run in planned))
    progress = Progress(f"{studies} at {scale.name}", planned, store.ingest)
    with progress.lag.tolerated():  # that claims can be asked for meanwhile is worth a moment, and no more
        sync_registry(Store(workspace.home, patience=REFRESH_SECONDS))
    jobs = [(run, sizes.of(run, scale)) for run in to_run]
    if jobs:

        def begin() -> None:
            if rerun:
                for run in to_run:
                    # Another command may have begun one in the meantime; it is as new as ours would be.
                    if run.record.run in again and run.folder.exists() and run.folder.status().status != "running":
                        run.folder.set_aside()
            progress.start()

        with _ray_noise_into(workspace.ray_log):
            try:
                run_on_ray(jobs, workspace, address, max_concurrent, begin, oom_halvings)
            finally:
                progress.stop()
    outcome = _outcome(planned, skipped)
    with progress.lag.tolerated():
        store.ingest()
        write_verdicts(store)
    return outcome


def _let_orphans_end(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs as they are once those that look alive have had time to die; the rest belong to another command."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    while any(run.status.status == "running" for run in planned) and time.monotonic() < deadline:
        time.sleep(0.5)
        planned = [
            replace(run, status=run.folder.status()) if run.status.status == "running" else run for run in planned
        ]
    return list(planned)


def _outcome(planned: Sequence[PlannedRun], skipped: int) -> Outcome:
    """How the runs stand now that no process of this command works on one."""
    states = [read_state(run) for run in planned]
    bad = [state for state in states if state.status in ("failed", "diverged")]
    return Outcome(
        total=len(planned),
        skipped=skipped,
        done=sum(state.status == "done" for state in states),
        failures=tuple(
            f"{state.run.record.study}/{state.name} ({state.run.record.run}) {state.status}: {state.reason}"
            for state in bad
        ),
        unfinished=sum(state.status == "queued" for state in states),
        elsewhere=sum(state.status == "running" for state in states),
    )


def _require_writable(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
        probe = home / f".write-test-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ResultsError(
            f"the home folder {home} cannot be written ({error.strerror}); choose another with --home"
        ) from None


@contextmanager
def _ray_noise_into(log: Path) -> Iterator[None]:
    """Send what Ray's processes and threads print to a file; our own lines on stderr still reach the terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved_out, saved_err, python_err = os.dup(1), os.dup(2), sys.stderr
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stderr = os.fdopen(os.dup(saved_err), "w", buffering=1)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.close()
        sys.stderr = python_err
        for saved, number in ((saved_out, 1), (saved_err, 2)):
            os.dup2(saved, number)
            os.close(saved)
