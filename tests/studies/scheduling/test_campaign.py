"""What a command starts, skips, refuses and reports, with the scheduler itself replaced (test_end_to_end has Ray)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from results.errors import BusyError, ResultsError
from results.run_folder import RunFolder, RunStatus
from results.store import Store
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import PAPER, Scale
from studies.scheduling import campaign
from studies.scheduling.campaign import Outcome, carry_out
from studies.scheduling.preflight import ScheduleError
from studies.scheduling.resources import Job, Resources, Sizes
from studies.scheduling.schedule import _record_deaths
from studies.scorecard import REFRESH_SECONDS
from studies.table3 import STUDY

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]


class Scheduler:
    """Stands in for Ray: notes what it was given, and ends each run as `outcome` says."""

    def __init__(self) -> None:
        self.given: list[PlannedRun] = []
        self.outcome: Callable[[PlannedRun], object] = lambda run: None

    def __call__(self, jobs: Sequence[Job], workspace, address, max_concurrent, on_start, oom_halvings) -> None:
        on_start()
        self.given += [run for run, _ in jobs]
        self.resources = [given for _, given in jobs]
        self.address, self.max_concurrent = address, max_concurrent
        for run, _ in jobs:
            self.outcome(run)

    @property
    def names(self) -> list[str]:
        return [run.record.trial for run in self.given]


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch, pretend: Pretend) -> Scheduler:
    scheduler = Scheduler()
    scheduler.outcome = lambda run: pretend(run, {"dev_bleu_paper": 1.0})
    monkeypatch.setattr(campaign, "run_on_ray", scheduler)
    monkeypatch.setattr(campaign, "ORPHAN_SECONDS", 0.1)
    return scheduler


def carry(planned: Sequence[PlannedRun], workspace: Workspace, scale: Scale, rerun: bool = False) -> Outcome:
    return carry_out(planned, workspace, scale, None, None, None, rerun)


def test_only_what_is_not_done_is_started(
    workspace: Workspace, plan: Plan, pretend: Pretend, scheduler: Scheduler, tiny: Scale
) -> None:
    """A diverged run is a result; a failed one is tried again."""
    trials = ("base", "h1", "h4", "h16")
    base, h1, h4, _ = plan(workspace, *trials)
    pretend(base, {"dev_bleu_paper": 1.0})
    pretend(h1, failure=("no memory", "failed"))
    pretend(h4, failure=("loss nan", "diverged"))
    outcome = carry(plan(workspace, *trials), workspace, tiny)
    assert scheduler.names == ["h1", "h16"]
    assert (outcome.total, outcome.skipped, outcome.done, outcome.unfinished) == (4, 1, 3, 0)
    assert outcome.failures == (f"table3/h4 seed 1 ({h4.record.run}) diverged: loss nan",)
    assert not outcome.complete


def test_when_all_is_done_nothing_is_started(
    workspace: Workspace, plan: Plan, pretend: Pretend, scheduler: Scheduler, tiny: Scale
) -> None:
    for run in plan(workspace, "base", "h1"):
        pretend(run)
    outcome = carry(plan(workspace, "base", "h1"), workspace, tiny)
    assert scheduler.given == []
    assert outcome.complete
    assert outcome.summary() == "2 of 2 runs done (2 were done before)"


def test_rerun_sets_everything_aside_and_starts_it_from_nothing(
    workspace: Workspace, plan: Plan, pretend: Pretend, scheduler: Scheduler, tiny: Scale
) -> None:
    base, h1 = plan(workspace, "base", "h1")
    pretend(base, {"dev_bleu_paper": 5.0})
    pretend(h1, failure=("loss nan", "diverged"))
    outcome = carry(plan(workspace, "base", "h1", "h4"), workspace, tiny, rerun=True)
    assert scheduler.names == ["base", "h1", "h4"]
    assert [len(run.folder.attempts()) for run in scheduler.given] == [1, 1, 1]
    assert len(list((workspace.runs / ".set-aside").iterdir())) == 2
    assert (outcome.skipped, outcome.done) == (0, 3)


def test_rerun_keeps_the_old_runs_where_the_request_is_refused(
    workspace: Workspace, plan: Plan, pretend: Pretend, monkeypatch: pytest.MonkeyPatch, tiny: Scale
) -> None:
    def refuse(*_) -> None:
        raise ScheduleError("a trial asks for 8 GPUs")

    (base,) = plan(workspace, "base")
    pretend(base, {"dev_bleu_paper": 5.0})
    monkeypatch.setattr(campaign, "run_on_ray", refuse)
    with pytest.raises(ScheduleError):
        carry(plan(workspace, "base"), workspace, tiny, rerun=True)
    assert base.folder.status() == RunStatus("done")


def test_runs_of_another_command_are_left_to_it(
    workspace: Workspace, plan: Plan, scheduler: Scheduler, tiny: Scale
) -> None:
    """B53: the same study while an unfinished one runs."""
    base, _ = plan(workspace, "base", "h1")
    RunFolder.create(workspace.runs, base.record).claim_attempt()  # this process lives, so it looks running
    outcome = carry(plan(workspace, "base", "h1"), workspace, tiny)
    assert scheduler.names == ["h1"]
    assert (outcome.elsewhere, outcome.unfinished, outcome.done) == (1, 0, 1)
    assert outcome.summary() == "1 of 2 runs done (0 were done before), 1 running in another command"


def test_database_that_breaks_meanwhile_stops_no_run_and_is_told_with_what_was_done(
    workspace: Workspace,
    plan: Plan,
    pretend: Pretend,
    scheduler: Scheduler,
    tiny: Scale,
    capsys: pytest.CaptureFixture,
) -> None:
    def break_it(run: PlannedRun) -> None:
        pretend(run)
        workspace.database.write_bytes(b"no database any more" * 1_000)

    scheduler.outcome = break_it
    assert carry(plan(workspace, "base"), workspace, tiny).complete
    (said,) = capsys.readouterr().err.splitlines()
    assert re.match("the database falls behind: .*--rebuild", said)
    assert Store(workspace.home).rebuild().read == 1


@pytest.mark.parametrize("content", [b"", b"no database" * 1_000])
def test_database_that_is_broken_from_the_start_stops_no_run_and_is_told_once(
    workspace: Workspace,
    plan: Plan,
    scheduler: Scheduler,
    tiny: Scale,
    capsys: pytest.CaptureFixture,
    content: bytes,
) -> None:
    workspace.home.mkdir()
    workspace.database.write_bytes(content)
    assert carry(plan(workspace, "base"), workspace, tiny).complete
    assert scheduler.names == ["base"]
    (said,) = capsys.readouterr().err.splitlines()
    assert re.match("the database falls behind: .*aiayn query --rebuild", said)


def test_database_that_another_process_holds_is_waited_for_a_moment_only(
    workspace: Workspace,
    plan: Plan,
    scheduler: Scheduler,
    tiny: Scale,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    patience = []

    def held(store: Store) -> None:
        patience.append(store.patience)
        raise BusyError("results.duckdb is held by process 12")

    monkeypatch.setattr(campaign, "sync_registry", held)
    assert carry(plan(workspace, "base"), workspace, tiny).complete
    assert patience == [REFRESH_SECONDS]
    assert capsys.readouterr().err == "the database falls behind: results.duckdb is held by process 12\n"


@pytest.mark.parametrize("damaged", ["run.json", "result.json"])
@pytest.mark.parametrize("others", [(), ("h1",)])
def test_damaged_run_is_counted_as_failed_and_the_others_go_on(
    workspace: Workspace, plan: Plan, pretend: Pretend, scheduler: Scheduler, tiny: Scale, damaged: str, others
) -> None:
    (base,) = plan(workspace, "base")
    (pretend(base).path / damaged).write_text("{")
    outcome = carry(plan(workspace, "base", *others), workspace, tiny)
    assert scheduler.names == list(others)
    assert (outcome.done, len(outcome.failures), outcome.complete) == (len(others), 1, False)
    assert "put the original file back, or run it again with --rerun" in outcome.summary()
    assert carry(plan(workspace, "base", *others), workspace, tiny, rerun=True).complete


def test_run_that_is_damaged_while_its_process_dies_ends_nothing(workspace: Workspace, plan: Plan) -> None:
    base, h1 = plan(workspace, "base", "h1")
    for run in (base, h1):
        RunFolder.create(workspace.runs, run.record)
    base.folder.run_file.write_text("{")
    died = [
        SimpleNamespace(config={"job": {"record": run.record.to_json()}}, error=RuntimeError("gone"))
        for run in (base, h1)
    ]
    _record_deaths(workspace, died)
    assert "run.json cannot be read" in base.folder.status().reason
    assert h1.folder.status().reason.endswith("last: gone")


def test_database_that_is_deleted_meanwhile_is_made_anew(
    workspace: Workspace, plan: Plan, pretend: Pretend, scheduler: Scheduler, tiny: Scale
) -> None:
    def delete_it(run: PlannedRun) -> None:
        pretend(run)
        workspace.database.unlink()

    scheduler.outcome = delete_it
    assert carry(plan(workspace, "base"), workspace, tiny).complete
    assert Store(workspace.home).fetch("SELECT status FROM runs").to_pylist() == [{"status": "done"}]


def test_rerun_leaves_what_another_command_has_begun_meanwhile(
    workspace: Workspace, plan: Plan, pretend: Pretend, tiny: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base,) = plan(workspace, "base")
    pretend(base)

    def schedule(*arguments: object) -> None:
        base.folder.result_file.unlink()  # as another --rerun does, which then begins
        base.folder.claim_attempt()
        begin = next(argument for argument in arguments if callable(argument))
        begin()

    monkeypatch.setattr(campaign, "run_on_ray", schedule)
    outcome = carry(plan(workspace, "base"), workspace, tiny, rerun=True)
    assert (outcome.done, outcome.elsewhere) == (0, 1)
    assert not (workspace.runs / ".set-aside").exists()


def test_runs_that_another_command_finished_meanwhile_count_as_done(
    workspace: Workspace, plan: Plan, pretend: Pretend, scheduler: Scheduler, tiny: Scale
) -> None:
    base, _ = plan(workspace, "base", "h1")
    RunFolder.create(workspace.runs, base.record).claim_attempt()

    def both_end(run: PlannedRun) -> None:
        pretend(run)
        pretend(base)

    scheduler.outcome = both_end
    outcome = carry(plan(workspace, "base", "h1"), workspace, tiny)
    assert (outcome.done, outcome.elsewhere, outcome.unfinished) == (2, 0, 0)
    assert outcome.complete


def test_what_the_scheduler_left_undone_is_unfinished_not_failed(
    workspace: Workspace, plan: Plan, scheduler: Scheduler, tiny: Scale
) -> None:
    scheduler.outcome = lambda run: None
    outcome = carry(plan(workspace, "base", "h1"), workspace, tiny)
    assert (outcome.unfinished, outcome.failures) == (2, ())
    assert "2 not finished: the same command goes on from their checkpoints" in outcome.summary()


def test_outcome_has_a_line_for_each_failure() -> None:
    outcome = Outcome(total=4, skipped=1, done=2, failures=("table3/h1 a", "table3/h4 b"), unfinished=0, elsewhere=0)
    first, *rest = outcome.summary().splitlines()
    assert first == "2 of 4 runs done (1 were done before), 2 failed"
    assert rest == ["table3/h1 a", "table3/h4 b"]


def test_options_reach_the_scheduler(workspace: Workspace, plan: Plan, scheduler: Scheduler, tiny: Scale) -> None:
    carry_out(plan(workspace, "base"), workspace, tiny, Sizes(gpus=2), "10.0.0.1:6379", 3, False)
    assert scheduler.resources == [Resources(1, 2)]
    assert (scheduler.address, scheduler.max_concurrent) == ("10.0.0.1:6379", 3)


def test_blocked_scale_is_refused_before_anything_is_written(workspace: Workspace, scheduler: Scheduler) -> None:
    with pytest.raises(
        ScheduleError,
        match=r"^scale paper cannot run here: corpus wmt14 en-de is not here; get it with: aiayn data fetch",
    ):
        carry(plan_runs(STUDY, PAPER, 1, workspace), workspace, PAPER)
    assert scheduler.given == []
    assert not workspace.home.exists()


def test_home_that_cannot_be_written_is_refused(
    workspace: Workspace, plan: Plan, scheduler: Scheduler, tiny: Scale
) -> None:
    planned = plan(workspace, "base")
    workspace.home.touch()
    with pytest.raises(ResultsError, match=r"cannot be written \(File exists\); choose another with --home"):
        carry(planned, workspace, tiny)
    assert scheduler.given == []


def test_gpus_of_a_trial_that_was_not_asked_for_are_refused_before_anything_starts(
    workspace: Workspace, plan: Plan, scheduler: Scheduler, tiny: Scale
) -> None:
    with pytest.raises(ValueError, match=r"--gpus-per-trial names 'nosuch', which is none of the trials asked for"):
        carry_out(plan(workspace, "base"), workspace, tiny, Sizes(gpus_of={"nosuch": 1}), None, None, False)
    assert scheduler.given == []
