"""The files of one prepared split: written in parts that a later process can go on from, and mapped when complete.

Each side has `<split>.<side>.pieces.npy`, `.offsets.npy` and `.lengths.npy` (see `Sentences`), its raw lines in
`.txt`, and `.lines.npy`, the place in the text where each begins and the last one ends (see `Lines`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from core.data.array_file import ArrayFile, map_array
from core.data.corpus import DataError
from core.data.split import Lines, Sentences

SIDES = ("src", "tgt")


class SplitWriter:
    """Writes a split's files, part after part.

    `entries` is the length of each file as an earlier writer left it; everything behind is cut off. None begins anew.

    Raises:
        ValueError: a file is shorter than that.
    """

    def __init__(
        self, folder: Path, split: str, piece_dtype: DTypeLike, entries: Mapping[str, int] | None = None
    ) -> None:
        with ExitStack() as stack:
            self._sides = [stack.enter_context(_SideWriter(folder, f"{split}.{side}", piece_dtype)) for side in SIDES]
            for file in self._files():
                file.truncate(0 if entries is None else entries[file.name])
            self._stack = stack.pop_all()

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def append(self, sides: Sequence[tuple[Sentences, Sequence[str]]]) -> None:
        """Write the next pairs: source and target, each its sentences and their lines."""
        for writer, (sentences, lines) in zip(self._sides, sides, strict=True):
            writer.append(sentences, lines)

    def commit(self) -> dict[str, int]:
        """Bring everything to the disk; returns the length of each file, for a later writer."""
        for file in self._files():
            file.commit()
        return {file.name: len(file) for file in self._files()}

    def _files(self) -> Iterator[ArrayFile]:
        return (file for side in self._sides for file in side.files)


class _SideWriter:
    def __init__(self, folder: Path, stem: str, piece_dtype: DTypeLike) -> None:
        with ExitStack() as stack:
            self.files = tuple(
                stack.enter_context(ArrayFile(folder / f"{stem}.{name}", dtype))
                for name, dtype in (
                    ("pieces.npy", piece_dtype),
                    ("offsets.npy", np.int64),
                    ("lengths.npy", np.int32),
                    ("txt", np.uint8),
                    ("lines.npy", np.int64),
                )
            )
            self._stack = stack.pop_all()

    def __enter__(self) -> _SideWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def append(self, sentences: Sentences, lines: Sequence[str]) -> None:
        pieces, offsets, lengths, text, line_offsets = self.files
        encoded = np.frombuffer("".join(f"{line}\n" for line in lines).encode(), dtype=np.uint8)
        ends = np.flatnonzero(encoded == ord("\n")) + 1
        if len(ends) != len(lines):
            raise DataError(f"{text.name}: a line of the corpus holds a line feed; mend the corpus")
        for starts, flat, new_ends in ((offsets, pieces, sentences.offsets[1:]), (line_offsets, text, ends)):
            if not len(starts):
                starts.append(np.zeros(1))
            starts.append(new_ends + len(flat))
        pieces.append(sentences.flat)
        lengths.append(sentences.lengths)
        text.append(encoded)


def map_sentences(folder: Path, split: str, side: str) -> Sentences:
    """One side of a split.

    Raises:
        OSError, ValueError, EOFError: a file is missing or damaged.
    """
    stem = folder / f"{split}.{side}"
    flat, offsets, lengths = (map_array(Path(f"{stem}.{name}.npy")) for name in ("pieces", "offsets", "lengths"))
    if len(offsets) != len(lengths) + 1 or offsets[-1] != len(flat):
        raise ValueError(f"{split}.{side}: its arrays do not fit each other")
    return Sentences(flat, offsets, lengths)


def map_lines(folder: Path, split: str, side: str) -> Lines:
    """The raw lines of one side of a split.

    Raises:
        OSError, ValueError, EOFError: a file is missing or damaged.
    """
    stem = folder / f"{split}.{side}"
    return Lines(map_array(Path(f"{stem}.txt"), np.uint8), map_array(Path(f"{stem}.lines.npy")))
