"""Lines of text files, read as a stream: memory does not grow with the file.

A segment is what stands between two line feeds, and nothing else ends one: `str.splitlines` also cuts at
U+2028 and its kin, which occur inside segments (pitfall A20). Text is taken as it is: no Unicode
normalisation, no trimming, no change of quotes.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from core.data.corpus import DataError

_BLOCK_BYTES = 1 << 20


class LineFile:
    """The segments of a UTF-8 text file, plain or gzip by its name; the line feed after the last one is optional.

    Each iteration reads the file anew. When one has come to its end, `num_lines` and `sha256` are those of the text,
    uncompressed, with a line feed after every line.

    Raises:
        DataError: while reading: the file cannot be read, is damaged, or holds a byte that is not UTF-8.
    """

    def __init__(self, path: Path, origin: str | None = None) -> None:
        self.path = path
        self.origin = origin or str(path)
        self.num_lines = 0
        self.sha256 = ""

    def __iter__(self) -> Iterator[str]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[list[str]]:
        """The lines in lists of some thousands, which costs less than one by one."""
        digest = hashlib.sha256()
        self.num_lines = 0
        for raw in self._whole_lines():
            digest.update(raw)
            lines = self._decode(raw)
            yield lines
            self.num_lines += len(lines)
        self.sha256 = digest.hexdigest()

    def _whole_lines(self) -> Iterator[bytes]:
        """Bytes that end with a line feed, about a block at a time."""
        try:
            with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as file:
                rest = b""
                while block := file.read(_BLOCK_BYTES):
                    head, feed, tail = block.rpartition(b"\n")
                    if feed:
                        yield rest + head + feed
                        rest = tail
                    else:
                        rest += block
                if rest:
                    yield rest + b"\n"
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{self.origin} is not a complete gzip file ({error}); delete it and fetch it again"
            ) from error
        except OSError as error:
            raise DataError(f"{self.origin} cannot be read: {error.strerror}") from error

    def _decode(self, raw: bytes) -> list[str]:
        try:
            return raw[:-1].decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            line = self.num_lines + raw.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{self.origin} line {line} is not UTF-8 ({error.reason}); convert the file to UTF-8"
            ) from error


def decode_lines(raw: bytes, origin: str) -> list[str]:
    """The segments of a UTF-8 text in memory; the line feed after the last one is optional.

    Raises:
        DataError: a byte is not UTF-8; names the line.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{origin} line {line} is not UTF-8 ({error.reason}); convert the file to UTF-8") from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
