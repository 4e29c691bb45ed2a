"""The parts of a verdict's reason, in words."""

from __future__ import annotations

from studies.claim import Claim
from studies.inference import Estimate


def statement(claim: Claim, mean: float) -> str:
    """What was measured against what was claimed."""
    if len(claim.trials) == 2:
        said = f"{claim.trials[0]} minus {claim.trials[1]}: {mean:+.4g} {claim.unit}"
        return said if claim.kind == "order" else f"{said} against {expected(claim)}"
    return f"measured {number(mean)} {claim.unit}".rstrip() + f" against {expected(claim)}"


def expected(claim: Claim) -> str:
    """The number that is claimed, with its bound or tolerance."""
    if claim.kind == "threshold":
        return f"{claim.bound} {number(claim.expected)}"
    if not claim.tolerance:
        return number(claim.expected)
    return f"{number(claim.expected)} ± {number(claim.tolerance)}"


def number(value: float) -> str:
    """Four digits, or all of a count."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 and value == round(value) else f"{value:.4g}"


def p_values(raw: float, adjusted: float, family_size: int) -> str:
    """The p-value of a claim alone, and corrected for the claims that are tested with it."""
    return f"p {_p(raw)}" + (f", as one of {family_size} claims {_p(adjusted)}" if family_size > 1 else "")


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def basis(claim: Claim, sample: Estimate, source: str) -> str:
    """How many seeds, and what spread they are judged by; that of a difference is named as such.

    `source` is where the spread that was known before comes from.
    """
    what = "spread of the difference" if len(claim.trials) == 2 else "spread"
    seeds = f"{sample.num_seeds} seed{'s' if sample.num_seeds > 1 else ''}"
    own = f", {what} {sample.observed:.2g}" if sample.num_seeds > 1 else ""
    if sample.spread == sample.observed:
        return seeds + own
    return f"{seeds}{own}, judged by {'one' if own else f'a {what}'} of {sample.spread:.2g} ({source})"
