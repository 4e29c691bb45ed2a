"""What a corpus is: aligned lines in several languages, with their counts, origin and terms.

A segment is what stands between two line feeds, and nothing else ends one: `str.splitlines` also cuts at
U+2028 and its kin, which occur inside segments (pitfall A20). Text is taken as it is: no Unicode
normalisation, no trimming, no change of quotes. What would put a wrong number into a table is refused instead.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

# Test sets are handed out as SGML too; its tags would be translated and scored like words (A8).
_MARKUP = re.compile(r"\s*</?(?:seg|doc|srcset|refset|tstset|mteval)\b", re.IGNORECASE)
# Two languages share a name or a number now and then; half of the lines means that one text was passed twice (A8).
_MAX_IDENTICAL_SHARE = 0.5


class DataError(Exception):
    """Data that cannot be used. The message is ready for a person: which file, what is wrong, what to do."""


class Source(NamedTuple):
    """Where one file of a corpus comes from, and the sha256 of its text, uncompressed."""

    file: str
    url: str
    sha256: str


class Text(NamedTuple):
    """One language of one split as it was read, not checked yet; `origin` is how messages name it."""

    lines: list[str]
    origin: str
    sha256: str | None = None


@dataclass(frozen=True)
class Corpus(ABC):
    """Aligned text in several languages; subclasses say where it comes from.

    `splits` maps a split's name to its number of lines, in every language. `cache_dir` is a workspace's
    folder for data (HOME/data) wherever a method asks for it.
    """

    name: str
    task: Literal["translation"]
    languages: tuple[str, ...]
    splits: Mapping[str, int]
    licence: str
    citation: str
    description: str

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files to download; none where the corpus is made here."""
        return ()

    @abstractmethod
    def state(self, cache_dir: Path) -> str:
        """`embedded`, `present at PATH`, `not fetched`, or `incomplete at PATH: ...`; reads no text."""

    @abstractmethod
    def fingerprint(self, languages: tuple[str, ...]) -> str:
        """16 hex characters that change when the text of these languages does; needs no download and no torch."""

    @abstractmethod
    def fetch(self, cache_dir: Path) -> None:
        """Make every file present in `cache_dir`, verified; does nothing where all are there.

        Raises:
            DataError: a file cannot be downloaded, or is not the one expected.
        """

    @abstractmethod
    def _read(self, split: str, language: str, cache_dir: Path) -> Text:
        """The lines of one file or generator, decoded and nothing more."""

    def _expected_sha256(self, split: str, language: str) -> str | None:
        """The pinned checksum of the text, None where there is none to compare with."""
        return None

    def load_split(self, split: str, language: str, cache_dir: Path) -> list[str]:
        """All lines of one split in one language, without their line feeds.

        Raises:
            ValueError: the corpus has no such split or language.
            DataError: the text is missing, damaged, or not what the corpus declares.
        """
        self.require(split, language)
        text = self._read(split, language, cache_dir)
        self._check(text, split, language)
        return text.lines

    def load_pair(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[list[str], list[str]]:
        """One split in two languages; line i of one side translates line i of the other.

        Raises:
            ValueError, DataError: as `load_split`, and where the two sides do not fit each other.
        """
        self.require(split, src, tgt)
        sides = [self._read(split, language, cache_dir) for language in (src, tgt)]
        counts = [len(side.lines) for side in sides]
        if counts[0] != counts[1]:
            raise DataError(
                f"{sides[0].origin} has {counts[0]} lines and {sides[1].origin} has {counts[1]}; "
                f"both should have {self.splits[split]}, line by line translations"
            )
        for side, language in zip(sides, (src, tgt), strict=True):
            self._check(side, split, language)
        identical = sum(a == b for a, b in zip(sides[0].lines, sides[1].lines, strict=True))
        if identical > _MAX_IDENTICAL_SHARE * counts[0]:
            raise DataError(
                f"{sides[0].origin} and {sides[1].origin} are the same in {identical} of {counts[0]} lines; "
                f"one of them is not in its language ({src}, {tgt})"
            )
        return sides[0].lines, sides[1].lines

    def verify(self, cache_dir: Path) -> None:
        """Read and check every split in every language; raises DataError at the first fault."""
        for split in self.splits:
            for language in self.languages:
                self.load_split(split, language, cache_dir)

    def require(self, split: str, *languages: str) -> None:
        """Raise ValueError, with near names, unless the corpus has this split and these languages."""
        require_name(split, self.splits, f"{self.name} has no split")
        for language in languages:
            require_name(language, self.languages, f"{self.name} has no language")

    def _check(self, text: Text, split: str, language: str) -> None:
        # The checksum comes last: whatever it would catch, the checks before it can explain.
        expected_lines = self.splits[split]
        if len(text.lines) != expected_lines:
            raise DataError(
                f"{text.origin} has {len(text.lines)} lines, {self.name} {split} has {expected_lines}; "
                f"restore the original file"
            )
        empty = [number for number, line in enumerate(text.lines, 1) if not line.strip()]
        if empty:
            # An empty segment trains nothing, and scorers differ in what it is worth (A22).
            raise DataError(
                f"{text.origin} has {len(empty)} empty lines, the first is line {empty[0]}; remove the pairs"
            )
        for number, line in enumerate(text.lines, 1):
            if _MARKUP.match(line):
                raise DataError(
                    f"{text.origin} line {number} is SGML markup ({line.strip()[:40]}); give plain segments"
                )
        expected_sha256 = self._expected_sha256(split, language)
        if expected_sha256 is not None and text.sha256 != expected_sha256:
            raise DataError(
                f"{text.origin} is not the text expected: its sha256 is {text.sha256}, should be {expected_sha256}; "
                f"restore the original file"
            )


def require_name(name: str, known: Mapping[str, object] | tuple[str, ...], complaint: str) -> None:
    """Raise ValueError that begins with `complaint` and ends with near names, unless `name` is known."""
    if name not in known:
        near = get_close_matches(name, list(known))
        raise ValueError(f"{complaint} {name!r}; {'close' if near else 'known'}: {', '.join(near or known)}")


def decode_lines(raw: bytes, origin: str) -> list[str]:
    """The segments of a UTF-8 text; the line feed after the last one is optional.

    Raises:
        DataError: a byte is not UTF-8; names the line.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{origin} line {line} is not UTF-8 ({error.reason}); convert the file to UTF-8") from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
