"""Registry and verdicts in the store: up to date whoever read the runs, and right for what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from results.run_folder import RunFolder
from results.store import Store
from studies import runs, scorecard
from studies.runs import PlannedRun, Workspace
from studies.scorecard import claim_verdicts, open_store, sync_registry
from studies.table3 import STUDY

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]
ORDER = "table3.a.base_over_h1.bleu"


def verdict_of(store: Store, claim: str, scale: str = "smoke") -> tuple[str, str]:
    (row,) = [row for row in claim_verdicts(store, None, None, scale) if row[0] == claim]
    return row[-2], row[-1]


def made_up_bleu(run: PlannedRun) -> float:
    """About 5 BLEU between base and h1, and not quite the same for every seed."""
    return {"base": 20.0, "h1": 15.0}[run.record.trial] + run.record.seed * {"base": 0.1, "h1": 0.11}[run.record.trial]


def decided(store: Store) -> set:
    return {row["decided"] for row in store.fetch("SELECT decided FROM verdicts").to_pylist()}


def test_empty_workspace_has_every_claim_at_every_scale_and_exact_ones_once(workspace: Workspace) -> None:
    store, problems = open_store(workspace)
    assert problems == ()
    rows = claim_verdicts(store, None, None, None)
    assert len(rows) == 3 * 57 + 22
    assert {scale for _, scale, kind, *_ in rows if kind == "exact"} == {"paper"}
    verdicts = Counter((scale, verdict) for _, scale, kind, *_, verdict, _ in rows if kind != "exact")
    assert verdicts == {("smoke", "not run"): 57, ("small", "not run"): 57, ("paper", "blocked"): 57}
    card = {row["scale"]: row for row in store.fetch("SELECT * FROM scorecard").to_pylist()}
    assert [card[scale]["claims"] for scale in ("smoke", "small", "paper")] == [57, 57, 79]
    assert (card["paper"]["blocked"], card["smoke"]["not_run"]) == (57, 57)


def test_blocked_claims_say_what_is_missing_and_have_no_value(workspace: Workspace) -> None:
    """B74."""
    store, _ = open_store(workspace)
    rows = claim_verdicts(store, "table3", "blocked", "paper")
    assert len(rows) == 57
    for *_, measured, low, high, _, reason in rows:
        assert (measured, low, high) == (None, None, None)
        assert reason == "corpus wmt14 en-de is not here; get it with: aiayn data fetch wmt14 --pair en-de"


def test_finished_runs_become_verdicts(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=3):
        pretend(run, {"dev_bleu_paper": made_up_bleu(run), "dev_ppl": 9.0})
    store, _ = open_store(workspace)
    assert verdict_of(store, ORDER)[0] == "agrees"
    assert verdict_of(store, "table3.a.h1.bleu")[0] == "not comparable"
    assert verdict_of(store, "table3.a.one_head_gap")[0] == "disagrees"  # 5 is not 0.9
    assert verdict_of(store, "table3.b.base_over_dk16.bleu") == ("not run", "no finished run of dk16")


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_failed_seed_leaves_a_claim_undecided(status: str, workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=3):
        if (run.record.trial, run.record.seed) == ("h1", 3):
            pretend(run, failure=("loss nan", status))
        else:
            pretend(run, {"dev_bleu_paper": made_up_bleu(run)})
    store, _ = open_store(workspace)
    assert verdict_of(store, ORDER) == ("undecided", "1 seed(s) failed (3), so the rest is a selection")


def test_verdicts_follow_runs_that_another_process_read(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    """A command that was killed, or that still runs, has read runs into the database and decided nothing yet."""
    store, _ = open_store(workspace)
    assert verdict_of(store, ORDER)[0] == "not run"
    for run in plan(workspace, "base", "h1", seeds=2):
        pretend(run, {"dev_bleu_paper": made_up_bleu(run)})
    assert store.ingest().read == 4
    assert verdict_of(open_store(workspace)[0], ORDER)[0] == "agrees"


def test_verdicts_follow_runs_that_were_taken_away(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=2):
        pretend(run, {"dev_bleu_paper": made_up_bleu(run)})
    store, _ = open_store(workspace)
    for run in plan(workspace, "h1", seeds=2):
        run.folder.set_aside()
    open_store(workspace)
    assert verdict_of(store, ORDER) == ("not run", "no finished run of h1")


def test_looking_again_decides_nothing_anew(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    pretend(plan(workspace, "base")[0], {"dev_bleu_paper": 20.0})
    store, _ = open_store(workspace)
    before = decided(store)
    open_store(workspace)
    assert decided(store) == before


def test_verdicts_follow_the_code_that_judges(
    workspace: Workspace, plan: Plan, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = open_store(workspace)
    before = decided(store)
    monkeypatch.setattr(scorecard, "judging_version", lambda: "0123456789ab")
    open_store(workspace)
    assert decided(store).isdisjoint(before)


def test_runs_of_other_code_are_marked_as_soon_as_somebody_looks(
    workspace: Workspace, plan: Plan, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B62: the old row is marked as made by other code."""
    pretend(plan(workspace, "base")[0], {"dev_bleu_paper": 20.0})
    store, _ = open_store(workspace)
    sql = "SELECT measured_bleu, other_code FROM table3 WHERE trial = 'base' AND scale = 'smoke'"
    assert store.fetch(sql).to_pylist() == [{"measured_bleu": 20.0, "other_code": 0}]
    for module in (runs, scorecard):
        monkeypatch.setattr(module, "code_version", lambda: "0123456789ab")
    monkeypatch.setattr(scorecard, "judging_version", lambda: "0123456789ab")
    open_store(workspace)
    assert store.fetch(sql).to_pylist() == [{"measured_bleu": 20.0, "other_code": 1}]
    assert plan(workspace, "base")[0].status.status == "queued"


def test_broken_run_folder_is_told_and_does_not_hide_the_others(
    workspace: Workspace, plan: Plan, pretend: Pretend
) -> None:
    base, h1 = plan(workspace, "base", "h1")
    pretend(base, {"dev_bleu_paper": 20.0})
    pretend(h1).run_file.write_text("{")
    store, problems = open_store(workspace)
    assert len(problems) == 1
    assert h1.record.run in problems[0]
    assert store.fetch("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 1}]


def test_home_that_may_only_be_read_is_shown_as_it_is(
    workspace: Workspace, plan: Plan, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(plan(workspace, "base")[0], {"dev_bleu_paper": 20.0})
    store, _ = open_store(workspace)
    before = decided(store)
    monkeypatch.setattr(Store, "refresh", lambda self: None)  # the tests may run as root, who may write everything
    monkeypatch.setattr(scorecard, "judging_version", lambda: "0123456789ab")
    assert open_store(workspace)[1] == ()
    assert decided(store) == before


def test_claims_can_be_filtered_and_keep_the_registrys_order(workspace: Workspace) -> None:
    store, _ = open_store(workspace)
    ids = [row[0] for row in claim_verdicts(store, "table3", None, "smoke")]
    assert ids == [claim.id for claim in STUDY.claims if claim.kind != "exact"]
    assert {row[1] for row in claim_verdicts(store, None, "blocked", None)} == {"paper"}
    assert claim_verdicts(store, "table3", "agrees", None) == []


def test_rebuilt_database_says_the_same(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=2):
        pretend(run, {"dev_bleu_paper": made_up_bleu(run)})
    before = claim_verdicts(open_store(workspace)[0], None, None, None)
    workspace.database.write_bytes(b"not a database")
    assert claim_verdicts(open_store(workspace, rebuild=True)[0], None, None, None) == before


def test_registry_in_the_database_is_the_one_in_the_code(workspace: Workspace, tmp_path: Path) -> None:
    store = Store(workspace.home)
    sync_registry(store)
    assert store.fetch("SELECT study, title FROM studies").to_pylist() == [{"study": "table3", "title": STUDY.title}]
    directions = store.fetch("SELECT metric, direction, kind FROM claims").to_pylist()
    assert len(directions) == len(STUDY.claims)
    for row in directions:
        expected = {"dev_bleu_paper": ">", "dev_ppl": "<"}.get(row["metric"]) if row["kind"] == "order" else None
        assert row["direction"] == expected
