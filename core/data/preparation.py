"""Making a prepared folder: text in, vocabulary and arrays of word pieces out, in a few gigabytes at any size.

The text is read twice as a stream, once for the vocabulary and once to be encoded.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from core.config import DataConfig
from core.data.corpus import TRAIN_SPLIT, DataError, PairCorpus
from core.data.progress import progress
from core.data.split import Sentences
from core.data.split_files import SplitWriter
from core.data.split_statistics import compute_statistics
from core.data.vocabulary import ALPHABET_SIZE, SPECIAL_SYMBOLS, Vocabulary

INFO_FILE, VOCABULARY_FILE, _JOURNAL_FILE = "info.json", "vocabulary.json", "journal.json"
_SAMPLE_SEED = 1706
# Pairs that are encoded at a time. The library keeps some kilobytes for each line that it has encoded.
_CHUNK_PAIRS = 8_192
_ENCODER_THREADS = 2
# How much a killed process may lose.
_COMMIT_EVERY_SECONDS = 15.0

_logger = logging.getLogger(__name__)

Chunk = tuple[tuple[Sentences, list[str]], tuple[Sentences, list[str]]]
"""Some pairs: the source and the target, each its sentences and their lines."""


@dataclass(frozen=True)
class _Done:
    """What has been brought to the disk of one split: pairs read and dropped, and the length of each file."""

    read: int = 0
    dropped: int = 0
    entries: Mapping[str, int] = field(default_factory=dict)
    complete: bool = False


class Preparation:
    """Makes one prepared folder: the vocabulary, the splits one after the other, what is worth knowing about them.

    Works in an unfinished folder of a fixed name, whose journal says for each split what is `_Done`: what an earlier
    process had written down there is not made again. One process at a time.
    """

    def __init__(self, corpus: PairCorpus, data: DataConfig, cache_dir: Path, folder: Path) -> None:
        self._corpus, self._data, self._cache_dir, self._folder = corpus, data, cache_dir, folder
        self._unfinished = folder.with_name(f".{folder.name}.unfinished")
        self._journal = self._read_journal()
        self._began = time.monotonic()

    def run(self) -> None:
        """Make the folder, or the rest of it.

        Raises:
            ValueError: the vocabulary is too small.
            DataError: the corpus cannot be had or used, and nothing is left; the disk cannot be written, and what is
                done so far is kept.
        """
        try:
            self._unfinished.mkdir(exist_ok=True)
            # All of it now: a download that fails later would find hours of work done.
            self._corpus.fetch(self._cache_dir, (self._data.src, self._data.tgt))
            vocabulary = self._vocabulary()
            # Only complete splits go on to the next step: a corpus may show a fault at its very end.
            for split in sorted(self._corpus.splits, key=lambda split: split != TRAIN_SPLIT):
                self._encode(split, vocabulary)
            self._finish(vocabulary)
        except (DataError, ValueError):
            shutil.rmtree(self._unfinished, ignore_errors=True)
            raise
        except OSError as error:
            raise DataError(
                f"cannot write {self._unfinished} ({error.strerror or error}); start again once that is mended: "
                "it goes on where it stopped"
            ) from error

    def _vocabulary(self) -> Vocabulary:
        path = self._unfinished / VOCABULARY_FILE
        with suppress(DataError):
            return Vocabulary.load(path)
        self._journal = {}  # there is none yet, or it tells of another vocabulary's pieces
        # Only training text: merges that know the test set would flatter it (A30).
        vocabulary = Vocabulary.learn(
            self._lines_to_learn_on(), self._data.vocab_size, self._data.vocab_kind, tokenised=self._corpus.tokenised
        )
        _write_whole(path, vocabulary.tokenizer.to_str())
        return vocabulary

    def _lines_to_learn_on(self) -> Iterator[str]:
        total, wanted = self._num_pairs(TRAIN_SPLIT), self._data.vocab_sample_pairs
        if total is None and wanted is not None:
            total = sum(1 for _ in self._read(TRAIN_SPLIT))
        with progress(f"{self._folder.name}: reading for the vocabulary", total) as on_pairs:
            pairs = _watched(self._read(TRAIN_SPLIT), on_pairs)
            yield from chain.from_iterable(pairs if wanted is None else _spread(pairs, total, wanted))
        _logger.info("%s: learning %s word pieces", self._folder.name, f"{self._data.vocab_size:,}")

    def _encode(self, split: str, vocabulary: Vocabulary) -> None:
        writer, done = self._resume(split, vocabulary)
        with writer:
            if not done.complete:
                self._go_on(split, vocabulary, writer, done)

    def _resume(self, split: str, vocabulary: Vocabulary) -> tuple[SplitWriter, _Done]:
        if split in self._journal:
            done = _Done(**self._journal[split])
            with suppress(ValueError):  # the files are not what the journal says: they are written anew
                return SplitWriter(self._unfinished, split, vocabulary.dtype, done.entries), done
        return SplitWriter(self._unfinished, split, vocabulary.dtype), _Done()

    def _go_on(self, split: str, vocabulary: Vocabulary, writer: SplitWriter, done: _Done) -> None:
        longest = self._data.max_train_pieces if split == TRAIN_SPLIT else None
        read, dropped, last_commit = done.read, done.dropped, time.monotonic()
        pairs = self._read(split)
        for _ in islice(pairs, read):  # read again, because a corpus is checked as a whole
            pass
        with progress(f"{self._folder.name}: encoding {split}", self._num_pairs(split), read) as on_pairs:
            for chunk in _encoded(pairs, vocabulary):
                kept = _without_long(chunk, longest)
                writer.append(kept)
                num_read, num_kept = len(chunk[0][0]), len(kept[0][0])
                read, dropped = read + num_read, dropped + num_read - num_kept
                on_pairs(num_read)
                if time.monotonic() - last_commit > _COMMIT_EVERY_SECONDS:
                    self._note(split, _Done(read, dropped, writer.commit()))
                    last_commit = time.monotonic()
        if read == 0:
            raise DataError(f"{self._corpus.name} has no pair in its split {split}; it cannot be used")
        if read == dropped:
            raise DataError(
                f"{self._corpus.name}: every training pair is longer than max_train_pieces={longest}; raise it"
            )
        self._note(split, _Done(read, dropped, writer.commit(), complete=True))

    def _finish(self, vocabulary: Vocabulary) -> None:
        dropped = {split: self._journal[split]["dropped"] for split in self._corpus.splits}
        with progress(f"{self._folder.name}: counting", self._num_pairs(TRAIN_SPLIT)) as on_pairs:
            statistics = compute_statistics(self._unfinished, TRAIN_SPLIT, dropped, vocabulary.size, on_pairs)
        data = self._data
        files = [self._unfinished / name for split in self._corpus.splits for name in self._journal[split]["entries"]]
        info = {
            "corpus": self._corpus.name,
            "data": asdict(data),
            "vocabulary": {
                "fingerprint": vocabulary.fingerprint,
                "kind": vocabulary.kind,
                "size": vocabulary.size,
                "size_asked_for": data.vocab_size,
                "special_symbols": len(SPECIAL_SYMBOLS),
                "alphabet": ALPHABET_SIZE,
                "merges": vocabulary.num_merges,
                "unused": vocabulary.size - len(SPECIAL_SYMBOLS) - statistics.num_trained,
                "learned_on": [f"{TRAIN_SPLIT}.{data.src}", f"{TRAIN_SPLIT}.{data.tgt}"],
                "sample": None if data.vocab_sample_pairs is None else {
                    "pairs": data.vocab_sample_pairs, "seed": _SAMPLE_SEED, "spread": "one from each equal stretch",
                },
            },
            "splits": {split: asdict(values) for split, values in statistics.splits.items()},
            "files": {path.name: path.stat().st_size for path in [self._unfinished / VOCABULARY_FILE, *files]},
        }  # fmt: skip
        _write_whole(self._unfinished / INFO_FILE, json.dumps(info, indent=1))
        os.rename(self._unfinished, self._folder)
        (self._folder / _JOURNAL_FILE).unlink()
        pairs = sum(values.pairs for values in statistics.splits.values())
        _logger.info("%s: %s pairs prepared in %.0f s", self._folder.name, f"{pairs:,}", time.monotonic() - self._began)

    def _read(self, split: str) -> Iterator[tuple[str, str]]:
        return self._corpus.read_pairs(split, self._data.src, self._data.tgt, self._cache_dir)

    def _num_pairs(self, split: str) -> int | None:
        return self._corpus.num_lines(split, (self._data.src, self._data.tgt), self._cache_dir)

    def _read_journal(self) -> dict[str, Any]:
        path = self._unfinished / _JOURNAL_FILE
        with suppress(OSError, ValueError):
            return json.loads(path.read_text(encoding="utf-8"))
        return {}

    def _note(self, split: str, done: _Done) -> None:
        self._journal[split] = asdict(done)
        _write_whole(self._unfinished / _JOURNAL_FILE, json.dumps(self._journal))


def _encoded(pairs: Iterator[tuple[str, str]], vocabulary: Vocabulary) -> Iterator[Chunk]:
    """The pairs in chunks, encoded. The library uses all cores for a chunk; threads keep it busy while Python reads
    the next and copies the last.
    """

    def encode(chunk: list[tuple[str, str]]) -> Chunk:
        return tuple((vocabulary.encode_sentences(lines), lines) for lines in map(list, zip(*chunk, strict=True)))

    with ThreadPoolExecutor(_ENCODER_THREADS) as pool:
        under_way: deque = deque()
        while chunk := list(islice(pairs, _CHUNK_PAIRS)):
            under_way.append(pool.submit(encode, chunk))
            if len(under_way) > _ENCODER_THREADS:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _without_long(chunk: Chunk, longest: int | None) -> Chunk:
    """The pairs of which neither side has more than `longest` tokens; all where that is None."""
    (src, src_lines), (tgt, tgt_lines) = chunk
    if longest is None:
        return chunk
    keep = np.maximum(src.lengths, tgt.lengths) <= longest
    if keep.all():
        return chunk
    kept = np.flatnonzero(keep)
    return (src.select(keep), [src_lines[i] for i in kept]), (tgt.select(keep), [tgt_lines[i] for i in kept])


def _watched(pairs: Iterator[tuple[str, str]], on_pairs: Callable[[int], None]) -> Iterator[tuple[str, str]]:
    while chunk := list(islice(pairs, _CHUNK_PAIRS)):
        yield from chunk
        on_pairs(len(chunk))


def _spread(pairs: Iterable[tuple[str, str]], total: int, wanted: int) -> Iterator[tuple[str, str]]:
    """`wanted` of `total` pairs in order, one drawn from each of as many equal stretches; all where there are fewer.

    The pairs are read to their end, where a corpus is checked.
    """
    count = min(wanted, total)
    starts = np.arange(count + 1) * total // count
    draws = np.random.default_rng(_SAMPLE_SEED).random(count)
    chosen = map(int, starts[:-1] + (draws * np.diff(starts)).astype(np.int64))
    next_chosen = next(chosen)
    for place, pair in enumerate(pairs):
        if place == next_chosen:
            yield pair
            next_chosen = next(chosen, -1)


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is there entirely or not at all, whatever happens meanwhile."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
