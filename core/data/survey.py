"""What is seen of one split of a translation corpus as its pairs of lines go by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from core.data.lines import is_empty
from core.data.seen import Seen

Pair = tuple[str, str]

LONG_WORDS = 175
OUTLYING_RATIO = 3
# Nothing can be said by the ratio of shorter sides.
_LEAST_RATIO_WORDS = 5

EMPTY = "empty lines"
LONG = f"a side of more than {LONG_WORDS} words"
RATIO = f"a side more than {OUTLYING_RATIO} times as long as the other"
SAME = "both sides the same"
REPEATED = "repeats an earlier pair"
# What should not stand in a line, in no language.
LINE_PATTERNS: Mapping[str, re.Pattern[str]] = {
    what: re.compile(pattern)
    for what, pattern in {
        "entities left in": r"&(?:amp|quot|apos|lt|gt|nbsp|bar|#\d+|#x[0-9a-fA-F]+);",
        "tags left in": r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]{0,200})?/?>",
        "sub-word marks left in": r"@@(?:\s|$)|\u2581",
        "tokenised hyphens left in": r"\s@[-/,.]@\s",
        "characters lost in conversion": r"\ufffd|Ã[\x80-\xbf]|â€",
        "separators inside, at which some tools cut": r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]",
        "control characters": r"[\x00-\x08\x0e-\x1b\x1f\x7f]",
    }.items()
}
_ANY_PATTERN = re.compile("|".join(pattern.pattern for pattern in LINE_PATTERNS.values()))


@dataclass
class Tally:
    """In how many pairs something was seen, and the number of the first, from 1."""

    count: int = 0
    first: int = 0

    def add(self, number: int) -> None:
        """Note it for a pair, after those before it."""
        self.count += 1
        self.first = self.first or number


class Sample:
    """Pairs of a stream with their numbers, evenly spread, fewer than twice `size`; the same stream gives the same."""

    def __init__(self, size: int) -> None:
        self._size, self._stride = size, 1
        self.items: list[tuple[int, Pair]] = []

    def add(self, number: int, pair: Pair) -> None:
        """Offer the next pair; `number` counts from 1."""
        if (number - 1) % self._stride == 0:
            self.items.append((number, pair))
            if len(self.items) == 2 * self._size:
                self.items = self.items[::2]
                self._stride *= 2

    def side(self, place: int) -> list[str]:
        """The lines of one side, 0 the source."""
        return [pair[place] for _, pair in self.items]


@dataclass
class Survey:
    """Counts over one split.

    Attributes:
        words: of source and target; words are what white space separates.
        symbols: characters of both sides, how often each occurs where `count_symbols`, else once.
        tallies: by what was seen, in which pairs.
    """

    sample: Sample
    count_symbols: bool
    num_pairs: int = 0
    words: list[int] = field(default_factory=lambda: [0, 0])
    longest_words: int = 0
    symbols: Counter[str] = field(default_factory=Counter)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The same pairs; each is looked at as it goes by."""
        seen = Seen()
        for number, pair in enumerate(pairs, 1):
            self.num_pairs = number
            self.sample.add(number, pair)
            for what in self._look_at(pair, seen):
                self.tallies.setdefault(what, Tally()).add(number)
            yield pair

    def _look_at(self, pair: Pair, seen: Seen) -> Iterator[str]:
        lengths = [len(line.split()) for line in pair]
        self.words[0] += lengths[0]
        self.words[1] += lengths[1]
        shorter, longer = sorted(lengths)
        self.longest_words = max(self.longest_words, longer)
        if longer > LONG_WORDS:
            yield LONG
        if longer >= _LEAST_RATIO_WORDS and longer > OUTLYING_RATIO * shorter > 0:
            yield RATIO
        if pair[0] == pair[1]:
            yield SAME
        if not seen.is_new(*pair):
            yield REPEATED
        if is_empty(pair[0]) or is_empty(pair[1]):
            yield EMPTY
        for line in pair:
            if self.count_symbols:
                self.symbols.update(line)
            elif not self.symbols.keys() >= set(line):
                self.symbols.update(set(line) - self.symbols.keys())
        if _ANY_PATTERN.search(pair[0]) or _ANY_PATTERN.search(pair[1]):
            for what, pattern in LINE_PATTERNS.items():
                if pattern.search(pair[0]) or pattern.search(pair[1]):
                    yield what


class Overlap:
    """Which pairs and lines of the scored splits the training text has too (pitfall A24)."""

    def __init__(self, scored: Mapping[str, list[Pair]]) -> None:
        self._scored = scored
        self._sides = [{pair[side] for pairs in scored.values() for pair in pairs} for side in (0, 1)]
        self._seen_lines: list[set[str]] = [set(), set()]
        self._seen_pairs: set[Pair] = set()

    def look_at(self, pair: Pair) -> None:
        """Note a training pair."""
        known = [pair[side] in self._sides[side] for side in (0, 1)]
        for side in (0, 1):
            if known[side]:
                self._seen_lines[side].add(pair[side])
        if all(known):
            self._seen_pairs.add(pair)

    def pairs(self, split: str) -> Tally:
        """Pairs of a split that are training pairs."""
        return _tally(pair in self._seen_pairs for pair in self._scored[split])

    def lines(self, split: str, side: int) -> Tally:
        """Lines of one side of a split that are training lines of that side."""
        return _tally(pair[side] in self._seen_lines[side] for pair in self._scored[split])

    def between(self, split: str, other: str) -> Tally:
        """Pairs of a split that another scored split has too."""
        known = set(self._scored[other])
        return _tally(pair in known for pair in self._scored[split])


def _tally(hits: Iterable[bool]) -> Tally:
    tally = Tally()
    for number, hit in enumerate(hits, 1):
        if hit:
            tally.add(number)
    return tally
