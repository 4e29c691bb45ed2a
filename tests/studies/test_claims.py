"""The paper's claims as a whole: how many there are of each, which wait for trials, and which should fail."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from core.scoring.protocol import PAPER_ENDE, PAPER_ENFR, SACREBLEU_13A, BleuProtocol
from studies import wmt14
from studies.claim import METRICS, Claim
from studies.registry import STUDIES, get_study
from studies.scales import SCALES

CLAIMS = [claim for study in STUDIES for claim in study.claims]
BY_ID = {claim.id: claim for claim in CLAIMS}
COMPUTED = [claim for claim in CLAIMS if claim.compute is not None]


def holds(claim: Claim) -> bool:
    """Whether a computed claim is true, worked out here once more."""
    value = claim.compute()
    if claim.bound:
        return {">": value > claim.expected, "<": value < claim.expected}[claim.bound]
    return abs(value - claim.expected) <= claim.tolerance


def test_number_of_claims_by_study_and_kind() -> None:
    assert {study.name: dict(Counter(claim.kind for claim in study.claims)) for study in STUDIES} == {
        "table1": {"exponent": 54, "exact": 2, "threshold": 4, "value": 12},
        "table2": {"value": 30, "exact": 19, "threshold": 8, "order": 6},
        "table3": {"value": 40, "exact": 26, "order": 27, "difference": 2},
        "table4": {"value": 16, "exact": 8, "threshold": 5},
        "figure3": {"threshold": 5},
        "figure4": {"threshold": 6},
        "figure5": {"threshold": 5},
        "capabilities": {"threshold": 42},
        "section3": {"exact": 20, "threshold": 4, "exponent": 4, "value": 5, "order": 2, "difference": 1},
        "section5": {"exact": 20, "exponent": 2, "value": 4},
        "budget": {"order": 16, "threshold": 3, "exact": 8},
    }
    assert len(CLAIMS) == len(BY_ID) == 406


def test_every_claim_is_measured_computed_or_quoted() -> None:
    for claim in CLAIMS:
        assert claim.quoted or claim.compute is not None or claim.trials, claim.id
        assert claim.statement[-1] in ".0123456789"
        assert claim.cell
        assert claim.source


def test_claims_that_wait_for_a_trial_are_these_and_no_others() -> None:
    """The list shrinks as trials arrive; it must never grow unseen."""
    waiting = {study.name: sum(bool(study.awaited_by(claim)) for claim in study.claims) for study in STUDIES}
    assert waiting == {
        "table1": 0,
        "table2": 0,
        "table3": 0,
        "table4": 2,
        "figure3": 0,
        "figure4": 0,
        "figure5": 0,
        "capabilities": 0,
        "section3": 0,
        "section5": 4,
        "budget": 0,
    }
    assert {study.name: study.awaited for study in STUDIES if study.awaited} == {
        "table4": ("wsj_corpus", "berkeley_parses_corpus"),
        "section5": ("base_on_8_p100", "big_on_8_p100", "ende_corpus", "enfr_corpus"),
    }


def test_misquotations_are_those_that_the_notes_on_the_paper_list_and_all_fail() -> None:
    misquotes = {claim.id: claim for claim in CLAIMS if claim.misquote}
    assert misquotes.keys() == {
        "table1.quoted_contiguous_stack_sqrt_k",
        "table2.quoted_50_times_cheaper.ende",
        "table3.a.quoted_h8_row",
        "table3.a.quoted_h16_bleu",
        "table3.a.quoted_h16_ppl",
        "table4.quoted_dyer_semi",
    }
    assert not any(holds(claim) for claim in misquotes.values())
    # What the quotations should say.
    assert misquotes["table2.quoted_50_times_cheaper.ende"].compute() == pytest.approx(7.8, abs=0.05)
    assert misquotes["table3.a.quoted_h16_bleu"].compute() == 25.8
    assert misquotes["table3.a.quoted_h16_ppl"].compute() == 4.91
    assert misquotes["table4.quoted_dyer_semi"].compute() == 92.7


def test_computed_claims_that_the_paper_does_not_keep() -> None:
    """What fails by the paper's own sizes and numbers is where it contradicts itself, and nothing else."""
    failing = {claim.id for claim in COMPUTED if not claim.misquote and not holds(claim)}
    parameters = {id_ for id_ in failing if BY_ID[id_].metric == "params_millions"}
    assert len(parameters) == 13  # of 23: no vocabulary fits the whole column (tests/studies/test_table3.py)
    assert failing - parameters == {
        "table2.base.ende.flops_by_steps",  # 100K updates of 0.4 s are 11.1 hours, not 12
        "table2.base.enfr.flops_by_steps",
        "section5.base.hours",
        "table4.printed.over_earlier",  # Luong et al. 93.0, multi-task
        "section3.positions.longest",  # the formula ends at 10000^(510/512)
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("table2.big.enfr.bleu", "table2.big.enfr.bleu_in_text"),
        ("table2.base.ende.flops", "table2.base.ende.flops_by_steps"),
        ("table3.base.params_37000", "table3.base.params_40960"),
        ("table4.wsj_only.f1", "table4.wsj_only.f1_attention_dropout"),
        ("table4.printed.over_earlier", "table4.printed.over_earlier_same_training"),
        ("section3.positions.longest", "section3.positions.longest_in_code"),
    ],
)
def test_where_the_paper_contradicts_itself_there_are_two_claims_that_say_which_reading_they_are(
    first: str, second: str
) -> None:
    assert BY_ID[first].reading
    assert BY_ID[second].reading
    assert BY_ID[first].reading != BY_ID[second].reading


def test_b72_big_english_french_has_two_claims_each_with_its_place_in_the_paper() -> None:
    """B72: 41.8 in Table 2 and the later abstract, 41.0 in section 6.1 and in earlier versions."""
    table, text = BY_ID["table2.big.enfr.bleu"], BY_ID["table2.big.enfr.bleu_in_text"]
    assert (table.expected, text.expected) == (41.8, 41.0)
    assert table.trials == text.trials == ("big.enfr",)
    assert "Table 2" in table.cell
    assert "version 5" in table.reading
    assert "Section 6.1" in text.cell
    assert "earlier versions" in text.reading


def test_computed_numbers_come_at_once() -> None:
    """Listing and judging must stay quick. The limit is generous for a busy machine; most take a millisecond."""
    COMPUTED[0].compute()
    slow = {}
    for claim in COMPUTED:
        fastest = float("inf")
        for _ in range(3):
            started = time.process_time()
            claim.compute()
            fastest = min(fastest, time.process_time() - started)
        if fastest > 0.2:
            slow[claim.id] = fastest
    assert not slow


def test_bleu_claims_are_of_the_papers_protocol_and_scored_values_have_an_identity() -> None:
    for claim in CLAIMS:
        assert claim.metric not in ("dev_bleu", "test_bleu"), claim.id
        if claim.kind == "value" and not claim.quoted and claim.metric in ("dev_bleu_paper", "test_bleu_paper"):
            assert claim.identity is not None, claim.id


def test_identities_name_the_data_that_the_trials_have_at_the_papers_scale() -> None:
    paper = SCALES[-1]
    for study in STUDIES:
        for claim in study.claims:
            if claim.identity is None or study.awaited_by(claim):
                continue
            for trial, budget in zip(claim.trials, claim.identity.budgets, strict=True):
                if not study.trial(trial).work.reads_corpus:  # it stands in for a training, and is not that one
                    continue
                config = study.trial(trial).config(paper)
                assert budget.train_steps == config.train.train_steps
                assert (budget.source_tokens, budget.target_tokens) == (25_000, 25_000)
                if study.name.startswith("figure"):  # about a sentence of its own
                    assert (claim.identity.dataset, claim.identity.num_items) == (f"paper/{study.name}/en", 1)
                    continue
                split = config.data.dev_split if claim.metric.startswith("dev_") else config.data.test_split
                assert claim.identity.dataset == f"{config.data.corpus}/{split}/{config.data.src}-{config.data.tgt}"
                assert claim.identity.num_items == {"newstest2013": 3_000, "newstest2014": 3_003, "test": 2_416}[split]


def test_signature_must_have_every_field_of_the_protocol_and_may_have_more() -> None:
    identity = BY_ID["table3.base.ppl"].identity
    assert identity.missing_fields("cross-entropy:plain|unit:word-piece|end-symbol:yes") == ()
    assert identity.missing_fields("cross-entropy:plain|unit:word") == ("unit:word-piece",)


@pytest.mark.parametrize(("language", "protocol"), [("de", PAPER_ENDE), ("fr", PAPER_ENFR)])
def test_claimed_protocol_is_the_one_that_runs_are_scored_by(language: str, protocol: BleuProtocol) -> None:
    claimed = wmt14.identity("newstest2014", language, wmt14.BLEU[language], 1)
    assert claimed.missing_fields(protocol.signature) == ()
    other = PAPER_ENFR if language == "de" else PAPER_ENDE
    assert claimed.missing_fields(other.signature)
    assert claimed.missing_fields(SACREBLEU_13A.signature)


def test_metrics_are_all_used() -> None:
    used = {claim.metric for claim in CLAIMS}
    # The two of detokenised text are not the paper's; they are scored beside those that are.
    assert METRICS.keys() - used == {"dev_bleu", "test_bleu"}


def test_studies_without_trials_are_known_by_name_too() -> None:
    assert get_study("section5").trials == ()
