"""A corpus of aligned lines: line i of one language translates line i of the other.

It is read as a stream, so that memory does not grow with it. What would put a wrong number into a table is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, zip_longest
from pathlib import Path
from typing import NamedTuple

from core.data.corpus import DataError, Languages, PairCorpus, require_name
from core.data.lines import LineStream, is_empty, is_markup

# Two languages share a name or a number now and then; half of the lines means that one text was passed twice (A8).
_MAX_IDENTICAL_SHARE = 0.5


class Text(NamedTuple):
    """One language of one split, not read yet; `origin` is how messages name it.

    `sha256` is the pinned checksum of its text, None where there is none to compare with.
    """

    lines: Iterable[str]
    origin: str
    sha256: str | None = None


@dataclass(frozen=True)
class TranslationCorpus(PairCorpus):
    """Aligned text in several languages; subclasses say where it comes from."""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of languages that are translations of each other; either may be the source."""
        return tuple(combinations(self.languages, 2))

    @abstractmethod
    def _open(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[Text, Text]:
        """The two sides of one split, decoded and nothing more; the names have been checked."""

    def num_lines(self, split: str, languages: Languages, cache_dir: Path) -> int | None:
        return self.splits[split]

    def read_pairs(self, split: str, src: str, tgt: str, cache_dir: Path) -> Iterator[tuple[str, str]]:
        self.require_pair(split, src, tgt)
        texts = self._open(split, src, tgt, cache_dir)
        expected = self.num_lines(split, (src, tgt), cache_dir)
        return checked_pairs(texts, (src, tgt), f"{self.name} {split}", expected)

    def load_pair(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[list[str], list[str]]:
        """`read_pairs` in memory: the source lines and the target lines."""
        src_lines, tgt_lines = [], []
        for src_line, tgt_line in self.read_pairs(split, src, tgt, cache_dir):
            src_lines.append(src_line)
            tgt_lines.append(tgt_line)
        return src_lines, tgt_lines

    def verify(self, cache_dir: Path, languages: Languages | None = None) -> None:
        for src, tgt in self.pairs if languages is None else (self.named_pair(languages),):
            for split in self.splits:
                for _ in self.read_pairs(split, src, tgt, cache_dir):
                    pass

    def named_pair(self, languages: Languages) -> Languages:
        """Two languages in the order in which the corpus names them; ValueError, with what is there, if no pair."""
        for language in languages:
            require_name(language, self.languages, f"{self.name} has no language")
        return self.find_pair("-".join(languages))

    def find_pair(self, name: str) -> Languages:
        """The pair that a name such as `en-de` means, either way round; ValueError, with what is there, if none."""
        for pair in self.pairs:
            if name in ("-".join(pair), "-".join(reversed(pair))):
                return pair
        known = ", ".join("-".join(pair) for pair in self.pairs)
        raise ValueError(f"{self.name} has no pair {name!r}; known, either way round: {known}")

    def require_pair(self, split: str, src: str, tgt: str) -> None:
        self.require(split, src, tgt)
        self.named_pair((src, tgt))


def aligned_pairs(texts: tuple[Text, Text], num_lines: int | None = None) -> Iterator[tuple[str, str]]:
    """The pairs of lines of two texts as a stream.

    Raises:
        DataError: at the end, where one has more lines; the message says how many there should be, if that is known.
    """
    sides = [iter(text.lines) for text in texts]
    for number, pair in enumerate(zip_longest(*sides), 1):
        if None in pair:
            longer = number + sum(1 for side in sides for _ in side)
            counts = [number - 1 if line is None else longer for line in pair]
            should = "equally many" if num_lines is None else str(num_lines)
            raise DataError(
                f"{texts[0].origin} has {counts[0]} lines and {texts[1].origin} has {counts[1]}; "
                f"both should have {should}, line by line translations"
            )
        yield pair


def checked_pairs(
    texts: tuple[Text, Text], languages: Languages, what: str, num_lines: int | None
) -> Iterator[tuple[str, str]]:
    """The pairs of lines of two texts as a stream, refused at its end unless they are whole and fit each other.

    Args:
        languages: of the two texts.
        what: how messages name the split.
        num_lines: that both must have; None where nothing says.

    Raises:
        DataError: see `PairCorpus.read_pairs`.
    """
    sides = [_Side(text) for text in texts]
    identical = 0
    for pair in aligned_pairs(tuple(Text(side, side.origin) for side in sides), num_lines):
        identical += pair[0] == pair[1]
        yield pair
    for side in sides:
        side.require(num_lines, what)
    if identical > _MAX_IDENTICAL_SHARE * sides[0].num_lines:
        raise DataError(
            f"{texts[0].origin} and {texts[1].origin} are the same in {identical} of {sides[0].num_lines} lines; "
            f"one of them is not in its language ({', '.join(languages)})"
        )


class _Side:
    """The lines of one text, once, and what has been seen of them."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.origin = text.origin
        self.num_lines = 0
        self._num_empty = self._first_empty = 0
        self._first_markup: tuple[int, str] | None = None
        self._returns = True  # every line so far ended with a carriage return

    def __iter__(self) -> Iterator[str]:
        for line in self._text.lines:
            self.num_lines += 1
            if is_empty(line):
                self._num_empty += 1
                self._first_empty = self._first_empty or self.num_lines
            elif self._first_markup is None and is_markup(line):
                self._first_markup = (self.num_lines, line.strip()[:40])
            self._returns = self._returns and line.endswith("\r")
            yield line

    def require(self, expected_lines: int | None, what: str) -> None:
        """Raise DataError unless the text, read to its end, has these lines, none of them empty, and its checksum."""
        if expected_lines is not None and self.num_lines != expected_lines:
            raise DataError(
                f"{self.origin} has {self.num_lines} lines, {what} has {expected_lines}; restore the original file"
            )
        if not self.num_lines:
            raise DataError(f"{self.origin} is empty")
        if self._first_markup is not None:
            number, line = self._first_markup
            raise DataError(f"{self.origin} line {number} is SGML markup ({line}); give plain segments")
        if self._num_empty:
            # An empty segment trains nothing, and scorers differ in what it is worth (A22).
            raise DataError(
                f"{self.origin} has {self._num_empty} empty lines, the first is line {self._first_empty}; "
                f"remove the pairs"
            )
        if self._returns:
            raise DataError(f"{self.origin} ends its lines as Windows does; convert it to line feeds alone")
        # The checksum comes last: whatever it would catch, the checks before it can explain.
        lines, pinned = self._text.lines, self._text.sha256
        if pinned is not None and isinstance(lines, LineStream) and lines.sha256 != pinned:
            raise DataError(
                f"{self.origin} is not the text expected: its sha256 is {lines.sha256}, should be {pinned}; "
                f"restore the original file"
            )
