"""Which pairs of lines have occurred, in 8 bytes a pair."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


class Seen:
    """Which pairs have been seen, as hashes of 64 bits: a recent few in a set, the rest in sorted arrays.

    Two of 36 million pairs share a hash with a probability of 4 in 100,000.
    """

    RECENT = 1 << 20

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted: list[np.ndarray] = []

    def is_new(self, src: str, tgt: str) -> bool:
        """Whether this pair has not been seen before; from now on it has."""
        digest = blake2b(f"{src}\n{tgt}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        if number in self._recent or any(_holds(array, number) for array in self._sorted):
            return False
        self._recent.add(number)
        if len(self._recent) == self.RECENT:
            self._settle()
        return True

    def _settle(self) -> None:
        array = np.sort(np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent)))
        self._recent.clear()
        # Arrays of like size are merged, so that there are few to look into.
        while self._sorted and len(self._sorted[-1]) <= len(array):
            array = np.sort(np.concatenate([self._sorted.pop(), array]), kind="stable")
        self._sorted.append(array)


def _holds(array: np.ndarray, number: int) -> bool:
    place = int(array.searchsorted(np.uint64(number)))
    return place < len(array) and int(array[place]) == number
