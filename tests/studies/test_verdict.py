"""Verdicts as a pure function of claim, scale and measurements, against intervals worked by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.records import VERDICTS
from studies.claim import Claim
from studies.scales import PAPER, SCALES, SMOKE, Scale, SeedSpread
from studies.table3 import STUDY
from studies.verdict import Measurements, Verdict, decide

ORDER = Claim("s.order", "cell", "first is better", "order", "dev_bleu", ("first", "second"), "6.2")
LOWER = replace(ORDER, id="s.lower", metric="dev_ppl")
VALUE = Claim("s.value", "cell", "reaches 25.8", "value", "dev_bleu", ("first",), "Table 3", 25.8, 0.5)
GAP = Claim("s.gap", "cell", "0.9 apart", "difference", "dev_bleu", ("first", "second"), "6.2", 0.9, 0.5)
EXACT = Claim(
    "s.exact", "cell", "65 million", "exact", "params_millions", ("first",), "Table 3", 65.0, 0.5, compute=float
)

# Seeds differ by 1 in every metric, so that the half widths of single seeds are round: 1.96, and 1.96 sqrt(2) = 2.77.
MADE_UP = SeedSpread(1.0, None, "made up")
TOY = replace(SMOKE, seed_spread={"dev_bleu": MADE_UP, "dev_ppl": MADE_UP})
TOY_PAPER = replace(PAPER, seed_spread=TOY.seed_spread)
# Two-sided 95% points of Student's t by degrees of freedom, from printed tables.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}


def by_seed(values: Sequence[float]) -> Measurements:
    return Measurements(dict(enumerate(values, start=1)))


def pair(differences: Sequence[float]) -> dict[str, Measurements]:
    """Two trials whose values differ by these numbers, seed by seed, at levels of their own."""
    second = [10.0 * seed for seed in range(len(differences))]
    return {
        "first": by_seed([b + difference for b, difference in zip(second, differences, strict=True)]),
        "second": by_seed(second),
    }


def one(values: Sequence[float]) -> dict[str, Measurements]:
    return {"first": by_seed(values)}


def seeds_needed(verdict: Verdict) -> int:
    (number,) = re.findall(r"; (\d+) seeds would settle it at this spread$", verdict.reason)
    return int(number)


# Intervals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "mean", "half"),
    [
        ([1.0, 3.0], 2.0, 12.706 * math.sqrt(2) / math.sqrt(2)),  # sd = sqrt(2)
        ([1.0, 2.0, 3.0], 2.0, 4.303 * 1.0 / math.sqrt(3)),  # sd = 1
        ([1.0, 2.0, 3.0, 4.0, 5.0], 3.0, 2.776 * math.sqrt(2.5) / math.sqrt(5)),  # sd = sqrt(10 / 4)
    ],
    ids=["n=2", "n=3", "n=5"],
)
def test_interval_is_students_t_worked_by_hand(values: list[float], mean: float, half: float) -> None:
    for claim, measured in ((VALUE, one(values)), (ORDER, pair(values)), (GAP, pair(values))):
        verdict = decide(claim, TOY, measured)
        assert verdict.measured == pytest.approx(mean)
        assert verdict.low == pytest.approx(mean - half, abs=2e-3)
        assert verdict.high == pytest.approx(mean + half, abs=2e-3)
        assert verdict.num_runs == len(values) * len(claim.trials)


def test_comparison_is_paired_by_seed() -> None:
    """Levels that vary by 40 between seeds hide nothing, because both trials of a seed share them."""
    verdict = decide(ORDER, TOY, pair([1.0, 1.1, 0.9, 1.0, 1.0]))
    assert verdict.verdict == "agrees"
    assert verdict.high - verdict.low < 0.2


def test_seeds_that_only_one_trial_has_are_left_out() -> None:
    measured = {"first": Measurements({1: 5.0, 2: 100.0}), "second": Measurements({1: 1.0, 3: -100.0})}
    verdict = decide(ORDER, TOY, measured)
    assert (verdict.measured, verdict.num_runs) == (4.0, 2)


# Order ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        ([0.9, 1.0, 1.1], "agrees"),  # 1 +- 0.25
        ([-0.9, -1.0, -1.1], "disagrees"),
        ([1.0, 2.0, 3.0], "undecided"),  # 2 +- 2.48
        ([-1.0, 0.0, 1.0], "undecided"),
    ],
    ids=str,
)
def test_order_is_decided_when_zero_lies_outside_the_interval(differences: list[float], word: str) -> None:
    assert decide(ORDER, TOY, pair(differences)).verdict == word


def test_lower_perplexity_is_the_better_one() -> None:
    lower = pair([-0.9, -1.0, -1.1])
    assert decide(LOWER, TOY, lower).verdict == "agrees"
    assert decide(ORDER, TOY, lower).verdict == "disagrees"
    assert decide(LOWER, TOY, pair([0.9, 1.0, 1.1])).verdict == "disagrees"
    assert decide(LOWER, TOY, lower).measured == pytest.approx(-1.0)


def test_undecided_order_says_how_many_seeds_would_settle_it() -> None:
    # Mean 2, spread 1: with three seeds 4.303 / sqrt(3) = 2.48 is too wide, with four 3.182 / sqrt(4) = 1.59 is not.
    assert seeds_needed(decide(ORDER, TOY, pair([1.0, 2.0, 3.0]))) == 4
    # Mean 1, spread 1: 2.571 / sqrt(6) = 1.05 with six, 2.447 / sqrt(7) = 0.92 with seven.
    assert seeds_needed(decide(ORDER, TOY, pair([0.0, 1.0, 2.0]))) == 7


def sample(num: int, mean: float, spread: float) -> list[float]:
    """Numbers with exactly this mean and standard deviation."""
    odd = num % 2
    step = spread * math.sqrt((num - 1) / (num - odd))
    return [mean] * odd + [mean - step, mean + step] * (num // 2)


@pytest.mark.parametrize(
    ("claim", "scale"),
    [(ORDER, TOY), (GAP, TOY), (VALUE, TOY_PAPER), (LOWER, TOY_PAPER)],
    ids=lambda value: value.name if isinstance(value, Scale) else value.kind,
)
@pytest.mark.parametrize("mean", [-1.7, 0.6, 1.05, 25.9])
def test_that_many_seeds_settle_it_at_that_spread_and_one_fewer_does_not(
    claim: Claim, scale: Scale, mean: float
) -> None:
    spread, num = 1.0, 3
    if claim.kind == "order" and mean > 20:
        spread = 25.0
    if claim is VALUE and mean < 20:
        mean += 25.8
    if claim is GAP and mean > 20:
        mean -= 25.0
    measured = one if claim is VALUE else pair
    verdict = decide(claim, scale, measured(sample(num, mean, spread)))
    assert verdict.verdict == "undecided"
    needed = seeds_needed(verdict)
    assert needed > num
    assert decide(claim, scale, measured(sample(needed, mean, spread))).verdict != "undecided"
    assert decide(claim, scale, measured(sample(needed - 1, mean, spread))).verdict == "undecided"


@pytest.mark.parametrize("differences", [[-1.0, 0.0, 1.0], [0.0, 0.0], [-1.0, 1.001]], ids=str)
def test_tie_that_no_number_of_seeds_would_settle_says_so(differences: list[float]) -> None:
    verdict = decide(ORDER, TOY, pair(differences))
    assert verdict.verdict == "undecided"
    assert verdict.reason.endswith("more than 1000 seeds would be needed at this spread")


# One seed -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("difference", "word"), [(2.8, "agrees"), (-2.8, "disagrees"), (2.7, "undecided")])
def test_single_seed_is_judged_by_the_spread_known_before(difference: float, word: str) -> None:
    # Two runs that each vary by 1 differ by sqrt(2): 1.96 x 1.414 = 2.772.
    verdict = decide(ORDER, TOY, pair([difference]))
    assert verdict.verdict == word
    assert verdict.high - difference == pytest.approx(1.95996 * math.sqrt(2), abs=1e-4)
    assert "1 seed, judged by the spread between seeds known before (1.4; made up)" in verdict.reason


def test_single_seed_of_a_value_varies_by_the_prior_itself() -> None:
    verdict = decide(VALUE, TOY_PAPER, one([28.5]))
    assert (verdict.low, verdict.high) == pytest.approx((28.5 - 1.95996, 28.5 + 1.95996), abs=1e-4)
    assert verdict.verdict == "not reproduced"


def test_undecided_single_seed_says_how_many_would_settle_it_at_the_prior() -> None:
    # Spread 1.414, gap 2: 3.182 x 1.414 / 2 = 2.25 with four, 2.776 x 1.414 / sqrt(5) = 1.76 with five.
    assert seeds_needed(decide(ORDER, TOY, pair([2.0]))) == 5


# Equivalence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([25.7, 25.8, 25.9], "reproduced"),  # 25.8 +- 0.25 lies within 25.3 .. 26.3
        ([23.9, 24.0, 24.1], "not reproduced"),  # 24 +- 0.25 lies outside
        ([27.9, 28.0, 28.1], "not reproduced"),  # too good is not reproduced either
        ([26.2, 26.3, 26.4], "undecided"),  # 26.3 +- 0.25 straddles the edge
        ([24.8, 25.8, 26.8], "undecided"),  # 25.8 +- 2.48 is too wide to tell
    ],
    ids=str,
)
def test_value_is_reproduced_when_the_interval_lies_within_the_margin(values: list[float], word: str) -> None:
    assert decide(VALUE, TOY_PAPER, one(values)).verdict == word


def test_difference_is_an_equivalence_and_below_paper_scale_too() -> None:
    assert decide(GAP, TOY, pair([0.8, 0.9, 1.0])).verdict == "agrees"
    assert decide(GAP, TOY, pair([2.0, 2.1, 2.2])).verdict == "disagrees"
    assert decide(GAP, TOY, pair([-0.8, -0.9, -1.0])).verdict == "disagrees"
    assert decide(GAP, TOY, pair([0.0, 0.9, 1.8])).verdict == "undecided"


def test_no_significant_difference_is_no_proof_of_equality() -> None:
    """A wide interval around 0 must not count as "nearly identical"."""
    same = replace(GAP, expected=0.0)
    assert decide(same, TOY, pair([-3.0, 0.0, 3.0])).verdict == "undecided"


# Words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
@pytest.mark.parametrize("claim", [ORDER, LOWER, GAP], ids=lambda claim: claim.id)
def test_words_are_reproduced_at_paper_scale_and_agrees_elsewhere(claim: Claim, scale: Scale) -> None:
    good = {ORDER: 0.9, LOWER: -0.9, GAP: 0.9}[claim]
    words = ("reproduced", "not reproduced") if scale.name == "paper" else ("agrees", "disagrees")
    held, broken = (decide(claim, scale, pair([x, x + 0.01, x - 0.01])).verdict for x in (good, -good))
    assert (held, broken) == words


@pytest.mark.parametrize("values", [[25.8], [25.8, 25.8, 25.8], [0.0, 0.1]], ids=str)
def test_value_below_paper_scale_is_not_comparable_but_shown(values: list[float]) -> None:
    verdict = decide(VALUE, TOY, one(values))
    assert verdict.verdict == "not comparable"
    assert verdict.measured == pytest.approx(sum(values) / len(values))
    assert "another data set and size than scale smoke" in verdict.reason


def test_every_word_is_one_that_the_database_knows() -> None:
    words = {
        decide(claim, scale, measured, computed=65.0, blocked=blocked).verdict
        for claim in (ORDER, LOWER, VALUE, GAP, EXACT)
        for scale in SCALES
        for measured in ({}, one([1.0]), pair([1.0]), pair([0.0, 1.0, 2.0]), pair([30.0, 30.1]))
        for blocked in (None, "no corpus")
    }
    assert words <= set(VERDICTS)
    assert len(words) >= 7


# Failed, blocked, not run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [ORDER, LOWER, VALUE, GAP], ids=lambda claim: claim.id)
@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_failed_seeds_never_hold_a_claim(claim: Claim, scale: Scale) -> None:
    """What is left after failures is a selection, however clear it looks."""
    good = 25.8 if claim is VALUE else -0.9 if claim is LOWER else 0.9
    values = [good + 0.001 * seed for seed in range(5)]
    measured = one(values) if claim is VALUE else pair(values)
    assert decide(claim, scale, measured).verdict in ("reproduced", "agrees", "not comparable")
    for trial in claim.trials:
        failing = measured | {trial: replace(measured[trial], failed_seeds=(6, 7))}
        verdict = decide(claim, scale, failing)
        assert verdict.verdict in ("undecided", "not comparable")
        if verdict.verdict == "undecided":
            assert verdict.reason == "2 seed(s) failed (6, 7), so the rest is a selection"


def test_claim_whose_seeds_all_failed_is_undecided_and_has_no_value() -> None:
    measured = {"first": Measurements({1: 5.0}), "second": Measurements({}, failed_seeds=(1,))}
    verdict = decide(ORDER, TOY, measured)
    assert verdict.verdict == "undecided"
    assert verdict.reason == "1 seed(s) failed (1), none is done of first and second"
    assert (verdict.measured, verdict.low, verdict.high, verdict.num_runs) == (None, None, None, 0)


@pytest.mark.parametrize("claim", [ORDER, LOWER, VALUE, GAP], ids=lambda claim: claim.id)
def test_blocked_says_what_is_missing_and_is_neither_failed_nor_zero(claim: Claim) -> None:
    verdict = decide(
        claim, PAPER, {}, blocked="corpus wmt14 en-de is not here; get it with: aiayn data fetch wmt14 --pair en-de"
    )
    assert verdict == Verdict(
        "blocked", "corpus wmt14 en-de is not here; get it with: aiayn data fetch wmt14 --pair en-de"
    )
    assert verdict.measured is None


def test_runs_that_exist_are_judged_even_where_new_ones_are_blocked() -> None:
    assert decide(ORDER, TOY_PAPER, pair([0.9, 1.0, 1.1]), blocked="no corpus").verdict == "reproduced"


@pytest.mark.parametrize(
    ("measured", "missing"),
    [
        ({}, "first, second"),
        ({"first": by_seed([1.0])}, "second"),
        ({"second": by_seed([1.0])}, "first"),
        ({"first": Measurements({1: 1.0}), "second": Measurements({2: 1.0})}, "both trials with one seed"),
    ],
    ids=["neither", "first only", "second only", "other seeds"],
)
def test_claim_without_runs_is_not_run_and_says_which(measured: Mapping[str, Measurements], missing: str) -> None:
    assert decide(ORDER, TOY, measured) == Verdict("not run", f"no finished run of {missing}")


# Exact ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("computed", "word"),
    [
        (65.07, "reproduced"),
        (65.5, "reproduced"),
        (64.5, "reproduced"),
        (65.51, "not reproduced"),
        (63.05, "not reproduced"),
    ],
)
@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
def test_exact_claim_needs_no_run_and_is_decided_on_any_machine(scale: Scale, computed: float, word: str) -> None:
    verdict = decide(EXACT, scale, {}, computed, blocked="no corpus")
    assert verdict.verdict == word
    assert verdict.measured == verdict.low == verdict.high == computed
    assert verdict.num_runs == 0


# Properties -----------------------------------------------------------------------------------------------------------

# The first call imports scipy; and a tie looks through a thousand numbers of seeds.
quickly = settings(deadline=None, max_examples=60)
# Whole numbers, so that sums are exact and no verdict turns on the last digit.
whole_pairs = st.lists(st.tuples(st.integers(-30, 30), st.integers(-30, 30)), min_size=1, max_size=8)
comparisons = st.sampled_from([claim for claim in STUDY.claims if len(claim.trials) == 2])


def measured_pairs(claim: Claim, pairs: Mapping[int, tuple[int, int]], plus: int = 0) -> dict[str, Measurements]:
    return {
        trial: Measurements({seed: float(values[side] + plus) for seed, values in pairs.items()})
        for side, trial in enumerate(claim.trials)
    }


@quickly
@given(comparisons, st.sampled_from(SCALES), whole_pairs, st.randoms(use_true_random=False))
def test_order_of_seeds_changes_nothing(claim: Claim, scale: Scale, pairs: list, random) -> None:
    seeds = list(range(1, len(pairs) + 1))
    straight = decide(claim, scale, measured_pairs(claim, dict(zip(seeds, pairs, strict=True))))
    random.shuffle(seeds)
    assert decide(claim, scale, measured_pairs(claim, dict(zip(seeds, pairs, strict=True)))) == straight


@quickly
@given(comparisons, st.sampled_from(SCALES), whole_pairs, st.integers(-1_000, 1_000))
def test_what_both_trials_gain_changes_nothing(claim: Claim, scale: Scale, pairs: list, plus: int) -> None:
    by_seed = dict(enumerate(pairs, start=1))
    moved = decide(claim, scale, measured_pairs(claim, by_seed, plus))
    assert moved == decide(claim, scale, measured_pairs(claim, by_seed))


@quickly
@given(st.sampled_from([ORDER, LOWER]), whole_pairs)
def test_swapped_trials_turn_the_order_round(claim: Claim, pairs: list) -> None:
    by_seed = dict(enumerate(pairs, start=1))
    straight = decide(claim, TOY, measured_pairs(claim, by_seed))
    swapped = decide(claim, TOY, measured_pairs(claim, {seed: (b, a) for seed, (a, b) in by_seed.items()}))
    opposite = {"agrees": "disagrees", "disagrees": "agrees", "undecided": "undecided"}
    assert swapped.verdict == opposite[straight.verdict]
    assert (swapped.low, swapped.measured, swapped.high) == (-straight.high, -straight.measured, -straight.low)


@quickly
@given(comparisons, st.sampled_from(SCALES), whole_pairs)
def test_interval_holds_the_measured_value_and_no_verdict_is_without_reason(
    claim: Claim, scale: Scale, pairs: list
) -> None:
    verdict = decide(claim, scale, measured_pairs(claim, dict(enumerate(pairs, start=1))))
    if verdict.low is None:
        assert verdict.verdict == "undecided"
    else:
        assert verdict.low <= verdict.measured <= verdict.high
    assert verdict.reason
    assert "\n" not in verdict.reason


# Identity before value ------------------------------------------------------------------------------------------------


def test_scores_of_different_protocols_are_not_compared() -> None:
    measured = {
        "first": Measurements({1: 30.0}, protocols=frozenset({"newstest tok:13a"})),
        "second": Measurements({1: 20.0}, protocols=frozenset({"newstest tok:intl"})),
    }
    verdict = decide(ORDER, TOY, measured)
    assert verdict.verdict == "not comparable"
    assert "newstest tok:13a and newstest tok:intl" in verdict.reason


def test_runs_of_different_code_decide_nothing() -> None:
    measured = {
        "first": Measurements({1: 30.0}, code_versions=frozenset({"aaaa"})),
        "second": Measurements({1: 20.0}, code_versions=frozenset({"bbbb"})),
    }
    verdict = decide(ORDER, TOY, measured)
    assert verdict.verdict == "undecided"
    assert "aaaa, bbbb" in verdict.reason


# What is known beforehand ---------------------------------------------------------------------------------------------


def test_one_seed_decides_nothing_where_no_spread_is_known() -> None:
    verdict = decide(ORDER, replace(TOY, seed_spread={}), pair([100.0]))
    assert (verdict.verdict, verdict.low, verdict.high) == ("undecided", None, None)
    assert "at least 2 seeds" in verdict.reason


def test_a_spread_measured_with_few_seeds_is_trusted_less() -> None:
    """With 4 seeds behind it, the half width is t(3 degrees) = 3.182 times sqrt(2), not 1.96 times."""
    scale = replace(TOY, seed_spread={"dev_bleu": SeedSpread(1.0, 4, "four seeds")})
    verdict = decide(ORDER, scale, pair([4.0]))
    assert verdict.low == pytest.approx(4.0 - 3.182 * math.sqrt(2), abs=2e-3)
    assert verdict.verdict == "undecided"


def test_equal_numbers_from_two_seeds_are_no_proof_that_seeds_do_not_differ() -> None:
    assert decide(ORDER, replace(TOY, seed_spread={}), pair([0.01, 0.01])).verdict == "undecided"
    verdict = decide(ORDER, TOY, pair([0.01, 0.01]))
    assert verdict.verdict == "undecided"
    assert "2 equal seeds" in verdict.reason
