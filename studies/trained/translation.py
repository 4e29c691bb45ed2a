"""Translating text with a finished run: lines in, lines out, in their order, as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.architecture_config import ModelConfig
from core.config import DecodeConfig
from core.data.corpus import DataError
from studies.trained.loading import TrainedRun

if TYPE_CHECKING:
    from core.decode import Translator

# Lines that are sorted by length together. Enough for batches with hardly any padding, few enough that the first
# translation does not wait for long and that memory does not grow with the text.
_CHUNK_LINES = 1_024
_BLOCK_BYTES = 1 << 18
# A line of more bytes than this is no line of text.
_MOST_LINE_BYTES = 1 << 20
# Attention's memory grows with the square of the pieces: half a GiB in each layer at base size for this many.
_MOST_SOURCE_PIECES = 4_096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Pieces are bytes, so a model can write these; in a file of lines they would shift every later one.
_LINE_ENDS = str.maketrans("\r\n", "  ")


@dataclass(frozen=True)
class TranslatedLine:
    """One line and its translation, which has no line break in it.

    `score` is the translation's log-probability over its length penalty, `finished` False where the limit on its length
    came before its end. An empty line has an empty translation and no score.
    """

    line: int
    source: str
    output: str
    score: float | None
    finished: bool


def read_chunks(file: Path | None) -> Iterator[list[str]]:
    """Lines of UTF-8 text from a file or from standard input, in lists of some 1,000 at most.

    What has arrived is handed out before more is waited for, so that a person or a program at the other end of a pipe
    gets an answer to each line. A line ends at a line feed and nowhere else; a carriage return before it belongs to it,
    and a byte order mark before the first line to no line.

    Raises:
        DataError: while reading, after the lines before: the file cannot be read, or a line is not UTF-8, has a NUL
            byte, or is far too long.
    """
    origin = "standard input" if file is None else str(file)
    try:
        with nullcontext(sys.stdin.buffer) if file is None else file.open("rb") as stream:
            rest, number = b"", 0
            while block := stream.read1(_BLOCK_BYTES):
                *whole, rest = (rest + block).split(b"\n")
                for start in range(0, len(whole), _CHUNK_LINES):
                    yield from _texts(whole[start : start + _CHUNK_LINES], number + start, origin)
                number += len(whole)
                if len(rest) > _MOST_LINE_BYTES:
                    break
            if rest:
                yield from _texts([rest], number, origin)
    except OSError as error:
        raise DataError(f"cannot read {origin} ({error.strerror or error})") from error


def _texts(lines: Sequence[bytes], num_before: int, origin: str) -> Iterator[list[str]]:
    """The lines as one list of texts; if one is refused, those before it first."""
    texts = []
    for number, line in enumerate(lines, num_before + 1):
        try:
            texts.append(_text(line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line))
        except ValueError as error:
            if texts:
                yield texts
            reason = f"is not UTF-8 ({error.reason})" if isinstance(error, UnicodeDecodeError) else str(error)
            raise DataError(f"{origin} line {number} {reason}") from error
    yield texts


def _text(line: bytes) -> str:
    if len(line) > _MOST_LINE_BYTES:
        raise ValueError(f"has more than {_MOST_LINE_BYTES:,} bytes; give one sentence a line")
    if b"\0" in line:
        raise ValueError("has a NUL byte, as UTF-16 and binary files do; convert it to UTF-8")
    return line.removesuffix(b"\r").decode("utf-8")


def _as_it_is(line: str) -> str:
    return line


class LineTranslator:
    """A finished run that translates lines; `read_as` makes the model's source of a line.

    Raises:
        ValueError: the settings leave the model no room for any sentence.
    """

    def __init__(self, run: TrainedRun, decode: DecodeConfig, read_as: Callable[[str], str] = _as_it_is) -> None:
        from core.architectures import build_decoder
        from core.decode import Translator

        model = run.config.model
        self._read_as = read_as
        self._vocabulary = run.vocabulary
        self._most_pieces = _MOST_SOURCE_PIECES
        if isinstance(model, ModelConfig) and model.positions == "learned":
            self._most_pieces = min(self._most_pieces, model.max_learned_positions - decode.max_extra_pieces)
            if self._most_pieces < 1:
                raise ValueError(
                    f"max_extra_pieces={decode.max_extra_pieces} leaves no room among the run's "
                    f"{model.max_learned_positions} learned positions; lower it"
                )
        self._translator: Translator = Translator(build_decoder(run.model), decode)

    def check(self, file: Path) -> int:
        """Read a whole file and refuse now what `translate` would refuse later; its number of lines.

        Raises:
            DataError: a line that cannot be translated.
        """
        num_lines = 0
        for lines in read_chunks(file):
            lines = [self._read_as(line) for line in lines]
            # A piece has one byte at least, and the vocabulary puts a space before each line.
            long = [index for index, line in enumerate(lines) if len(line.encode()) >= self._most_pieces]
            sources = self._vocabulary.encode_batch([lines[index] for index in long])
            for index, source in zip(long, sources, strict=True):
                self._require_room(source, num_lines + index + 1)
            num_lines += len(lines)
        return num_lines

    def translate(self, chunks: Iterable[Sequence[str]]) -> Iterator[list[TranslatedLine]]:
        """All lines in their order, each as soon as it and those before it are translated.

        Raises:
            DataError: after the lines before it: a line has too many word pieces.
        """
        num_before = 0
        for lines in chunks:
            wanted = [index for index, line in enumerate(lines) if line.strip()]
            sources = self._vocabulary.encode_batch([self._read_as(lines[index]) for index in wanted])
            fitting = next((i for i, source in enumerate(sources) if len(source) > self._most_pieces), None)
            if fitting is not None:
                yield from self._translate(lines[: wanted[fitting]], wanted[:fitting], sources[:fitting], num_before)
                self._require_room(sources[fitting], num_before + wanted[fitting] + 1)
            yield from self._translate(lines, wanted, sources, num_before)
            num_before += len(lines)

    def _translate(
        self, lines: Sequence[str], wanted: Sequence[int], sources: Sequence[Sequence[int]], num_before: int
    ) -> Iterator[list[TranslatedLine]]:
        empty = set(range(len(lines))).difference(wanted)
        done = {index: TranslatedLine(num_before + index + 1, lines[index], "", None, True) for index in empty}
        next_index = 0
        with closing(self._translator.decoded_batches(sources)) as batches:
            for members, hypotheses in batches:
                texts = self._vocabulary.decode_batch([hypothesis.pieces for hypothesis in hypotheses])
                for member, hypothesis, text in zip(members, hypotheses, texts, strict=True):
                    index = wanted[member]
                    done[index] = TranslatedLine(
                        num_before + index + 1,
                        lines[index],
                        text.translate(_LINE_ENDS),
                        hypothesis.score,
                        hypothesis.finished,
                    )
                ready = []
                while next_index in done:
                    ready.append(done.pop(next_index))
                    next_index += 1
                if ready:
                    yield ready
        if done:
            yield [done[index] for index in sorted(done)]

    def _require_room(self, source: Sequence[int], line: int) -> None:
        if len(source) > self._most_pieces:
            raise DataError(
                f"line {line} has {len(source):,} word pieces, and the run can take {self._most_pieces:,} at most; "
                "give one sentence a line"
            )
