"""Figures 3 to 5: what heads of the encoder's layer 5 of 6 attend to, in two sentences (appendix).

Heads have no fixed role in another training, so a claim is about how many heads, or the best two, never about numbers
5 and 6. A run's own attention is needed, which this version does not measure yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from studies.claim import Bound, Claim
from studies.study import Study

LAYER, NUM_LAYERS = 5, 6
MAKING = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 making the "
    "registration or voting process more difficult ."
)
LAW = (
    "The Law will never be perfect , but its application should be just - this is what we are missing , in my opinion ."
)


@dataclass(frozen=True)
class Reading:
    """One thing that a figure's caption says, as a number that falls on one side of a bound."""

    id: str
    statement: str
    metric: str
    bound: Bound
    expected: float


@dataclass(frozen=True)
class Figure:
    """A figure: its sentence, and what its caption says."""

    number: int
    title: str
    sentence: str
    shows: str
    readings: tuple[Reading, ...]

    @property
    def name(self) -> str:
        """Its study's."""
        return f"figure{self.number}"


FIGURES = (
    Figure(
        3,
        "Long-distance dependencies",
        MAKING,
        "attention of many heads at making, to the distant more difficult",
        (
            Reading(
                "many_heads",
                "Many of the 8 heads (more than half) attend from making to more difficult above all.",
                "num_heads_attending",
                ">",
                4,
            ),
            Reading(
                "share",
                "Of the heads' attention at making, more than even shares go to more difficult.",
                "attention_share",
                ">",
                2 / len(MAKING.split()),
            ),
        ),
    ),
    Figure(
        4,
        "Anaphora resolution",
        LAW,
        "two heads at its, to Law and application",
        (
            Reading(
                "its_sharp",
                "The two heads that attend most from its to Law and application give them more than half their weight.",
                "attention_share",
                ">",
                0.5,
            ),
            Reading("two_heads", "At least two heads do so.", "num_heads_attending", ">=", 2),
        ),
    ),
    Figure(
        5,
        "Heads learn different tasks",
        LAW,
        "two heads of one layer whose patterns differ",
        (
            Reading(
                "heads_differ",
                "Two heads of the layer differ in more than half of their weight (total variation).",
                "head_distance",
                ">",
                0.5,
            ),
        ),
    ),
)


def _study(figure: Figure) -> Study:
    return Study(
        name=figure.name,
        title=figure.title,
        cells=f"Figure {figure.number}",
        trials=(),
        claims=tuple(
            Claim(
                id=f"{figure.name}.{reading.id}",
                cell=f"Figure {figure.number}, encoder self-attention, layer {LAYER} of {NUM_LAYERS}",
                statement=reading.statement,
                kind="threshold",
                metric=reading.metric,
                trials=("attention",),
                source=f"Figure {figure.number}",
                expected=reading.expected,
                bound=reading.bound,
            )
            for reading in figure.readings
        ),
        awaited=("attention",),
    )


STUDIES = tuple(_study(figure) for figure in FIGURES)
