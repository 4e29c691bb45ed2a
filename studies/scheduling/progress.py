"""What a person sees while runs go on: read from the run folders, so that it is true whoever writes them."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from core.complexity import training_flops
from results.errors import BusyError, ResultsError
from results.run_folder import Attempt
from studies.runs import PlannedRun

POLL_SECONDS = 1.0
INGEST_EVERY_SECONDS = 5.0
LOG_LINE_EVERY_SECONDS = 60.0
# The last lines of a metrics file, enough for every value of one step.
_TAIL_BYTES = 4_096


@dataclass(frozen=True)
class RunState:
    """One run at one moment. `step` counts updates; `loss` and `tokens_per_second` are of the last log line."""

    run: PlannedRun
    status: str
    reason: str
    step: int = 0
    loss: float | None = None
    tokens_per_second: float | None = None

    @property
    def fraction(self) -> float:
        """Share of the work that is done, 0 to 1."""
        if self.status in ("done", "failed", "diverged"):
            return 1.0
        return min(1.0, self.step / self.run.config.train.train_steps) if self.run.trains else 0.0

    @property
    def stage(self) -> str:
        """How far it is, in words."""
        return f"step {self.step:,}/{self.run.config.train.train_steps:,}" if self.run.trains else "measuring"

    @property
    def name(self) -> str:
        """Its trial and seed; of what measures, whose trials often have one name, the study too."""
        record = self.run.record
        return f"{record.trial if self.run.trains else f'{record.study}/{record.trial}'} seed {record.seed}"


def read_state(run: PlannedRun) -> RunState:
    """Where a run stands now."""
    status = run.folder.status()
    if status.status != "running":
        return RunState(run, status.status, status.reason)
    return RunState(run, status.status, status.reason, **last_metrics(run.folder.attempts()[-1]))


def last_metrics(attempt: Attempt) -> dict[str, float]:
    """The newest `step`, `loss` and `tokens_per_second` of an attempt, as far as it has logged them."""
    found: dict[str, float] = {}
    for row in _newest_rows(attempt):
        found.setdefault("step", row["step"])
        if row["split"] == "train" and row["name"] in ("loss", "tokens_per_second"):
            found.setdefault(row["name"], row["value"])
        if len(found) == 3:
            break
    return found


def last_step(attempt: Attempt) -> int:
    """The newest step that an attempt has logged; 0 before the first."""
    return next((row["step"] for row in _newest_rows(attempt)), 0)


def _newest_rows(attempt: Attempt) -> Iterator[dict[str, Any]]:
    """The metrics of an attempt's last lines, newest first."""
    try:
        with attempt.metrics_file.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:  # none yet, or no file that can be read, which the trial itself will tell
        return
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:  # the first line may be cut by the seek, the last is being written
            continue
        # Others are not ours; the ingest names them.
        if isinstance(row, dict) and {"step", "split", "name", "value"} <= row.keys():
            yield row


def time_left(states: Sequence[RunState], fraction_before: float, elapsed: float) -> float | None:
    """Seconds until all have ended, if work goes on at the pace so far; None while there is nothing to judge by."""
    fraction = work_done(states)
    if fraction - fraction_before < 0.005:
        return None
    return elapsed * (1.0 - fraction) / (fraction - fraction_before)


def work_done(states: Sequence[RunState]) -> float:
    """Share of all runs' operations that is done, 0 to 1; what trains nothing counts as a hundredth of a training."""
    costs = [
        training_flops(state.run.config.model, state.run.config.train) * (1.0 if state.run.trains else 0.01)
        for state in states
    ]
    return sum(cost * state.fraction for cost, state in zip(costs, states, strict=True)) / sum(costs)


def format_seconds(seconds: float | None) -> str:
    """1:02:03, or a question mark."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Lag:
    """What keeps the database, a copy of the run folders, behind them: it stops no run, and is said when it is new."""

    def __init__(self) -> None:
        self._said = ""

    @contextmanager
    def tolerated(self) -> Iterator[None]:
        """A look at the database that may fail: then a line says why."""
        try:
            yield
            self._said = ""
        except ResultsError as error:
            if str(error) != self._said:
                self._said = str(error)
                print(f"the database falls behind: {error}", file=sys.stderr, flush=True)


class Progress:
    """Watches runs from a thread until stopped: shows them, and keeps the database up to date through `ingest`."""

    def __init__(self, title: str, runs: Sequence[PlannedRun], ingest: Callable[[], object]) -> None:
        self.title, self._runs, self._ingest = title, runs, ingest
        self.states: list[RunState] = []
        self.lag = Lag()
        self._stop_asked = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._error: Exception | None = None

    def start(self) -> None:
        """Begin to watch."""
        self.states = [read_state(run) for run in self._runs]
        self._began = time.monotonic()
        self._fraction_before = work_done(self.states)
        self._thread.start()

    def stop(self) -> None:
        """Look a last time, end the thread, and raise what it failed with. Does nothing if it was never started."""
        if self._thread.ident is None:
            return
        self._stop_asked.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _watch(self) -> None:
        try:
            with _display() as show:
                last_ingest = 0.0
                while not self._stop_asked.wait(POLL_SECONDS):
                    self._poll(show)
                    if time.monotonic() - last_ingest > INGEST_EVERY_SECONDS:
                        with self.lag.tolerated(), suppress(BusyError):  # the next round will do as well
                            self._ingest()
                        last_ingest = time.monotonic()
                self._poll(show)
        except Exception as error:  # noqa: BLE001 - carried to the main thread, which raises it in `stop`
            self._error = error

    def _poll(self, show: Callable[[Progress, Sequence[RunState]], None]) -> None:
        before = self.states
        # What is done stays done, and is not looked at again.
        self.states = [state if state.status == "done" else read_state(state.run) for state in before]
        show(self, before)

    def summary(self) -> str:
        """Counts by state and the time left, in one line."""
        counts = {status: 0 for status in ("done", "running", "failed", "diverged", "queued")}
        for state in self.states:
            counts[state.status] += 1
        parts = [f"{counts['done']} of {len(self.states)} done", f"{counts['running']} running"]
        parts += [f"{counts[status]} {status}" for status in ("failed", "diverged") if counts[status]]
        left = time_left(self.states, self._fraction_before, time.monotonic() - self._began)
        return f"{self.title}: {', '.join(parts)}, {format_seconds(left)} left"


@contextmanager
def _display() -> Iterator[Callable[[Progress, Sequence[RunState]], None]]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield lambda progress, before: live.update(_panel(progress, before), refresh=True)


def _panel(progress: Progress, before: Sequence[RunState]) -> object:
    """The terminal's view: a bar over all work, a line for each run that is under way, and failures as they come."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    running = Table.grid(padding=(0, 2))
    for state in progress.states:
        if state.status == "running":
            running.add_row(state.name, state.stage, *_numbers(state))
    failed = [
        Text(f"{s.name} {s.status}: {s.reason}", style="red")
        for s in progress.states
        if s.status in ("failed", "diverged")
    ]
    return Group(
        Text(progress.summary()),
        ProgressBar(total=1.0, completed=work_done(progress.states), width=60),
        running,
        *failed,
    )


def _numbers(state: RunState) -> tuple[str, str]:
    loss = "" if state.loss is None else f"loss {state.loss:.3f}"
    speed = "" if state.tokens_per_second is None else f"{state.tokens_per_second:,.0f} tokens/s"
    return loss, speed


class _Lines:
    """A log's view: one line for each change of a run, and one a minute for those under way."""

    def __init__(self) -> None:
        self._last_line = time.monotonic()

    def __call__(self, progress: Progress, before: Sequence[RunState]) -> None:
        for old, new in zip(before, progress.states, strict=True):
            if old.status != new.status:
                reason = f": {new.reason}" if new.reason else ""
                print(f"{new.name} {new.status}{reason} ({progress.summary()})", file=sys.stderr, flush=True)
        if time.monotonic() - self._last_line > LOG_LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            for state in progress.states:
                if state.status == "running":
                    numbers = ", ".join(text for text in _numbers(state) if text)
                    print(f"{state.name} {state.stage} {numbers}".rstrip(), file=sys.stderr, flush=True)
