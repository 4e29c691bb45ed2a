"""What a person sees while runs go on, worked out from run folders."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from results.errors import BusyError, ResultsError
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.scheduling import progress
from studies.scheduling.progress import RunState, format_seconds, last_metrics, read_state, time_left, work_done

Plan = Callable[..., list[PlannedRun]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "?"),
        (0, "0:00"),
        (59.4, "0:59"),
        (59.6, "1:00"),
        (600, "10:00"),
        (3_723, "1:02:03"),
        (90_000, "25:00:00"),
    ],
)
def test_seconds_as_a_clock(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text


def test_newest_metrics_are_found_in_a_file_that_is_being_written(workspace: Workspace, plan: Plan) -> None:
    """B57: a torn last line, and a first one cut by reading the end only."""
    folder = RunFolder.create(workspace.runs, plan(workspace, "base")[0].record)
    attempt = folder.claim_attempt()
    assert last_metrics(attempt) == {}
    for step in range(1, 200):
        attempt.log_metrics(step, "train", {"loss": 1 / step, "tokens_per_second": 10.0 * step}, seconds=1.0)
        attempt.log_metrics(step, "dev", {"loss": 99.0}, seconds=1.0)
    attempt.close()
    with attempt.metrics_file.open("a") as file:
        file.write('{"step": 200, "spl')
    assert last_metrics(attempt) == {"step": 199, "loss": 1 / 199, "tokens_per_second": 1990.0}


def test_state_of_a_run_follows_its_folder(workspace: Workspace, plan: Plan) -> None:
    (run,) = plan(workspace, "base")
    assert read_state(run) == RunState(run, "queued", "")
    attempt = RunFolder.create(workspace.runs, run.record).claim_attempt()
    attempt.log_metrics(3, "train", {"loss": 2.0}, seconds=1.0)
    state = read_state(run)
    assert (state.status, state.step, state.loss, state.fraction) == ("running", 3, 2.0, 3 / 12)
    attempt.fail("no memory")
    assert read_state(run) == RunState(run, "failed", "no memory")


def test_work_is_weighed_by_operations_not_by_runs(workspace: Workspace, plan: Plan) -> None:
    """`big` costs more than twelve times as much as base: done without it is far from half done."""
    base, big = plan(workspace, "base", "big")
    done = work_done([RunState(base, "done", ""), RunState(big, "queued", "")])
    assert done < 1 / 5
    assert work_done([RunState(base, "done", ""), RunState(big, "done", "")]) == pytest.approx(1.0)
    assert work_done([RunState(base, "queued", ""), RunState(big, "queued", "")]) == 0.0


def test_time_left_is_the_rest_at_the_pace_so_far(workspace: Workspace, plan: Plan) -> None:
    runs = plan(workspace, "base", "base", seeds=4)
    half = [RunState(run, "done", "") for run in runs[:2]] + [RunState(run, "queued", "") for run in runs[2:]]
    assert time_left(half, fraction_before=0.0, elapsed=60.0) == pytest.approx(60.0)
    # What was done before the command started tells nothing of its pace.
    assert time_left(half, fraction_before=0.25, elapsed=60.0) == pytest.approx(120.0)
    assert time_left(half, fraction_before=0.5, elapsed=60.0) is None


def test_database_that_cannot_be_written_stops_no_watch_and_is_told_once(
    workspace: Workspace, plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(progress, "INGEST_EVERY_SECONDS", 0.0)
    asked: list[int] = []

    def ingest() -> None:
        asked.append(len(asked))
        raise BusyError("held by a reader") if len(asked) < 3 else ResultsError("it is broken; rebuild it")

    watch = progress.Progress("table3", plan(workspace, "base"), ingest)
    watch.start()
    while len(asked) < 6:
        time.sleep(0.01)
    watch.stop()
    assert capsys.readouterr().err.splitlines() == ["the database falls behind: it is broken; rebuild it"]
