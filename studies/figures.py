"""Figures 3 to 5: what heads of the encoder's layer 5 of 6 attend to (appendix).

Heads have no fixed role in another training, so a claim is about how many heads, or the best one or two, never about
numbers 5 and 6. Each caption is read twice: of the figure's own sentence, where it is about the paper's model alone,
and over many sentences with a gold analysis, against nulls (`core.attention_measures` has what is measured).

Nothing is trained here: the runs measured are those of Table 3's base row, seed by seed.
"""

from __future__ import annotations

from dataclasses import dataclass

from studies import wmt14
from studies.claim import Bound, Budget, Claim, Identity
from studies.study import Study, Trial
from studies.table3 import STUDY as TABLE3
from studies.work import AttentionProbe

LAYER, NUM_LAYERS = 5, 6
MAKING = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 making the "
    "registration or voting process more difficult ."
)
LAW = (
    "The Law will never be perfect , but its application should be just - this is what we are missing , in my opinion ."
)
# Who looks, and at what, by the captions of Figures 3 and 4.
MAKING_WORDS = ("making", ("more", "difficult"))
LAW_WORDS = ("its", ("Law", "application"))

ATTENTION, UNTRAINED = "attention", "untrained"


@dataclass(frozen=True)
class Reading:
    """One thing that a figure says, as a number that falls on one side of a bound.

    `trials`: whose number; of two, the first minus the second. `own_sentence`: about the figure's own sentence, so that
    it means something for the paper's model alone.
    """

    id: str
    statement: str
    metric: str
    bound: Bound
    expected: float
    trials: tuple[str, ...] = (ATTENTION,)
    own_sentence: bool = False


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
                own_sentence=True,
            ),
            Reading(
                "share",
                "Of the heads' attention at making, more than even shares go to more difficult.",
                "attention_share",
                ">",
                2 / len(MAKING.split()),
                own_sentence=True,
            ),
            Reading(
                "far_heads.over_shuffled",
                "More heads attend from a verb to its distant completion than to other words as far away.",
                "far_heads_over_shuffled",
                ">",
                0,
            ),
            Reading(
                "far_heads.over_untrained",
                "More heads attend from a verb to its distant completion than before training.",
                "far_heads",
                ">",
                0,
                trials=(ATTENTION, UNTRAINED),
            ),
            Reading(
                "far_head.over_offset",
                "The best head finds a verb's distant completion more often than any fixed offset does.",
                "far_head_over_offset",
                ">",
                0,
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
                own_sentence=True,
            ),
            Reading("two_heads", "At least two heads do so.", "num_heads_attending", ">=", 2, own_sentence=True),
            Reading(
                "antecedent.over_shuffled",
                "The best head gives a pronoun's antecedent more weight than other words as far away.",
                "antecedent_over_shuffled",
                ">",
                0,
            ),
            Reading(
                "antecedent.over_untrained",
                "The best head gives a pronoun's antecedent more weight than before training.",
                "antecedent_share",
                ">",
                0,
                trials=(ATTENTION, UNTRAINED),
            ),
            Reading(
                "antecedent.over_offset",
                "The best head finds a pronoun's antecedent more often than any fixed offset does.",
                "antecedent_over_offset",
                ">",
                0,
            ),
            Reading(
                "antecedent.sharp",
                "That head attends more sharply from pronouns than from the other words of their sentences.",
                "antecedent_sharpness",
                ">",
                0,
            ),
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
                own_sentence=True,
            ),
            Reading(
                "divergence.over_untrained",
                "Heads of the layer differ from each other more than before training.",
                "mean_head_distance",
                ">",
                0,
                trials=(ATTENTION, UNTRAINED),
            ),
            Reading(
                "relations.different",
                "Heads look along at least two different dependency relations, better than any fixed offset does.",
                "relations_covered",
                ">=",
                2,
            ),
            Reading(
                "relations.over_shuffled",
                "More heads look along a dependency relation than along one with shuffled ends.",
                "relation_heads_over_shuffled",
                ">",
                0,
            ),
            Reading(
                "relations.over_untrained",
                "More heads look along a dependency relation than before training.",
                "relation_heads",
                ">",
                0,
                trials=(ATTENTION, UNTRAINED),
            ),
        ),
    ),
)
PAPER_SENTENCES = (3, 4)
"""Figures whose sentences are drawn for every run; Figure 5 has Figure 4's."""


def _identity(figure: Figure) -> Identity:
    return Identity(
        dataset=f"paper/{figure.name}/en",
        num_items=1,
        protocol=f"attention:encoder|layer:{LAYER} of {NUM_LAYERS}",
        budgets=(Budget(25_000, 25_000, wmt14.BASE_STEPS),),
    )


def _claim(figure: Figure, reading: Reading) -> Claim:
    layer = f"layer {LAYER} of {NUM_LAYERS}" if reading.own_sentence else "the last layer but one"
    return Claim(
        id=f"{figure.name}.{reading.id}",
        cell=f"Figure {figure.number}, encoder self-attention, {layer}",
        statement=reading.statement,
        kind="threshold",
        metric=reading.metric,
        trials=reading.trials,
        source=f"Figure {figure.number}",
        expected=reading.expected,
        bound=reading.bound,
        identity=_identity(figure) if reading.own_sentence else None,
    )


def _study(figure: Figure) -> Study:
    base = TABLE3.trial("base")
    trials = (
        Trial(ATTENTION, "attention", "base, trained", base.change, _probe(figure, trained=True)),
        Trial(UNTRAINED, "attention", "base before its first update", base.change, _probe(figure, trained=False)),
    )
    return Study(
        name=figure.name,
        title=figure.title,
        cells=f"Figure {figure.number}",
        trials=trials,
        claims=tuple(_claim(figure, reading) for reading in figure.readings),
    )


def _probe(figure: Figure, trained: bool) -> AttentionProbe:
    return AttentionProbe(TABLE3.name, "base", figure.number, trained)


STUDIES = tuple(_study(figure) for figure in FIGURES)
