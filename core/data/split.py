"""Encoded sentences in memory: one flat array of word pieces per side, however many sentences there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences of word pieces, one after the other: sentence i is `flat[offsets[i]:offsets[i + 1]]`.

    `flat`: (pieces,) unsigned integers without special symbols. `offsets`: (sentences + 1,) int64, from 0 to pieces.
    Both may be mapped from a file.
    """

    flat: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]], vocab_size: int) -> Sentences:
        """Pack lists of ids below `vocab_size` into the smallest type that holds them."""
        offsets = np.zeros(len(sentences) + 1, dtype=np.int64)
        np.cumsum([len(pieces) for pieces in sentences], out=offsets[1:])
        every = (piece for pieces in sentences for piece in pieces)
        return cls(np.fromiter(every, dtype=np.min_scalar_type(vocab_size - 1), count=offsets[-1]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> list[int]:
        if not 0 <= index < len(self):  # also what ends a loop over all sentences
            raise IndexError(f"sentence {index} of {len(self)}")
        return self.flat[self.offsets[index] : self.offsets[index + 1]].tolist()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(sentences,) pieces of each, special symbols not counted."""
        return np.diff(self.offsets)

    def select(self, keep: NDArray[np.bool_]) -> Sentences:
        """The sentences where `keep` (sentences,) is True, in order."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths[keep])])
        return Sentences(self.flat[np.repeat(keep, self.lengths)], offsets)

    def padded(
        self, indices: NDArray[np.integer], pad: int, before: int | None = None, after: int | None = None
    ) -> NDArray[np.int64]:
        """(B, longest) int64: these sentences, each with the symbols asked for, padded on the right."""
        lengths, starts = self.lengths[indices], self.offsets[:-1][indices]
        shift = before is not None
        columns = np.arange(lengths.max(initial=0))
        real = columns < lengths[:, None]  # (B, longest sentence)
        rows = np.full((len(indices), len(columns) + shift + (after is not None)), pad, dtype=np.int64)
        rows[:, shift : shift + len(columns)][real] = self.flat[(starts[:, None] + columns)[real]]
        if before is not None:
            rows[:, 0] = before
        if after is not None:
            rows[np.arange(len(indices)), lengths + shift] = after
        return rows


@dataclass(frozen=True, eq=False)
class ParallelSplit:
    """One split of a corpus: sentence i of `tgt` translates sentence i of `src`.

    Source lengths, and target lengths, are those that a model sees: one symbol more than the pieces, the end symbol
    of a source, and the begin or end symbol of a target. Lines are the raw text, read when asked for.
    """

    src: Sentences
    tgt: Sentences
    read_lines: Callable[[], tuple[list[str], list[str]]]

    def __len__(self) -> int:
        return len(self.src)

    @cached_property
    def src_lengths(self) -> NDArray[np.int64]:
        return self.src.lengths + 1

    @cached_property
    def tgt_lengths(self) -> NDArray[np.int64]:
        return self.tgt.lengths + 1

    @cached_property
    def _lines(self) -> tuple[list[str], list[str]]:
        return self.read_lines()

    @property
    def src_lines(self) -> list[str]:
        """The raw source lines."""
        return self._lines[0]

    @property
    def tgt_lines(self) -> list[str]:
        """The raw target lines: the references."""
        return self._lines[1]
