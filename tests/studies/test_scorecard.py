"""Registry and verdicts in the store: up to date whoever read the runs, and right for what is there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from results.database import writer_lock
from results.records import Score
from results.run_folder import RunFolder
from results.store import Store
from studies import runs, scorecard
from studies.claim import METRICS
from studies.registry import STUDIES
from studies.runs import PlannedRun, Workspace
from studies.scales import PAPER, SCALES
from studies.scorecard import claim_verdicts, open_store
from studies.table3 import STUDY

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]
ORDER = "table3.a.base_over_h1.bleu"


MEASURED = [claim for claim in STUDY.claims if not claim.full_size]
# So few are judged by the spread that the smoke scale knows; what is to be decided differs by much more than that.
ENOUGH = 4
HIGH, LOW = 70.0, 15.0


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store of a workspace without runs. Only to be read."""
    store, problems = open_store(Workspace(tmp_path_factory.mktemp("empty")))
    assert problems == ()
    return store


def row_of(store: Store, claim: str, scale: str = "smoke") -> dict:
    (row,) = [row for row in claim_verdicts(store, scale=scale).to_pylist() if row["claim"] == claim]
    return row


def verdict_of(store: Store, claim: str, scale: str = "smoke") -> tuple[str, str]:
    row = row_of(store, claim, scale)
    return row["verdict"], row["reason"]


def made_up_bleu(run: PlannedRun) -> float:
    """About 55 BLEU between base and h1, and not quite the same for every seed."""
    return {"base": HIGH, "h1": LOW}[run.record.trial] + run.record.seed * {"base": 0.1, "h1": 0.11}[run.record.trial]


def decided(store: Store) -> set:
    return {row["decided"] for row in store.fetch("SELECT decided FROM verdicts").to_pylist()}


def test_empty_workspace_has_every_claim_at_every_scale_and_those_of_full_size_once(empty: Store) -> None:
    rows = claim_verdicts(empty).to_pylist()
    claims = {claim.id: claim for study in STUDIES for claim in study.claims}
    places = Counter(row["claim"] for row in rows)
    assert places == {name: 1 if claim.full_size else 3 for name, claim in claims.items()}
    assert {row["scale"] for row in rows if claims[row["claim"]].full_size} == {"paper"}
    for row in rows:
        claim = claims[row["claim"]]
        if claim.quoted:
            assert row["verdict"] == "quoted"
        elif claim.compute:
            assert row["verdict"] == ("not reproduced" if claim.misquote else row["verdict"])
            assert row["verdict"] in ("reproduced", "not reproduced")
        else:
            assert row["verdict"] in (("blocked", "not run") if row["scale"] == "paper" else ("not run",))
        assert row["reason"]
    card = {(row["study"], row["scale"]): row for row in empty.fetch("SELECT * FROM scorecard").to_pylist()}
    assert [card["table3", scale]["claims"] for scale in ("smoke", "small", "paper")] == [
        len(MEASURED),
        len(MEASURED),
        len(STUDY.claims),
    ]
    assert card["table3", "paper"]["blocked"] == card["table3", "smoke"]["not_run"] == len(MEASURED)


def test_blocked_claims_say_what_is_missing_and_have_no_value(empty: Store) -> None:
    """B74, also where the trials that would read the treebank do not exist yet."""
    rows = claim_verdicts(empty, ["table3"], "blocked", "paper").to_pylist()
    assert len(rows) == len(MEASURED)
    for row in rows:
        assert (row["measured"], row["low"], row["high"]) == (None, None, None)
        assert row["reason"] == "corpus wmt14 en-de is not here; get it with: aiayn data fetch wmt14 --pair en-de"
    rows = claim_verdicts(empty, ["table4"], "blocked", "paper").to_pylist()
    assert rows
    assert all("wsj" in row["reason"] and row["measured"] is None for row in rows)


def test_claim_is_blocked_by_what_its_own_trials_need(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """English-French that is missing does not block English-German."""
    real = scorecard.corpus_obstacle

    def only_french(name: str, languages: tuple[str, ...] | None, folder: Path) -> str | None:
        if name == "wmt14":
            return None if languages == ("en", "de") else "no French"
        return real(name, languages, folder)

    monkeypatch.setattr(scorecard, "corpus_obstacle", only_french)
    store, _ = open_store(workspace)
    verdicts = {row["claim"]: row["verdict"] for row in claim_verdicts(store, ["table2"], scale="paper").to_pylist()}
    assert verdicts["table2.base.enfr.bleu"] == "blocked"
    assert verdicts["table2.base.ende.bleu"] == "not run"


def test_verdicts_follow_the_data_that_is_here(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = open_store(workspace)
    assert row_of(store, "table3.base.bleu", "paper")["verdict"] == "blocked"
    monkeypatch.setattr(scorecard, "corpus_obstacle", lambda *_: None)
    open_store(workspace)
    assert row_of(store, "table3.base.bleu", "paper")["verdict"] == "not run"


def test_finished_runs_become_verdicts(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=ENOUGH):
        pretend(run, {"dev_bleu_paper": made_up_bleu(run), "dev_ppl": 9.0})
    store, _ = open_store(workspace)
    assert verdict_of(store, ORDER)[0] == "agrees"
    assert verdict_of(store, "table3.a.h1.bleu")[0] == "not comparable"
    assert verdict_of(store, "table3.a.one_head_gap")[0] == "disagrees"  # 55 is not 0.9
    assert verdict_of(store, "table3.b.base_over_dk16.bleu") == ("not run", "no finished run of dk16")
    row = row_of(store, ORDER)
    # Order and gap of BLEU, and the order of a perplexity that is the same for both: three are tested.
    assert (row["family_size"], row["num_runs"], row["alone"]) == (3, 2 * ENOUGH, "agrees")
    assert 0 < row["p_value"] <= row["p_adjusted"] <= 0.025
    assert row["low"] < row["measured"] < row["high"]


def test_claims_of_one_table_and_scale_are_a_family(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    """One clear difference among many runs that differ by nothing but noise."""
    rng = np.random.default_rng(11)
    trials = [trial.name for trial in STUDY.trials]
    for run in plan(workspace, *trials, seeds=ENOUGH):
        level = {"h1": LOW}.get(run.record.trial, HIGH)
        pretend(run, {"dev_bleu_paper": level + rng.normal(scale=0.5)})
    store, _ = open_store(workspace)
    tested = [row for row in claim_verdicts(store, ["table3"], scale="smoke").to_pylist() if row["family_size"]]
    wanted = [claim.id for claim in MEASURED if claim.metric == "dev_bleu_paper" and len(claim.trials) == 2]
    assert [row["claim"] for row in tested] == wanted
    assert {row["family_size"] for row in tested} == {len(wanted)}
    decided = {row["claim"]: row["verdict"] for row in tested if row["verdict"] != "undecided"}
    assert decided == {ORDER: "agrees", "table3.a.one_head_gap": "disagrees"}


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_failed_seed_leaves_a_claim_undecided(status: str, workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=ENOUGH):
        if (run.record.trial, run.record.seed) == ("h1", 3):
            pretend(run, failure=("loss nan", status))
        else:
            pretend(run, {"dev_bleu_paper": made_up_bleu(run)})
    store, _ = open_store(workspace)
    reason = f"1 of 4 runs of h1 ended badly (seed 3 {status}): the rest is a selection"
    assert verdict_of(store, ORDER) == ("undecided", reason)


def test_score_that_could_not_be_measured_counts(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    """B40: a run that is done but whose output could not be scored is no run less."""
    for run in plan(workspace, "base", "h1", seeds=ENOUGH):
        score = Score("dev_bleu_paper", made_up_bleu(run), "made up", "grammar/dev/en-de", 300)
        if (run.record.trial, run.record.seed) == ("h1", 2):
            score = replace(score, value=None, details={"reason": "4 of 5 sentences not scored"})
        pretend(run, [score])
    store, _ = open_store(workspace)
    reason = "the output of h1, seed 2, has no dev_bleu_paper: 4 of 5 sentences not scored"
    assert verdict_of(store, ORDER) == ("blocked", reason)


def test_run_without_the_score_that_others_have_counts(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=ENOUGH):
        lacking = (run.record.trial, run.record.seed) == ("h1", 2)
        pretend(run, {"dev_bleu": 1.0} if lacking else {"dev_bleu_paper": made_up_bleu(run)})
    store, _ = open_store(workspace)
    assert "1 of 4 runs of h1 ended badly (seed 2 done without it)" in verdict_of(store, ORDER)[1]
    assert verdict_of(store, "table3.c.N8_over_base.ppl") == ("not run", "no finished run of N8")


def test_runs_that_lack_a_score_altogether_are_told(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=1):
        pretend(run, {"dev_bleu": 20.0})
    store, _ = open_store(workspace)
    assert verdict_of(store, ORDER) == (
        "not run",
        "runs of base and h1 are done, and none has a score dev_bleu_paper",
    )


def test_other_test_set_in_one_trial_is_not_comparable(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    """B07, at a scale of our own."""
    for run in plan(workspace, "base", "h1", seeds=ENOUGH):
        num_items = 300 if run.record.trial == "base" else 273
        pretend(run, [Score("dev_bleu_paper", made_up_bleu(run), "made up", "grammar/dev/en-de", num_items)])
    store, _ = open_store(workspace)
    reason = "scores of different test sets: 273 lines of grammar/dev/en-de and 300 lines of grammar/dev/en-de"
    assert verdict_of(store, ORDER) == ("not comparable", reason)


def test_runs_at_the_papers_scale_need_the_papers_budget(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    """B17: one GPU's 4,096 tokens an update, whatever the score."""
    small = replace(PAPER.base.train, source_tokens=4_096, target_tokens=4_096)
    one_gpu = replace(PAPER, base=replace(PAPER.base, train=small))
    identity = STUDY.claims[0].identity
    for run in plan(workspace, "base", seeds=3, scale=one_gpu):
        pretend(run, [Score("dev_bleu_paper", 25.8, identity.protocol, identity.dataset, identity.num_items)])
    store, _ = open_store(workspace)
    verdict, reason = verdict_of(store, "table3.base.bleu", "paper")
    assert verdict == "not comparable"
    assert reason.startswith("other budget: base had 4,096 + 4,096 tokens an update for 100,000 updates")


def test_test_set_interval_comes_from_the_scores_replicates(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    waves = [math.sin(k) for k in range(1_000)]
    for run in plan(workspace, "base", "h1", seeds=ENOUGH):
        value = made_up_bleu(run)
        details = {"test_set_interval": {"replicates": [value + wave for wave in waves]}}
        pretend(run, [Score("dev_bleu_paper", value, "made up", "grammar/dev/en-de", 300, details)])
    store, _ = open_store(workspace)
    row = row_of(store, ORDER)
    # All runs rise and fall with the same sentences, so the difference does not move.
    assert (row["test_low"], row["test_high"]) == pytest.approx((row["measured"], row["measured"]))
    one = row_of(store, "table3.base.bleu")
    assert one["test_high"] - one["test_low"] == pytest.approx(2.0, abs=0.1)


def test_verdicts_follow_runs_that_another_process_read(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    """A command that was killed, or that still runs, has read runs into the database and decided nothing yet."""
    store, _ = open_store(workspace)
    assert verdict_of(store, ORDER)[0] == "not run"
    for run in plan(workspace, "base", "h1", seeds=ENOUGH):
        pretend(run, {"dev_bleu_paper": made_up_bleu(run)})
    assert store.ingest().read == 2 * ENOUGH
    assert verdict_of(open_store(workspace)[0], ORDER)[0] == "agrees"


def test_whoever_asks_while_another_process_writes_is_shown_what_there_is(
    workspace: Workspace,
    plan: Plan,
    pretend: Pretend,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(scorecard, "REFRESH_SECONDS", 0.1)
    store, _ = open_store(workspace)
    pretend(plan(workspace, "base")[0], {"dev_ppl": 9.0})
    with writer_lock(store.database):
        shown, problems = open_store(workspace)
        assert shown.fetch("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 0}]
    assert problems == ()
    assert caplog.messages[-1].startswith("not brought up to date: ")
    assert open_store(workspace)[0].fetch("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 1}]


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


def test_claims_can_be_filtered_and_keep_the_registrys_order(empty: Store) -> None:
    assert claim_verdicts(empty, ["table3"], scale="smoke")["claim"].to_pylist() == [claim.id for claim in MEASURED]
    places = list(dict.fromkeys((row["study"], row["scale"]) for row in claim_verdicts(empty).to_pylist()))
    sizes = [scale.name for scale in SCALES]
    assert places == [(study.name, scale) for study in STUDIES for scale in sizes if (study.name, scale) in places]
    assert set(claim_verdicts(empty, verdict="blocked")["scale"].to_pylist()) == {"paper"}
    assert claim_verdicts(empty, ["table3"], "agrees").num_rows == 0


def test_rebuilt_database_says_the_same(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    for run in plan(workspace, "base", "h1", seeds=2):
        pretend(run, {"dev_bleu_paper": made_up_bleu(run)})
    before = claim_verdicts(open_store(workspace)[0])
    workspace.database.write_bytes(b"not a database")
    assert claim_verdicts(open_store(workspace, rebuild=True)[0]).equals(before)


def test_registry_in_the_database_is_the_one_in_the_code(empty: Store) -> None:
    names = [{"study": study.name, "title": study.title} for study in STUDIES]
    assert empty.fetch("SELECT study, title FROM studies ORDER BY rowid").to_pylist() == names
    directions = {
        row["claim"]: row["direction"] for row in empty.fetch("SELECT claim, direction FROM claims").to_pylist()
    }
    claims = [claim for study in STUDIES for claim in study.claims]
    assert directions.keys() == {claim.id for claim in claims}
    for claim in claims:
        lower = METRICS[claim.metric].lower_is_better
        assert directions[claim.id] == (("<" if lower else ">") if claim.kind == "order" else claim.bound)
