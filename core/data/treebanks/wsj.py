"""The Wall Street Journal part of the Penn Treebank, which a person with a licence brings: Table 4's data (6.3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.data.corpus import DataError, Languages, State
from core.data.lines import LineStream
from core.data.treebanks.treebank import Treebank, find_folder
from core.data.trees import Tree, read_trees

# WSJ_0201.MRG holds article 01 of section 02; 02.mrg, wsj_02.mrg or section-02.mrg the whole section.
_ARTICLE = re.compile(r"wsj_(\d\d)(\d\d)\.mrg", re.IGNORECASE)
_SECTION = re.compile(r"(?:wsj[-_]?)?(?:sec(?:tion)?[-_]?)?(\d\d)\.mrg", re.IGNORECASE)

_SPLIT_SECTIONS: Mapping[str, range] = {"train": range(2, 22), "dev": range(22, 23), "test": range(23, 24)}


@dataclass(frozen=True)
class WsjTreebank(Treebank):
    """Files of the LDC's release anywhere under one folder, in lower or upper case, an article or a section a file.

    The folder is `$AIAYN_DATA/wsj`, or HOME/data/wsj: the release's `parsed/mrg/wsj`, or a folder above it. Nothing
    can be downloaded.
    """

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        folder = find_folder(self.name, cache_dir)
        if folder is None:
            return State("not here")
        found = _find_files(folder)
        missing = tuple(f"section {section:02}" for section in _sections() if section not in found)
        return State("incomplete", folder, missing) if missing else State("present", folder)

    def obstacle(self, cache_dir: Path, languages: Languages | None = None) -> str | None:
        state = self.state(cache_dir)
        if state.usable:
            return None
        return (
            f"{self.name} is {state}; it needs a licence: put the Penn Treebank's (LDC99T42) folder parsed/mrg/wsj, "
            f"with 02/wsj_0201.mrg and so on, into AIAYN_DATA as {self.name}"
        )

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        # The text is a published one whose trees are counted; its bytes by section tell revisions of it apart,
        # whether a section is one file or many, without reading fifty megabytes for every plan.
        files = self._require_files(cache_dir)
        sizes = [(section, sum(path.stat().st_size for path in files[section])) for section in _sections()]
        return hashlib.sha256(repr(sizes).encode()).hexdigest()[:16]

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        self._require_files(cache_dir)

    def _open(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        files = self._require_files(cache_dir)
        for section in _SPLIT_SECTIONS[split]:
            for path in files[section]:
                yield from read_trees(LineStream.of_file(path), str(path))

    def _require_files(self, cache_dir: Path) -> Mapping[int, list[Path]]:
        obstacle = self.obstacle(cache_dir)
        if obstacle is not None:
            raise DataError(obstacle)
        files = _find_files(self.state(cache_dir).folder)
        for section in _sections():
            _require_once(files[section])
        return files


def _sections() -> Iterator[int]:
    return (section for sections in _SPLIT_SECTIONS.values() for section in sections)


def _find_files(folder: Path) -> dict[int, list[Path]]:
    """The files of each section, in the order of their articles."""
    found: dict[int, list[Path]] = {}
    for path in folder.rglob("*"):
        match = _ARTICLE.fullmatch(path.name) or _SECTION.fullmatch(path.name)
        if match and path.is_file():
            found.setdefault(int(match[1]), []).append(path)
    for files in found.values():
        files.sort(key=lambda path: (path.name.lower(), path))
    return found


def _require_once(files: Iterable[Path]) -> None:
    """Raise DataError where an article, or a whole section beside its articles, is there twice."""
    seen: dict[str, Path] = {}
    for path in files:
        article = _ARTICLE.fullmatch(path.name)
        key = article[2] if article else "all"
        other = seen.get(key) or seen.get("all") or (None if article else next(iter(seen.values()), None))
        if other is not None:
            raise DataError(f"{path} holds again what {other} holds; keep one of them")
        seen[key] = path


WSJ = WsjTreebank(
    name="wsj",
    task="parsing",
    languages=("en",),
    splits={"train": 39_832, "dev": 1_700, "test": 2_416},
    licence="LDC User Agreement, bought from the Linguistic Data Consortium (LDC99T42)",
    citation="Marcus, Santorini, Marcinkiewicz 1993, Building a Large Annotated Corpus of English: The Penn Treebank",
    description="Wall Street Journal of 1989: train is sections 02-21, dev 22, test 23; brought by you",
)
