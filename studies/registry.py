"""The list of studies, by explicit import: a study that cannot be imported is an error, never a shorter list."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from studies import table3
from studies.study import Study

STUDIES: tuple[Study, ...] = (table3.STUDY,)

if len({study.name for study in STUDIES}) != len(STUDIES):
    raise ValueError("two studies have the same name")


def no_such(kind: str, name: str, known: Sequence[str], listing: str, within: str = "") -> ValueError:
    """The error for a name that does not exist: near names first, then where all of them are listed."""
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    close = f"; close: {', '.join(near)}" if near else ""
    where = f" in {within}" if within else ""
    return ValueError(f"no {kind} {name!r}{where}{close}; all: {listing}")


def get_study(name: str) -> Study:
    """The study of that name.

    Raises:
        ValueError: no such study; the message has near names.
    """
    for study in STUDIES:
        if study.name == name:
            return study
    raise no_such("study", name, [study.name for study in STUDIES], "aiayn list")
