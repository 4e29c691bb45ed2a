"""Where the code departs from the paper's letter: the marks `DEPARTURE(section): reason` in its comments.

A mark stands at the line that departs, goes on over the comment lines below it, and names the switch that chooses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
# What decides a run's numbers; the command line and the reports depart from nothing.
_FOLDERS = ("core", "studies")
_MARK = re.compile(r"^\s*(?:.*\s)?#\s*DEPARTURE\((?P<section>[^)]+)\):\s*(?P<text>\S.*)$")
_GOES_ON = re.compile(r"^\s*#\s?(?P<text>.*)$")


@dataclass(frozen=True)
class Departure:
    """One mark: the paper's section, the reason, and the place in our source, `core/loss.py` and the line's number."""

    section: str
    reason: str
    file: str
    line: int


def list_departures(root: Path = _ROOT) -> list[Departure]:
    """All marks in the source under `root`, by section and then by place."""
    found = []
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            found += _departures_of(path, path.relative_to(root).as_posix())
    return sorted(found, key=lambda departure: _order(departure.section))


def _departures_of(path: Path, name: str) -> list[Departure]:
    lines = path.read_text(encoding="utf-8").split("\n")
    found = []
    for number, line in enumerate(lines):
        mark = _MARK.match(line)
        if mark is None:
            continue
        words = [mark["text"].strip()]
        for below in lines[number + 1 :]:
            more = _GOES_ON.match(below)
            if more is None or not more["text"].strip() or _MARK.match(below):
                break
            words.append(more["text"].strip())
        found.append(Departure(mark["section"], " ".join(words), name, number + 1))
    return found


def _order(section: str) -> tuple[tuple[int, int | str], ...]:
    """Sections as numbers where they are numbers, so that 5.10 comes after 5.9."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in section.split("."))
