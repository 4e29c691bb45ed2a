"""Attention weights of sentences in one compressed file, with ids and labels: an artifact of a run.

Each sentence has an id, so that no picture is of another sentence than its title says, and its labels and matrices are
kept and read together. Weights are float16: each is within 0.05% of what the model computed, or within 3e-8.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.errors import ResultsError

KINDS = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}
"""Kinds of attention, and for each which side its rows (who looks) and its columns (what is looked at) are."""

_INDEX = "index"


@dataclass(frozen=True)
class TokenSide:
    """One axis: the pieces as the model sees them, special symbols included, and the words that they make up.

    `words` has for each piece the number of its word, from 0 and without gaps.
    """

    pieces: tuple[str, ...]
    words: tuple[int, ...]
    word_labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.words):
            raise ValueError(f"{len(self.pieces)} pieces and {len(self.words)} word numbers")
        if list(dict.fromkeys(self.words)) != list(range(len(self.word_labels))) or sorted(self.words) != [*self.words]:
            raise ValueError(f"words={self.words} must number {len(self.word_labels)} words from left to right")


@dataclass(frozen=True)
class SentenceAttention:
    """One sentence's weights.

    Attributes:
        id: names the sentence, `paper/figure3` or `grammar/attention/17`.
        text: the source as a person writes it.
        sides: `source` and, where the decoder was looked at, `target`: what it had read, begin symbol first.
        layers: numbers, from 1, of the layers that are kept.
        weights: by kind (`KINDS`), (layers, H, T, S); a row sums to 1.
    """

    id: str
    text: str
    sides: Mapping[str, TokenSide]
    layers: tuple[int, ...]
    weights: Mapping[str, NDArray[np.floating]] = field(repr=False)

    def __post_init__(self) -> None:
        for kind, weights in self.weights.items():
            rows, columns = (len(self.sides[side].pieces) for side in KINDS[kind])
            expected = (len(self.layers), weights.shape[1], rows, columns)
            if weights.shape != expected:
                raise ValueError(f"sentence {self.id}: {kind} weights are {weights.shape}, its labels say {expected}")

    def layer(self, kind: str, layer: int) -> NDArray[np.float32]:
        """(H, T, S): all heads of one layer, by pieces.

        Raises:
            ValueError: that kind or layer was not kept.
        """
        if kind not in self.weights:
            raise ValueError(f"sentence {self.id} has no {kind} attention; kept: {', '.join(self.weights)}")
        if layer not in self.layers:
            raise ValueError(f"layer {layer} was not kept; kept: {', '.join(map(str, self.layers))}")
        return np.asarray(self.weights[kind][self.layers.index(layer)], dtype=np.float32)

    def word_layer(self, kind: str, layer: int) -> NDArray[np.float32]:
        """(H, words, words): all heads of one layer, by words; see `merge_words`."""
        rows, columns = (self.sides[side].words for side in KINDS[kind])
        return merge_words(self.layer(kind, layer), rows, columns)

    def labels(self, kind: str, words: bool = True) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Labels of the rows and of the columns."""
        rows, columns = (self.sides[side] for side in KINDS[kind])
        return (rows.word_labels, columns.word_labels) if words else (rows.pieces, columns.pieces)


def merge_words(
    weights: NDArray[np.floating], row_words: Sequence[int], column_words: Sequence[int]
) -> NDArray[np.floating]:
    """(..., T, S) by pieces -> (..., words, words).

    Attention to a word is the sum over its pieces, attention from a word the mean over its pieces; so a row still sums
    to 1.
    """
    columns = np.flatnonzero(np.diff(column_words, prepend=-1))
    rows = np.flatnonzero(np.diff(row_words, prepend=-1))
    summed = np.add.reduceat(np.asarray(weights, dtype=np.float32), columns, axis=-1)
    sizes = np.diff(rows, append=len(row_words))[:, None]
    return np.add.reduceat(summed, rows, axis=-2) / sizes


def save(path: Path, sentences: Sequence[SentenceAttention], notes: Mapping[str, Any]) -> None:
    """Write sentences, in order, and `notes` about them (plain JSON values); whole or not at all.

    Raises:
        ValueError: two sentences have one id.
    """
    ids = [sentence.id for sentence in sentences]
    twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
    if twice:
        raise ValueError(f"two sentences have the id {twice[0]!r}")
    index = {
        "notes": dict(notes),
        "sentences": [
            {
                "id": sentence.id,
                "text": sentence.text,
                "layers": list(sentence.layers),
                "sides": {name: vars(side) for name, side in sentence.sides.items()},
                "kinds": list(sentence.weights),
            }
            for sentence in sentences
        ],
    }
    arrays = {
        f"{number}.{kind}": np.asarray(weights, dtype=np.float16)
        for number, sentence in enumerate(sentences)
        for kind, weights in sentence.weights.items()
    }
    text = np.frombuffer(json.dumps(index, ensure_ascii=False, allow_nan=False).encode(), dtype=np.uint8)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **{_INDEX: text}, **arrays)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class AttentionFile:
    """What a file holds: sentences in order, and notes about them."""

    sentences: tuple[SentenceAttention, ...]
    notes: Mapping[str, Any]

    def sentence(self, id_: str) -> SentenceAttention:
        """The sentence of that id.

        Raises:
            ValueError: it is not in the file.
        """
        for sentence in self.sentences:
            if sentence.id == id_:
                return sentence
        raise ValueError(f"no sentence {id_!r} in the file; it has {', '.join(each.id for each in self.sentences)}")


def load(path: Path) -> AttentionFile:
    """Read a file that `save` wrote; no code in it is run.

    Raises:
        ResultsError: it is missing, damaged, or something else.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            index = json.loads(bytes(arrays[_INDEX]))
            sentences = tuple(
                SentenceAttention(
                    id=entry["id"],
                    text=entry["text"],
                    sides={
                        name: TokenSide(*(tuple(side[part]) for part in ("pieces", "words", "word_labels")))
                        for name, side in entry["sides"].items()
                    },
                    layers=tuple(entry["layers"]),
                    weights={kind: arrays[f"{number}.{kind}"] for kind in entry["kinds"]},
                )
                for number, entry in enumerate(index["sentences"])
            )
            return AttentionFile(sentences, index["notes"])
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ResultsError(
            f"{path} is damaged and holds no attention weights that can be read; "
            "put the original file back, or measure again with --rerun"
        ) from error
