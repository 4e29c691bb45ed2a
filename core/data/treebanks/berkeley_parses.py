"""Trees that a parser made of plain text, brought by a person: the semi-supervised part of Table 4 (6.3).

The paper's 17 million were never published (E20); they were the Berkeley parser's and its like.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.data.corpus import DataError, Languages, State
from core.data.lines import LineStream
from core.data.treebanks.treebank import Treebank, find_folder
from core.data.trees import Tree, read_trees

# What the Berkeley parser writes for a sentence that it has no tree for.
_NO_PARSE = ("(())", "( ())", "()")
_SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True)
class ParsesTreebank(Treebank):
    """Every file in `$AIAYN_DATA/<name>`, or HOME/data/<name>, in order of names: bracketed text, .gz or plain.

    The trees are read one after the other, so that memory does not grow with them; lines that say that a parser had
    no tree are passed over. How many there are is known when they have been read.
    """

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        folder = find_folder(self.name, cache_dir)
        if folder is None:
            return State("not here")
        return State("present", folder) if _files(folder) else State("incomplete", folder, ("a file of trees",))

    def obstacle(self, cache_dir: Path, languages: Languages | None = None) -> str | None:
        state = self.state(cache_dir)
        if state.usable:
            return None
        return f"{self.name} is {state}; put files of trees, .gz or plain, into AIAYN_DATA/{self.name}"

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        digest = hashlib.sha256()
        for path in self._require_files(cache_dir):
            digest.update(path.name.encode() + b"\0" + _glance(path))
        return digest.hexdigest()[:16]

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        self._require_files(cache_dir)

    def _open(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        for path in self._require_files(cache_dir):
            yield from read_trees(_parsed(LineStream.of_file(path)), str(path))

    def _require_files(self, cache_dir: Path) -> list[Path]:
        obstacle = self.obstacle(cache_dir)
        if obstacle is not None:
            raise DataError(obstacle)
        return _files(self.state(cache_dir).folder)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _parsed(lines: Iterable[str]) -> Iterator[str]:
    """The lines, numbers kept, but for those without a parse."""
    return ("" if line.strip() in _NO_PARSE else line for line in lines)


def _glance(path: Path) -> bytes:
    """Length, beginning and end of a file: a gzip file's end has the checksum of all of it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_SAMPLE_BYTES)
        file.seek(max(0, size - _SAMPLE_BYTES), os.SEEK_SET)
        return hashlib.sha256(str(size).encode() + head + file.read()).digest()


BERKELEY_PARSES = ParsesTreebank(
    name="berkeley-parses",
    task="parsing",
    languages=("en",),
    splits={"train": None},
    licence="that of your text",
    citation="trees of your own; the paper's are described in Vinyals et al. 2015, Grammar as a Foreign Language",
    description="trees that a parser made of plain text; brought by you",
)
