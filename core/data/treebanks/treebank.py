"""What a treebank is: a corpus whose items are constituency trees, read as a stream and in normal form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.data.corpus import Corpus, DataError, Languages, Step, local_folder
from core.data.trees import Tree, normalise

NORMAL_FORM = "function tags, indices, traces and constituents without words removed; TOP as the root"


@dataclass(frozen=True)
class Treebank(Corpus):
    """Trees of sentences in one language; `splits` counts trees."""

    @abstractmethod
    def _open(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        """The trees of one split as they are written, in order; the name has been checked."""

    def read_trees(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        """The trees of one split in normal form (`core.data.trees.normalise`), as a stream.

        The count is known at the end only: what was made of the trees must be thrown away where the stream ends in an
        error.

        Raises:
            ValueError: the treebank has no such split.
            DataError: files are missing or damaged, or hold other trees than the treebank declares (E17).
        """
        self.require(split)
        return self._checked(split, cache_dir)

    def read_annotated(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        """The trees of one split as their files have them, with function tags and traces, as a stream.

        Raises:
            ValueError: the treebank has no such split.
            DataError: files are missing or damaged.
        """
        self.require(split)
        return self._open(split, cache_dir)

    def steps(self, cache_dir: Path) -> tuple[Step, ...]:
        here = self.state(cache_dir).usable
        return tuple(Step(split, NORMAL_FORM, count if here else None) for split, count in self.splits.items())

    def verify(self, cache_dir: Path, languages: Languages | None = None) -> None:
        for split in self.splits:
            for _ in self.read_trees(split, cache_dir):
                pass

    def _checked(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        count = 0
        for count, tree in enumerate(self._open(split, cache_dir), 1):
            try:
                normal = normalise(tree)
            except ValueError as error:
                raise DataError(f"{self.name} {split}, tree {count}: {error}") from error
            yield normal
        expected = self.splits[split]
        if expected is not None and count != expected:
            raise DataError(
                f"{self.name} {split} has {count:,} trees here, it should have {expected:,}; "
                f"restore the original files in {self.state(cache_dir).folder}"
            )


def find_folder(name: str, cache_dir: Path) -> Path | None:
    """`$AIAYN_DATA/<name>`, or else `cache_dir/<name>`; None where there is neither."""
    own = cache_dir / name
    return local_folder(name) or (own if own.is_dir() else None)
