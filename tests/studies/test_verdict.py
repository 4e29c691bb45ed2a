"""Verdicts as a pure function of claims, scales and measurements, against values worked by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from results.records import VERDICTS
from studies.claim import METRICS, Budget, Claim, Identity
from studies.inference import Spread
from studies.measurements import Measurements, ScoreIdentity
from studies.registry import STUDIES
from studies.scales import PAPER, SCALES, SMOKE, Scale, SeedSpread
from studies.verdict import Question, Verdict, decide, decide_family

ORDER = Claim("s.order", "cell", "first is better", "order", "dev_bleu", ("first", "second"), "6.2")
LOWER = replace(ORDER, id="s.lower", metric="dev_ppl")
GAP = Claim("s.gap", "cell", "0.9 apart", "difference", "dev_bleu", ("first", "second"), "6.2", 0.9, 0.5)
ABOVE = Claim("s.above", "cell", "beats 26.4", "threshold", "dev_bleu", ("first",), "6.1", 26.4, bound=">")
BELOW = Claim("s.below", "cell", "faster", "threshold", "time_ratio", ("first",), "4", 1.0, bound="<")
GROWTH = Claim("s.growth", "cell", "grows as n^2", "exponent", "time_exponent", ("first",), "Table 1", 2.0, 0.25)
EXACT = Claim(
    "s.exact",
    "cell",
    "65 million",
    "exact",
    "params_millions",
    ("first",),
    "Table 3",
    65.0,
    0.5,
    compute=lambda: 65.07,
)
QUOTED = Claim("s.quoted", "cell", "GNMT: 24.6", "value", "test_bleu", (), "Table 2", 24.6, quoted=True)

BUDGET = Budget(25_000, 25_000, 100_000)
PROTOCOL = "tok:moses-de|smooth:none"
SIGNATURE = "nrefs:1|case:mixed|tok:moses-de|smooth:none|version:2.6.0"
IDENTITY = Identity("wmt14/newstest2014/en-de", 3_003, PROTOCOL, (BUDGET,))
PAIR_IDENTITY = replace(IDENTITY, budgets=(BUDGET, BUDGET))
VALUE = Claim("s.value", "cell", "reaches 25.8", "value", "dev_bleu", ("first",), "Table 3", 25.8, 0.5, None, IDENTITY)
MEASURED = {
    "identities": frozenset({ScoreIdentity(IDENTITY.dataset, 3_003, SIGNATURE, "data")}),
    "budgets": frozenset({BUDGET}),
}

# A spread of 1 between seeds, from 4 of them: a single seed's half width is t(3 degrees, 99%) = 5.841.
MADE_UP = SeedSpread(1.0, 4, "made up")
KNOWN = replace(SMOKE, seed_spread={"dev_bleu": MADE_UP, "dev_ppl": MADE_UP})
KNOWN_PAPER = replace(PAPER, seed_spread=KNOWN.seed_spread)
UNKNOWN = replace(SMOKE, seed_spread={})
UNKNOWN_PAPER = replace(PAPER, seed_spread={})
# Two-sided points of Student's t by degrees of freedom, from printed tables.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
T99 = {1: 63.657, 2: 9.925, 3: 5.841, 4: 4.604}


def by_seed(values: Sequence[float]) -> Measurements:
    return Measurements(dict(enumerate(values, start=1)), **MEASURED)


def pair(differences: Sequence[float]) -> dict[str, Measurements]:
    """Two trials whose values differ by these numbers, seed by seed, at levels of their own."""
    second = [10.0 * seed for seed in range(len(differences))]
    return {
        "first": by_seed([b + difference for b, difference in zip(second, differences, strict=True)]),
        "second": by_seed(second),
    }


def one(values: Sequence[float]) -> dict[str, Measurements]:
    return {"first": by_seed(values)}


def judge(claim: Claim, scale: Scale, measured: Mapping[str, Measurements], **more) -> Verdict:
    return decide(Question(claim, scale, measured, **more))


def seeds_needed(verdict: Verdict) -> int:
    (number,) = re.findall(r"; (\d+) seeds would settle it at this spread", verdict.reason)
    return int(number)


# Intervals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "mean", "error"),
    [
        ([1.0, 3.0], 2.0, 1.0),
        ([1.0, 2.0, 3.0], 2.0, 1 / math.sqrt(3)),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 3.0, math.sqrt(0.5)),
    ],
    ids=["n=2", "n=3", "n=5"],
)
def test_interval_is_students_t_worked_by_hand(values: list[float], mean: float, error: float) -> None:
    """Of a difference at 95%; of one trial, whose skew nothing cancels, at 99%."""
    degrees = len(values) - 1
    cases = ((ORDER, pair(values), T95), (GAP, pair(values), T95), (VALUE, one(values), T99), (ABOVE, one(values), T99))
    for claim, measured, t in cases:
        verdict = judge(claim, UNKNOWN_PAPER, measured)
        assert verdict.measured == pytest.approx(mean)
        assert verdict.low == pytest.approx(mean - t[degrees] * error, abs=2e-3)
        assert verdict.high == pytest.approx(mean + t[degrees] * error, abs=2e-3)
        assert verdict.num_runs == len(values) * len(claim.trials)


def test_comparison_is_paired_by_seed() -> None:
    """Levels that vary by 40 between seeds hide nothing, because both trials of a seed share them."""
    verdict = judge(ORDER, UNKNOWN, pair([1.0, 1.1, 0.9, 1.0, 1.0]))
    assert verdict.verdict == "agrees"
    assert verdict.high - verdict.low < 0.2


def test_seeds_that_only_one_trial_has_are_left_out() -> None:
    measured = {"first": Measurements({1: 5.0, 2: 100.0}), "second": Measurements({1: 1.0, 3: -100.0})}
    verdict = judge(ORDER, KNOWN, measured)
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
    verdict = judge(ORDER, UNKNOWN, pair(differences))
    assert verdict.verdict == verdict.alone == word
    assert verdict.family_size == 1
    sided = "greater" if sum(differences) > 0 else "less"
    assert verdict.p_value == pytest.approx(stats.ttest_1samp(differences, 0.0, alternative=sided).pvalue)
    assert verdict.p_adjusted == verdict.p_value


def test_lower_perplexity_is_the_better_one() -> None:
    lower = pair([-0.9, -1.0, -1.1])
    assert judge(LOWER, UNKNOWN, lower).verdict == "agrees"
    assert judge(ORDER, UNKNOWN, lower).verdict == "disagrees"
    assert judge(LOWER, UNKNOWN, pair([0.9, 1.0, 1.1])).verdict == "disagrees"
    assert judge(LOWER, UNKNOWN, lower).measured == pytest.approx(-1.0)


def test_reason_of_a_difference_shows_the_spread_of_the_difference() -> None:
    reason = judge(ORDER, UNKNOWN, pair([0.9, 1.0, 1.1])).reason
    assert reason == "first minus second: +1 BLEU; 3 seeds, spread of the difference 0.1; p 0.0017"


# The spread that is known before --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("difference", "word"), [(8.3, "agrees"), (-8.3, "disagrees"), (8.2, "undecided")])
def test_single_seed_is_judged_by_the_spread_known_before(difference: float, word: str) -> None:
    # Two runs that each vary by 1 differ by sqrt(2): 5.841 x 1.414 = 8.26.
    verdict = judge(ORDER, KNOWN, pair([difference]))
    assert verdict.verdict == word
    assert verdict.high - difference == pytest.approx(T99[3] * math.sqrt(2), abs=1e-3)
    assert "1 seed, judged by a spread of the difference of 1.4 (√2 × 1 between seeds: made up)" in verdict.reason


def test_single_seed_of_a_value_varies_by_the_known_spread_itself() -> None:
    verdict = judge(VALUE, KNOWN_PAPER, one([35.0]))
    assert (verdict.low, verdict.high) == pytest.approx((35.0 - T99[3], 35.0 + T99[3]), abs=1e-3)
    assert verdict.verdict == "not reproduced"
    assert "1 seed, judged by a spread of 1 (made up)" in verdict.reason


def test_few_seeds_that_happen_to_agree_are_judged_by_the_spread_known_before() -> None:
    """0.01 and 0.02 look certain; the known spread says that they are luck."""
    verdict = judge(ORDER, KNOWN, pair([0.01, 0.02]))
    assert verdict.verdict == "undecided"
    assert verdict.high - verdict.measured == pytest.approx(T95[3], abs=1e-3)  # t(3) x sqrt(2) / sqrt(2)
    basis = "2 seeds, spread of the difference 0.0071, judged by one of 1.4 (√2 × 1 between seeds: made up)"
    assert basis in verdict.reason


def test_a_spread_measured_with_few_seeds_is_trusted_less() -> None:
    """The known spread's own degrees of freedom count: 2 seeds behind it ask for more than 4, and 4 for more than 31;
    a source that does not say how many it had is trusted like one of 4.
    """
    halves = {}
    for num_seeds in (2, 4, None, 31):
        scale = replace(SMOKE, seed_spread={"dev_bleu": SeedSpread(1.0, num_seeds, "made up")})
        verdict = judge(ORDER, scale, pair([4.0]))
        halves[num_seeds] = verdict.high - 4.0
    assert halves[2] == pytest.approx(T99[1] * math.sqrt(2), abs=1e-2)
    assert halves[4] == halves[None] == pytest.approx(T99[3] * math.sqrt(2), abs=1e-3)
    assert halves[31] == pytest.approx(2.750 * math.sqrt(2), abs=1e-3)


@pytest.mark.parametrize(
    ("differences", "seeds"), [([100.0], "1 seed tells"), ([0.01, 0.01], "2 equal seeds tell")], ids=str
)
def test_nothing_is_decided_where_no_spread_is_known(differences: list[float], seeds: str) -> None:
    verdict = judge(ORDER, UNKNOWN, pair(differences))
    assert (verdict.verdict, verdict.low, verdict.high, verdict.p_value) == ("undecided", None, None, None)
    assert f"{seeds} nothing about the spread, and none is known at scale smoke" in verdict.reason


# Equivalence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([25.75, 25.8, 25.85], "reproduced"),  # 25.8 +- 0.29 lies within 25.3 .. 26.3
        ([23.9, 24.0, 24.1], "not reproduced"),  # 24 +- 0.57 lies outside
        ([27.9, 28.0, 28.1], "not reproduced"),  # too good is not reproduced either
        ([26.2, 26.3, 26.4], "undecided"),  # straddles the edge
        ([24.8, 25.8, 26.8], "undecided"),  # too wide to tell
    ],
    ids=str,
)
def test_value_is_reproduced_when_the_interval_lies_within_the_margin(values: list[float], word: str) -> None:
    assert judge(VALUE, UNKNOWN_PAPER, one(values)).verdict == word


def test_p_value_of_an_equivalence_is_the_larger_of_two_one_sided_tests() -> None:
    differences = [0.8, 0.9, 1.1]
    verdict = judge(GAP, UNKNOWN, pair(differences))
    above = stats.ttest_1samp(differences, 0.4, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, 1.4, alternative="less").pvalue
    assert verdict.p_value == pytest.approx(max(above, below))
    outside = judge(GAP, UNKNOWN, pair([2.0, 2.1, 2.2]))
    assert outside.verdict == "disagrees"
    assert outside.p_value == pytest.approx(2 * stats.ttest_1samp([2.0, 2.1, 2.2], 1.4, alternative="greater").pvalue)


def test_difference_is_an_equivalence_and_below_paper_scale_too() -> None:
    assert judge(GAP, UNKNOWN, pair([0.8, 0.9, 1.0])).verdict == "agrees"
    assert judge(GAP, UNKNOWN, pair([2.0, 2.1, 2.2])).verdict == "disagrees"
    assert judge(GAP, UNKNOWN, pair([-0.8, -0.9, -1.0])).verdict == "disagrees"
    assert judge(GAP, UNKNOWN, pair([0.0, 0.9, 1.8])).verdict == "undecided"


def test_no_significant_difference_is_no_proof_of_equality() -> None:
    """A wide interval around 0 must not count as "nearly identical"."""
    same = replace(GAP, expected=0.0)
    assert judge(same, UNKNOWN, pair([-3.0, 0.0, 3.0])).verdict == "undecided"


# Threshold and exponent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "values", "word"),
    [
        (ABOVE, [28.3, 28.4, 28.5], "agrees"),  # 28.4 +- 0.57, above 26.4
        (ABOVE, [24.3, 24.4, 24.5], "disagrees"),
        (ABOVE, [26.4, 26.5, 26.6], "undecided"),
        (BELOW, [0.49, 0.50, 0.51], "agrees"),
        (BELOW, [1.49, 1.50, 1.51], "disagrees"),
    ],
    ids=lambda value: value.id if isinstance(value, Claim) else str(value),
)
def test_threshold_is_one_sided(claim: Claim, values: list[float], word: str) -> None:
    verdict = judge(claim, UNKNOWN, one(values))
    assert verdict.verdict == word
    if word != "undecided":
        sided = "greater" if (sum(values) / 3 > claim.expected) else "less"
        p = stats.ttest_1samp(values, claim.expected, alternative=sided).pvalue
        assert verdict.p_value == pytest.approx(min(1.0, 5 * p))


def test_threshold_on_a_difference_is_about_first_minus_second() -> None:
    by_two = Claim("s.by2", "cell", "2 better", "threshold", "dev_bleu", ("first", "second"), "6.1", 2.0, bound=">")
    assert judge(by_two, UNKNOWN, pair([2.4, 2.5, 2.6])).verdict == "agrees"
    assert judge(by_two, UNKNOWN, pair([1.4, 1.5, 1.6])).verdict == "disagrees"
    assert "first minus second: +2.5 BLEU against > 2" in judge(by_two, UNKNOWN, pair([2.4, 2.5, 2.6])).reason


def test_exponent_of_one_run_is_judged_by_the_error_of_its_fit() -> None:
    def fitted(error: float, degrees: int = 30) -> dict[str, Measurements]:
        return {"first": Measurements({1: 1.95}, own_errors={1: Spread(error, degrees)})}

    # t(30, 99%) = 2.750: 1.95 +- 0.083 lies within 1.75 .. 2.25, 1.95 +- 0.275 does not.
    verdict = judge(GROWTH, UNKNOWN, fitted(0.03))
    assert (verdict.verdict, verdict.low) == ("agrees", pytest.approx(1.95 - 0.0825, abs=1e-4))
    assert "1 seed, judged by a spread of 0.03 (the error of a run's own value)" in verdict.reason
    assert judge(GROWTH, UNKNOWN, fitted(0.1)).verdict == "undecided"
    assert judge(GROWTH, UNKNOWN, {"first": Measurements({1: 1.95})}).verdict == "undecided"


def test_exponents_of_several_runs_are_judged_by_the_larger_of_their_spread_and_the_fits() -> None:
    fits = {1: Spread(0.03, 4), 2: Spread(0.04, 4)}
    verdict = judge(GROWTH, UNKNOWN, {"first": Measurements({1: 1.95, 2: 1.951}, own_errors=fits)})
    error = math.sqrt((0.03**2 + 0.04**2) / 2) / math.sqrt(2)
    assert verdict.high - verdict.measured == pytest.approx(stats.t.ppf(0.975, 8) * error)
    apart = judge(GROWTH, UNKNOWN, {"first": Measurements({1: 1.5, 2: 2.5}, own_errors=fits)})
    assert apart.verdict == "undecided"


# Exact and counted ----------------------------------------------------------------------------------------------------


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
def test_exact_claim_needs_no_run_and_is_decided_on_any_machine(computed: float, word: str) -> None:
    claim = replace(EXACT, compute=lambda: computed)
    verdict = judge(claim, PAPER, {}, blocked="no corpus")
    assert verdict.verdict == word
    assert verdict.measured == verdict.low == verdict.high == computed
    assert (verdict.num_runs, verdict.family_size) == (0, 0)


@pytest.mark.parametrize(
    ("bound", "computed", "word"),
    [
        (">", 2.0, "not reproduced"),
        (">=", 2.0, "reproduced"),
        ("<", 2.0, "not reproduced"),
        ("<=", 2.0, "reproduced"),
        (">", 2.04, "reproduced"),
        ("<", 2.04, "not reproduced"),
    ],
)
def test_computed_threshold_takes_its_bound_by_the_letter(bound: str, computed: float, word: str) -> None:
    claim = replace(ABOVE, bound=bound, expected=2.0, trials=(), compute=lambda: computed)
    assert judge(claim, PAPER, {}).verdict == word


def test_rounding_in_the_last_digits_does_not_fail_an_exact_claim() -> None:
    claim = replace(EXACT, expected=0.3, tolerance=0.0, compute=lambda: 0.1 + 0.2)
    assert judge(claim, PAPER, {}).verdict == "reproduced"


def test_count_that_no_seed_changes_is_decided_by_one_run() -> None:
    path = Claim("s.path", "cell", "6 layers", "value", "path_length", ("first",), "Table 1", 6, 0.0)
    assert METRICS["path_length"].counted
    verdict = judge(path, UNKNOWN, one([6.0]))
    assert (verdict.verdict, verdict.low, verdict.high, verdict.num_runs) == ("agrees", 6.0, 6.0, 1)
    assert judge(path, UNKNOWN, one([7.0, 7.0])).verdict == "disagrees"
    assert judge(path, UNKNOWN, one([6.0, 7.0])).verdict == "undecided"  # it was no count after all


def test_counts_of_two_trials_are_an_order_at_once_unless_they_are_equal() -> None:
    fewer = replace(ORDER, metric="counted_flops")
    assert METRICS["counted_flops"].counted
    counts = {trial: Measurements({1: value}) for trial, value in (("first", 2.0), ("second", 3.0))}
    verdict = judge(fewer, UNKNOWN, counts)
    assert (verdict.verdict, verdict.reason) == (
        "agrees",
        "counted: first minus second: -1 FLOPs, the same in every run",
    )
    assert judge(fewer, UNKNOWN, counts | {"second": Measurements({1: 2.0})}).verdict == "disagrees"


def test_a_difference_that_is_rounding_alone_is_decided_though_seeds_round_otherwise() -> None:
    equal = Claim("s.equal", "cell", "equal", "value", "output_difference", ("first",), "3.3", 0.0, 1e-6)
    assert judge(equal, UNKNOWN, one([1.4e-15, 1.2e-15])).verdict == "agrees"
    assert judge(equal, UNKNOWN, one([1e-3])).verdict == "disagrees"


def test_the_error_of_a_mean_within_runs_judges_a_difference_of_two_trials() -> None:
    """Each mean's error is its own: together the root of the sum of their squares, with both degrees of freedom."""
    errors = {"first": Spread(0.03, 4), "second": Spread(0.04, 4)}
    measured = {
        trial: Measurements({1: value}, own_errors={1: errors[trial]})
        for trial, value in (("first", 0.9), ("second", 0.5))
    }
    verdict = judge(ORDER, UNKNOWN, measured)
    assert verdict.verdict == "agrees"
    # One seed: a 99% interval takes the place of the 95% one.
    assert verdict.high - verdict.measured == pytest.approx(stats.t.ppf(0.995, 8) * 0.05)
    untold = measured | {"second": Measurements({1: 0.5})}
    assert judge(ORDER, UNKNOWN, untold).verdict == "undecided"  # one of them does not tell its error


# Families -------------------------------------------------------------------------------------------------------------


def family(*differences: Sequence[float]) -> list[Question]:
    return [
        Question(replace(ORDER, id=f"s.{number}"), UNKNOWN, pair(values)) for number, values in enumerate(differences)
    ]


def test_claims_are_corrected_for_their_number_by_holm() -> None:
    """Three claims need p up to 0.025 / 3, / 2 and / 1."""
    raw = [[0.9, 1.0, 1.1], [0.7, 1.0, 1.3], [0.5, 1.0, 1.5]]
    p = [stats.ttest_1samp(values, 0.0, alternative="greater").pvalue for values in raw]
    assert p == pytest.approx([0.00165, 0.0143, 0.0371], abs=1e-4)
    verdicts = decide_family(family(*raw))
    assert [verdict.p_value for verdict in verdicts] == pytest.approx(p)
    assert [verdict.p_adjusted for verdict in verdicts] == pytest.approx([3 * p[0], 2 * p[1], p[2]])
    assert [verdict.alone for verdict in verdicts] == ["agrees", "agrees", "undecided"]
    assert [verdict.verdict for verdict in verdicts] == ["agrees", "undecided", "undecided"]
    assert {verdict.family_size for verdict in verdicts} == {3}
    assert verdicts[0].reason.endswith("; p 0.0017, as one of 3 claims 0.005")
    middle = "; p 0.014, as one of 3 claims 0.029, where 0.025 is needed; alone it would be agrees; "
    assert middle in verdicts[1].reason
    # The interval stays that of the claim alone.
    assert verdicts[1].low == decide(family(raw[1])[0]).low > 0


def test_claims_against_are_a_family_of_their_own() -> None:
    """Ten claims that fail clearly do not make it easier for one to hold."""
    clear, faint = [[-0.9, -1.0, -1.1]] * 10, [0.7, 1.0, 1.3]
    *against, last = decide_family(family(*clear, faint))
    assert {verdict.verdict for verdict in against} == {"disagrees"}
    assert last.verdict == "undecided"
    assert last.p_adjusted == pytest.approx(11 * last.p_value)
    # With as many that hold, it stands alone and needs no more than it would by itself.
    *_, last = decide_family(family(*[[0.9, 1.0, 1.1]] * 2, [0.75, 1.0, 1.25]))
    assert last.verdict == "agrees"


def test_only_what_is_tested_is_in_the_family() -> None:
    """Exact claims leave nothing to chance; what is quoted, not run, not comparable or failed is not tested."""
    tested = family([0.9, 1.0, 1.1])
    failed = {"first": Measurements({1: 1.0}, {2: "failed"}), "second": by_seed([0.0])}
    others = [
        Question(EXACT, PAPER),
        Question(QUOTED, PAPER),
        Question(ORDER, UNKNOWN),
        Question(VALUE, UNKNOWN, one([1.0, 2.0])),
        Question(GAP, UNKNOWN, failed),
    ]
    verdicts = decide_family([*others[:2], *tested, *others[2:]])
    assert [verdict.family_size for verdict in verdicts] == [0, 0, 1, 0, 0, 0]
    assert verdicts[2] == decide(tested[0])


def test_family_of_nothing_is_nothing() -> None:
    assert decide_family([]) == []


# How many seeds -------------------------------------------------------------------------------------------------------


def sample(num: int, mean: float, spread: float) -> list[float]:
    """Numbers with exactly this mean and standard deviation."""
    odd = num % 2
    step = spread * math.sqrt((num - 1) / (num - odd))
    return [mean] * odd + [mean - step, mean + step] * (num // 2)


def test_undecided_order_says_how_many_seeds_would_settle_it() -> None:
    # Mean 2, spread 1: with three seeds 4.303 / sqrt(3) = 2.48 is too wide, with four 3.182 / sqrt(4) = 1.59 is not.
    assert seeds_needed(judge(ORDER, UNKNOWN, pair([1.0, 2.0, 3.0]))) == 4
    # Mean 1, spread 1: 2.571 / sqrt(6) = 1.05 with six, 2.447 / sqrt(7) = 0.92 with seven.
    assert seeds_needed(judge(ORDER, UNKNOWN, pair([0.0, 1.0, 2.0]))) == 7
    # One seed of two, judged by sqrt(2): 3.182 (t of the 3 degrees behind it) x 1.414 / sqrt(n) < 2 from n = 6 on,
    # t(5) = 2.571.
    assert seeds_needed(judge(ORDER, KNOWN, pair([2.0]))) == 5


@pytest.mark.parametrize("family_size", [1, 7])
@pytest.mark.parametrize(
    ("claim", "scale", "mean"),
    [
        (ORDER, UNKNOWN, 1.05),
        (ORDER, KNOWN, -1.7),
        (GAP, UNKNOWN, 0.95),
        (GAP, KNOWN, -1.0),
        (VALUE, UNKNOWN_PAPER, 27.9),
        (VALUE, KNOWN_PAPER, 25.9),
        (LOWER, UNKNOWN_PAPER, -1.05),
        (ABOVE, KNOWN, 25.2),
    ],
    ids=lambda value: value.name if isinstance(value, Scale) else getattr(value, "id", str(value)),
)
def test_that_many_seeds_settle_it_at_that_spread_and_one_fewer_does_not(
    claim: Claim, scale: Scale, mean: float, family_size: int
) -> None:
    measured = one if len(claim.trials) == 1 else pair
    blind = [Question(replace(ORDER, id=f"s.{k}"), UNKNOWN, pair([-1.0, 0.0, 1.0])) for k in range(family_size - 1)]

    def verdict_with(num: int) -> Verdict:
        spread = 1.0 if scale.seed_spread == {} or len(claim.trials) == 1 else math.sqrt(2)
        return decide_family([Question(claim, scale, measured(sample(num, mean, spread))), *blind])[0]

    verdict = verdict_with(3)
    assert verdict.verdict == "undecided"
    needed = seeds_needed(verdict)
    assert needed > 3
    assert verdict_with(needed).verdict != "undecided"
    if needed > 4:
        assert verdict_with(needed - 1).verdict == "undecided"
    if family_size > 1:
        assert verdict.reason.endswith("seeds would settle it at this spread and correction")


@pytest.mark.parametrize("differences", [[-1.0, 0.0, 1.0], [-1.0, 1.001]], ids=str)
def test_tie_that_no_number_of_seeds_would_settle_says_so(differences: list[float]) -> None:
    verdict = judge(ORDER, UNKNOWN, pair(differences))
    assert verdict.verdict == "undecided"
    assert verdict.reason.endswith("more than 1000 seeds would be needed at this spread")


# Words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
@pytest.mark.parametrize("claim", [ORDER, LOWER, GAP], ids=lambda claim: claim.id)
def test_words_are_reproduced_at_paper_scale_and_agrees_elsewhere(claim: Claim, scale: Scale) -> None:
    good = {ORDER: 0.9, LOWER: -0.9, GAP: 0.9}[claim]
    words = ("reproduced", "not reproduced") if scale.name == "paper" else ("agrees", "disagrees")
    plain = replace(scale, seed_spread={})
    held, broken = (judge(claim, plain, pair([x, x + 0.01, x - 0.01])).verdict for x in (good, -good))
    assert (held, broken) == words


def test_every_word_is_one_that_the_database_knows() -> None:
    words = {
        judge(claim, scale, measured, blocked=blocked).verdict
        for claim in (ORDER, LOWER, VALUE, GAP, ABOVE, GROWTH, EXACT, QUOTED)
        for scale in (*SCALES, KNOWN_PAPER, UNKNOWN)
        for measured in ({}, one([1.0]), pair([1.0]), pair([0.0, 1.0, 2.0]), pair([30.0, 30.1]))
        for blocked in (None, "no corpus")
    }
    assert words == set(VERDICTS)


def test_quoted_number_is_quoted_and_never_measured() -> None:
    verdict = judge(QUOTED, PAPER, {})
    assert verdict.verdict == "quoted"
    assert "as printed in Table 2; no run here measures it" in verdict.reason
    assert verdict.measured is None


def test_misquotation_that_fails_says_that_it_should() -> None:
    claim = replace(EXACT, misquote=True, compute=lambda: 7.8)
    verdict = judge(claim, PAPER, {})
    assert verdict.verdict == "not reproduced"
    assert verdict.reason.endswith("; often said of the paper, which says otherwise")


# Identity before value ------------------------------------------------------------------------------------------------


def scored(values: Sequence[float], budget: Budget = BUDGET, **identity) -> Measurements:
    of = {"dataset": IDENTITY.dataset, "num_items": 3_003, "signature": SIGNATURE, "data_fingerprint": "data"}
    return Measurements(
        dict(enumerate(values, start=1)),
        identities=frozenset({ScoreIdentity(**of | identity)}),
        budgets=frozenset({budget}),
    )


@pytest.mark.parametrize(
    ("measured", "reason"),
    [
        pytest.param(
            scored([25.8], num_items=2_737),
            "other test set: 2,737 lines of wmt14/newstest2014/en-de, and the claim is about 3,003 lines of "
            "wmt14/newstest2014/en-de",
            id="B07",
        ),
        pytest.param(
            scored([25.8], dataset="wmt17/newstest2017/en-de"),
            "other test set: 3,003 lines of wmt17/newstest2017/en-de, and the claim is about 3,003 lines of "
            "wmt14/newstest2014/en-de",
            id="other data set",
        ),
        pytest.param(
            scored([25.8], signature="nrefs:1|tok:13a|smooth:exp"),
            "other protocol: the claim is about tok:moses-de and smooth:none, the score is nrefs:1|tok:13a|smooth:exp",
            id="other protocol",
        ),
        pytest.param(
            scored([25.8], Budget(4_096, 4_096, 100_000)),
            "other budget: first had 4,096 + 4,096 tokens an update for 100,000 updates, and the claim is about "
            "25,000 + 25,000 tokens an update for 100,000 updates",
            id="B17",
        ),
        pytest.param(
            scored([25.8], replace(BUDGET, train_steps=50_000)), "other budget: first had", id="fewer updates"
        ),
    ],
)
def test_other_identity_is_not_comparable_whatever_the_value(measured: Measurements, reason: str) -> None:
    """B07: 2737 lines against 3003 is another test set; B17: 4,096 tokens an update are another budget."""
    verdict = judge(VALUE, KNOWN_PAPER, {"first": measured})
    assert verdict.verdict == "not comparable"
    assert verdict.reason.startswith(reason)
    assert verdict.measured == pytest.approx(25.8)
    order = replace(ORDER, identity=PAIR_IDENTITY)
    assert judge(order, KNOWN_PAPER, {"first": measured, "second": scored([15.0])}).verdict == "not comparable"


def test_about_25000_tokens_is_about_25000_tokens() -> None:
    near = scored([25.75, 25.8, 25.85], Budget(24_700, 25_300, 100_000))
    assert judge(VALUE, UNKNOWN_PAPER, {"first": near}).verdict == "reproduced"


@pytest.mark.parametrize("values", [[25.8], [25.75, 25.8, 25.85], [0.0, 0.1]], ids=str)
def test_value_below_its_scale_is_not_comparable_but_shown(values: list[float]) -> None:
    verdict = judge(VALUE, KNOWN, one(values))
    assert verdict.verdict == "not comparable"
    assert verdict.measured == pytest.approx(sum(values) / len(values))
    assert verdict.reason == "other scale: the paper's 25.8 is about its own data and sizes, not those of smoke"
    above = replace(ABOVE, identity=IDENTITY)
    assert judge(above, KNOWN, one(values)).verdict == "not comparable"


def test_order_at_a_smaller_scale_is_about_that_scales_own_data() -> None:
    order = replace(ORDER, identity=PAIR_IDENTITY)
    measured = {
        trial: scored(values, Budget(400, 400, 460), dataset="grammar/dev/en-de", num_items=300, signature="tok:13a")
        for trial, values in (("first", [3.0, 3.1, 3.2]), ("second", [1.0, 1.1, 1.21]))
    }
    assert judge(order, UNKNOWN, measured).verdict == "agrees"
    assert judge(order, UNKNOWN_PAPER, measured).verdict == "not comparable"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"signature": "tok:intl"}, f"scores of different protocols: {SIGNATURE} and tok:intl"),
        (
            {"dataset": "x/dev/en-de"},
            "scores of different test sets: 3,003 lines of wmt14/newstest2014/en-de and 3,003",
        ),
        ({"num_items": 2_737}, "scores of different test sets: 2,737 lines of"),
        ({"data_fingerprint": "else"}, "scores of different training data: data and else"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_trials_that_differ_in_more_than_the_claim_are_not_compared(other: dict, reason: str) -> None:
    verdict = judge(ORDER, KNOWN, {"first": scored([30.0]), "second": scored([20.0], **other)})
    assert verdict.verdict == "not comparable"
    assert verdict.reason.startswith(reason)


def test_runs_of_different_code_decide_nothing() -> None:
    measured = {
        "first": Measurements({1: 30.0}, code_versions=frozenset({"aaaa"})),
        "second": Measurements({1: 2.0}, code_versions=frozenset({"bbbb"})),
    }
    verdict = judge(ORDER, KNOWN, measured)
    assert verdict.verdict == "undecided"
    assert verdict.reason == "runs by different code (aaaa, bbbb): run them again"


# Failed, blocked, not run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [ORDER, LOWER, VALUE, GAP, ABOVE], ids=lambda claim: claim.id)
@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
@pytest.mark.parametrize("end", ["failed", "diverged", "done without it"])
def test_failed_seeds_are_shown_and_never_hold_a_claim(claim: Claim, scale: Scale, end: str) -> None:
    """What is left after failures is a selection, however clear it looks."""
    scale = replace(scale, seed_spread={})
    good = {VALUE: 25.8, LOWER: -0.9, ABOVE: 30.0}.get(claim, 0.9)
    values = [good + 0.001 * seed for seed in range(5)]
    measured = one(values) if len(claim.trials) == 1 else pair(values)
    assert judge(claim, scale, measured).verdict in ("reproduced", "agrees", "not comparable")
    for trial in claim.trials:
        failing = measured | {trial: replace(measured[trial], bad_seeds={6: end, 7: end})}
        verdict = judge(claim, scale, failing)
        assert verdict.verdict in ("undecided", "not comparable")
        assert f"2 of 7 runs of {trial} ended badly (seed 6 {end}, seed 7 {end})" in verdict.reason
        assert verdict.measured is not None


def test_claim_whose_seeds_all_failed_is_undecided_and_has_no_value() -> None:
    measured = {"first": Measurements({1: 5.0}), "second": Measurements({}, {1: "diverged"})}
    verdict = judge(ORDER, KNOWN, measured)
    reason = "1 of 1 runs of second ended badly (seed 1 diverged): nothing is left to compare"
    assert verdict == Verdict("undecided", reason)


def test_claim_whose_other_trial_was_never_run_is_not_run_and_shows_what_failed() -> None:
    verdict = judge(ORDER, KNOWN, {"second": Measurements({1: 5.0}, {2: "diverged"})})
    reason = "no finished run of first; 1 of 2 runs of second ended badly (seed 2 diverged)"
    assert verdict == Verdict("not run", reason)


def test_output_that_could_not_be_scored_blocks_the_claim() -> None:
    """B40: four of five trees with the wrong number of leaves are not the F1 of the fifth."""
    reason = "4 of 5 sentences not scored, the first is 2: 7 words where there are 6"
    unscored = Measurements({2: 100.0}, unscored={1: reason})
    for measured in (unscored, replace(unscored, values={})):
        verdict = judge(ABOVE, KNOWN, {"first": measured})
        assert verdict.verdict == "blocked"
        assert verdict.reason == f"the output of first, seed 1, has no dev_bleu: {reason}"


@pytest.mark.parametrize("claim", [ORDER, LOWER, VALUE, GAP, ABOVE, GROWTH], ids=lambda claim: claim.id)
def test_blocked_says_what_is_missing_and_is_neither_failed_nor_zero(claim: Claim) -> None:
    """B74."""
    verdict = judge(claim, PAPER, {}, blocked="corpus wmt14 is not here", awaited=("first",))
    assert verdict == Verdict("blocked", "corpus wmt14 is not here")
    assert verdict.measured is None


def test_runs_that_exist_are_judged_even_where_new_ones_are_blocked() -> None:
    assert judge(ORDER, UNKNOWN_PAPER, pair([0.9, 1.0, 1.1]), blocked="no corpus").verdict == "reproduced"


@pytest.mark.parametrize(
    ("measured", "missing"),
    [
        ({}, "first and second"),
        ({"first": by_seed([1.0])}, "second"),
        ({"second": by_seed([1.0])}, "first"),
        ({"first": Measurements({1: 1.0}), "second": Measurements({2: 1.0})}, "both trials with one seed"),
    ],
    ids=["neither", "first only", "second only", "other seeds"],
)
def test_claim_without_runs_is_not_run_and_says_which(measured: Mapping[str, Measurements], missing: str) -> None:
    assert judge(ORDER, KNOWN, measured) == Verdict("not run", f"no finished run of {missing}")


def test_claim_whose_trials_do_not_exist_yet_is_not_run() -> None:
    assert judge(ORDER, KNOWN, {}, awaited=("second",)) == Verdict("not run", "this version cannot run second yet")


def test_runs_without_the_claims_score_are_told_apart_from_no_runs() -> None:
    verdict = judge(ABOVE, KNOWN, {"first": Measurements(unmeasured=True)})
    assert verdict == Verdict("not run", "runs of first are done, and none has a score dev_bleu")


# The test set's own uncertainty ---------------------------------------------------------------------------------------


def test_test_set_interval_is_paired_and_decides_nothing() -> None:
    """Two systems that rise and fall with the same sentences differ by 1 on every resampled test set."""
    waves = [10 * math.sin(k) for k in range(1_000)]
    measured = pair([0.9, 1.0, 1.1])
    apart = {
        "first": replace(measured["first"], replicates={s: [w + 1 + s for w in waves] for s in (1, 2, 3)}),
        "second": replace(measured["second"], replicates={s: [w + s for w in waves] for s in (1, 2, 3)}),
    }
    verdict = judge(ORDER, UNKNOWN, apart)
    assert (verdict.test_low, verdict.test_high) == pytest.approx((1.0, 1.0))
    plain = judge(ORDER, UNKNOWN, measured)
    assert plain.test_low is None
    assert replace(verdict, test_low=None, test_high=None) == plain
    alone = judge(VALUE, KNOWN_PAPER, {"first": replace(apart["first"], **MEASURED)})
    assert alone.test_high - alone.test_low > 15


def test_replicates_that_some_runs_lack_give_no_test_set_interval() -> None:
    measured = pair([0.9, 1.0])
    measured["first"] = replace(measured["first"], replicates={1: [1.0, 2.0]})
    assert judge(ORDER, UNKNOWN, measured).test_low is None


# Properties -----------------------------------------------------------------------------------------------------------

quickly = settings(deadline=None, max_examples=60)
# Whole numbers, so that sums are exact and no verdict turns on the last digit.
whole_pairs = st.lists(st.tuples(st.integers(-30, 30), st.integers(-30, 30)), min_size=1, max_size=8)
comparisons = st.sampled_from(
    [replace(claim, identity=None) for study in STUDIES for claim in study.claims if len(claim.trials) == 2]
)
measured_claims = st.sampled_from(
    [claim for study in STUDIES for claim in study.claims if claim.trials and not claim.compute]
)
scales = st.sampled_from([*SCALES, KNOWN, UNKNOWN])


def measured_pairs(claim: Claim, pairs: Mapping[int, tuple[int, int]], plus: int = 0) -> dict[str, Measurements]:
    return {
        trial: Measurements({seed: float(values[side] + plus) for seed, values in pairs.items()})
        for side, trial in enumerate(claim.trials)
    }


@quickly
@given(comparisons, scales, whole_pairs, st.randoms(use_true_random=False))
def test_order_of_seeds_changes_nothing(claim: Claim, scale: Scale, pairs: list, random) -> None:
    seeds = list(range(1, len(pairs) + 1))
    straight = judge(claim, scale, measured_pairs(claim, dict(zip(seeds, pairs, strict=True))))
    random.shuffle(seeds)
    shuffled = judge(claim, scale, measured_pairs(claim, dict(zip(seeds, pairs, strict=True))))
    assert shuffled.verdict == straight.verdict
    for name in ("measured", "low", "high", "p_value"):
        assert getattr(shuffled, name) == pytest.approx(getattr(straight, name))


@quickly
@given(comparisons, scales, whole_pairs, st.integers(-1_000, 1_000))
def test_what_both_trials_gain_changes_nothing(claim: Claim, scale: Scale, pairs: list, plus: int) -> None:
    by_seed = dict(enumerate(pairs, start=1))
    moved = judge(claim, scale, measured_pairs(claim, by_seed, plus))
    assert moved == judge(claim, scale, measured_pairs(claim, by_seed))


@quickly
@given(st.sampled_from([ORDER, LOWER]), scales, whole_pairs)
def test_swapped_trials_turn_the_order_round(claim: Claim, scale: Scale, pairs: list) -> None:
    by_seed = dict(enumerate(pairs, start=1))
    straight = judge(claim, scale, measured_pairs(claim, by_seed))
    swapped = judge(claim, scale, measured_pairs(claim, {seed: (b, a) for seed, (a, b) in by_seed.items()}))
    opposite = {"agrees": "disagrees", "reproduced": "not reproduced"}
    opposite |= {after: before for before, after in opposite.items()}
    assert swapped.verdict == opposite.get(straight.verdict, straight.verdict)
    assert swapped.p_value == straight.p_value
    if straight.low is not None:
        assert (swapped.low, swapped.measured, swapped.high) == (-straight.high, -straight.measured, -straight.low)


@quickly
@given(st.lists(st.tuples(comparisons, whole_pairs), min_size=1, max_size=6), scales, st.randoms(use_true_random=False))
def test_order_of_a_family_changes_nothing(members: list, scale: Scale, random) -> None:
    questions = [
        Question(claim, scale, measured_pairs(claim, dict(enumerate(pairs, start=1)))) for claim, pairs in members
    ]
    straight = decide_family(questions)
    places = list(range(len(questions)))
    random.shuffle(places)
    assert decide_family([questions[place] for place in places]) == [straight[place] for place in places]


@quickly
@given(st.lists(st.tuples(comparisons, whole_pairs), min_size=1, max_size=6), scales)
def test_correction_only_takes_verdicts_back(members: list, scale: Scale) -> None:
    questions = [
        Question(claim, scale, measured_pairs(claim, dict(enumerate(pairs, start=1)))) for claim, pairs in members
    ]
    for question, verdict in zip(questions, decide_family(questions), strict=True):
        alone = decide(question)
        assert verdict.verdict in (alone.verdict, "undecided")
        assert verdict.alone == alone.alone
        assert (verdict.measured, verdict.low, verdict.high) == (alone.measured, alone.low, alone.high)


@quickly
@given(st.integers(1, 30), st.integers(1, 30), st.integers(2, 8), st.integers(1, 8))
def test_more_seeds_of_the_same_mean_and_spread_are_more_evidence(mean: int, spread: int, num: int, more: int) -> None:
    few = judge(ORDER, UNKNOWN, pair(sample(num, float(mean), float(spread))))
    many = judge(ORDER, UNKNOWN, pair(sample(num + more, float(mean), float(spread))))
    assert many.p_value < few.p_value
    assert many.high - many.low < few.high - few.low
    assert few.verdict != "agrees" or many.verdict == "agrees"


@quickly
@given(measured_claims, scales, whole_pairs, st.integers(0, 1), st.sampled_from(["failed", "diverged"]))
def test_no_claim_holds_or_fails_while_a_seed_failed(
    claim: Claim, scale: Scale, pairs: list, side: int, end: str
) -> None:
    measured = measured_pairs(claim, dict(enumerate(pairs, start=1)))
    trial = claim.trials[side % len(claim.trials)]
    measured[trial] = replace(measured[trial], bad_seeds={99: end})
    verdict = judge(claim, scale, measured)
    assert verdict.verdict in ("undecided", "not comparable")
    assert f"seed 99 {end}" in verdict.reason


@quickly
@given(measured_claims, scales, whole_pairs)
def test_interval_holds_the_measured_value_and_no_verdict_is_without_reason(
    claim: Claim, scale: Scale, pairs: list
) -> None:
    verdict = judge(claim, scale, measured_pairs(claim, dict(enumerate(pairs, start=1))))
    if verdict.low is None:
        assert verdict.verdict in ("undecided", "not comparable")
    else:
        assert verdict.low <= verdict.measured <= verdict.high
    assert verdict.reason
    assert "\n" not in verdict.reason


@quickly
@given(comparisons, whole_pairs)
def test_one_seed_never_decides_an_order_within_the_known_spread(claim: Claim, pairs: list) -> None:
    first = pairs[0]
    verdict = judge(replace(ORDER, metric="dev_bleu"), KNOWN, measured_pairs(ORDER, {1: first}))
    if abs(first[0] - first[1]) <= 2 * math.sqrt(2):
        assert verdict.verdict == "undecided"
