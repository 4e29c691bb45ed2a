"""What a claim is: one checkable statement of the paper, tied to its cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["value", "order", "difference", "exact"]

LOWER_IS_BETTER = {"dev_bleu": False, "dev_ppl": True}
"""Direction of each measured metric that an order may be stated on."""


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
    unit: str
    source: str
    expected: float | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        wanted = 1 if self.kind in ("value", "exact") else 2
        if len(self.trials) != wanted:
            raise ValueError(f"claim {self.id}: kind {self.kind} is about {wanted} trial(s), not {len(self.trials)}")
        if self.kind == "order":
            if self.metric not in LOWER_IS_BETTER:
                raise ValueError(f"claim {self.id}: no direction is known for metric {self.metric!r}")
        elif self.expected is None or self.tolerance is None:
            raise ValueError(f"claim {self.id}: kind {self.kind} needs an expected value and a tolerance")
