"""From claims and measurements to verdicts: pure functions, so that they can be tested as such.

Identity comes before value (`studies.measurements`), and runs of different code are not compared. Seeds that failed,
diverged or could not be scored count: what is left after them is a selection, and decides nothing.

Then the mean over seeds, or over seeds of first minus second, is tested against the region that the claim says it lies
in (`studies.inference`). Claims that are tested at one scale in one table are a family: the chance that any of its
verdicts is `reproduced` or `agrees` wrongly is at most 2.5%, and that any is `not reproduced` or `disagrees` wrongly
another 2.5%, each by Holm's method. Exact claims are no part of it, since nothing in them is left to chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from studies import reasons
from studies.claim import METRICS, Claim
from studies.inference import (
    LEAST_SPREAD,
    LEVEL,
    MOST_SEEDS,
    Estimate,
    Evidence,
    Spread,
    estimate,
    evidence,
    holm,
    seeds_needed,
)
from studies.measurements import Measurements, bad_seeds, resampled_interval, values_by_seed, what_differs
from studies.scales import Scale

FULL_SCALE = "paper"


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
    """A claim that its measurements can decide: what is left to do is to correct for the others of its family.

    `source` says where the spread that was known before comes from.
    """

    question: Question
    sample: Estimate
    source: str
    region: tuple[float, float]
    evidence: Evidence
    draft: Verdict

    @property
    def points_to_holding(self) -> bool:
        """Whether the mean lies where the claim says."""
        return self.region[0] <= self.sample.mean <= self.region[1]

    def word(self, holds_p: float, fails_p: float) -> str:
        """The verdict that these p-values give."""
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
    bad = bad_seeds(claim, samples)
    unscored = [
        f"the output of {trial}, seed {seed}, has no {claim.metric}: {reason}"
        for trial, sample in zip(claim.trials, samples, strict=True)
        for seed, reason in sorted(sample.unscored.items())
    ]
    values = values_by_seed(samples)
    if not values:
        return _without_values(question, samples, bad, unscored)
    known, source = _known_spread(question, samples)
    sample = estimate(list(values.values()), known, skew_cancels=len(samples) == 2)
    draft = _draft(claim, sample, samples, list(values))
    difference = what_differs(claim, scale, samples)
    if difference:
        return replace(draft, verdict="not comparable", reason="; ".join([difference, *bad]))
    if unscored:
        return replace(draft, verdict="blocked", reason="; ".join([*unscored, *bad]))
    if bad:
        return replace(draft, reason=f"{'; '.join(bad)}: the rest is a selection")
    codes = sorted(frozenset().union(*(measured.code_versions for measured in samples)))
    if len(codes) > 1:
        return replace(draft, reason=f"runs by different code ({', '.join(codes)}): run them again")
    if METRICS[claim.metric].counted and sample.observed <= LEAST_SPREAD:
        return _decide_counted(question, draft)
    if not sample.has_spread:
        seeds = "1 seed tells" if sample.num_seeds == 1 else f"{sample.num_seeds} equal seeds tell"
        lacking = f"{seeds} nothing about the spread, and none is known at scale {scale.name}"
        return replace(draft, reason=f"{reasons.statement(claim, sample.mean)}; {lacking}")
    region = claimed_region(claim)
    return _Test(question, sample, source, region, evidence(sample, *region), draft)


def _without_values(
    question: Question, samples: Sequence[Measurements], bad: Sequence[str], unscored: Sequence[str]
) -> Verdict:
    claim = question.claim
    if unscored:
        return Verdict("blocked", "; ".join([*unscored, *bad]))
    bare = {trial: sample for trial, sample in zip(claim.trials, samples, strict=True) if not sample.values}
    untouched = [trial for trial, sample in bare.items() if not sample.bad_seeds and not sample.unmeasured]
    if bad and not untouched:
        return Verdict("undecided", f"{'; '.join(bad)}: nothing is left to compare")
    if question.blocked:
        return Verdict("blocked", question.blocked)
    if question.awaited:
        return Verdict("not run", f"this version cannot run {' and '.join(question.awaited)} yet")
    if bare and not untouched:
        return Verdict("not run", f"runs of {' and '.join(bare)} are done, and none has a score {claim.metric}")
    missing = f"no finished run of {' and '.join(untouched) or 'both trials with one seed'}"
    return Verdict("not run", "; ".join([missing, *bad]))


# The value ----------------------------------------------------------------------------------------------------------


def _known_spread(question: Question, samples: Sequence[Measurements]) -> tuple[Spread | None, str]:
    """What is known of the spread before any seed is looked at, and where from.

    It is the error of each run's own value where runs tell it, else the spread between seeds at this scale. Two
    independent runs differ by sqrt(2) times what one varies; runs that share a seed's data order by less, if anything.
    """
    claim = question.claim
    errors = [_own_error(sample) for sample in samples]
    if None not in errors:
        error = math.sqrt(math.fsum(each.sd**2 for each in errors))
        return Spread(error, sum(each.degrees for each in errors)), "the error of a run's own value"
    prior = question.scale.seed_spread.get(claim.metric)
    if prior is None:
        return None, ""
    if len(samples) == 1:
        return Spread(prior.sd, prior.degrees), prior.source
    return Spread(prior.sd * math.sqrt(2), prior.degrees), f"√2 × {prior.sd:g} between seeds: {prior.source}"


def _own_error(sample: Measurements) -> Spread | None:
    """How far one run's value is uncertain by itself, over all seeds; None where not every run tells."""
    errors = [sample.own_errors.get(seed) for seed in sample.values]
    if None in errors:
        return None
    return Spread(math.sqrt(math.fsum(e.sd**2 for e in errors) / len(errors)), sum(e.degrees for e in errors))


def _draft(claim: Claim, sample: Estimate, samples: Sequence[Measurements], seeds: Sequence[int]) -> Verdict:
    """An undecided verdict with all that was measured; the reason is still to come."""
    low, high = sample.interval() if sample.has_spread else (None, None)
    test_low, test_high = resampled_interval(samples, seeds)
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
    reason = f"computed at full size: {number} against the printed {reasons.expected(claim)}"
    return Verdict("reproduced" if holds else "not reproduced", reason, computed, computed, computed)


def _decide_counted(question: Question, draft: Verdict) -> Verdict:
    claim, counted = question.claim, draft.measured
    reason = f"counted: {reasons.statement(claim, counted).removeprefix('measured ')}, the same in every run"
    word = _word(question, _is_within(claim, counted))
    return replace(draft, verdict=word, reason=reason, low=counted, high=counted)


def _is_within(claim: Claim, number: float) -> bool:
    """Whether a number without uncertainty is what is claimed; rounding in the last digits is forgiven."""
    if claim.kind == "order":
        return number < 0 if METRICS[claim.metric].lower_is_better else number > 0
    if claim.kind == "threshold" and claim.bound in ("<", ">"):
        return number < claim.expected if claim.bound == "<" else number > claim.expected
    lower, upper = claimed_region(claim)
    slack = 1e-9 * max(1.0, abs(claim.expected or 0.0))
    return lower - slack <= number <= upper + slack


# The verdict --------------------------------------------------------------------------------------------------------


def _conclude(test: _Test, holds_p: float, fails_p: float, family_size: int, num_open: int) -> Verdict:
    """The verdict on a tested claim.

    Args:
        holds_p, fails_p: corrected p-values.
        num_open: how many claims of the family are not decided in the direction that this one points to.
    """
    points = test.points_to_holding
    raw, adjusted = (test.evidence.holds, holds_p) if points else (test.evidence.fails, fails_p)
    word, alone = test.word(holds_p, fails_p), test.word(test.evidence.holds, test.evidence.fails)
    parts = [
        reasons.statement(test.question.claim, test.sample.mean),
        reasons.basis(test.question.claim, test.sample, test.source),
        reasons.p_values(float(raw), adjusted, family_size),
    ]
    if word == "undecided":
        parts[-1] += f", where {LEVEL} is needed"
        if alone != word:
            parts.append(f"alone it would be {alone}")
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


def _word(question: Question, holds: bool) -> str:
    identity = question.claim.identity
    if question.scale.name == (identity.scale if identity else FULL_SCALE):
        return "reproduced" if holds else "not reproduced"
    return "agrees" if holds else "disagrees"
