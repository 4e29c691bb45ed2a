"""A report on a corpus: each split in numbers, and what is amiss, as a person or a script reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Level = Literal["fault", "warning"]


class Finding(NamedTuple):
    """Something amiss in a split: in how many items, of how many looked at, and the number of the first, from 1.

    A fault makes numbers wrong; a warning is what a person should know. `first` is None where it is no matter of
    single items.
    """

    level: Level
    split: str
    what: str
    count: int
    of: int
    first: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """All that was found in a corpus, or in a part of it such as a pair of languages; faults come first.

    `splits` are named tuples of one type, the figures that make sense for the task. `basis` says in words what some
    of them depend on.
    """

    corpus: str
    part: str
    splits: tuple[NamedTuple, ...]
    findings: tuple[Finding, ...]
    basis: str = ""

    @property
    def num_faults(self) -> int:
        """How many findings are faults."""
        return sum(finding.level == "fault" for finding in self.findings)

    @property
    def conclusion(self) -> str:
        """The report in a line."""
        warnings = len(self.findings) - self.num_faults
        counts = f"{_number(self.num_faults, 'fault')}, {_number(warnings, 'warning')}"
        return f"{self.corpus} {self.part}".strip() + f": {counts}"

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, ready for JSON."""
        return {
            "corpus": self.corpus,
            "part": self.part,
            "faults": self.num_faults,
            "warnings": len(self.findings) - self.num_faults,
            "basis": self.basis,
            "splits": [split._asdict() for split in self.splits],
            "findings": [finding._asdict() for finding in self.findings],
        }


def _number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
