"""What a number of seeds could decide, before anything runs: made-up studies, judged by the code that will judge.

Runs are drawn around what the paper prints, with the spread between seeds that the scale states, and tested as a family
by `studies.inference`. At a smaller scale nobody knows what to expect, so there the question is turned round: how large
must a difference be to be told from none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from studies.claim import Claim
from studies.inference import LEVEL, Spread, estimate, evidence, holm
from studies.scales import Scale, SeedSpread
from studies.study import Study
from studies.verdict import FULL_SCALE, claimed_region

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUM_STUDIES = 500
# A claim is likely to be settled if it is in four of five made-up studies.
LIKELY = 0.8


@dataclass(frozen=True)
class Prospect:
    """Claims of one kind and score in one study at one scale.

    Attributes:
        claims: how many there are to be measured.
        likely: how many of them are settled in four of five studies, if the paper is right; None where what to expect
            is not known.
        expected: how many of them are settled in the mean study.
        smallest_difference: what must lie between two trials, or a trial and the threshold, to be seen in four of five
            studies; None where the claim is about a margin.
        obstacle: why seeds alone settle none of them.
    """

    study: str
    kind: str
    metric: str
    claims: int
    likely: int | None = None
    expected: float | None = None
    smallest_difference: float | None = None
    obstacle: str = ""


def prospects(study: Study, scale: Scale, num_seeds: int) -> list[Prospect]:
    """What runs with this many seeds of every trial would decide, by kind of claim and score."""
    claims = [claim for claim in study.claims if not claim.full_size and not study.awaited_by(claim)]
    family = [claim for claim in claims if _is_tested(claim, scale, num_seeds)]
    predictable = [claim for claim in family if claim.metric in scale.seed_spread]
    shares = dict(
        zip(
            (c.id for c in predictable), _settled_shares(study, scale, predictable, num_seeds, len(family)), strict=True
        )
    )
    found = []
    for (kind, metric), group in groupby(sorted(claims, key=_kind_and_metric), _kind_and_metric):
        members = list(group)
        tested = [claim for claim in members if claim.id in shares]
        if not tested:
            obstacle = _obstacle(members[0], scale, num_seeds)
            found.append(Prospect(study.name, kind, metric, len(members), obstacle=obstacle))
            continue
        known = [shares[claim.id] for claim in tested if shares[claim.id] is not None]
        found.append(
            Prospect(
                study.name,
                kind,
                metric,
                len(members),
                likely=sum(share >= LIKELY for share in known) if known else None,
                expected=math.fsum(known) if known else None,
                smallest_difference=_smallest_difference(tested[0], scale, num_seeds, len(family)),
            )
        )
    return found


def _kind_and_metric(claim: Claim) -> tuple[str, str]:
    return claim.kind, claim.metric


def _is_comparable(claim: Claim, scale: Scale) -> bool:
    identity = claim.identity
    return identity is None or scale.name == identity.scale or len(claim.trials) == 2


def _is_tested(claim: Claim, scale: Scale, num_seeds: int) -> bool:
    """Whether runs would put a claim to the test, and so into the family that is corrected for its size."""
    return _is_comparable(claim, scale) and (num_seeds > 1 or claim.metric in scale.seed_spread)


def _obstacle(claim: Claim, scale: Scale, num_seeds: int) -> str:
    """Why nothing can be said of a claim beforehand."""
    if not _is_comparable(claim, scale):
        return f"not comparable at scale {scale.name}"
    return "the spread between seeds is not known" + (": run at least 2 seeds" if num_seeds == 1 else "")


def printed_value(study: Study, claim: Claim) -> float | None:
    """What the paper prints of the number that a claim is about: its trial's, or first minus second of two."""
    printed: dict[str, float] = {}
    for other in study.claims:
        if other.kind == "value" and other.metric == claim.metric and other.trials:
            printed.setdefault(other.trials[0], other.expected)  # of two readings, the table's comes first
    if claim.kind == "value":
        return claim.expected
    values = [printed.get(trial) for trial in claim.trials]
    if None in values:
        return None
    return values[0] - values[1] if len(values) == 2 else values[0]


def _spread(claim: Claim, scale: Scale) -> Spread:
    """The spread that a claim is judged by: two independent runs differ by sqrt(2) times what one varies."""
    known: SeedSpread = scale.seed_spread[claim.metric]
    return Spread(known.sd * math.sqrt(len(claim.trials)), known.degrees)


def _settled_shares(
    study: Study, scale: Scale, claims: Sequence[Claim], num_seeds: int, family: int
) -> Iterator[float | None]:
    """For each claim, the share of made-up studies that settle it; None where what to expect is not known.

    The rest of the family counts as undecided: it makes these harder.
    """
    import numpy as np

    random = np.random.default_rng(1706_03762)
    truths = [printed_value(study, claim) if scale.name == FULL_SCALE else None for claim in claims]
    found = [
        evidence(_made_up(claim, scale, truth, num_seeds, random), *claimed_region(claim))
        for claim, truth in zip(claims, truths, strict=True)
        if truth is not None
    ]
    rest = [np.ones(NUM_STUDIES)] * (family - len(found))
    settled = np.zeros((NUM_STUDIES, family), dtype=bool)
    if found:
        for side in ("holds", "fails"):
            settled |= holm(np.stack([getattr(each, side) for each in found] + rest, axis=-1)) <= LEVEL
    shares = iter(settled.mean(axis=0))
    for truth in truths:
        yield None if truth is None else float(next(shares))


def _made_up(claim: Claim, scale: Scale, truth: float | NDArray, num_seeds: int, random):
    """Estimates from NUM_STUDIES made-up studies for each truth, (..., NUM_STUDIES)."""
    import numpy as np

    spread = _spread(claim, scale)
    noise = random.normal(0.0, spread.sd, (NUM_STUDIES, num_seeds))
    around_zero = estimate(noise, spread, skew_cancels=len(claim.trials) == 2)
    return replace(around_zero, mean=np.asarray(truth)[..., None] + around_zero.mean)


def _smallest_difference(claim: Claim, scale: Scale, num_seeds: int, family: int) -> float | None:
    """The least distance from what the claim excludes that four of five studies see, as one of a family's claims.

    Corrected as the first of the family is by Holm's method, so it is the most that is needed.
    """
    import numpy as np

    if claim.kind not in ("order", "threshold"):
        return None
    spread = _spread(claim, scale)
    distances = spread.sd * np.geomspace(0.05, 50, 200)
    lower, upper = claimed_region(claim)
    truths = lower + distances if math.isfinite(lower) else upper - distances
    sample = _made_up(claim, scale, truths, num_seeds, np.random.default_rng(1706_03762))
    seen = (evidence(sample, lower, upper).holds <= LEVEL / family).mean(axis=-1) >= LIKELY
    return float(distances[seen.argmax()]) if seen.any() else None
