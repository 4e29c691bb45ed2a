"""What a claim is: one checkable statement of the paper, tied to its cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["value", "order", "difference", "exact"]


@dataclass(frozen=True)
class Metric:
    """A number that claims are about; `lower_is_better` is None where neither direction is better."""

    label: str
    unit: str
    lower_is_better: bool | None


METRICS = {
    "dev_bleu": Metric("bleu", "BLEU", lower_is_better=False),
    "dev_ppl": Metric("ppl", "perplexity", lower_is_better=True),
    "params_millions": Metric("params", "million", lower_is_better=None),
}
"""By the name under which a run's scores, or a study's computed numbers, hold it."""


@dataclass(frozen=True)
class Claim:
    """One statement, decided by `studies.verdict`.

    Attributes:
        id: names the cell, `table3.a.h1.bleu`.
        cell: where it stands, in words.
        statement: what is claimed, in one sentence of ours.
        kind: `value`: the metric of one trial lies within `tolerance` of `expected`. `order`: the first trial is better
            than the second. `difference`: first minus second lies within `tolerance` of `expected`. `exact`: a number
            that follows from the configuration alone lies within `tolerance` of `expected`.
        metric: name of the score that is compared, or of the computed number.
        trials: the trial, or the two trials, that it is about.
        source: section and version of the paper.
    """

    id: str
    cell: str
    statement: str
    kind: Kind
    metric: str
    trials: tuple[str, ...]
    source: str
    expected: float | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        wanted = 1 if self.kind in ("value", "exact") else 2
        if len(self.trials) != wanted:
            raise ValueError(f"claim {self.id}: kind {self.kind} is about {wanted} trial(s), not {len(self.trials)}")
        if self.metric not in METRICS:
            raise ValueError(f"claim {self.id}: no metric {self.metric!r}; known: {', '.join(METRICS)}")
        if self.kind == "order":
            if METRICS[self.metric].lower_is_better is None:
                raise ValueError(f"claim {self.id}: neither direction of {self.metric} is better, so there is no order")
        elif self.expected is None or self.tolerance is None:
            raise ValueError(f"claim {self.id}: kind {self.kind} needs an expected value and a tolerance")

    @property
    def unit(self) -> str:
        """What `expected`, `tolerance` and the measured value are in."""
        return METRICS[self.metric].unit
