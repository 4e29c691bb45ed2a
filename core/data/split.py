"""Encoded sentences and raw lines as flat arrays, in memory or mapped from a file, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences of word pieces, one after the other: sentence i is `flat[offsets[i]:offsets[i + 1]]`.

    `flat`: (pieces,) unsigned integers without special symbols. `offsets`: (sentences + 1,) int64, from 0 to pieces.
    `lengths`: (sentences,) int32 tokens as a model sees them, one symbol more than the pieces: the end symbol of a
    source, the begin or end symbol of a target. All three may be mapped from files, which is why lengths are kept
    although they follow from the offsets.
    """

    flat: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]], vocab_size: int) -> Sentences:
        """Pack lists of ids below `vocab_size` into the smallest type that holds them."""
        num_pieces = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        every = (piece for pieces in sentences for piece in pieces)
        flat = np.fromiter(every, dtype=np.min_scalar_type(vocab_size - 1), count=num_pieces.sum())
        return cls.from_pieces(flat, num_pieces)

    @classmethod
    def from_pieces(cls, flat: NDArray[np.unsignedinteger], num_pieces: NDArray[np.integer]) -> Sentences:
        """Sentences of `num_pieces` (sentences,) pieces each, out of all their pieces in order."""
        offsets = np.zeros(len(num_pieces) + 1, dtype=np.int64)
        np.cumsum(num_pieces, out=offsets[1:])
        return cls(flat, offsets, (num_pieces + 1).astype(np.int32))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> list[int]:
        if not 0 <= index < len(self):  # also what ends a loop over all sentences
            raise IndexError(f"sentence {index} of {len(self)}")
        return self.flat[self.offsets[index] : self.offsets[index + 1]].tolist()

    def part(self, start: int, stop: int) -> Sentences:
        """Sentences `start` to `stop` (not included), as far as there are any, copied into memory."""
        offsets = self.offsets[start : stop + 1]
        flat = self.flat[offsets[0] : offsets[-1]].copy()
        return Sentences(flat, offsets - offsets[0], self.lengths[start:stop].copy())

    def select(self, keep: NDArray[np.bool_]) -> Sentences:
        """The sentences where `keep` (sentences,) is True, in order."""
        num_pieces = np.diff(self.offsets)
        return self.from_pieces(self.flat[np.repeat(keep, num_pieces)], num_pieces[keep])

    def padded(
        self, indices: NDArray[np.integer], pad: int, before: int | None = None, after: int | None = None
    ) -> NDArray[np.int64]:
        """(B, longest) int64: these sentences, each with the symbols asked for, padded on the right."""
        num_pieces, starts = self.lengths[indices] - 1, self.offsets[indices]
        shift = before is not None
        columns = np.arange(num_pieces.max(initial=0))
        real = columns < num_pieces[:, None]  # (B, longest sentence)
        rows = np.full((len(indices), len(columns) + shift + (after is not None)), pad, dtype=np.int64)
        rows[:, shift : shift + len(columns)][real] = self.flat[(starts[:, None] + columns)[real]]
        if before is not None:
            rows[:, 0] = before
        if after is not None:
            rows[np.arange(len(indices)), num_pieces + shift] = after
        return rows


class Lines(Sequence[str]):
    """Lines of text, each decoded when it is asked for: line i is bytes `offsets[i]` to `offsets[i + 1]`.

    `flat`: (bytes,) uint8, UTF-8 with a line feed after each line. `offsets`: (lines + 1,) int64, from 0 to bytes.
    """

    def __init__(self, flat: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self._flat, self._offsets = flat, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        return self.text(place, place + 1)[:-1].tobytes().decode()

    def text(self, start: int, stop: int) -> NDArray[np.uint8]:
        """The bytes of lines `start` to `stop` (not included), as far as there are any, with their line feeds."""
        offsets = self._offsets[start : stop + 1]
        return self._flat[offsets[0] : offsets[-1]]


@dataclass(frozen=True, eq=False)
class ParallelSplit:
    """One split of a corpus: sentence i of `tgt` translates sentence i of `src`. Lines are the raw text, read when
    asked for.
    """

    src: Sentences
    tgt: Sentences
    read_lines: Callable[[], tuple[Sequence[str], Sequence[str]]]

    def __len__(self) -> int:
        return len(self.src)

    @property
    def src_lengths(self) -> NDArray[np.int32]:
        """(sentences,) source tokens: pieces and the end symbol."""
        return self.src.lengths

    @property
    def tgt_lengths(self) -> NDArray[np.int32]:
        """(sentences,) target tokens: pieces and the begin symbol, or the end symbol."""
        return self.tgt.lengths

    @cached_property
    def _lines(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.read_lines()

    @property
    def src_lines(self) -> Sequence[str]:
        """The raw source lines."""
        return self._lines[0]

    @property
    def tgt_lines(self) -> Sequence[str]:
        """The raw target lines: the references."""
        return self._lines[1]
