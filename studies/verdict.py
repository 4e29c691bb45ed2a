"""From a claim and measurements to a verdict: a pure function, so that it can be tested as one.

Intervals are 95% Student t intervals over seeds; a comparison of two trials is paired by seed, because runs of one
seed share their data order. A single seed has no spread of its own: it is judged by the spread that the scale states,
if one is known, and `undecided` says how many seeds would settle the question at that spread.

Identity comes before value: scores of different data or protocols are not compared, nor runs of different code.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from studies.claim import METRICS, Claim
from studies.scales import Scale, SeedSpread

CONFIDENCE = 0.95
# Beyond this many seeds nobody runs a study; the verdict then says "more than".
MOST_SEEDS = 1_000
FULL_SCALE = "paper"
# Values closer than this are equal up to rounding.
LEAST_SPREAD = 1e-6


@dataclass(frozen=True)
class Measurements:
    """What a store holds about one trial at one scale: a metric's value by seed, and the runs that ended badly.

    `protocols` are the identities of these scores (data set and its fingerprint, signature), `code_versions` those of
    the runs; one of each is what can be compared.
    """

    values: Mapping[int, float]
    failed_seeds: tuple[int, ...] = ()
    protocols: frozenset[str] = frozenset()
    code_versions: frozenset[str] = frozenset()


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
    """A mean over seeds; its interval is None where nothing tells how much seeds differ."""

    mean: float
    num_seeds: int
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    basis: str = ""


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
    if claim.quoted:
        return Verdict("quoted", "another system's published number; no run of ours measures it")
    if claim.compute is not None:
        return _decide_computed(claim, computed)
    samples = [measured.get(trial, Measurements({})) for trial in claim.trials]
    failed = sorted({seed for sample in samples for seed in sample.failed_seeds})
    values = _values_by_seed(samples)
    if not values:
        if failed:
            both = " and ".join(claim.trials)
            return Verdict("undecided", f"{len(failed)} seed(s) failed ({_seed_list(failed)}), none is done of {both}")
        if blocked:
            return Verdict("blocked", blocked)
        missing = [trial for trial, sample in zip(claim.trials, samples, strict=True) if not sample.values]
        return Verdict("not run", f"no finished run of {', '.join(missing) or 'both trials with one seed'}")
    estimate = _estimate(values, scale.seed_spread.get(claim.metric), len(claim.trials))
    protocols = sorted(frozenset().union(*(sample.protocols for sample in samples)))
    if len(protocols) > 1:
        return _with(estimate, "not comparable", f"scores of different protocols: {' and '.join(protocols)}", claim)
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
    codes = sorted(frozenset().union(*(sample.code_versions for sample in samples)))
    if len(codes) > 1:
        return _with(
            estimate, "undecided", f"runs by different code ({', '.join(codes)}): run both trials again", claim
        )
    if estimate.low is None:
        reason = f"measured {estimate.mean:.2f}, and no spread between seeds is known at scale {scale.name}"
        return _with(estimate, "undecided", f"{reason}; run at least {estimate.num_seeds + 1} seeds", claim)
    if claim.kind == "order":
        return _decide_order(claim, scale, estimate)
    return _decide_equivalence(claim, scale, estimate)


def _decide_computed(claim: Claim, computed: float) -> Verdict:
    if claim.kind == "threshold":
        holds = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[claim.bound]
        within = holds(computed, claim.expected)
        reason = f"computed at full size: {computed:.6g} {claim.unit}, claimed {claim.bound} {claim.expected:g}"
    else:
        within = abs(computed - claim.expected) <= claim.tolerance
        reason = f"computed at full size: {computed:.6g} {claim.unit} against the printed {claim.expected:g}"
    return Verdict("reproduced" if within else "not reproduced", reason, computed, computed, computed)


def _values_by_seed(samples: Sequence[Measurements]) -> list[float]:
    """One trial's values, or first minus second for each seed that both have."""
    if len(samples) == 1:
        return [samples[0].values[seed] for seed in sorted(samples[0].values)]
    first, second = samples
    return [first.values[seed] - second.values[seed] for seed in sorted(first.values.keys() & second.values.keys())]


def _estimate(values: Sequence[float], prior: SeedSpread | None, num_trials: int) -> _Estimate:
    """Mean and interval of values by seed; of `num_trials` = 2 they are differences."""
    from scipy import stats

    n, mean = len(values), math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1)) if n > 1 else 0.0
    if spread > LEAST_SPREAD:
        degrees, basis = n - 1, f"{n} seeds, spread {spread:.2g}"
    elif prior is not None:
        # One seed, or equal numbers from several, tell nothing about their spread. Two independent runs differ by
        # sqrt(2) times what one varies.
        spread = prior.sd * math.sqrt(num_trials)
        degrees = math.inf if prior.num_seeds is None else prior.num_seeds - 1
        seeds = "1 seed" if n == 1 else f"{n} equal seeds"
        basis = f"{seeds}, judged by the spread between seeds known before ({spread:.2g}; {prior.source})"
    else:
        return _Estimate(mean, n)
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, degrees)) * spread / math.sqrt(n)
    return _Estimate(mean, n, mean - half, mean + half, spread, basis)


def _decide_order(claim: Claim, scale: Scale, estimate: _Estimate) -> Verdict:
    sign = -1.0 if METRICS[claim.metric].lower_is_better else 1.0
    low, high = sorted((sign * estimate.low, sign * estimate.high))
    first, second = claim.trials
    difference = f"{first} minus {second}: {estimate.mean:+.2f} {claim.unit}"
    if low > 0:
        return _with(estimate, _word(True, scale), f"{difference}, {estimate.basis}", claim)
    if high < 0:
        return _with(estimate, _word(False, scale), f"{difference}, {estimate.basis}", claim)
    needed = _seeds_needed(estimate.spread, abs(estimate.mean))
    return _with(estimate, "undecided", f"{difference}, {estimate.basis}; {needed}", claim)


def _decide_equivalence(claim: Claim, scale: Scale, estimate: _Estimate) -> Verdict:
    lower, upper = claim.expected - claim.tolerance, claim.expected + claim.tolerance
    statement = f"measured {estimate.mean:.2f} against {claim.expected:g} ± {claim.tolerance:g} {claim.unit}"
    if lower <= estimate.low and estimate.high <= upper:
        return _with(estimate, _word(True, scale), f"{statement}, {estimate.basis}", claim)
    if estimate.high < lower or estimate.low > upper:
        return _with(estimate, _word(False, scale), f"{statement}, {estimate.basis}", claim)
    # The interval has to shrink until it lies on one side of the nearer edge of the margin.
    gap = min(abs(estimate.mean - lower), abs(estimate.mean - upper))
    return _with(estimate, "undecided", f"{statement}, {estimate.basis}; {_seeds_needed(estimate.spread, gap)}", claim)


def _word(holds: bool, scale: Scale) -> str:
    if scale.name == FULL_SCALE:
        return "reproduced" if holds else "not reproduced"
    return "agrees" if holds else "disagrees"


def _seeds_needed(spread: float, gap: float) -> str:
    import numpy as np
    from scipy import stats

    numbers = np.arange(2, MOST_SEEDS + 1)
    halves = stats.t.ppf(0.5 + CONFIDENCE / 2, numbers - 1) * spread / np.sqrt(numbers)
    enough = numbers[halves < gap]
    if enough.size:
        return f"{enough[0]} seeds would settle it at this spread"
    return f"more than {MOST_SEEDS} seeds would be needed at this spread"


def _seed_list(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _with(estimate: _Estimate, verdict: str, reason: str, claim: Claim) -> Verdict:
    runs = estimate.num_seeds * len(claim.trials)
    return Verdict(verdict, reason, estimate.mean, estimate.low, estimate.high, runs)
