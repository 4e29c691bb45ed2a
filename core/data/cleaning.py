"""Filters over pairs of lines: named, applied in order, and counted after each.

How a published corpus was cleaned is the least reported part of a result: 36M pairs in print, 40.8M in the files
(pitfall A26). So each filter has a name that is written beside the count that it left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from core.data.lines import is_empty, is_markup

Pair = tuple[str, str]


@dataclass(frozen=True)
class Filter:
    """A rule for which pairs stay. `start` gives a test of one pair for one pass over a text."""

    name: str
    start: Callable[[], Callable[[str, str], bool]]


def no_empty_side() -> Filter:
    return Filter("no empty side", lambda: lambda src, tgt: not (is_empty(src) or is_empty(tgt)))


def no_markup() -> Filter:
    return Filter("no SGML tags at the start", lambda: lambda src, tgt: not (is_markup(src) or is_markup(tgt)))


def at_most_words(limit: int) -> Filter:
    """Words are what white space separates, before any tokenisation."""
    return Filter(
        f"at most {limit} words a side",
        lambda: lambda src, tgt: len(src.split()) <= limit and len(tgt.split()) <= limit,
    )


def length_ratio_at_most(limit: float) -> Filter:
    """The longer side has at most `limit` times as many words as the shorter."""

    def keeps(src: str, tgt: str) -> bool:
        lengths = len(src.split()), len(tgt.split())
        return max(lengths) <= limit * min(lengths)

    return Filter(f"one side at most {limit:g} times as many words as the other", lambda: keeps)


def no_copies() -> Filter:
    return Filter("sides differ", lambda: lambda src, tgt: src != tgt)


def no_repeated_pair() -> Filter:
    """Of equal pairs the first stays. Needs 8 bytes of memory a pair."""

    def start() -> Callable[[str, str], bool]:
        from core.data.seen import Seen  # numpy, which listing corpora does without

        return Seen().is_new

    return Filter("each pair once", start)


# By the name that a person gives; the order here is no order of applying.
NAMED: dict[str, Callable[[], Filter]] = {
    "empty": no_empty_side,
    "markup": no_markup,
    "long": lambda: at_most_words(175),
    "ratio": lambda: length_ratio_at_most(1.5),
    "copies": no_copies,
    "repeated": no_repeated_pair,
}


class Cleaning:
    """One pass of filters over a text, and how many pairs each left.

    `num_read` and `kept`, one count for each filter in order, are complete when the pass has come to its end.
    """

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self.filters = tuple(filters)
        self.num_read = 0
        self.kept = [0] * len(self.filters)

    def apply(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs that every filter keeps."""
        pairs = self._counted(pairs)
        for place, rule in enumerate(self.filters):
            pairs = self._filtered(place, rule.start(), pairs)
        return pairs

    def _counted(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            self.num_read += 1
            yield pair

    def _filtered(self, place: int, keeps: Callable[[str, str], bool], pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            if keeps(*pair):
                self.kept[place] += 1
                yield pair
