"""The mathematics of verdicts against values worked by hand, scipy's own tests, and examples in print."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from studies.inference import (
    ALLOWANCE,
    LEVEL,
    MOST_SEEDS,
    Spread,
    estimate,
    evidence,
    fit_exponent,
    holm,
    seeds_needed,
)

INF = math.inf
# Two-sided 95% points of Student's t by degrees of freedom, and one 99% point, from printed tables.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262}
T99 = {1: 63.657, 2: 9.925, 3: 5.841, 4: 4.604}

numbers = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=8)
quickly = settings(deadline=None, max_examples=60)


def spread_out(values: list[float]) -> bool:
    return max(values) - min(values) > 0.01


# Intervals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "mean", "error"),
    [
        ([1.0, 3.0], 2.0, 1.0),  # sd = sqrt(2), over sqrt(2)
        ([1.0, 2.0, 3.0], 2.0, 1 / math.sqrt(3)),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 3.0, math.sqrt(2.5) / math.sqrt(5)),
    ],
    ids=["n=2", "n=3", "n=5"],
)
def test_interval_is_students_t_worked_by_hand(values: list[float], mean: float, error: float) -> None:
    sample = estimate(values, skew_cancels=True)
    assert (sample.mean, sample.error) == pytest.approx((mean, error))
    half = T[len(values) - 1] * error
    assert sample.interval() == pytest.approx((mean - half, mean + half), abs=1e-3)


@quickly
@given(numbers.filter(spread_out), st.floats(-100, 100))
def test_p_values_and_interval_are_scipys_one_sample_t_test(values: list[float], bound: float) -> None:
    sample = estimate(values, skew_cancels=True)
    for p, alternative in ((sample.p_above(bound), "greater"), (sample.p_below(bound), "less")):
        expected = stats.ttest_1samp(values, bound, alternative=alternative)
        assert p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert sample.interval() == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-9)


@quickly
@given(numbers.filter(spread_out), st.floats(-50, 50), st.floats(0.01, 50))
def test_equivalence_is_two_one_sided_tests(values: list[float], centre: float, margin: float) -> None:
    lower, upper = centre - margin, centre + margin
    found = evidence(estimate(values, skew_cancels=True), lower, upper)
    above = stats.ttest_1samp(values, lower, alternative="greater").pvalue
    below = stats.ttest_1samp(values, upper, alternative="less").pvalue
    assert found.holds == pytest.approx(max(above, below), rel=1e-6, abs=1e-12)
    assert found.fails == pytest.approx(min(1.0, 2 * min(1 - above, 1 - below)), rel=1e-4, abs=1e-9)


@quickly
@given(numbers.filter(spread_out), st.floats(-50, 50), st.floats(0.01, 50))
def test_claim_holds_where_the_interval_lies_inside(values: list[float], centre: float, margin: float) -> None:
    lower, upper = centre - margin, centre + margin
    for sample in (estimate(values), estimate(values, skew_cancels=True), estimate(values, Spread(3.0, 3))):
        low, high = sample.interval()
        assume(min(abs(low - lower), abs(high - upper)) > 1e-6)
        assert (evidence(sample, lower, upper).holds <= LEVEL) == (lower <= low and high <= upper)
        assert (evidence(sample, lower, INF).holds <= LEVEL) == (lower <= low)
        assert (evidence(sample, -INF, upper).fails <= LEVEL) == (low > upper)


def test_holding_and_failing_never_both_have_evidence() -> None:
    for values in ([1.0, 2.0], [0.0, 0.1, 0.2], [-3.0, 5.0, 1.0]):
        for region in ((0.0, INF), (-INF, 0.0), (-1.0, 1.0), (0.0, 0.0)):
            found = evidence(estimate(values, skew_cancels=True), *region)
            assert max(found.holds, found.fails) >= 0.5


# The spread that is known before --------------------------------------------------------------------------------------


def test_single_seed_is_judged_by_the_known_spread_at_99_percent() -> None:
    """t of 3 degrees beyond 0.5% on either side is 5.841; 0.025 / 5 = 0.005."""
    sample = estimate([4.0], Spread(2.0, 3))
    assert sample.allowance == ALLOWANCE == 5.0
    assert sample.interval() == pytest.approx((4.0 - 2 * T99[3], 4.0 + 2 * T99[3]), abs=2e-3)


def test_known_spread_is_a_floor_and_lends_its_degrees_of_freedom() -> None:
    # Observed 0.1 is below the known 1: half width t(3) x 1 / sqrt(2).
    narrow = estimate([1.9, 2.0413], Spread(1.0, 3))
    assert narrow.observed == pytest.approx(0.1, abs=1e-3)
    assert narrow.interval()[1] - narrow.mean == pytest.approx(T[3] / math.sqrt(2), abs=1e-3)
    # Observed 2.83 is above it, and counts: t(3) x 2.83 / sqrt(2).
    wide = estimate([0.0, 4.0], Spread(1.0, 3))
    assert wide.interval()[1] - wide.mean == pytest.approx(T[3] * 2.0, abs=2e-3)
    # Ten seeds have more degrees of freedom than the four before them; one trial's keep the floor against skew.
    ten = np.linspace(0.0, 0.9, 10)
    assert estimate(ten, Spread(1.0, 3)).degrees == 9
    assert estimate(ten, Spread(1.0, 3)).spread == 1.0


def test_differences_of_enough_seeds_speak_for_themselves() -> None:
    three, four = [0.9, 1.0, 1.1], [0.9, 1.0, 1.1, 1.0]
    assert estimate(three, Spread(1.0, 3), skew_cancels=True).spread == 1.0
    own = estimate(four, Spread(1.0, 3), skew_cancels=True)
    assert own.interval() == estimate(four, skew_cancels=True).interval()
    # Equal numbers say nothing, however many they are.
    assert estimate([1.0] * 6, Spread(1.0, 3), skew_cancels=True).spread == 1.0


@quickly
@given(numbers.filter(spread_out), st.floats(0.01, 100))
def test_known_spread_never_narrows_what_as_many_seeds_say_themselves(values: list[float], sd: float) -> None:
    alone = estimate(values, skew_cancels=True)
    floored = estimate(values, Spread(sd, min(3, len(values) - 1)), skew_cancels=True)
    assert floored.interval()[0] <= alone.interval()[0] + 1e-9
    assert floored.interval()[1] >= alone.interval()[1] - 1e-9


def test_one_trials_own_spread_alone_asks_for_99_percent() -> None:
    """Skewed values that all lie on the short side look alike; a difference of two runs has no skew."""
    own = estimate([1.0, 2.0, 3.0])
    assert own.interval()[1] - own.mean == pytest.approx(T99[2] / math.sqrt(3), abs=2e-3)
    assert own.p_above(0.0) == pytest.approx(5 * stats.ttest_1samp([1.0, 2.0, 3.0], 0.0, alternative="greater").pvalue)


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0, 5.0], [5.0, 5.0 + 1e-9]], ids=str)
def test_no_spread_is_no_evidence(values: list[float]) -> None:
    sample = estimate(values)
    assert not sample.has_spread
    assert (sample.p_above(0.0), sample.p_below(0.0)) == (1.0, 1.0)
    assert evidence(sample, 0.0, INF).holds == 1.0


# Arrays ---------------------------------------------------------------------------------------------------------------


def test_arrays_give_what_their_rows_give() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(4, 3, 5))
    known = Spread(np.full((4, 3), 0.8), 3)
    found = evidence(estimate(values, known), -1.0, 1.0)
    assert found.holds.shape == (4, 3)
    for index in np.ndindex(4, 3):
        one = evidence(estimate(values[index], Spread(0.8, 3)), -1.0, 1.0)
        assert (one.holds, one.fails) == pytest.approx((found.holds[index], found.fails[index]))


# Families -------------------------------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # 0.01 x 4, 0.03 x 2 (above 0.02 x 3), 0.04 x 1 not below its predecessor.
    assert holm([0.01, 0.04, 0.03, 0.02]).tolist() == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.9, 0.6]).tolist() == [1.0, 1.0]
    assert holm([0.03]).tolist() == [0.03]


def test_holm_of_an_example_in_print() -> None:
    """p.adjust of R and multipletests of statsmodels show these for 0.01, 0.02, 0.03, 0.04, 0.05 with `holm`."""
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]).tolist() == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])


def plain_holm(p_values: list[float], level: float) -> set[int]:
    """As Holm wrote it: go up from the smallest, and stop at the first that is too large."""
    rejected: set[int] = set()
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[index] > level / (len(p_values) - rank):
            break
        rejected.add(index)
    return rejected


@given(st.lists(st.integers(0, 1_000).map(lambda k: k / 8_000), min_size=1, max_size=12))
def test_adjusted_p_values_reject_what_the_step_down_method_rejects(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assume(all(abs(p - LEVEL) > 1e-12 for p in adjusted))
    assert {index for index, p in enumerate(adjusted) if p <= LEVEL} == plain_holm(p_values, LEVEL)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_order_of_a_family_changes_nothing(p_values: list[float], random) -> None:
    places = list(range(len(p_values)))
    random.shuffle(places)
    assert holm([p_values[place] for place in places]).tolist() == [holm(p_values)[place] for place in places]


def test_holm_works_along_the_last_axis() -> None:
    assert holm([[0.01, 0.04], [0.5, 0.02]]).tolist() == [pytest.approx([0.02, 0.04]), pytest.approx([0.5, 0.04])]


# Seeds, exponents, resampled test sets --------------------------------------------------------------------------------


@given(st.integers(2, MOST_SEEDS), st.integers(2, 50))
def test_seeds_needed_finds_the_first_number_that_is_enough(enough: int, fewest: int) -> None:
    assert seeds_needed(lambda number: number >= enough, fewest) == max(enough, fewest)


def test_seeds_needed_gives_up() -> None:
    assert seeds_needed(lambda number: False, 2) is None


def test_exponent_of_a_power_law_and_its_error_are_linregress_on_logarithms() -> None:
    exact = fit_exponent([1, 2, 4, 8], [3.0, 12.0, 48.0, 192.0])
    assert (exact.exponent, exact.error.sd, exact.error.degrees) == (pytest.approx(2.0), pytest.approx(0, abs=1e-9), 2)
    sizes, costs = [64, 128, 256, 512, 1024], [1.1, 2.0, 4.3, 8.1, 17.0]
    line = stats.linregress(np.log(sizes), np.log(costs))
    fit = fit_exponent(sizes, costs)
    assert (fit.exponent, fit.error.sd) == pytest.approx((line.slope, line.stderr))
    two = fit_exponent(sizes, [costs, [2 * cost for cost in costs]])
    assert two.exponent.tolist() == pytest.approx([fit.exponent, fit.exponent])


@pytest.mark.parametrize(
    ("sizes", "costs", "message"),
    [
        ([1, 2], [1, 2], "an exponent needs 3 sizes"),
        ([1, 2, 2], [1, 2, 2], "an exponent needs 3 sizes"),
        ([1, 2, 3], [1, 2], "an exponent needs 3 sizes, a cost each"),
        ([1, 2, 3], [1, 0, 2], "must be above 0; the least is 0"),
    ],
)
def test_fit_refuses_what_has_no_exponent(sizes: list[float], costs: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_exponent(sizes, costs)
