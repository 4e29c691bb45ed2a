"""From a corpus to word pieces on disk, once for every run that asks for the same data.

A prepared folder is `cache_dir/<corpus>-<src>-<tgt>-<key>`, where the key covers all that decides its content. It
is written under another name and renamed when complete, so that processes that prepare the same data at the same
time disturb neither each other nor a reader.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from core.config import DataConfig
from core.data import corpora
from core.data.corpus import DataError, require_name
from core.data.lines import decode_lines
from core.data.split import ParallelSplit, Sentences
from core.data.translation_corpus import TranslationCorpus
from core.data.vocabulary import Vocabulary

TRAIN_SPLIT = "train"
# Part of the key: to be raised whenever this module writes something else for the same input.
_FORMAT = 1
_SIDES = ("src", "tgt")


@dataclass(frozen=True)
class SplitStatistics:
    """What is worth knowing about one prepared split.

    Pieces do not count special symbols; words are what spaces separate. Pieces per word should hardly differ between
    the splits of one corpus (pitfall A29). A byte-level vocabulary has no unknown symbol; `*_untrained_pieces` counts
    what comes closest, occurrences of pieces that the training text of both sides never shows to the model (A28).
    `*_seen_in_training` counts sentences that also are training sentences, of that side or as a pair (A24); in the
    training split that is every one.
    """

    pairs: int
    dropped_long_pairs: int
    src_pieces: int
    tgt_pieces: int
    src_pieces_per_word: float
    tgt_pieces_per_word: float
    src_untrained_pieces: int
    tgt_untrained_pieces: int
    src_seen_in_training: int
    tgt_seen_in_training: int
    pairs_seen_in_training: int


@dataclass(frozen=True)
class PreparedData:
    """Encoded splits of a corpus in one direction, with the vocabulary learned on its training text.

    `fingerprint` is the corpus' own for these two languages: the text, not what is made of it, which follows from
    the configuration.
    """

    folder: Path
    vocabulary: Vocabulary
    fingerprint: str
    statistics: Mapping[str, SplitStatistics]

    def split(self, name: str) -> ParallelSplit:
        """A split by the corpus' name for it; its arrays are mapped from disk.

        Raises:
            ValueError: no such split.
            DataError: its files are damaged.
        """
        require_name(name, self.statistics, f"{self.folder.name} has no split")
        sides = [_read_sentences(self.folder, name, side) for side in _SIDES]
        pairs = self.statistics[name].pairs
        if any(len(side) != pairs or side.offsets[-1] != len(side.flat) for side in sides):
            raise _damaged(self.folder, f"split {name} is not {pairs} pairs")
        return ParallelSplit(*sides, read_lines=partial(_read_lines, self.folder, name))


def prepare(data: DataConfig, cache_dir: Path) -> PreparedData:
    """The prepared form of what `data` names: read from `cache_dir`, or made there first.

    Training pairs with a side of more than `data.max_train_pieces` pieces, end symbol included, are dropped and
    counted; other splits keep every pair.

    Raises:
        ValueError: no such corpus, language or split; the vocabulary is too small; the training split would be scored.
        DataError: the corpus cannot be had, is damaged, or leaves nothing to train on.
    """
    corpus = corpora.get(data.corpus, cache_dir)
    if not isinstance(corpus, TranslationCorpus):
        raise ValueError(f"corpus {data.corpus} is for {corpus.task}; name one for translation")
    return prepare_corpus(corpus, data, cache_dir)


def prepare_corpus(corpus: TranslationCorpus, data: DataConfig, cache_dir: Path) -> PreparedData:
    """`prepare` for a corpus in hand, whatever name `data` gives."""
    for split in (data.dev_split, data.test_split):
        corpus.require_pair(split, data.src, data.tgt)
        if split == TRAIN_SPLIT:
            raise ValueError(f"split {split!r} is trained on; score {data.corpus} on another split")
    fingerprint = corpus.fingerprint(cache_dir, (data.src, data.tgt))
    folder = cache_dir / f"{corpus.name}-{data.src}-{data.tgt}-{_key(data, fingerprint)}"
    if not folder.is_dir():
        unfinished = cache_dir / f".{folder.name}.{uuid.uuid4().hex[:8]}"
        try:
            unfinished.mkdir(parents=True)
            _write(corpus, data, cache_dir, unfinished)
            _publish(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return _open(folder, fingerprint)


def _key(data: DataConfig, fingerprint: str) -> str:
    # All splits are prepared, so the ones that a run scores are no part of it.
    parts = (_FORMAT, version("tokenizers"), fingerprint, data.src, data.tgt, data.vocab_size, data.max_train_pieces)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _publish(unfinished: Path, folder: Path) -> None:
    try:
        os.rename(unfinished, folder)
    except OSError:
        # A folder with files is not replaced: another process was first, and its content is the same.
        if not folder.is_dir():
            raise


def _open(folder: Path, fingerprint: str) -> PreparedData:
    try:
        statistics = json.loads((folder / "info.json").read_text(encoding="utf-8"))["splits"]
        splits = {name: SplitStatistics(**values) for name, values in statistics.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, f"info.json: {error}") from error
    return PreparedData(folder, Vocabulary.load(folder / "vocabulary.json"), fingerprint, splits)


def _damaged(folder: Path, what: str) -> DataError:
    return DataError(f"{folder} is damaged ({what}); delete it, it will be made again")


def _write(corpus: TranslationCorpus, data: DataConfig, cache_dir: Path, folder: Path) -> None:
    lines = {split: corpus.load_pair(split, data.src, data.tgt, cache_dir) for split in corpus.splits}
    # Only training text: merges that know the test set would flatter it (A30).
    vocabulary = Vocabulary.learn((line for side in lines[TRAIN_SPLIT] for line in side), data.vocab_size)
    vocabulary.save(folder / "vocabulary.json")

    pieces = {
        split: tuple(Sentences.from_lists(vocabulary.encode_batch(side), vocabulary.size) for side in sides)
        for split, sides in lines.items()
    }
    dropped = dict.fromkeys(corpus.splits, 0)
    keep = np.maximum(*(side.lengths for side in pieces[TRAIN_SPLIT])) < data.max_train_pieces
    if not keep.any():
        raise DataError(
            f"{corpus.name}: every training pair is longer than max_train_pieces={data.max_train_pieces}; raise it"
        )
    if not keep.all():
        dropped[TRAIN_SPLIT] = int(np.count_nonzero(~keep))
        pieces[TRAIN_SPLIT] = tuple(side.select(keep) for side in pieces[TRAIN_SPLIT])
        lines[TRAIN_SPLIT] = tuple([side[i] for i in np.flatnonzero(keep)] for side in lines[TRAIN_SPLIT])

    statistics = _compute_statistics(lines, pieces, dropped, vocabulary.size)
    for split in corpus.splits:
        for name, side_pieces, side_lines in zip(_SIDES, pieces[split], lines[split], strict=True):
            np.save(folder / f"{split}.{name}.pieces.npy", side_pieces.flat)
            np.save(folder / f"{split}.{name}.offsets.npy", side_pieces.offsets)
            (folder / f"{split}.{name}.txt").write_bytes("".join(f"{line}\n" for line in side_lines).encode())
    info = {
        "corpus": corpus.name,
        "data": asdict(data),
        "vocabulary": {
            "fingerprint": vocabulary.fingerprint,
            "size": vocabulary.size,
            "size_asked_for": data.vocab_size,
            "merges": vocabulary.num_merges,
            "learned_on": [f"{TRAIN_SPLIT}.{data.src}", f"{TRAIN_SPLIT}.{data.tgt}"],
        },
        "splits": {split: asdict(values) for split, values in statistics.items()},
    }
    (folder / "info.json").write_text(json.dumps(info, indent=1), encoding="utf-8")


def _compute_statistics(
    lines: Mapping[str, Sequence[list[str]]],
    pieces: Mapping[str, Sequence[Sentences]],
    dropped: Mapping[str, int],
    vocab_size: int,
) -> dict[str, SplitStatistics]:
    trained = np.zeros(vocab_size, dtype=bool)
    for side in pieces[TRAIN_SPLIT]:
        trained[side.flat] = True
    train_sides = [set(side) for side in lines[TRAIN_SPLIT]]
    train_pairs = set(zip(*lines[TRAIN_SPLIT], strict=True))

    statistics = {}
    for split, sides in lines.items():
        values = {"pairs": len(sides[0]), "dropped_long_pairs": dropped[split]}
        for name, side, side_pieces, train_lines in zip(_SIDES, sides, pieces[split], train_sides, strict=True):
            values[f"{name}_pieces"] = len(side_pieces.flat)
            values[f"{name}_pieces_per_word"] = len(side_pieces.flat) / sum(len(line.split()) for line in side)
            values[f"{name}_untrained_pieces"] = int(np.count_nonzero(~trained[side_pieces.flat]))
            values[f"{name}_seen_in_training"] = sum(line in train_lines for line in side)
        values["pairs_seen_in_training"] = sum(pair in train_pairs for pair in zip(*sides, strict=True))
        statistics[split] = SplitStatistics(**values)
    return statistics


def _read_sentences(folder: Path, split: str, side: str) -> Sentences:
    try:
        # Pieces are mapped: the ranks of a node share one copy, and nothing is read before it is used.
        pieces = np.load(folder / f"{split}.{side}.pieces.npy", mmap_mode="r")
        offsets = np.load(folder / f"{split}.{side}.offsets.npy")
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(folder, f"{split}.{side}: {error}") from error
    return Sentences(np.asarray(pieces), offsets)


def _read_lines(folder: Path, split: str) -> tuple[list[str], list[str]]:
    def read(side: str) -> list[str]:
        path = folder / f"{split}.{side}.txt"
        try:
            return decode_lines(path.read_bytes(), str(path))
        except OSError as error:
            raise _damaged(folder, f"{path.name}: {error.strerror}") from error

    return read("src"), read("tgt")
