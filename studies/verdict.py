"""From a claim and measurements to a verdict: a pure function, so that it can be tested as one.

Intervals are 95% Student t intervals over seeds; a comparison of two trials is paired by seed, because runs of one
seed share their data order. A single seed has no spread of its own: it is judged by the spread that the scale states,
and `undecided` says how many seeds would settle the question at that spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from studies.claim import METRICS, Claim
from studies.scales import Scale

CONFIDENCE = 0.95
# Beyond this many seeds nobody runs a study; the verdict then says "more than".
MOST_SEEDS = 1_000
FULL_SCALE = "paper"


@dataclass(frozen=True)
class Measurements:
    """What a store holds about one trial at one scale: a metric's value by seed, and the runs that ended badly."""

    values: Mapping[int, float]
    failed_seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """How a claim ended, with the measured value, its interval, and why."""

    verdict: str
    reason: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    num_runs: int = 0


@dataclass(frozen=True)
class _Estimate:
    mean: float
    low: float
    high: float
    spread: float
    num_seeds: int


def decide(
    claim: Claim,
    scale: Scale,
    measured: Mapping[str, Measurements],
    computed: float | None = None,
    blocked: str | None = None,
) -> Verdict:
    """The verdict on one claim at one scale.

    Args:
        measured: measurements of `claim.metric` by trial.
        computed: for an exact claim, the number that follows from the paper's sizes.
        blocked: what is missing, where runs at this scale cannot be had here.
    """
    if claim.kind == "exact":
        return _decide_exact(claim, computed)
    samples = [measured.get(trial, Measurements({})) for trial in claim.trials]
    failed = sorted({seed for sample in samples for seed in sample.failed_seeds})
    values = _values_by_seed(samples)
    if not values:
        if failed:
            return Verdict("undecided", f"{len(failed)} seed(s) failed and none is done: {_seed_list(failed)}")
        if blocked:
            return Verdict("blocked", blocked)
        missing = [trial for trial, sample in zip(claim.trials, samples, strict=True) if not sample.values]
        return Verdict("not run", f"no finished run of {', '.join(missing) or 'both trials with one seed'}")
    estimate = _estimate(values, _prior_spread(claim, scale))
    if claim.kind == "value" and scale.name != FULL_SCALE:
        reason = f"the paper's {claim.expected:g} is on another data set and size than scale {scale.name}"
        return _with(estimate, "not comparable", reason, claim)
    if failed:
        return _with(
            estimate,
            "undecided",
            f"{len(failed)} seed(s) failed ({_seed_list(failed)}), so the rest is a selection",
            claim,
        )
    if claim.kind == "order":
        return _decide_order(claim, scale, estimate)
    return _decide_equivalence(claim, scale, estimate)


def _decide_exact(claim: Claim, computed: float) -> Verdict:
    within = abs(computed - claim.expected) <= claim.tolerance
    reason = f"counted at full size: {computed:.2f} {claim.unit} against the printed {claim.expected:g}"
    return Verdict("reproduced" if within else "not reproduced", reason, computed, computed, computed)


def _values_by_seed(samples: Sequence[Measurements]) -> list[float]:
    """One trial's values, or first minus second for each seed that both have."""
    if len(samples) == 1:
        return [samples[0].values[seed] for seed in sorted(samples[0].values)]
    first, second = samples
    return [first.values[seed] - second.values[seed] for seed in sorted(first.values.keys() & second.values.keys())]


def _prior_spread(claim: Claim, scale: Scale) -> float:
    # Two independent runs differ by sqrt(2) times what one varies.
    return scale.seed_spread[claim.metric] * math.sqrt(len(claim.trials))


def _estimate(values: Sequence[float], prior_spread: float) -> _Estimate:
    from scipy import stats

    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        half, spread = stats.norm.ppf(0.5 + CONFIDENCE / 2) * prior_spread, prior_spread
    else:
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
        half = stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) * spread / math.sqrt(n)
    return _Estimate(mean, float(mean - half), float(mean + half), spread, n)


def _decide_order(claim: Claim, scale: Scale, estimate: _Estimate) -> Verdict:
    sign = -1.0 if METRICS[claim.metric].lower_is_better else 1.0
    low, high = sorted((sign * estimate.low, sign * estimate.high))
    first, second = claim.trials
    difference = f"{first} minus {second}: {estimate.mean:+.2f} {claim.unit}"
    if low > 0:
        return _with(estimate, _word(True, scale), _basis(difference, estimate, scale), claim)
    if high < 0:
        return _with(estimate, _word(False, scale), _basis(difference, estimate, scale), claim)
    needed = _seeds_needed(estimate.spread, abs(estimate.mean))
    return _with(estimate, "undecided", f"{_basis(difference, estimate, scale)}; {needed}", claim)


def _decide_equivalence(claim: Claim, scale: Scale, estimate: _Estimate) -> Verdict:
    lower, upper = claim.expected - claim.tolerance, claim.expected + claim.tolerance
    statement = f"measured {estimate.mean:.2f} against {claim.expected:g} ± {claim.tolerance:g} {claim.unit}"
    if lower <= estimate.low and estimate.high <= upper:
        return _with(estimate, _word(True, scale), _basis(statement, estimate, scale), claim)
    if estimate.high < lower or estimate.low > upper:
        return _with(estimate, _word(False, scale), _basis(statement, estimate, scale), claim)
    # The interval has to shrink until it lies on one side of the nearer edge of the margin.
    gap = min(abs(estimate.mean - lower), abs(estimate.mean - upper))
    return _with(
        estimate, "undecided", f"{_basis(statement, estimate, scale)}; {_seeds_needed(estimate.spread, gap)}", claim
    )


def _word(holds: bool, scale: Scale) -> str:
    if scale.name == FULL_SCALE:
        return "reproduced" if holds else "not reproduced"
    return "agrees" if holds else "disagrees"


def _basis(statement: str, estimate: _Estimate, scale: Scale) -> str:
    if estimate.num_seeds == 1:
        prior = f"judged by the spread between seeds known before ({estimate.spread:.2g}; {scale.spread_source})"
        return f"{statement}, 1 seed, {prior}"
    return f"{statement}, {estimate.num_seeds} seeds, spread {estimate.spread:.2g}"


def _seeds_needed(spread: float, gap: float) -> str:
    from scipy import stats

    for n in range(2, MOST_SEEDS + 1):
        if stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) * spread / math.sqrt(n) < gap:
            return f"{n} seeds would settle it at this spread"
    return f"more than {MOST_SEEDS} seeds would be needed at this spread"


def _seed_list(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _with(estimate: _Estimate, verdict: str, reason: str, claim: Claim) -> Verdict:
    runs = estimate.num_seeds * len(claim.trials)
    return Verdict(verdict, reason, estimate.mean, estimate.low, estimate.high, runs)
