"""Arrays that grow in a file: appended to, cut back to an earlier length, and mapped when they are complete."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import DTypeLike, NDArray


class ArrayFile:
    """A one-dimensional array in a file that is being written: `.npy`, or bare bytes under any other suffix.

    Opens what is there already, and goes on behind it. The array counts only what `commit` has written to the disk;
    what a killed process left behind that is cut off with `truncate`.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.name = path.name
        self._dtype, self._has_header = np.dtype(dtype), path.suffix == ".npy"
        # The library leaves room in a header, so that it keeps its size while the array grows.
        self._header_bytes = len(self._header(0))
        self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115 - closed by `__exit__`
        self._length = max(0, self._file.seek(0, os.SEEK_END) - self._header_bytes) // self._dtype.itemsize
        self.truncate(self._length)

    def __len__(self) -> int:
        return self._length

    def append(self, values: NDArray) -> None:
        """Write values behind the last one; they are converted to the array's type."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._length += len(values)

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` values.

        Raises:
            ValueError: the file holds fewer.
        """
        if length > self._length:
            raise ValueError(f"{self.name} holds {self._length} values, not {length}")
        self._file.truncate(self._header_bytes + length * self._dtype.itemsize)
        self._length = length
        self._file.seek(0)
        self._file.write(self._header(length))
        self._file.seek(0, os.SEEK_END)

    def commit(self) -> None:
        """Bring everything to the disk, so that a power cut does not take it."""
        self.truncate(self._length)
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _header(self, length: int) -> bytes:
        if not self._has_header:
            return b""
        header = io.BytesIO()
        description = {"descr": npy_format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (length,)}
        npy_format.write_array_header_1_0(header, description)
        return header.getvalue()


def map_array(path: Path, dtype: DTypeLike | None = None) -> NDArray:
    """The array in a file, mapped: nothing is read before it is used, and processes share one copy.

    Args:
        dtype: of a file of bare bytes; a `.npy` file says its own.

    Raises:
        OSError, ValueError, EOFError: the file is missing, cut off, or no such array.
    """
    array = np.memmap(path, dtype, mode="r") if dtype is not None else np.load(path, mmap_mode="r")
    return np.asarray(array)
