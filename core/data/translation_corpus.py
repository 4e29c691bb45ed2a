"""A corpus of aligned lines: line i of one language translates line i of the other.

It is read as a stream, so that memory does not grow with it. What would put a wrong number into a table is refused.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from core.data.corpus import Corpus, DataError, Languages
from core.data.lines import Lines

# Test sets are handed out as SGML too; its tags would be translated and scored like words (A8).
_MARKUP = re.compile(r"\s*</?(?:seg|doc|srcset|refset|tstset|mteval)\b", re.IGNORECASE)
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
class TranslationCorpus(Corpus):
    """Aligned text in several languages; subclasses say where it comes from."""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of languages that are translations of each other; either may be the source."""
        return tuple(combinations(self.languages, 2))

    @abstractmethod
    def _open(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[Text, Text]:
        """The two sides of one split, decoded and nothing more; the names have been checked."""

    def num_lines(self, split: str, languages: Languages, cache_dir: Path) -> int | None:
        """Lines that this split of a pair of languages must have; None where nothing says."""
        return self.splits[split]

    def read_pairs(self, split: str, src: str, tgt: str, cache_dir: Path) -> Iterator[tuple[str, str]]:
        """One split in two languages as a stream of (source line, target line), without their line feeds.

        Counts, checksums and shares are known at the end only: what was made of the pairs must be thrown away where
        the stream ends in an error.

        Raises:
            ValueError: the corpus has no such split or pair of languages.
            DataError: the text is missing, damaged, or not what the corpus declares, or the sides do not fit.
        """
        self.require_pair(split, src, tgt)
        return self._checked(split, src, tgt, cache_dir)

    def load_pair(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[list[str], list[str]]:
        """`read_pairs` in memory: the source lines and the target lines."""
        src_lines, tgt_lines = [], []
        for src_line, tgt_line in self.read_pairs(split, src, tgt, cache_dir):
            src_lines.append(src_line)
            tgt_lines.append(tgt_line)
        return src_lines, tgt_lines

    def verify(self, cache_dir: Path, languages: Languages | None = None) -> None:
        for src, tgt in self.pairs if languages is None else (languages,):
            for split in self.splits:
                for _ in self.read_pairs(split, src, tgt, cache_dir):
                    pass

    def require_pair(self, split: str, src: str, tgt: str) -> None:
        """Raise ValueError, with what is there, unless the corpus has this split in these two languages."""
        self.require(split, src, tgt)
        if (src, tgt) not in self.pairs and (tgt, src) not in self.pairs:
            known = ", ".join("-".join(pair) for pair in self.pairs)
            raise ValueError(f"{self.name} has no pair {src}-{tgt}; known: {known}, either way round")

    def _checked(self, split: str, src: str, tgt: str, cache_dir: Path) -> Iterator[tuple[str, str]]:
        texts = self._open(split, src, tgt, cache_dir)
        sides = [_Side(text) for text in texts]
        identical = 0
        for pair in zip(*sides):  # noqa: B905 - the rest of the longer side is counted below
            identical += pair[0] == pair[1]
            yield pair
        for side in sides:
            for _ in side:
                pass
        expected = self.num_lines(split, (src, tgt), cache_dir)
        counts = [side.num_lines for side in sides]
        if counts[0] != counts[1]:
            should = f"; both should have {expected}" if expected is not None else "; both must have as many"
            raise DataError(
                f"{texts[0].origin} has {counts[0]} lines and {texts[1].origin} has {counts[1]}{should}, "
                f"line by line translations"
            )
        for side in sides:
            side.require(expected, f"{self.name} {split}")
        if identical > _MAX_IDENTICAL_SHARE * counts[0]:
            raise DataError(
                f"{texts[0].origin} and {texts[1].origin} are the same in {identical} of {counts[0]} lines; "
                f"one of them is not in its language ({src}, {tgt})"
            )


class _Side:
    """The lines of one text, once, and what has been seen of them."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._lines = self._watched()
        self.num_lines = 0
        self._num_empty = self._first_empty = 0

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def _watched(self) -> Iterator[str]:
        for line in self._text.lines:
            self.num_lines += 1
            if not line or line.isspace():
                self._num_empty += 1
                self._first_empty = self._first_empty or self.num_lines
            elif "<" in line and _MARKUP.match(line):
                raise DataError(
                    f"{self._text.origin} line {self.num_lines} is SGML markup ({line.strip()[:40]}); "
                    f"give plain segments"
                )
            yield line

    def require(self, expected_lines: int | None, what: str) -> None:
        """Raise DataError unless the text, read to its end, has these lines, none of them empty, and its checksum."""
        origin = self._text.origin
        if expected_lines is not None and self.num_lines != expected_lines:
            raise DataError(
                f"{origin} has {self.num_lines} lines, {what} has {expected_lines}; restore the original file"
            )
        if self._num_empty:
            # An empty segment trains nothing, and scorers differ in what it is worth (A22).
            raise DataError(
                f"{origin} has {self._num_empty} empty lines, the first is line {self._first_empty}; remove the pairs"
            )
        # The checksum comes last: whatever it would catch, the checks before it can explain.
        lines = self._text.lines
        if self._text.sha256 is not None and isinstance(lines, Lines) and lines.sha256 != self._text.sha256:
            raise DataError(
                f"{origin} is not the text expected: its sha256 is {lines.sha256}, should be {self._text.sha256}; "
                f"restore the original file"
            )
