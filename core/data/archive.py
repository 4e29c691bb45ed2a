"""Tar archives that are read without being unpacked: what is wanted of them is streamed, and nothing is written.

An archive is looked through once before anything of it is used: its checksum, whether it is whole, and whether every
member stays inside the folder that it would be unpacked into.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from core.data.corpus import DataError
from core.data.lines import LineStream


def inspect(path: Path, checksum: str) -> None:
    """Read a whole archive and refuse it unless it is the one expected, complete and harmless.

    Args:
        checksum: `<algorithm>:<hex>` of the file as it is downloaded.

    Raises:
        DataError: another checksum, a damaged or truncated archive, or a member that is a link, a device, or would lie
            outside the folder.
    """
    algorithm, _, expected = checksum.partition(":")
    try:
        with path.open("rb") as file:
            watched = _Hashing(file, algorithm)
            with tarfile.open(fileobj=watched, mode="r|*") as archive:
                for member in archive:
                    _require_harmless(member, path)
            watched.read_to_end()
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DataError(f"{path} is not a complete archive ({error}); delete it and get it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if watched.hexdigest() != expected:
        raise DataError(
            f"{path} is not the archive expected: its {algorithm} is {watched.hexdigest()}, should be {expected}; "
            f"delete it and get it again"
        )


def member_lines(path: Path, name: str) -> LineStream:
    """The lines of one member, decompressed where its own name ends in .gz too.

    Args:
        name: the member's file name; the folders above it do not matter.
    """
    return LineStream(lambda: _open_member(path, name), f"{name} in {path}")


@contextmanager
def _open_member(path: Path, name: str) -> Iterator[BinaryIO]:
    with tarfile.open(path, mode="r|*") as archive:
        for member in archive:
            if member.isfile() and PurePosixPath(member.name).name == name:
                content = archive.extractfile(member)
                with gzip.open(content) if name.endswith(".gz") else content as text:
                    yield text
                return
    raise DataError(f"{path} holds no {name}; this is not the archive expected")


def _require_harmless(member: tarfile.TarInfo, path: Path) -> None:
    place = PurePosixPath(member.name)
    if place.is_absolute() or ".." in place.parts:
        what = "would lie outside its folder"
    elif not (member.isfile() or member.isdir()):
        what = "is a link or a device"
    else:
        return
    raise DataError(f"{path} holds {member.name!r}, which {what}; this is not the archive expected: delete it")


class _Hashing:
    """A file that is read once from beginning to end, and its checksum."""

    def __init__(self, file: BinaryIO, algorithm: str) -> None:
        self._file = file
        self._digest = hashlib.new(algorithm)

    def read(self, size: int) -> bytes:
        block = self._file.read(size)
        self._digest.update(block)
        return block

    def read_to_end(self) -> None:
        while self.read(1 << 20):
            pass

    def hexdigest(self) -> str:
        return self._digest.hexdigest()
