"""The capability table that lectures derive from sections 1 and 2: which model has which property, each cell measured.

Every cell has a task that asks for the property (`core.probe_tasks`), on which a small model of each kind is trained in
seconds. What counts was laid down before anything was measured: a model has a property if, on the held-out examples of
its task, it comes at least half of the way from chance to perfect. The last row is counted on the graph of operations
instead: a model computes its positions in parallel if one more of them puts no operation more behind another.

How hard a task is (how many pairs, how long) and the learning rates were chosen with seed 1, so that what has a
property can show it within the smoke scale's updates. The threshold was not. What a model did not learn in that time it
may learn in more: at the small scale it has ten times as many updates. What it refuses, it can never do.

The lecture's first column is of word vectors pooled or concatenated; here both are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from core.architecture_config import (
    ArchitectureConfig,
    FeedForwardConfig,
    MemoryNetworkConfig,
    ModelConfig,
    RecurrentConfig,
    RecurrentLabellerConfig,
    WordVectors,
)
from core.config import RunConfig
from studies.claim import Claim
from studies.study import Study, Trial
from studies.work import CapabilityProbe

HAS_IT = 0.5
"""Of the way from chance to perfect: who comes this far has the property."""
WAITS = 0.5
"""Operations behind each other that one more position adds: below this it adds none, as it adds whole ones."""
MOST_UPDATES = 5_000
VOCAB_SIZE, D_MODEL = 128, 64
LONGEST = 18
"""Pieces of the longest input of any task, the end symbol included."""


@dataclass(frozen=True)
class Property:
    """A row of the lecture's table.

    Attributes:
        metric: the score that says how far a model has it, held against `threshold`.
        lecture: whether each column has it, in the order of `COLUMNS`.
    """

    id: str
    label: str
    metric: str
    lecture: tuple[bool, ...]

    @property
    def cell(self) -> str:
        """The score that says whether a model has it: 1 or 0."""
        return f"has_{self.id}"

    @property
    def threshold(self) -> float:
        """Of `metric`."""
        return WAITS if self.id == "parallel" else HAS_IT

    @property
    def at_least(self) -> bool:
        """Whether a model has it from the threshold on, or below it."""
        return self.id != "parallel"

    def is_had(self, value: float) -> bool:
        """Whether `metric` at this value means that a model has it."""
        return (value >= self.threshold) == self.at_least


COLUMNS = ("feed-forward", "recurrent", "encoder-decoder", "encoder-decoder + attention", "Transformer")
PROPERTIES = tuple(
    Property(id_, label, "added_steps" if id_ == "parallel" else f"{id_}_skill", tuple(cell == "1" for cell in cells))
    for id_, label, cells in (
        ("order", "models word order", "01111"),
        ("context", "models context", "01111"),
        ("length", "takes input of any length", "01111"),
        ("output", "output length differs from input length", "00111"),
        ("recall", "keeps long sequences (no forgetting)", "00011"),
        ("marked", "tells important time steps apart", "00011"),
        ("parallel", "computes all positions in parallel", "00001"),
    )
)


@dataclass(frozen=True)
class Subject:
    """A model that is tested; `column` is the lecture's, None where it has none."""

    trial: str
    label: str
    column: int | None
    model: ArchitectureConfig
    learning_rate: float = 2e-3


def _subjects() -> Iterator[Subject]:
    def feed_forward(word_vectors: WordVectors) -> FeedForwardConfig:
        return FeedForwardConfig(VOCAB_SIZE, word_vectors, D_MODEL, d_ff=256, max_pieces=LONGEST)

    # The two encoder-decoders differ in attention alone, and read the source in its order: so distance means distance.
    recurrent = RecurrentConfig(VOCAB_SIZE, num_layers=1, d_model=D_MODEL)
    yield Subject("feed_forward_pooled", "feed-forward, pooled", 0, feed_forward("pooled"))
    yield Subject("feed_forward_concatenated", "feed-forward, concatenated", 0, feed_forward("concatenated"))
    yield Subject("recurrent", "recurrent", 1, RecurrentLabellerConfig(VOCAB_SIZE, D_MODEL))
    yield Subject("encoder_decoder", "encoder-decoder", 2, recurrent, 3e-3)
    yield Subject("attention", "encoder-decoder + attention", 3, replace(recurrent, attention="bahdanau"), 3e-3)
    yield Subject(
        "transformer",
        "Transformer",
        4,
        ModelConfig(VOCAB_SIZE, num_layers=2, d_model=D_MODEL, d_ff=128, dropout=0.0).with_heads(4),
    )
    yield Subject("memory_network", "memory network", None, MemoryNetworkConfig(VOCAB_SIZE, D_MODEL, memory_size=32))


SUBJECTS = tuple(_subjects())


def _change(subject: Subject) -> Callable[[RunConfig], RunConfig]:
    """The subject's sizes, as many updates as the scale's base has, and the tasks' own vocabulary."""

    def change(base: RunConfig) -> RunConfig:
        return replace(
            base,
            model=subject.model,
            data=replace(base.data, vocab_size=VOCAB_SIZE),
            train=replace(base.train, train_steps=min(base.train.train_steps, MOST_UPDATES)),
        )

    return change


def claim_id(row: Property, subject: Subject) -> str:
    """Of a cell's claim."""
    return f"capabilities.{row.id}.{subject.trial}"


def _claims() -> Iterator[Claim]:
    for number, row in enumerate(PROPERTIES, start=1):
        for subject in SUBJECTS:
            if subject.column is None:
                continue
            has_it = row.lecture[subject.column]
            yield Claim(
                id=claim_id(row, subject),
                cell=f"the lectures' table, row {number}, {COLUMNS[subject.column]}",
                statement=f"{subject.label[0].upper()}{subject.label[1:]}: {row.label}, {'yes' if has_it else 'no'}.",
                kind="threshold",
                metric=row.cell,
                trials=(subject.trial,),
                source="lectures on sections 1 and 2",
                expected=0.5,
                bound=">" if has_it else "<",
                reading=subject.label if subject.column == 0 else "",
            )


STUDY = Study(
    name="capabilities",
    title="What each kind of model can do",
    cells="Sections 1 and 2, as lectures tell them",
    trials=tuple(
        Trial(each.trial, "models", each.label, _change(each), CapabilityProbe(each.learning_rate)) for each in SUBJECTS
    ),
    claims=tuple(_claims()),
)
