"""From a corpus to word pieces on disk, once for every run that asks for the same data.

A prepared folder is `cache_dir/<corpus>-<src>-<tgt>-<key>`, where the key covers all that decides its content. One
process makes it while others wait. It lies under another name until it is complete, and what a killed process had
brought to the disk by then is not made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path

from core.config import DataConfig
from core.data import corpora
from core.data.corpus import TRAIN_SPLIT, DataError, PairCorpus, require_name
from core.data.lock import one_at_a_time
from core.data.preparation import INFO_FILE, VOCABULARY_FILE, Preparation
from core.data.split import Lines, ParallelSplit
from core.data.split_files import SIDES, map_lines, map_sentences
from core.data.split_statistics import SplitStatistics
from core.data.vocabulary import Vocabulary, fingerprint_of_file

# Part of the key: to be raised whenever other files are written for the same input.
_FORMAT = 2


@dataclass(frozen=True)
class PreparedData:
    """Encoded splits of a corpus in one direction, with the vocabulary learned on its training text.

    `fingerprint` is the corpus' own for these two languages: the text, not what is made of it, which follows from
    the configuration.
    """

    folder: Path
    fingerprint: str
    vocab_size: int
    statistics: Mapping[str, SplitStatistics]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, read when it is asked for: training needs none, and it takes more memory than the rest."""
        with _damage_named(self.folder):
            return Vocabulary.load(self.folder / VOCABULARY_FILE)

    def split(self, name: str) -> ParallelSplit:
        """A split by the corpus' name for it; its arrays and its lines are mapped from disk.

        Raises:
            ValueError: no such split.
            DataError: its files are damaged.
        """
        require_name(name, self.statistics, f"{self.folder.name} has no split")
        with _damage_named(self.folder):
            src, tgt = (map_sentences(self.folder, name, side) for side in SIDES)
            pairs = self.statistics[name].pairs
            if not len(src) == len(tgt) == pairs:
                raise ValueError(f"split {name} is not {pairs} pairs")
        return ParallelSplit(src, tgt, read_lines=partial(self._map_lines, name))

    def _map_lines(self, name: str) -> tuple[Lines, Lines]:
        with _damage_named(self.folder):
            return map_lines(self.folder, name, "src"), map_lines(self.folder, name, "tgt")


def prepare(data: DataConfig, cache_dir: Path) -> PreparedData:
    """The prepared form of what `data` names: read from `cache_dir`, or made there first.

    Training pairs with a side of more than `data.max_train_pieces` pieces, end symbol included, are dropped and
    counted; other splits keep every pair.

    Raises:
        ValueError: no such corpus, language or split; the vocabulary is too small; the training split would be scored.
        DataError: the corpus cannot be had, is damaged, or leaves nothing to train on; the disk is full.
    """
    return prepare_corpus(corpora.get_pairs(data, cache_dir), data, cache_dir)


def prepare_corpus(corpus: PairCorpus, data: DataConfig, cache_dir: Path) -> PreparedData:
    """`prepare` for a corpus in hand, whatever name `data` gives."""
    for split in (data.dev_split, data.test_split):
        corpus.require_pair(split, data.src, data.tgt)
        if split == TRAIN_SPLIT:
            raise ValueError(f"split {split!r} is trained on; score {data.corpus} on another split")
    fingerprint = corpus.fingerprint(cache_dir, (data.src, data.tgt))
    folder = cache_dir / f"{corpus.name}-{data.src}-{data.tgt}-{_key(data, fingerprint)}"
    if not folder.is_dir():
        cache_dir.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder.with_name(f".{folder.name}.lock"), folder.name, "prepares it"):
            if not folder.is_dir():
                Preparation(corpus, data, cache_dir, folder).run()
    return _open(folder, fingerprint)


def _key(data: DataConfig, fingerprint: str) -> str:
    # All splits are prepared, so the ones that a run scores are no part of it.
    recipe = {name: value for name, value in asdict(data).items() if name not in ("dev_split", "test_split")}
    parts = (_FORMAT, version("tokenizers"), fingerprint, sorted(recipe.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _open(folder: Path, fingerprint: str) -> PreparedData:
    with _damage_named(folder, f"{INFO_FILE}: "):
        info = json.loads((folder / INFO_FILE).read_text(encoding="utf-8"))
        statistics = {name: SplitStatistics(**values) for name, values in info["splits"].items()}
        files, learned = info["files"], info["vocabulary"]
        vocab_size = learned["size"]
    with _damage_named(folder):
        for name, expected in files.items():
            size = (folder / name).stat().st_size
            if size != expected:
                raise ValueError(f"{name} has {size} bytes, should have {expected}")
        found = fingerprint_of_file(folder / VOCABULARY_FILE)
        if found != learned["fingerprint"]:
            raise ValueError(
                f"{VOCABULARY_FILE} is not the one that was learned: {found}, not {learned['fingerprint']}"
            )
    return PreparedData(folder, fingerprint, vocab_size, statistics)


@contextmanager
def _damage_named(folder: Path, where: str = "") -> Iterator[None]:
    """Whatever cannot be read inside is damage to the folder, which can be made again."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, EOFError, DataError) as error:
        raise DataError(f"{folder} is damaged ({where}{error}); delete it, it will be made again") from error
