"""Lines of text files, read as a stream: memory does not grow with the file.

A segment is what stands between two line feeds, and nothing else ends one: `str.splitlines` also cuts at
U+2028 and its kin, which occur inside segments (pitfall A20). Text is taken as it is: no Unicode
normalisation, no trimming, no change of quotes.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from core.data.corpus import DataError

_BLOCK_BYTES = 1 << 18
# Test sets are handed out as SGML; its tags would be translated and scored like words (A8).
_MARKUP = re.compile(r"\s*</?(?:seg|doc|srcset|refset|tstset|mteval)\b", re.IGNORECASE)


def is_empty(line: str) -> bool:
    """Whether a line has nothing but white space."""
    return not line or line.isspace()


def is_markup(line: str) -> bool:
    """Whether a line begins with a tag of the SGML that test sets come in."""
    return "<" in line and _MARKUP.match(line) is not None


class LineStream:
    """The segments of a UTF-8 text; the line feed after the last one is optional.

    Each iteration reads the text anew. When one has come to its end, `num_lines` and `sha256` are those of the
    text, uncompressed, with a line feed after every line.

    Args:
        open_bytes: opens the text's bytes.
        origin: how messages name it.

    Raises:
        DataError: while reading: the text cannot be read, is damaged, or holds a byte that is not UTF-8.
    """

    def __init__(self, open_bytes: Callable[[], AbstractContextManager[BinaryIO]], origin: str) -> None:
        self._open_bytes = open_bytes
        self.origin = origin
        self.num_lines = 0
        self.sha256 = ""

    @classmethod
    def of_file(cls, path: Path, origin: str | None = None) -> LineStream:
        """A text file, plain or, where its name ends in .gz, compressed."""
        return cls(lambda: gzip.open(path) if path.suffix == ".gz" else path.open("rb"), origin or str(path))

    def __iter__(self) -> Iterator[str]:
        digest = hashlib.sha256()
        self.num_lines = 0
        for raw in self._whole_lines():
            digest.update(raw)
            lines = self._decode(raw)
            yield from lines
            self.num_lines += len(lines)
        self.sha256 = digest.hexdigest()

    def read_through(self) -> LineStream:
        """Read to the end for the counts and the checksum alone."""
        for _ in self:
            pass
        return self

    def _whole_lines(self) -> Iterator[bytes]:
        """Bytes that end with a line feed, about a block at a time."""
        try:
            with self._open_bytes() as file:
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
        except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
            raise DataError(f"{self.origin} is not complete ({error}); delete it and get it again") from error
        except OSError as error:
            raise DataError(f"{self.origin} cannot be read: {error.strerror or error}") from error

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
    return list(LineStream(lambda: BytesIO(raw), origin))
