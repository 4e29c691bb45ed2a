"""From claims and measurements to verdicts: pure functions, so that they can be tested as such.

Identity comes before value: a score of another data set, line count, protocol, scale or budget than the claim's is not
compared, nor are scores of two trials that differ in these, nor runs of different code. Seeds that failed, diverged or
could not be scored count: what is left after them is a selection, and decides nothing.

Then the mean over seeds, or over seeds of first minus second, is tested against the region that the claim says it lies
in (`studies.inference`). Claims that are tested at one scale in one table are a family: the chance that any of its
verdicts is `reproduced` or `agrees` wrongly is at most 2.5%, and that any is `not reproduced` or `disagrees` wrongly
another 2.5%, each by Holm's method. Exact claims are no part of it, since nothing in them is left to chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from studies.claim import METRICS, Budget, Claim
from studies.inference import (
    LEVEL,
    MOST_SEEDS,
    Estimate,
    Evidence,
    Spread,
    estimate,
    evidence,
    holm,
    percentile_interval,
    seeds_needed,
)
from studies.scales import Scale

FULL_SCALE = "paper"
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
        fits: by seed, how far an exponent is uncertain by the fit that it comes from.
    """

    values: Mapping[int, float] = field(default_factory=dict)
    bad_seeds: Mapping[int, str] = field(default_factory=dict)
    unscored: Mapping[int, str] = field(default_factory=dict)
    unmeasured: bool = False
    identities: frozenset[ScoreIdentity] = frozenset()
    budgets: frozenset[Budget] = frozenset()
    code_versions: frozenset[str] = frozenset()
    replicates: Mapping[int, Sequence[float]] = field(default_factory=dict)
    fits: Mapping[int, Spread] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A claim at one scale, and what is known there.

    `measured` holds measurements of `claim.metric` by trial; `blocked` says what runs would need and is not here;
    `awaited` names the trials that this version cannot run yet.
    """

    claim: Claim
    scale: Scale
    measured: Mapping[str, Measurements] = field(default_factory=dict)
    blocked: str | None = None
    awaited: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """How a claim ended, and why.

    Attributes:
        measured, low, high: the mean over seeds and its 95% interval, both as if no other claim were tested.
        p_value: one-sided, in the direction in which `measured` points; a verdict needs 0.025 after correction.
        p_adjusted: the same, corrected for the `family_size` claims that are tested together; 0 for none.
        alone: what the verdict would be without the correction.
        test_low, test_high: where 95% of resampled test sets would put `measured`, for these runs. Another kind of
            uncertainty, which no verdict rests on: other sentences, not other seeds.
    """

    verdict: str
    reason: str
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    num_runs: int = 0
    p_value: float | None = None
    p_adjusted: float | None = None
    family_size: int = 0
    alone: str | None = None
    test_low: float | None = None
    test_high: float | None = None


@dataclass(frozen=True)
class _Test:
    """A claim that its measurements can decide: what is left to do is to correct for the others of its family."""

    question: Question
    sample: Estimate
    region: tuple[float, float]
    evidence: Evidence
    statement: str
    draft: Verdict

    @property
    def points_to_holding(self) -> bool:
        return self.region[0] <= self.sample.mean <= self.region[1]

    def word(self, holds_p: float, fails_p: float) -> str:
        if holds_p <= LEVEL:
            return _word(self.question, holds=True)
        return _word(self.question, holds=False) if fails_p <= LEVEL else "undecided"


def decide(question: Question) -> Verdict:
    """The verdict on a claim that is tested alone."""
    return decide_family([question])[0]


def decide_family(questions: Sequence[Question]) -> list[Verdict]:
    """Verdicts on claims that are judged together, in order: those that can be tested are corrected for their number.

    "Holds" and "fails" are two families of hypotheses, each corrected at 2.5% by Holm's method, which needs no
    assumption on how claims depend on each other: many share the base model's runs.
    """
    outcomes = [_examine(question) for question in questions]
    tests = [outcome for outcome in outcomes if isinstance(outcome, _Test)]
    tested = iter(_decide_tests(tests) if tests else ())
    verdicts = [next(tested) if isinstance(outcome, _Test) else outcome for outcome in outcomes]
    return [
        replace(verdict, reason=f"{verdict.reason}; often said of the paper, which says otherwise")
        if question.claim.misquote
        else verdict
        for question, verdict in zip(questions, verdicts, strict=True)
    ]


def _decide_tests(tests: Sequence[_Test]) -> list[Verdict]:
    """Verdicts on a family of at least one."""
    holds = holm([test.evidence.holds for test in tests])
    fails = holm([test.evidence.fails for test in tests])
    decided = {True: int((holds <= LEVEL).sum()), False: int((fails <= LEVEL).sum())}
    return [
        _conclude(test, float(holds_p), float(fails_p), len(tests), len(tests) - decided[test.points_to_holding])
        for test, holds_p, fails_p in zip(tests, holds, fails, strict=True)
    ]


# Before the value ---------------------------------------------------------------------------------------------------


def _examine(question: Question) -> Verdict | _Test:
    """The verdict where one follows without a test, else the test."""
    claim, scale = question.claim, question.scale
    if claim.quoted:
        return Verdict("quoted", f"another system's number as printed in {claim.source}; no run here measures it")
    if claim.compute is not None:
        return _decide_computed(claim, float(claim.compute()))
    samples = [question.measured.get(trial, Measurements()) for trial in claim.trials]
    bad = _bad_seeds(claim, samples)
    unscored = [
        f"the output of {trial}, seed {seed}, has no {claim.metric}: {reason}"
        for trial, sample in zip(claim.trials, samples, strict=True)
        for seed, reason in sorted(sample.unscored.items())
    ]
    values = _values_by_seed([sample.values for sample in samples])
    if not values:
        return _without_values(question, samples, bad, unscored)
    sample = _sample(question, samples, list(values.values()))
    draft = _draft(claim, sample, samples, list(values))
    difference = _what_differs(question, samples)
    if difference:
        return replace(draft, verdict="not comparable", reason="; ".join([difference, *bad]))
    if unscored:
        return replace(draft, verdict="blocked", reason="; ".join([*unscored, *bad]))
    if bad:
        return replace(draft, reason=f"{'; '.join(bad)}: the rest is a selection")
    codes = sorted(frozenset().union(*(measured.code_versions for measured in samples)))
    if len(codes) > 1:
        return replace(draft, reason=f"runs by different code ({', '.join(codes)}): run them again")
    if METRICS[claim.metric].counted and sample.observed == 0.0:
        return _decide_counted(question, draft)
    if not sample.has_spread:
        seeds = "1 seed tells" if sample.num_seeds == 1 else f"{sample.num_seeds} equal seeds tell"
        known = f"and none is known at scale {scale.name}"
        return replace(draft, reason=f"{_statement(claim, sample.mean)}; {seeds} nothing about the spread, {known}")
    region = claimed_region(claim)
    return _Test(question, sample, region, evidence(sample, *region), _statement(claim, sample.mean), draft)


def _without_values(
    question: Question, samples: Sequence[Measurements], bad: Sequence[str], unscored: Sequence[str]
) -> Verdict:
    claim = question.claim
    if unscored:
        return Verdict("blocked", "; ".join([*unscored, *bad]))
    if bad:
        return Verdict("undecided", f"{'; '.join(bad)}: nothing is left to compare")
    if question.blocked:
        return Verdict("blocked", question.blocked)
    if question.awaited:
        return Verdict("not run", f"this version cannot run {' and '.join(question.awaited)} yet")
    unmeasured = [trial for trial, sample in zip(claim.trials, samples, strict=True) if sample.unmeasured]
    if unmeasured:
        return Verdict("not run", f"runs of {' and '.join(unmeasured)} are done, and none has a score {claim.metric}")
    missing = [trial for trial, sample in zip(claim.trials, samples, strict=True) if not sample.values]
    return Verdict("not run", f"no finished run of {' and '.join(missing) or 'both trials with one seed'}")


def _bad_seeds(claim: Claim, samples: Sequence[Measurements]) -> list[str]:
    """In words: the seeds of each trial that did not end well, of how many."""
    lines = []
    for trial, sample in zip(claim.trials, samples, strict=True):
        if sample.bad_seeds:
            total = len(sample.values.keys() | sample.bad_seeds.keys())
            how = ", ".join(f"seed {seed} {end}" for seed, end in sorted(sample.bad_seeds.items()))
            lines.append(f"{len(sample.bad_seeds)} of {total} runs of {trial} ended badly ({how})")
    return lines


def _what_differs(question: Question, samples: Sequence[Measurements]) -> str | None:
    """Why these scores cannot be compared, with each other or with the claim; None if they can."""
    claim, scale = question.claim, question.scale
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
    return found.train_steps == wanted.train_steps and all(
        math.isclose(have, want, rel_tol=BUDGET_TOLERANCE)
        for have, want in (
            (found.source_tokens, wanted.source_tokens),
            (found.target_tokens, wanted.target_tokens),
        )
    )


def _budget_words(budget: Budget) -> str:
    return f"{budget.source_tokens:,} + {budget.target_tokens:,} tokens an update for {budget.train_steps:,} updates"


# The value ----------------------------------------------------------------------------------------------------------


def _values_by_seed(values: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """One trial's values, or first minus second for each seed that both have."""
    if len(values) == 1:
        return {seed: values[0][seed] for seed in sorted(values[0])}
    first, second = values
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def _sample(question: Question, samples: Sequence[Measurements], values: Sequence[float]) -> Estimate:
    """The mean over seeds with the spread that it is judged by.

    What is known before is the spread between seeds at this scale or, for an exponent, the error of its own fit. Two
    independent runs differ by sqrt(2) times what one varies; runs that share a seed's data order by less, if anything.
    """
    claim = question.claim
    known = None
    fits = [fit for sample in samples for fit in sample.fits.values()]
    prior = question.scale.seed_spread.get(claim.metric)
    if claim.kind == "exponent" and fits:
        known = Spread(math.sqrt(math.fsum(fit.sd**2 for fit in fits) / len(fits)), sum(fit.degrees for fit in fits))
    elif prior is not None:
        known = Spread(prior.sd * math.sqrt(len(samples)), prior.degrees)
    return estimate(values, known, skew_cancels=len(samples) == 2)


def _draft(claim: Claim, sample: Estimate, samples: Sequence[Measurements], seeds: Sequence[int]) -> Verdict:
    """An undecided verdict with all that was measured; the reason is still to come."""
    low, high = sample.interval() if sample.has_spread else (None, None)
    test_low, test_high = _test_set_interval(samples, seeds)
    return Verdict(
        "undecided",
        "",
        measured=float(sample.mean),
        low=low if low is None else float(low),
        high=high if high is None else float(high),
        num_runs=sample.num_seeds * len(claim.trials),
        test_low=test_low,
        test_high=test_high,
    )


def _test_set_interval(
    samples: Sequence[Measurements], seeds: Sequence[int]
) -> tuple[float, float] | tuple[None, None]:
    """The middle 95% over resampled test sets of what is measured, paired where it is a difference."""
    import numpy as np

    drawn = [[sample.replicates.get(seed, ()) for seed in seeds] for sample in samples]
    lengths = {len(replicates) for trial in drawn for replicates in trial}
    if len(lengths) != 1 or lengths == {0}:
        return None, None
    means = [np.mean(np.asarray(trial, float), axis=0) for trial in drawn]
    return percentile_interval(means[0] if len(means) == 1 else means[0] - means[1])


def claimed_region(claim: Claim) -> tuple[float, float]:
    """Where the claim says the true mean lies."""
    if claim.kind == "order":
        return (-math.inf, 0.0) if METRICS[claim.metric].lower_is_better else (0.0, math.inf)
    if claim.kind == "threshold":
        return (claim.expected, math.inf) if claim.bound in (">", ">=") else (-math.inf, claim.expected)
    return claim.expected - claim.tolerance, claim.expected + claim.tolerance


def _decide_computed(claim: Claim, computed: float) -> Verdict:
    holds = _is_within(claim, computed)
    number = f"{computed:.6g} {claim.unit}".rstrip()
    reason = f"computed at full size: {number} against the printed {_expected(claim)}"
    return Verdict("reproduced" if holds else "not reproduced", reason, computed, computed, computed)


def _decide_counted(question: Question, draft: Verdict) -> Verdict:
    claim, counted = question.claim, draft.measured
    reason = f"counted: {_number(counted)} {claim.unit}".rstrip() + f" against {_expected(claim)}; no seed changes it"
    word = _word(question, _is_within(claim, counted))
    return replace(draft, verdict=word, reason=reason, low=counted, high=counted)


def _is_within(claim: Claim, number: float) -> bool:
    """Whether a number without uncertainty is what is claimed; rounding in the last digits is forgiven."""
    if claim.kind == "threshold" and claim.bound in ("<", ">"):
        return number < claim.expected if claim.bound == "<" else number > claim.expected
    lower, upper = claimed_region(claim)
    slack = 1e-9 * max(1.0, abs(claim.expected or 0.0))
    return lower - slack <= number <= upper + slack


# In words -----------------------------------------------------------------------------------------------------------


def _conclude(test: _Test, holds_p: float, fails_p: float, family_size: int, num_open: int) -> Verdict:
    """The verdict on a tested claim.

    Args:
        holds_p, fails_p: corrected p-values.
        num_open: how many claims of the family are not decided in the direction that this one points to.
    """
    points = test.points_to_holding
    raw, adjusted = (test.evidence.holds, holds_p) if points else (test.evidence.fails, fails_p)
    word, alone = test.word(holds_p, fails_p), test.word(test.evidence.holds, test.evidence.fails)
    parts = [test.statement, _basis(test), _p_values(float(raw), adjusted, family_size)]
    if word == "undecided":
        if alone != word:
            parts[-1] += f", which alone would be {alone}"
        parts.append(_seeds_in_words(test, num_open, family_size))
    return replace(
        test.draft,
        verdict=word,
        reason="; ".join(parts),
        p_value=float(raw),
        p_adjusted=adjusted,
        family_size=family_size,
        alone=alone,
    )


def _p_values(raw: float, adjusted: float, family_size: int) -> str:
    if family_size == 1:
        return f"p {_p(raw)}"
    return f"p {_p(raw)}, {_p(adjusted)} as one of {family_size} claims"


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def _basis(test: _Test) -> str:
    """How many seeds, and what spread they are judged by."""
    sample, claim = test.sample, test.question.claim
    what = "spread of the difference" if len(claim.trials) == 2 else "spread"
    seeds = f"{sample.num_seeds} seed{'s' if sample.num_seeds > 1 else ''}"
    own = f", {what} {sample.observed:.2g}" if sample.num_seeds > 1 else ""
    if sample.spread == sample.observed:
        return seeds + own
    prior = test.question.scale.seed_spread.get(claim.metric)
    if claim.kind == "exponent":
        source = "the error of the fit"
    elif len(claim.trials) == 2:
        source = f"√2 × {prior.sd:g} between seeds: {prior.source}"
    else:
        source = prior.source
    return f"{seeds}{own}, judged by {'one' if own else f'a {what}'} of {sample.spread:.2g} ({source})"


def _seeds_in_words(test: _Test, num_open: int, family_size: int) -> str:
    """How many seeds would settle the claim, were their mean and spread these."""
    points = test.points_to_holding

    def decides(number: int) -> bool:
        result = evidence(test.sample.with_seeds(number), *test.region)
        return (result.holds if points else result.fails) <= LEVEL / num_open

    needed = seeds_needed(decides, test.sample.num_seeds + 1)
    where = "at this spread" if family_size == 1 else "at this spread and correction"
    if needed is None:
        return f"more than {MOST_SEEDS} seeds would be needed {where}"
    return f"{needed} seeds would settle it {where}"


def _statement(claim: Claim, mean: float) -> str:
    if len(claim.trials) == 2:
        said = f"{claim.trials[0]} minus {claim.trials[1]}: {mean:+.4g} {claim.unit}"
        return said if claim.kind == "order" else f"{said} against {_expected(claim)}"
    return f"measured {_number(mean)} {claim.unit}".rstrip() + f" against {_expected(claim)}"


def _expected(claim: Claim) -> str:
    if claim.kind == "threshold":
        return f"{claim.bound} {_number(claim.expected)}"
    if not claim.tolerance:
        return _number(claim.expected)
    return f"{_number(claim.expected)} ± {_number(claim.tolerance)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 and value == round(value) else f"{value:.4g}"


def _word(question: Question, holds: bool) -> str:
    identity = question.claim.identity
    if question.scale.name == (identity.scale if identity else FULL_SCALE):
        return "reproduced" if holds else "not reproduced"
    return "agrees" if holds else "disagrees"
