"""What is stored, as frozen dataclasses that refuse a wrong value when they are made.

Records of a run (`RunRecord`, `RunResult`, `Score`, `Artifact`) are written to its folder as JSON; rows of the
registry (`StudyRow`, `ClaimRow`, `DepartureRow`, the published tables' rows) and verdicts (`VerdictRow`) go to the
database alone.
Wrong values raise ValueError with the name, the value and the rule.
"""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

SCALES = ("smoke", "small", "paper")
VERDICTS = (
    "reproduced",
    "not reproduced",
    "agrees",
    "disagrees",
    "undecided",
    "blocked",
    "not comparable",
    "not run",
    "quoted",
)
CLAIM_KINDS = ("value", "order", "difference", "exact", "exponent", "threshold")

RUN_ID = re.compile(r"[0-9a-f]{12}")
# A score with one of these words in its name lies on 0-100 (sacreBLEU's and EVALB's scale, never 0-1).
PERCENT_WORDS = frozenset({"bleu", "chrf", "f1"})
MAX_INTEGER = 2**63 - 1  # the database's BIGINT

Record = TypeVar("Record")


def utc_now() -> str:
    """The present time as stored everywhere: ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def parse_time(text: str) -> datetime:
    """The moment written by `utc_now`, in UTC and without a zone, as the database keeps it. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _is_whole(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_INTEGER


def _is_finite(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _require_text(owner: str, **values: object) -> None:
    for name, value in values.items():
        _require(isinstance(value, str) and bool(value.strip()), f"{owner}: {name}={value!r} must be a non-empty text")


def _require_time(owner: str, **values: object) -> None:
    for name, value in values.items():
        try:
            parse_time(value)
        except (TypeError, ValueError):
            raise ValueError(f"{owner}: {name}={value!r} must be an ISO 8601 time") from None


def _require_json(owner: str, **values: object) -> None:
    for name, value in values.items():
        _require(isinstance(value, Mapping), f"{owner}: {name} must be a mapping, not {type(value).__name__}")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{owner}: {name} cannot be written as JSON ({error})") from None


def _from_json(kind: type[Record], values: object) -> Record:
    """`kind(**values)`, with every wrong shape turned into a ValueError that names the fields."""
    _require(isinstance(values, dict), f"{kind.__name__} must be a JSON object, not {type(values).__name__}")
    known = {entry.name for entry in fields(kind)}
    unknown = sorted(values.keys() - known)
    _require(not unknown, f"{kind.__name__} has no field {', '.join(unknown)}")
    try:
        return kind(**values)
    except TypeError as error:  # a required field is absent
        raise ValueError(str(error).replace("__init__() ", "")) from None


@dataclass(frozen=True)
class RunRecord:
    """What decides a run and where it came from (`run.json`); written once, before the first attempt.

    `run` is `provenance.run_id` of the other fields; `created` is ISO 8601 in UTC; `provenance` is
    `provenance.collect()` where it was planned: git_commit and dirty are about the run, the machine is not (an attempt
    tells its own).
    """

    run: str
    study: str
    trial: str
    seed: int
    scale: str
    config: dict[str, Any]
    code_version: str
    data_fingerprint: str
    provenance: dict[str, Any]
    created: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        _require(
            isinstance(self.run, str) and RUN_ID.fullmatch(self.run) is not None,
            f"run={self.run!r} must be 12 hexadecimal characters",
        )
        owner = f"run {self.run}"
        _require_text(owner, study=self.study, trial=self.trial)
        _require_text(owner, code_version=self.code_version, data_fingerprint=self.data_fingerprint)
        _require(_is_whole(self.seed), f"{owner}: seed={self.seed!r} must be a whole number of at least 0")
        _require(self.scale in SCALES, f"{owner}: scale={self.scale!r} must be one of {', '.join(SCALES)}")
        _require_json(owner, config=self.config, provenance=self.provenance)
        _require_time(owner, created=self.created)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> RunRecord:
        """The inverse of `to_json`; raises ValueError for missing, unknown or wrong fields."""
        return _from_json(cls, values)


@dataclass(frozen=True)
class Score:
    """One number that a run ends in, with what makes it comparable.

    `signature` names the metric's whole protocol (sacreBLEU's signature, EVALB's parameter file);
    a score without it is refused. `value` is finite, and 0-100 for BLEU, chrF and F1. A score that could not be
    measured has value None and `details["reason"]`. `details` holds counts, lengths, errors, skipped.
    """

    name: str
    value: float | None
    signature: str
    dataset: str
    num_items: int
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_text("score", name=self.name)
        owner = f"score {self.name}"
        _require_text(owner, signature=self.signature, dataset=self.dataset)
        _require(_is_whole(self.num_items), f"{owner}: num_items={self.num_items!r} must be a whole number, at least 0")
        _require_json(owner, details=self.details)
        if self.value is None:
            _require(bool(self.details.get("reason")), f"{owner}: value is None, so details['reason'] must say why")
            return
        _require(_is_finite(self.value), f"{owner}: value={self.value!r} must be finite; or give None and a reason")
        # numpy scalars become plain floats, which JSON and the database keep exactly.
        object.__setattr__(self, "value", float(self.value))
        if PERCENT_WORDS & set(self.name.lower().split("_")):
            _require(0.0 <= self.value <= 100.0, f"{owner}: value={self.value} must lie on the scale 0-100")


@dataclass(frozen=True)
class Artifact:
    """A file that a run leaves behind: `path` is relative to the run folder, `sha256` in hexadecimal."""

    kind: str
    path: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        _require_text("artifact", kind=self.kind, path=self.path, sha256=self.sha256)
        _require(_is_whole(self.bytes), f"artifact {self.path}: bytes={self.bytes!r} must be a whole number from 0")


@dataclass(frozen=True)
class RunResult:
    """How a run ended well (`result.json`), written last: its existence is what makes a run done.

    `seconds` is training time over all attempts; `phases` are seconds by name (train, decode, score, ...);
    `params` counts trainable parameters.
    """

    seconds: float
    params: int
    phases: dict[str, float]
    scores: tuple[Score, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    finished: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", tuple(self.scores))
        object.__setattr__(self, "artifacts", tuple(self.artifacts))
        _require(_is_finite(self.seconds) and self.seconds >= 0, f"result: seconds={self.seconds!r} must be at least 0")
        _require(_is_whole(self.params), f"result: params={self.params!r} must be a whole number of at least 0")
        _require_json("result", phases=self.phases)
        for name, seconds in self.phases.items():
            _require(_is_finite(seconds) and seconds >= 0, f"result: phases[{name!r}]={seconds!r} must be at least 0")
        _require_time("result", finished=self.finished)
        names = [score.name for score in self.scores]
        twice = sorted({name for name in names if names.count(name) > 1})
        _require(not twice, f"result: score {', '.join(twice)} is given twice")

    def to_json(self) -> dict[str, Any]:
        return {"status": "done", **asdict(self)}

    @classmethod
    def from_json(cls, values: object) -> RunResult:
        """The inverse of `to_json`; raises ValueError for missing, unknown or wrong fields."""
        _require(isinstance(values, dict), f"result must be a JSON object, not {type(values).__name__}")
        plain = {name: value for name, value in values.items() if name != "status"}
        _require(values.get("status") == "done", f"result: status={values.get('status')!r} must be 'done'")
        for name, kind in (("scores", Score), ("artifacts", Artifact)):
            entries = plain.get(name, [])
            _require(isinstance(entries, list), f"result: {name} must be a list, not {type(entries).__name__}")
            plain[name] = tuple(_from_json(kind, entry) for entry in entries)
        return _from_json(cls, plain)


@dataclass(frozen=True)
class StudyRow:
    """A study of the registry; `cells` says which part of the paper it covers, such as "Table 3"."""

    study: str
    title: str
    cells: str

    def __post_init__(self) -> None:
        _require_text("study", study=self.study, title=self.title, cells=self.cells)


@dataclass(frozen=True)
class ClaimRow:
    """One checkable statement of the paper.

    `expected` and `tolerance` are in `unit`. An order or threshold is `direction` ('<', '<=', '>', '>=') from
    `expected`; an order that needs no size has `expected` None. `trials` are those whose runs it is about.

    `dataset`, `num_items`, `protocol` and `budget` (source_tokens, target_tokens, train_steps for each trial) say what
    the printed number is about, None where it is about no data. `reading` tells which of the paper's readings this is
    where it contradicts itself; a `misquote` is often said and should fail; a `quoted` number is another system's;
    `full_size` marks what is about the paper's own sizes alone and so stands at that scale only.
    """

    claim: str
    study: str
    cell: str
    statement: str
    kind: str
    metric: str
    expected: float | None
    tolerance: float | None
    unit: str
    source: str
    direction: str | None = None
    trials: tuple[str, ...] = ()
    dataset: str | None = None
    num_items: int | None = None
    protocol: str | None = None
    budget: str | None = None
    reading: str = ""
    misquote: bool = False
    quoted: bool = False
    full_size: bool = False

    def __post_init__(self) -> None:
        _require_text("claim", claim=self.claim)
        owner = f"claim {self.claim}"
        _require_text(owner, study=self.study, cell=self.cell, statement=self.statement, metric=self.metric)
        _require(self.kind in CLAIM_KINDS, f"{owner}: kind={self.kind!r} must be one of {', '.join(CLAIM_KINDS)}")
        for name in ("expected", "tolerance"):
            value = getattr(self, name)
            _require(value is None or _is_finite(value), f"{owner}: {name}={value!r} must be finite or None")
        directions = (None, "<", "<=", ">", ">=")
        _require(self.direction in directions, f"{owner}: direction={self.direction!r} must be <, <=, > or >=")


@dataclass(frozen=True)
class DepartureRow:
    """Where the code departs from the paper's letter: the section, why, and the line of our source that says so."""

    section: str
    reason: str
    file: str
    line: int

    def __post_init__(self) -> None:
        _require_text("departure", section=self.section, reason=self.reason, file=self.file)
        _require(_is_whole(self.line, 1), f"departure in {self.file}: line={self.line!r} must be at least 1")


@dataclass(frozen=True)
class PublishedTable1Row:
    """One row of Table 1 as printed: orders of growth as text. `layer` is its id, `position` the order in the paper."""

    position: int
    layer: str
    label: str
    complexity: str
    sequential_operations: str
    maximum_path_length: str


@dataclass(frozen=True)
class PublishedTable2Row:
    """One row of Table 2 as printed; a cell that the paper leaves empty is None. `model` is its id.

    `quoted` marks another system's row. BLEU is of newstest2014, costs are FLOPs by the paper's own method.
    """

    position: int
    model: str
    label: str
    quoted: bool
    ensemble: bool
    bleu_ende: float | None
    bleu_enfr: float | None
    flops_ende: float | None
    flops_enfr: float | None


@dataclass(frozen=True)
class PublishedTable3Row:
    """One row of Table 3 as printed, cells that the paper leaves to the base row filled in.

    `position` is the order in the paper, from 0; `row` its group (base, A to E, big); `N`, `h` and the like are the
    column heads. Scores are of newstest2013; perplexity is per word piece.
    """

    position: int
    row: str
    trial: str
    N: int
    d_model: int
    d_ff: int
    h: int
    d_k: int
    d_v: int
    p_drop: float
    eps_ls: float
    positions: str
    train_steps: int
    ppl: float | None
    bleu: float | None
    params_millions: float | None


@dataclass(frozen=True)
class PublishedTable4Row:
    """One row of Table 4 as printed: F1 of section 23. `trial` names ours, None marks another parser's quoted row."""

    position: int
    parser: str
    training: str
    trial: str | None
    f1: float


@dataclass(frozen=True)
class PublishedFigureRow:
    """A figure of attention: the sentence that it shows, and what its caption says to see."""

    position: int
    figure: str
    title: str
    sentence: str
    layer: int
    num_layers: int
    shows: str


@dataclass(frozen=True)
class PublishedCapabilityRow:
    """One cell of the capability table as lectures draw it: a property, an id of `label`, and a model, a trial's name.

    `has_it` is the lecture's cell, None where it has no such column. `metric` names the score that is measured: the
    model has the property where that is at least `threshold`, or below it with `at_least` False. `claim` is the id.
    """

    position: int
    property: str
    label: str
    model: str
    model_label: str
    has_it: bool | None
    metric: str
    threshold: float
    at_least: bool
    claim: str | None


PublishedRow = (
    PublishedTable1Row
    | PublishedTable2Row
    | PublishedTable3Row
    | PublishedTable4Row
    | PublishedFigureRow
    | PublishedCapabilityRow
)


@dataclass(frozen=True)
class VerdictRow:
    """How a claim ended at a scale; numbers are in the claim's unit, `decided` is UTC.

    `low` and `high` are the 95% interval of `measured` over seeds, `test_low` and `test_high` that over resampled test
    sets. `p_value` is one-sided, `p_adjusted` corrected for the `family_size` claims that are tested together (0: it
    was not tested), `alone` the verdict without the correction.
    """

    claim: str
    scale: str
    verdict: str
    measured: float | None
    low: float | None
    high: float | None
    num_runs: int
    reason: str
    p_value: float | None = None
    p_adjusted: float | None = None
    family_size: int = 0
    alone: str | None = None
    test_low: float | None = None
    test_high: float | None = None
    decided: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        _require_text("verdict", claim=self.claim)
        owner = f"verdict on {self.claim}"
        _require(self.scale in SCALES, f"{owner}: scale={self.scale!r} must be one of {', '.join(SCALES)}")
        _require(self.verdict in VERDICTS, f"{owner}: verdict={self.verdict!r} must be one of {', '.join(VERDICTS)}")
        for name in ("measured", "low", "high", "p_value", "p_adjusted", "test_low", "test_high"):
            value = getattr(self, name)
            _require(value is None or _is_finite(value), f"{owner}: {name}={value!r} must be finite or None")
        for name in ("num_runs", "family_size"):
            value = getattr(self, name)
            _require(_is_whole(value), f"{owner}: {name}={value!r} must be a whole number of at least 0")
        _require(self.alone in (None, *VERDICTS), f"{owner}: alone={self.alone!r} must be a verdict or None")
        _require_time(owner, decided=self.decided)
