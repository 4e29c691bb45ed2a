"""Claims that need no run: what they say follows from the paper's sizes, its formulas or its own printed numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from studies.claim import Bound, Claim, Kind


def computed(
    id_: str,
    cell: str,
    statement: str,
    metric: str,
    expected: float,
    compute: Callable[[], float],
    *,
    source: str,
    trials: tuple[str, ...] = (),
    kind: Kind = "exact",
    tolerance: float | None = None,
    bound: Bound | None = None,
    reading: str = "",
    misquote: bool = False,
) -> Claim:
    """A claim about the number that `compute` gives: a threshold where it has a `bound`, else of this kind.

    `trials` may name the one whose configuration it is about, so that a report shows it there.
    """
    return Claim(
        id=id_,
        cell=cell,
        statement=statement,
        kind="threshold" if bound else kind,
        metric=metric,
        trials=trials,
        source=source,
        expected=expected,
        tolerance=tolerance,
        bound=bound,
        compute=compute,
        reading=reading,
        misquote=misquote,
    )


def setting(id_: str, section: str, what: str, expected: float, config: Callable[[], Any], path: str) -> Claim:
    """The claim that a setting is the printed number in the configuration that would be run at the paper's scale.

    It keeps the harness honest: a run that quietly uses another beam is no reproduction.

    Args:
        config: gives the configuration.
        path: where the setting stands in it, with dots.
    """
    return computed(
        id_,
        f"Section {section}, {what}",
        f"{what}: {expected:,}" if isinstance(expected, int) else f"{what}: {expected:g}",
        "number",
        expected,
        lambda: reduce(getattr, path.split("."), config()),
        source=f"section {section}",
        tolerance=0.0,
    )
