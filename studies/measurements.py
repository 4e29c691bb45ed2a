"""What is measured of a trial, and whether two measurements, or one and a claim, are of the same thing.

Identity comes before value: scores of another data set, line count, protocol, scale or budget are not compared, however
near they come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from studies.claim import Budget, Claim
from studies.inference import Spread
from studies.scales import Scale

# "About 25,000 tokens" (5.1) is as near as this, as a share.
BUDGET_TOLERANCE = 0.1


@dataclass(frozen=True)
class ScoreIdentity:
    """What a score is of: test set, its line count, the protocol as a signature, and the data that was trained on."""

    dataset: str
    num_items: int
    signature: str
    data_fingerprint: str = ""


@dataclass(frozen=True)
class Measurements:
    """What a store holds about one trial at one scale and one score.

    Attributes:
        values: the score by seed.
        bad_seeds: how other seeds ended, `failed`, `diverged`, or `done` without this score where others have it.
        unscored: seeds whose output could not be scored, with the reason; a number there would be of a part of it.
        unmeasured: whether runs are done and none of them has this score.
        identities, budgets, code_versions: of the runs behind `values`; one of each is what can be compared.
        replicates: by seed, the score of resampled test sets, the same draws for every run of a test set.
        own_errors: by seed, how far the value is uncertain by itself: an exponent by its fit, a mean by the
            repeats within the run.
    """

    values: Mapping[int, float] = field(default_factory=dict)
    bad_seeds: Mapping[int, str] = field(default_factory=dict)
    unscored: Mapping[int, str] = field(default_factory=dict)
    unmeasured: bool = False
    identities: frozenset[ScoreIdentity] = frozenset()
    budgets: frozenset[Budget] = frozenset()
    code_versions: frozenset[str] = frozenset()
    replicates: Mapping[int, Sequence[float]] = field(default_factory=dict)
    own_errors: Mapping[int, Spread] = field(default_factory=dict)


def values_by_seed(samples: Sequence[Measurements]) -> dict[int, float]:
    """One trial's values, or first minus second for each seed that both have."""
    if len(samples) == 1:
        return dict(sorted(samples[0].values.items()))
    first, second = (sample.values for sample in samples)
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def bad_seeds(claim: Claim, samples: Sequence[Measurements]) -> list[str]:
    """In words: the seeds of each trial that did not end well, of how many."""
    lines = []
    for trial, sample in zip(claim.trials, samples, strict=True):
        if sample.bad_seeds:
            total = len(sample.values.keys() | sample.bad_seeds.keys())
            how = ", ".join(f"seed {seed} {end}" for seed, end in sorted(sample.bad_seeds.items()))
            lines.append(f"{len(sample.bad_seeds)} of {total} runs of {trial} ended badly ({how})")
    return lines


def resampled_interval(
    samples: Sequence[Measurements], seeds: Sequence[int]
) -> tuple[float, float] | tuple[None, None]:
    """The middle 95% over resampled test sets of what is measured, paired where it is a difference."""
    import numpy as np

    from core.scoring.bootstrap import Interval

    drawn = [[sample.replicates.get(seed, ()) for seed in seeds] for sample in samples]
    lengths = {len(replicates) for trial in drawn for replicates in trial}
    if len(lengths) != 1 or lengths == {0}:
        return None, None
    means = [np.mean(np.asarray(trial, float), axis=0) for trial in drawn]
    interval = Interval.of(means[0] if len(means) == 1 else means[0] - means[1])
    return interval.low, interval.high


def what_differs(claim: Claim, scale: Scale, samples: Sequence[Measurements]) -> str | None:
    """Why the scores of a claim's trials cannot be compared, with each other or with the claim; None if they can."""
    found = sorted(frozenset().union(*(sample.identities for sample in samples)), key=repr)
    for what, values in (
        ("test sets", {f"{each.num_items:,} lines of {each.dataset}" for each in found}),
        ("protocols", {each.signature for each in found}),
        ("training data", {each.data_fingerprint for each in found}),
    ):
        if len(values) > 1:
            return f"scores of different {what}: {' and '.join(sorted(values))}"
    if claim.identity is None:
        return None
    if scale.name != claim.identity.scale:
        if len(claim.trials) == 2 and claim.kind != "value":
            return None  # an order or a difference keeps its meaning at other sizes
        return f"other scale: the paper's {claim.expected:g} is about its own data and sizes, not those of {scale.name}"
    wanted = claim.identity
    for each in found:
        if (each.dataset, each.num_items) != (wanted.dataset, wanted.num_items):
            return (
                f"other test set: {each.num_items:,} lines of {each.dataset}, and the claim is about "
                f"{wanted.num_items:,} lines of {wanted.dataset}"
            )
        lacking = wanted.missing_fields(each.signature)
        if lacking:
            return f"other protocol: the claim is about {' and '.join(lacking)}, the score is {each.signature}"
    for trial, sample, budget in zip(claim.trials, samples, wanted.budgets, strict=True):
        for found_budget in sample.budgets:
            if not same_budget(found_budget, budget):
                return (
                    f"other budget: {trial} had {_budget_words(found_budget)}, and the claim is about "
                    f"{_budget_words(budget)}"
                )
    return None


def same_budget(found: Budget, wanted: Budget) -> bool:
    """Whether a training was as long, on about as many tokens an update, as the claim's."""
    return found.train_steps == wanted.train_steps and all(
        math.isclose(have, want, rel_tol=BUDGET_TOLERANCE)
        for have, want in (
            (found.source_tokens, wanted.source_tokens),
            (found.target_tokens, wanted.target_tokens),
        )
    )


def _budget_words(budget: Budget) -> str:
    return f"{budget.source_tokens:,} + {budget.target_tokens:,} tokens an update for {budget.train_steps:,} updates"
