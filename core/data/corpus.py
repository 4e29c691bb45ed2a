"""What a corpus is, whatever its task: a name, splits with their counts, origin, terms, and where it stands here.

How its text is read differs by task and is a subclass's: `translation_corpus.py` for aligned lines,
`treebanks/treebank.py` for trees, and `treebanks/tree_pairs.py` for these as aligned lines.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

Languages = tuple[str, ...]
# The split of every corpus that is trained on, and that vocabularies are learned on.
TRAIN_SPLIT = "train"


class DataError(Exception):
    """Data that cannot be used. The message is ready for a person: which file, what is wrong, what to do."""


class Source(NamedTuple):
    """Where one file of a corpus comes from; `checksum` is `<algorithm>:<hex>`, None where none is known."""

    file: str
    url: str
    checksum: str | None


class Step(NamedTuple):
    """One step between the sources and the text that is read, in order.

    `part` is what it was applied to (`train.en-de`), `kept` the items left after it, None where it has not run yet.
    """

    part: str
    name: str
    kept: int | None


@dataclass(frozen=True)
class State:
    """Where a corpus stands in a workspace; `str()` of it is for a person.

    `not fetched` can be downloaded, `not here` must be brought by a person. `folder` tells where; `missing` what is
    not there, and `changed` which files are not as they were recorded.
    """

    kind: Literal["embedded", "present", "incomplete", "not fetched", "not here"]
    folder: Path | None = None
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether all of it can be read without a download."""
        return self.kind in ("embedded", "present")

    @property
    def faults(self) -> str:
        """What is missing and what has changed; empty where nothing has."""
        lists = ((self.missing, "missing"), (self.changed, "not as recorded"))
        return "; ".join(f"{', '.join(names)} {what}" for names, what in lists if names)

    def __str__(self) -> str:
        where = f" at {self.folder}" if self.folder is not None else ""
        return f"{self.kind}{where}" + (f": {self.faults}" if self.faults else "")


@dataclass(frozen=True)
class Corpus(ABC):
    """What all corpora have in common.

    `splits` maps a split's name to its number of items (pairs of lines, trees), None where that is known only when
    the text has been made. Wherever a method asks for it, `cache_dir` is a workspace's folder for data (HOME/data),
    and `languages` the part that is meant: of a translation corpus two languages, in any order; None means all of it.
    """

    name: str
    task: Literal["translation", "parsing"]
    languages: Languages
    splits: Mapping[str, int | None]
    licence: str
    citation: str
    description: str

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files to download; none where the corpus is made here, or brought by a person."""
        return ()

    def steps(self, cache_dir: Path) -> tuple[Step, ...]:
        """What is done to the sources' text, in order, with the counts after each step where it has been done."""
        return ()

    def obstacle(self, cache_dir: Path, languages: Languages | None = None) -> str | None:
        """Why a run cannot begin on this now, and what to do; None where it can, be it after a small download.

        Reads no text, so that a plan at any scale answers at once.
        """
        state = self.state(cache_dir, languages)
        # Elsewhere what is missing is downloaded; a person's folder is never written to.
        if state.kind == "incomplete" and state.folder == local_folder(self.name):
            return f"corpus {self.name} is {state}; copy it there, or unset AIAYN_DATA to download it"
        return None

    @abstractmethod
    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        """Where the corpus stands here; reads no text."""

    @abstractmethod
    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        """16 hex characters that change when the text of these languages does; reads no text and needs no torch.

        Raises:
            DataError: the text is not here and nothing pins what it will be.
        """

    @abstractmethod
    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        """Make every file present in `cache_dir`, verified; does nothing where all are there.

        Raises:
            DataError: a file cannot be downloaded, or is not the one expected.
        """

    @abstractmethod
    def verify(self, cache_dir: Path, languages: Languages | None = None) -> None:
        """Read and check every split whole; raises DataError at the first fault."""

    def require(self, split: str, *languages: str) -> None:
        """Raise ValueError, with near names, unless the corpus has this split and these languages."""
        require_name(split, self.splits, f"{self.name} has no split")
        for language in languages:
            require_name(language, self.languages, f"{self.name} has no language")


@dataclass(frozen=True)
class PairCorpus(Corpus):
    """A corpus whose items are pairs of lines, one in each of two languages: what runs are trained on and scored by."""

    @property
    def tokenised(self) -> bool:
        """Whether blanks, and nothing else, separate the words of its lines."""
        return False

    @abstractmethod
    def num_lines(self, split: str, languages: Languages, cache_dir: Path) -> int | None:
        """Lines that this split of a pair of languages must have; None where nothing says."""

    @abstractmethod
    def read_pairs(self, split: str, src: str, tgt: str, cache_dir: Path) -> Iterator[tuple[str, str]]:
        """One split in two languages as a stream of (source line, target line), without their line feeds.

        Counts, checksums and shares are known at the end only: what was made of the pairs must be thrown away where
        the stream ends in an error.

        Raises:
            ValueError: the corpus has no such split or pair of languages.
            DataError: the text is missing, damaged, or not what the corpus declares, or the sides do not fit.
        """

    @abstractmethod
    def require_pair(self, split: str, src: str, tgt: str) -> None:
        """Raise ValueError, with what is there, unless the corpus has this split in these two languages."""


def local_root() -> Path | None:
    """The folder that AIAYN_DATA names; None where that is unset. Raises DataError where it names no folder."""
    root = os.environ.get("AIAYN_DATA")
    if not root:
        return None
    if not Path(root).is_dir():
        raise DataError(f"AIAYN_DATA={root} is not a folder; correct it, or unset it to download what is needed")
    return Path(root)


def local_folder(name: str) -> Path | None:
    """A corpus' folder inside `local_root`, with its errors; None where there is no such folder."""
    root = local_root()
    return root / name if root is not None and (root / name).is_dir() else None


def require_name(name: str, known: Mapping[str, object] | tuple[str, ...], complaint: str) -> None:
    """Raise ValueError that begins with `complaint` and ends with near names, or all, unless `name` is known."""
    if name not in known:
        near = get_close_matches(name, list(known))
        listed = f"{'close' if near else 'known'}: {', '.join(near or known)}" if known else "there is none at all"
        raise ValueError(f"{complaint} {name!r}; {listed}")
