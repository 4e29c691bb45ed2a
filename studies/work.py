"""What a trial does: train a model, measure one that another trial has trained, or measure without any.

A trial says so with one of these objects; `studies.trial` does what each means. All but training stand in the run's
configuration under `work`, so that a run's folder tells what it is and its id covers it: also which run it measures,
and by what code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from results import provenance

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Training:
    """Trains a model from nothing, then scores it."""

    @property
    def measures(self) -> None:
        """No other trial."""

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """Nothing: the configuration is the training's own."""
        return {}


@dataclass(frozen=True)
class AttentionProbe:
    """Measures the attention of the finished run of another trial, of the same scale and seed (Figures 3 to 5).

    Attributes:
        figure: whose measures.
        study, trial: whose run; it is carried out first where that was not done yet.
        trained: False measures the same model as it was before its first update, as a null.
    """

    figure: int
    study: str
    trial: str
    trained: bool = True

    @property
    def measures(self) -> tuple[str, str]:
        """The study and the trial whose run must be done before."""
        return self.study, self.trial

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one of the run `measured`."""
        return _stored(self, measured, "attention.py", "attention_probe.py")


@dataclass(frozen=True)
class SelfTraining:
    """Trains a parser on gold trees and on silver ones, which the finished run of a first parser makes (6.3).

    Attributes:
        study, trial: the first parser's, of the same scale and seed.
        keep_share: of its trees, the more confident ones.
    """

    study: str
    trial: str
    keep_share: float = 0.5

    @property
    def measures(self) -> tuple[str, str]:
        """The study and the trial whose run must be done before."""
        return self.study, self.trial

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one of its own training."""
        return _stored(self, measured, "self_training.py")


@dataclass(frozen=True)
class Redecoding:
    """Scores the finished run of another trial on the development split with other settings of the search (6.3)."""

    study: str
    trial: str
    beam_size: int
    length_penalty: float

    @property
    def measures(self) -> tuple[str, str]:
        """The study and the trial whose run must be done before."""
        return self.study, self.trial

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one of the run `measured`."""
        return _stored(self, measured, "redecoding.py")


@dataclass(frozen=True)
class BaselineParser:
    """Scores a parser that is read off the training trees at once, or off none (`core.baselines.grammar_parsers`)."""

    method: Literal["right_branching", "pcfg"]

    @property
    def measures(self) -> None:
        """No other trial."""

    def to_config(self, measured: str | None) -> dict[str, Any]:
        """What a run's configuration says beside the one whose data it reads."""
        return _stored(self, measured, "baseline_parsers.py")


Work = Training | AttentionProbe | SelfTraining | Redecoding | BaselineParser
TRAINING = Training()
TRAINS = (Training, SelfTraining)
"""The kinds that end in a model."""

_KINDS = {kind.__name__: kind for kind in (AttentionProbe, SelfTraining, Redecoding, BaselineParser)}


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
    names = kind.__dataclass_fields__
    return kind(**{name: value for name, value in stored.items() if name in names})
