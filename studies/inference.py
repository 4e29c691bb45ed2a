"""Intervals and tests over seeds: the mathematics behind verdicts, for one claim or for arrays of them.

A score's mean over n seeds has the standard error s / sqrt(n), and (mean - truth) / error follows Student's t. Three
rules keep that honest for few seeds (`tests/benchmarks/calibration.py` measures how honest):

- **Floor.** While fewer seeds are at hand than the spread known before rests on, s is the larger of that one and the
  observed one, and t has the degrees of freedom of the one known before. Dividing by the larger can only widen, so for
  normal noise an interval is right whenever the spread known before is. Later the seeds at hand speak for themselves.
- **Allowance.** A mean of few skewed values errs more often than t says, since all of them can lie on the short side
  and look alike. In a difference of two runs the skew cancels; in one trial's values the floor, which stays for them,
  catches it. Where neither does, and for a single seed, p-values are multiplied by 5: a 99% interval takes the place
  of the 95% one.
- **Correction.** Claims of one table at one scale are a family, corrected by Holm's method.

Functions take and give numpy arrays or plain numbers, so that a simulation runs through the very code that decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# The most that a verdict may be wrong in either direction: what lies beyond a two-sided 95% interval on one side.
LEVEL = 0.025
ALLOWANCE = 5.0
# Values closer than this are equal up to rounding: they tell nothing about how much seeds differ.
LEAST_SPREAD = 1e-6
# Beyond this many seeds nobody runs a study.
MOST_SEEDS = 1_000


@dataclass(frozen=True)
class Spread:
    """A standard deviation, a number or an array, and the degrees of freedom that it rests on."""

    sd: Any
    degrees: int

    def to_details(self) -> dict[str, Any]:
        """As a score's details hold the error of its own value (`studies.gather`)."""
        return {"standard_error": float(self.sd), "degrees": self.degrees}


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and how far it can be trusted; each field a number or an array of one shape.

    `observed` is the spread of the values at hand (0 for one seed), `spread` the one that is judged by, with its
    `degrees` of freedom; `spread` is 0 where nothing tells how much seeds differ, and then no test can decide.
    `skew_is_met`: the skew of the noise cancels or the floor catches it.
    """

    mean: Any
    num_seeds: int
    observed: Any
    spread: Any
    degrees: int
    skew_is_met: bool

    @property
    def allowance(self) -> float:
        """What p-values are multiplied by, because the shape of the noise cannot be seen."""
        return 1.0 if self.num_seeds > 1 and self.skew_is_met else ALLOWANCE

    @property
    def error(self) -> Any:
        """Standard error of the mean."""
        return self.spread / math.sqrt(self.num_seeds)

    @property
    def has_spread(self) -> Any:
        """Whether anything tells how much seeds differ."""
        return self.spread > LEAST_SPREAD

    def interval(self) -> tuple[Any, Any]:
        """The 95% interval of the mean, widened where the allowance says so."""
        half = _quantile(self.degrees, LEVEL / self.allowance) * self.error
        return self.mean - half, self.mean + half

    def p_above(self, bound: float) -> Any:
        """One-sided p-value against "the true mean is at most `bound`": small where it is surely above."""
        return self._p(self.mean - bound)

    def p_below(self, bound: float) -> Any:
        """One-sided p-value against "the true mean is at least `bound`"."""
        return self._p(bound - self.mean)

    def _p(self, distance: Any) -> Any:
        import numpy as np
        from scipy.special import stdtr

        known = self.has_spread
        t = distance / np.where(known, self.error, 1.0)
        return np.where(known, np.minimum(1.0, self.allowance * stdtr(max(self.degrees, 1), -t)), 1.0)[()]

    def with_seeds(self, num_seeds: int) -> Estimate:
        """The same mean and spread, had they come from this many seeds."""
        return replace(self, num_seeds=num_seeds, degrees=max(self.degrees, num_seeds - 1))


def estimate(values: ArrayLike, known: Spread | None = None, skew_cancels: bool = False) -> Estimate:
    """Mean and spread of values by seed, along the last axis.

    Args:
        values: (..., n) floats, n >= 1: a trial's values, or differences of two trials paired by seed.
        known: the spread of such values as known before; its `sd` may be (...).
        skew_cancels: the values are differences of two runs whose noise has one shape.
    """
    import numpy as np

    array = np.asarray(values, dtype=float)
    num_seeds = array.shape[-1]
    observed = array.std(axis=-1, ddof=1) if num_seeds > 1 else np.zeros(array.shape[:-1])
    spread, degrees = observed, num_seeds - 1
    if known is not None:
        if skew_cancels and degrees >= known.degrees:
            spread = np.where(observed > LEAST_SPREAD, observed, known.sd)
        else:
            spread = np.maximum(observed, known.sd)
        degrees = max(degrees, known.degrees)
    skew_is_met = skew_cancels or known is not None
    return Estimate(array.mean(axis=-1)[()], num_seeds, observed[()], spread[()], degrees, skew_is_met)


def _quantile(degrees: int, tail: float) -> float:
    """The point that Student's t exceeds with probability `tail`."""
    from scipy.special import stdtrit

    return float(stdtrit(max(degrees, 1), 1.0 - tail))


@dataclass(frozen=True)
class Evidence:
    """For a claim and against it: one-sided p-values of "it does not hold" and of "it holds"; numbers or arrays."""

    holds: Any
    fails: Any


def evidence(sample: Estimate, lower: float, upper: float) -> Evidence:
    """Evidence on "the true mean lies from `lower` to `upper`", either of which may be infinite.

    An order or a threshold has one edge: its two p-values are those of the two one-sided t tests. An equivalence has
    two: it holds by two one-sided tests (TOST), of which the larger p-value counts, so that the interval lies inside;
    it fails on either side, and two chances to do so wrongly double the smaller p-value.
    """
    import numpy as np

    num_edges = math.isfinite(lower) + math.isfinite(upper)
    holds = np.maximum(sample.p_above(lower), sample.p_below(upper))
    fails = np.minimum(1.0, num_edges * np.minimum(sample.p_below(lower), sample.p_above(upper)))
    return Evidence(holds[()], fails[()])


def holm(p_values: ArrayLike) -> NDArray:
    """Holm's adjusted p-values along the last axis: at most `level` where the method rejects at `level`.

    The chance that any true hypothesis of the family is rejected is at most the level, however they depend on each
    other (Holm 1979): the i-th smallest of m is multiplied by m - i + 1, and none falls below its predecessor.
    """
    import numpy as np

    p = np.asarray(p_values, dtype=float)
    number = p.shape[-1]
    order = np.argsort(p, axis=-1, kind="stable")
    scaled = np.take_along_axis(p, order, axis=-1) * np.arange(number, 0, -1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(1.0, np.maximum.accumulate(scaled, axis=-1)), axis=-1)
    return adjusted


def seeds_needed(decides: Callable[[int], bool], fewest: int) -> int | None:
    """The least number of seeds, from `fewest` to MOST_SEEDS, at which `decides(number)` is true; None if none is.

    `decides` must stay true once it is, as a test does whose mean and spread stay the same while its seeds grow.
    """
    if fewest > MOST_SEEDS or not decides(MOST_SEEDS):
        return None
    low, high = fewest, MOST_SEEDS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return high


def error_of_mean(repeats: ArrayLike) -> Spread:
    """The standard error of the mean of at least two repeats within one run."""
    import numpy as np

    values = np.asarray(repeats, float)
    return Spread(float(values.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1)


@dataclass(frozen=True)
class Fit:
    """A power law's exponent, from a straight line through the logarithms, and the error of the fit."""

    exponent: Any
    error: Spread


def fit_exponent(sizes: ArrayLike, costs: ArrayLike) -> Fit:
    """The power with which costs grow over sizes, by least squares on the logarithms of both.

    Args:
        sizes: (m,), at least three different ones.
        costs: (..., m).

    Raises:
        ValueError: too few sizes, another number of costs, or a number that has no logarithm.
    """
    import numpy as np

    sizes, costs = np.asarray(sizes, float), np.asarray(costs, float)
    if costs.shape[-1:] != sizes.shape or len(np.unique(sizes)) < 3:
        raise ValueError(f"{len(sizes)} sizes and costs of shape {costs.shape}: an exponent needs 3 sizes, a cost each")
    if min(sizes.min(), costs.min()) <= 0:
        raise ValueError(f"sizes and costs must be above 0; the least is {min(sizes.min(), costs.min()):g}")
    x, y = np.log(sizes), np.log(costs)
    around = x - x.mean()
    slope = y @ around / (around @ around)
    residuals = y - y.mean(axis=-1, keepdims=True) - slope[..., None] * around
    degrees = len(sizes) - 2
    error = np.sqrt((residuals**2).sum(axis=-1) / degrees / (around @ around))
    return Fit(slope[()], Spread(error[()], degrees))
