"""Statistics of prepared splits, counted in blocks: memory does not grow with the training text.

Equal sentences are found by 64-bit hashes of their pieces, which stand for the line because every text has its own
pieces. That an unlike one passes for equal is less likely than one in a million, for 36 million pairs and the
usual development and test sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.data.split import Sentences
from core.data.split_files import SIDES, map_lines, map_sentences

_BLOCK_PAIRS = 1 << 15


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
class CorpusStatistics:
    """Statistics by split, and `num_trained`: the pieces of the vocabulary that occur in the training text."""

    splits: Mapping[str, SplitStatistics]
    num_trained: int


def compute_statistics(
    folder: Path,
    train_split: str,
    dropped: Mapping[str, int],
    vocab_size: int,
    on_pairs: Callable[[int], None] = lambda pairs: None,
) -> CorpusStatistics:
    """Statistics of the splits that `dropped` names, with the long pairs that each lost, from their files in `folder`.

    `on_pairs` is told how many pairs have been looked at since its last call.
    """
    sizes = {split: len(map_sentences(folder, split, "src")) for split in dropped}
    longest = max(int(map_sentences(folder, split, side).lengths.max()) for split in dropped for side in SIDES)
    hasher = _Hasher(vocab_size, longest)
    hashes = {
        split: np.concatenate([hasher(block) for block in _blocks(folder, split, size)], axis=1)
        for split, size in sizes.items()
        if split != train_split
    }
    # One row for the sources, one for the targets, one for the pairs.
    known = [np.unique(np.concatenate([rows[row] for rows in hashes.values()])) for row in range(3)]
    met = [np.zeros(len(values), dtype=bool) for values in known]
    trained = np.zeros(vocab_size, dtype=bool)
    for block in _blocks(folder, train_split, sizes[train_split]):
        for sentences in block:
            trained[sentences.flat] = True
        for values, found, row in zip(known, met, hasher(block), strict=True):
            places = np.minimum(np.searchsorted(values, row), len(values) - 1)
            found[places[values[places] == row]] = True
        on_pairs(len(block[0]))

    splits = {}
    for split, size in sizes.items():
        if split == train_split:
            seen = [size] * 3
        else:
            seen = [
                int(np.count_nonzero(found[np.searchsorted(values, row)]))
                for values, found, row in zip(known, met, hashes[split], strict=True)
            ]
        counts = [_count_side(folder, split, side, size, trained) for side in SIDES]
        splits[split] = SplitStatistics(
            pairs=size,
            dropped_long_pairs=dropped[split],
            **{
                f"{side}_{name}": value
                for side, count in zip(SIDES, counts, strict=True)
                for name, value in count.items()
            },
            src_seen_in_training=seen[0],
            tgt_seen_in_training=seen[1],
            pairs_seen_in_training=seen[2],
        )
    return CorpusStatistics(splits, int(np.count_nonzero(trained)))


def _blocks(folder: Path, split: str, size: int) -> Iterator[tuple[Sentences, Sentences]]:
    for start in range(0, size, _BLOCK_PAIRS):
        # Mapped anew each time: what a mapping has touched stays in memory as long as it does.
        sides = (map_sentences(folder, split, side).part(start, start + _BLOCK_PAIRS) for side in SIDES)
        yield tuple(sides)


def _count_side(folder: Path, split: str, side: str, size: int, trained: NDArray[np.bool_]) -> dict[str, float]:
    num_pieces = num_untrained = num_words = 0
    for start in range(0, size, _BLOCK_PAIRS):
        flat = map_sentences(folder, split, side).part(start, start + _BLOCK_PAIRS).flat
        num_pieces += len(flat)
        num_untrained += int(np.count_nonzero(~trained[flat]))
        num_words += _count_words(map_lines(folder, split, side).text(start, start + _BLOCK_PAIRS))
    return {
        "pieces": num_pieces,
        "pieces_per_word": num_pieces / num_words,
        "untrained_pieces": num_untrained,
    }


def _count_words(text: NDArray[np.uint8]) -> int:
    """Words of whole lines: what a space, a tab or another of ASCII's white characters ends."""
    white = ((text - np.uint8(9)) < 5) | (text == 32)
    return int(np.count_nonzero(white[1:] & ~white[:-1]))


class _Hasher:
    """Sums of random numbers, one for each piece times one for each place."""

    def __init__(self, vocab_size: int, longest: int) -> None:
        rng = np.random.default_rng(0)
        self._of_piece = rng.integers(1 << 64, size=vocab_size, dtype=np.uint64)
        self._of_place = rng.integers(1 << 64, size=longest, dtype=np.uint64) | 1

    def __call__(self, block: tuple[Sentences, Sentences]) -> NDArray[np.uint64]:
        """(3, pairs) hashes of the sources, of the targets, of the pairs."""
        src, tgt = (self._side(sentences) for sentences in block)
        return np.stack([src, tgt, src * self._of_place[0] + tgt])

    def _side(self, sentences: Sentences) -> NDArray[np.uint64]:
        starts, ends = sentences.offsets[:-1], sentences.offsets[1:]
        places = np.arange(len(sentences.flat)) - np.repeat(starts, ends - starts)
        sums = np.zeros(len(sentences.flat) + 1, dtype=np.uint64)
        np.cumsum(self._of_piece[sentences.flat] * self._of_place[places], out=sums[1:])
        return sums[ends] - sums[starts]
