from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data import split_statistics
from core.data.split import Sentences
from core.data.split_files import SplitWriter
from core.data.split_statistics import compute_statistics
from core.data.vocabulary import Vocabulary

VOCABULARY = Vocabulary.learn(["a b c ab bc abc", "a\u00a0b  c"] * 9, 270)
Pairs = list[tuple[str, str]]


def write(folder: Path, split: str, pairs: Pairs) -> None:
    with SplitWriter(folder, split, VOCABULARY.dtype) as writer:
        writer.append([(VOCABULARY.encode_sentences(lines), lines) for lines in map(list, zip(*pairs, strict=True))])
        writer.commit()


def by_hand(pairs: Pairs, train: Pairs) -> dict[str, float]:
    """The same numbers with sets and lists in memory."""
    values: dict[str, float] = {"pairs": len(pairs)}
    trained = {piece for pair in train for pieces in VOCABULARY.encode_batch(pair) for piece in pieces}
    for name, lines, train_lines in zip(
        ("src", "tgt"), zip(*pairs, strict=True), zip(*train, strict=True), strict=True
    ):
        pieces = [piece for pieces in VOCABULARY.encode_batch(list(lines)) for piece in pieces]
        values[f"{name}_pieces"] = len(pieces)
        values[f"{name}_pieces_per_word"] = len(pieces) / sum(len(line.encode().split()) for line in lines)
        values[f"{name}_untrained_pieces"] = sum(piece not in trained for piece in pieces)
        values[f"{name}_seen_in_training"] = sum(line in train_lines for line in lines)
    values["pairs_seen_in_training"] = sum(pair in train for pair in pairs)
    return values


word = st.text("abc\u00e9\u00a0\t", min_size=1, max_size=3).filter(lambda word: word.strip(" \t"))
line = st.lists(word, min_size=1, max_size=4).map(" ".join)
pairs = st.lists(st.tuples(line, line), min_size=1, max_size=12)


@settings(max_examples=20, deadline=None)
@given(train=pairs, dev=pairs, test=pairs, block=st.integers(1, 5))
def test_statistics_are_those_counted_with_everything_in_memory(tmp_path_factory, train, dev, test, block):
    folder, splits = tmp_path_factory.mktemp("split"), {"train": train, "dev": dev, "test": test}
    for split, lines in splits.items():
        write(folder, split, lines)
    told: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_statistics, "_BLOCK_PAIRS", block)
        statistics = compute_statistics(folder, "train", dict.fromkeys(splits, 0), VOCABULARY.size, told.append)
    assert sum(told) == len(train)
    for split, lines in splits.items():
        for name, value in by_hand(lines, train).items():
            assert getattr(statistics.splits[split], name) == pytest.approx(value), (split, name)


def test_words_are_counted_in_bytes_as_python_does():
    for text in ("one two\n", "  a\tb  \n\r\n c\n", "\u00a0\n", "x\n"):
        flat = np.frombuffer(text.encode(), dtype=np.uint8)
        assert split_statistics._count_words(flat) == len(text.encode().split())


def test_sentences_that_differ_in_order_length_or_side_have_other_hashes():
    lists = [[5], [5, 5], [5, 6], [6, 5], [], [5, 5, 5], [7, 3, 3], [3, 7, 3], [3, 3, 7]]
    sentences = Sentences.from_lists(lists, 10)
    hasher = split_statistics._Hasher(vocab_size=10, longest=3)
    src, tgt, both = hasher((sentences, sentences.select(np.ones(len(lists), dtype=bool))))
    assert len(set(src.tolist())) == len(lists)
    assert src.tolist() == tgt.tolist()
    turned = hasher((Sentences.from_lists(lists[::-1], 10), sentences))[2]
    assert len({*both.tolist(), *turned.tolist()}) == 2 * len(lists) - 1  # the one in the middle is the same pair
