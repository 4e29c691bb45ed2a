"""What a trial does: train a model, measure one that another trial has trained, or measure what needs no trained model.

A trial says so with one of these objects; `studies.trials` does what each means. All but training stand in the run's
configuration under `work`, so that a run's folder tells what it is and its id covers it: also which run it measures,
and by what code.

Each kind says of itself whether it reads the configuration's corpus (`reads_corpus`), whether it is about the
configuration's model (`is_of_model`), and whether its sizes are its own (`full_size`): it is then one run for all
scales and stands at the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from results import provenance

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Training:
    """Trains a model from nothing, then scores it."""

    reads_corpus: ClassVar[bool] = True
    full_size: ClassVar[bool] = False
    is_of_model: ClassVar[bool] = True

    @property
    def measures(self) -> None:
        """No other trial."""

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """Nothing: the configuration is the training's own."""
        return {}


@dataclass(frozen=True)
class _OfAnotherRun:
    """Work on a model that needs the finished run of another trial, of the same scale and seed.

    Attributes:
        study, trial: whose run; it is carried out first where that was not done yet.
    """

    study: str
    trial: str
    reads_corpus: ClassVar[bool] = True
    full_size: ClassVar[bool] = False
    is_of_model: ClassVar[bool] = True

    @property
    def measures(self) -> tuple[str, str]:
        """The study and the trial whose run must be done before."""
        return self.study, self.trial


@dataclass(frozen=True)
class AttentionProbe(_OfAnotherRun):
    """Measures the attention of the finished run of another trial, of the same scale and seed (Figures 3 to 5).

    Attributes:
        figure: whose measures.
        trained: False measures the same model as it was before its first update, as a null.
        treebank: whose sentences are looked at; without one, the generated grammar's.
    """

    figure: int
    trained: bool = True
    treebank: str | None = None

    @property
    def needs_antecedents(self) -> bool:
        """Whether it asks what pronouns stand for, which no treebank marks."""
        return self.figure == 4

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one of the run `measured`."""
        return _stored(self, measured, "trained/attention.py", "trials/attention_probe.py")


class _Alone:
    """Work that needs neither a corpus nor another trial's run, and whose sizes are its own."""

    reads_corpus: ClassVar[bool] = False
    is_of_model: ClassVar[bool] = False
    sources: ClassVar[tuple[str, ...]]

    @property
    def measures(self) -> None:
        """No other trial."""

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says of it."""
        return {"work": {"kind": type(self).__name__, **asdict(self), "sources": provenance_of(*self.sources)}}


@dataclass(frozen=True)
class ComplexityProbe(_Alone):
    """Measures a layer type at work (Table 1): it has the same sizes, and means the same, whatever scale is asked for.

    Attributes:
        layer: one of `studies.table1.LAYERS`.
        measure: `cost` in operations and seconds over one size, `steps` that wait for each other, `path` between
            positions, or `against`, the cost over n and d beside another layer type's.
        size: in which growth is measured: n, d, k or r.
    """

    layer: str
    measure: Literal["cost", "steps", "path", "against"]
    size: str
    sources: ClassVar[tuple[str, ...]] = ("trials/complexity_probe.py", "layer_types.py")
    full_size: ClassVar[bool] = True


@dataclass(frozen=True)
class StatementProbe(_Alone):
    """Measures what a sentence of section 3 says of a part of the model, at the paper's sizes, whatever the scale.

    Attributes:
        statement: which, one of `studies.trials.statement_probe.STATEMENTS`.
    """

    statement: str
    sources: ClassVar[tuple[str, ...]] = ("trials/statement_probe.py",)
    full_size: ClassVar[bool] = True


@dataclass(frozen=True)
class TaskProbe(_Alone):
    """Trains small models on a made-up task in seconds, several times, and measures how well they do (section 3).

    It stands in for a training that the paper speaks of, so a run belongs to the scale that it was asked for, where a
    claim agrees at best; at the paper's scale it is about other data than the paper's.

    Attributes:
        task: one of `studies.trials.task_probe.TASKS`.
        variant: what is compared: an attention function, or a kind of positions.
        size: d_k, or how many times as long as the longest in training a sequence is.
    """

    task: Literal["recall", "longer"]
    variant: str
    size: int
    sources: ClassVar[tuple[str, ...]] = ("trials/task_probe.py",)
    full_size: ClassVar[bool] = False


@dataclass(frozen=True)
class CapabilityProbe(_Alone):
    """Trains a small model on each of the made-up tasks of `core.probe_tasks` and asks it (`studies.capabilities`).

    The model is that of the run's configuration, trained for as many updates at most. Sizes are the same at every
    scale; updates are not, and a run belongs to the scale that it was asked for.
    """

    learning_rate: float
    sources: ClassVar[tuple[str, ...]] = ("trials/capability_probe.py", "capabilities.py")
    is_of_model: ClassVar[bool] = True
    full_size: ClassVar[bool] = False


@dataclass(frozen=True)
class SelfTraining(_OfAnotherRun):
    """Trains a parser on gold trees and on silver ones, which the finished run of a first parser makes (6.3).

    Attributes:
        keep_share: of the first parser's trees, the more confident ones.
    """

    keep_share: float = 0.5

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one of its own training."""
        return _stored(self, measured, "trials/self_training.py")


@dataclass(frozen=True)
class Redecoding(_OfAnotherRun):
    """Scores the finished run of another trial on the development split with other settings of the search (6.3)."""

    beam_size: int
    length_penalty: float

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one of the run `measured`."""
        return _stored(self, measured, "trials/redecoding.py")


@dataclass(frozen=True)
class BaselineParser:
    """Scores a parser that is read off the training trees at once, or off none (`core.baselines.grammar_parsers`)."""

    method: Literal["right_branching", "pcfg"]
    reads_corpus: ClassVar[bool] = True
    full_size: ClassVar[bool] = False
    is_of_model: ClassVar[bool] = False

    @property
    def measures(self) -> None:
        """No other trial."""

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one whose data it reads."""
        return _stored(self, measured, "trials/baseline_parsers.py")


Work = (
    Training
    | AttentionProbe
    | ComplexityProbe
    | StatementProbe
    | TaskProbe
    | CapabilityProbe
    | SelfTraining
    | Redecoding
    | BaselineParser
)
TRAINING = Training()
TRAINS = (Training, SelfTraining)
"""The kinds that end in a model."""

_KINDS = {kind.__name__: kind for kind in get_args(Work) if kind is not Training}


def _stored(work: Work, measured: str | None, *files: str) -> dict[str, Any]:
    """What stands under `work` in a run's configuration; `files` are those whose change makes new runs."""
    kind = type(work).__name__
    return {"work": {"kind": kind, **asdict(work), "run": measured, "source": provenance_of(*files)}}


@cache
def provenance_of(*files: str) -> str:
    """A hash of these files of this folder, apart from the engine's: a change of a measure trains nothing again."""
    return provenance.code_version([_HERE / file for file in files])


def work_of(config: Mapping[str, Any]) -> Work:
    """What a run of this stored configuration does.

    Raises:
        ValueError: work that this version does not know.
    """
    stored = config.get("work")
    if stored is None:
        return Training()
    kind = _KINDS.get(stored.get("kind"))
    if kind is None:
        raise ValueError(f"a run that does {stored.get('kind')!r} is not known here; known: {', '.join(_KINDS)}")
    names = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in stored.items() if name in names})
