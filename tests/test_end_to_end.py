"""A study from plan to report with the real Ray, at a scale that trains in a second."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from results.query import query
from results.store import Store
from studies.registry import get_study
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import Scale
from studies.scheduling import campaign as campaign_module
from studies.scheduling.campaign import Outcome, carry_out
from studies.scorecard import claim_verdicts, open_store

Plan = Callable[..., list[PlannedRun]]
ROOT = Path(__file__).parent.parent

# Another process that asks again and again until it is told to stop, and writes how often and what went wrong.
ASKING = """
import json, sys, time
from pathlib import Path
from results.query import query
from results.store import Store
home, answers, errors = Path(sys.argv[1]), 0, []
while not (home / "stop-asking").exists():
    try:
        query(Store(home), "SELECT scale, trial, measured_bleu FROM table3")
        answers += 1
    except Exception as error:
        errors.append(repr(error))
    time.sleep(0.05)
(home / "asked.json").write_text(json.dumps({"answers": answers, "errors": errors}))
"""


@dataclass(frozen=True)
class Campaign:
    """A workspace after one command, what the command said, and what the other process saw meanwhile."""

    workspace: Workspace
    outcome: Outcome
    asked: dict
    replan: Callable[[], list[PlannedRun]]


@pytest.fixture(scope="module")
def campaign(
    new_workspace: Callable[[], Workspace], plan: Plan, tiny: Scale, impossible: Scale, diverging: Scale
) -> Campaign:
    """Two seeds of base, one of N2; h4 cannot train, and h16 diverges."""
    workspace = new_workspace()

    def replan() -> list[PlannedRun]:
        return [
            *plan(workspace, "base", seeds=2),
            *plan(workspace, "N2"),
            *plan(workspace, "h4", scale=impossible),
            *plan(workspace, "h16", scale=diverging),
        ]

    open_store(workspace)
    asking = subprocess.Popen([sys.executable, "-c", ASKING, str(workspace.home)], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        outcome = carry_out(replan(), workspace, tiny, None, None, None, rerun=False)
    finally:
        (workspace.home / "stop-asking").touch()
        asking.wait(timeout=60)
    asked = json.loads((workspace.home / "asked.json").read_bytes())
    return Campaign(workspace, outcome, asked, replan)


def snapshot(runs: list[PlannedRun]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for run in runs for path in run.folder.path.rglob("*")}


def named(campaign: Campaign, trial: str) -> PlannedRun:
    return next(run for run in campaign.replan() if run.record.trial == trial)


def test_runs_finish_and_the_bad_ones_fail_alone_with_their_reason(campaign: Campaign) -> None:
    """B54."""
    states = {(run.record.trial, run.record.seed): run.status for run in campaign.replan()}
    assert [states[key].status for key in (("base", 1), ("base", 2), ("N2", 1))] == ["done"] * 3
    assert states["h4", 1].status == "failed"
    assert "more than micro_batch_tokens=4" in states["h4", 1].reason
    assert states["h16", 1].status == "diverged"
    assert states["h16", 1].reason.startswith("training diverged: loss nan by update")
    assert (campaign.outcome.total, campaign.outcome.done, len(campaign.outcome.failures)) == (5, 3, 2)
    assert not campaign.outcome.complete
    assert "3 of 5 runs done (0 were done before), 2 failed" in campaign.outcome.summary()


def test_failed_run_was_not_started_over_and_over(campaign: Campaign) -> None:
    for trial in ("base", "N2", "h4", "h16"):
        assert len(named(campaign, trial).folder.attempts()) == 1
    assert "Traceback" in named(campaign, "h4").folder.attempts()[0].log_file.read_text(encoding="utf-8")


def test_database_could_be_asked_all_the_while(campaign: Campaign) -> None:
    """B58."""
    assert campaign.asked["errors"] == []
    assert campaign.asked["answers"] > 5


def test_database_holds_what_the_folders_hold(campaign: Campaign) -> None:
    rows = query(
        Store(campaign.workspace.home),
        "SELECT trial, seeds, failed, measured_bleu, measured_ppl, steps_trained, measured_params_millions AS params "
        "FROM table3 WHERE scale = 'smoke' AND (seeds > 0 OR failed > 0)",
    ).to_pylist()
    by_trial = {row["trial"]: row for row in rows}
    assert by_trial.keys() == {"base", "N2", "h4", "h16"}
    base = [run for run in campaign.replan() if run.record.trial == "base"]
    for column, score in (("measured_bleu", "dev_bleu_paper"), ("measured_ppl", "dev_ppl")):
        values = [s.value for run in base for s in run.folder.result().scores if s.name == score]
        assert by_trial["base"][column] == pytest.approx(sum(values) / 2)
    assert (by_trial["base"]["seeds"], by_trial["base"]["failed"]) == (2, 0)
    assert by_trial["base"]["steps_trained"] == 12
    assert by_trial["base"]["params"] == pytest.approx(base[0].folder.result().params / 1e6)
    for trial in ("h4", "h16"):
        assert by_trial[trial] == {
            "trial": trial,
            "seeds": 0,
            "failed": 1,
            "measured_bleu": None,
            "measured_ppl": None,
            "steps_trained": None,
            "params": None,
        }


def test_curves_are_whole_and_a_loss_that_is_no_number_is_null(campaign: Campaign) -> None:
    sql = (
        "SELECT step, value FROM curves WHERE trial = '{}' AND seed = 1 AND split = '{}' AND name = '{}' ORDER BY step"
    )
    store = Store(campaign.workspace.home)
    base = query(store, sql.format("base", "train", "loss")).to_pylist()
    assert [row["step"] for row in base] == [3, 6, 9, 12]
    assert all(row["value"] > 0 for row in base)
    # A position that was never trained ends the run when a sentence first reaches it, of either split.
    diverged = [
        *query(store, sql.format("h16", "train", "loss")).to_pylist(),
        *query(store, sql.format("h16", "dev", "ppl")).to_pylist(),
    ]
    last = max(row["step"] for row in diverged)
    assert {row["value"] for row in diverged if row["step"] == last} >= {None}
    assert all(row["value"] > 0 for row in diverged if row["step"] < last)


def test_verdicts_are_filled(campaign: Campaign) -> None:
    store = Store(campaign.workspace.home)
    rows = claim_verdicts(store, ["table3"], scale="smoke").to_pylist()
    verdicts = {row["claim"]: (row["verdict"], row["reason"]) for row in rows}
    assert verdicts["table3.base.bleu"][0] == "not comparable"
    assert verdicts["table3.c.base_over_dff1024.bleu"] == ("not run", "no finished run of dff1024")
    assert verdicts["table3.a.h4.bleu"][0] == "undecided"
    assert "1 of 1 runs of h4 ended badly (seed 1 failed)" in verdicts["table3.a.h4.bleu"][1]
    card = query(store, "SELECT * FROM scorecard WHERE study = 'table3' AND scale = 'smoke'").to_pylist()[0]
    counted = [card[name] for name in card if name not in ("study", "scale", "claims")]
    assert sum(counted) == card["claims"] == len(rows)


def test_second_command_does_no_work_and_touches_no_file(
    campaign: Campaign, tiny: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B63: what is done, and what diverged, is not run again."""
    settled = [run for run in campaign.replan() if run.status.status in ("done", "diverged")]
    before = snapshot(settled)
    monkeypatch.setattr(campaign_module, "run_on_ray", lambda *_: pytest.fail("Ray was started"))
    outcome = carry_out(settled, campaign.workspace, tiny, None, None, None, rerun=False)
    assert snapshot(settled) == before
    assert (outcome.skipped, outcome.done, outcome.total) == (3, 3, 4)


def test_nothing_is_left_behind_but_the_workspace(campaign: Campaign) -> None:
    home = campaign.workspace.home
    names = {path.name for path in home.iterdir()} - {"stop-asking", "asked.json"}
    assert names == {"data", "ray", "ray.log", "results.duckdb", "results.duckdb.lock", "runs"}
    assert all(len(path.name) == 12 for path in campaign.workspace.runs.iterdir())
    assert not list((home / "ray").iterdir())


@pytest.mark.slow
def test_report_of_the_same_store_builds(campaign: Campaign) -> None:
    from reports.build import build_site

    index = build_site(campaign.workspace.database, campaign.workspace.home.parent / "site")
    assert "table3" in index.read_text(encoding="utf-8").lower()


@pytest.mark.slow
def test_rerun_sets_aside_and_gives_the_same_numbers(campaign: Campaign, tiny: Scale) -> None:
    run = named(campaign, "N2")
    before = run.folder.result()
    outcome = carry_out([run], campaign.workspace, tiny, None, None, None, rerun=True)
    assert (outcome.skipped, outcome.done) == (0, 1)
    after = run.folder.result()
    assert after.finished > before.finished
    assert after.scores == before.scores
    assert len(run.folder.attempts()) == 1
    assert [path.name.partition("-")[0] for path in (campaign.workspace.runs / ".set-aside").iterdir()] == [
        run.record.run
    ]


@pytest.mark.slow
def test_a_figure_carries_out_the_run_that_it_measures_and_keeps_it(
    new_workspace: Callable[[], Workspace], tiny: Scale
) -> None:
    workspace = new_workspace()

    def ask(rerun: bool) -> Outcome:
        return carry_out(plan_runs(get_study("figure3"), tiny, 1, workspace), workspace, tiny, None, None, None, rerun)

    first = ask(rerun=False)
    assert first.complete
    assert (first.total, first.skipped) == (3, 0)  # trained, untrained, and the run that both are about
    assert ask(rerun=False).skipped == 3
    again = ask(rerun=True)
    assert again.complete
    assert again.skipped == 1  # the training is nobody's to repeat but Table 3's
    rows = claim_verdicts(Store(workspace.home), ["figure3"], scale="smoke").to_pylist()
    measured = {row["claim"]: row["measured"] for row in rows}
    assert len(measured) == 5
    assert None not in measured.values()
