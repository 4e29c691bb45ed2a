from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data.split import Lines, Sentences


def lines_of(texts: list[str]) -> Lines:
    flat = np.frombuffer("".join(f"{text}\n" for text in texts).encode(), dtype=np.uint8)
    return Lines(flat, np.concatenate([[0], np.flatnonzero(flat == 10) + 1]))


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))


@given(st.lists(text, min_size=1))
def test_lines_are_a_sequence_of_the_texts(texts):
    lines = lines_of(texts)
    assert list(lines) == texts
    assert len(lines) == len(texts)
    assert lines[-1] == texts[-1]
    assert lines[1:3] == texts[1:3]
    assert lines[::-1] == texts[::-1]
    assert lines.text(0, len(texts)).tobytes().decode() == "".join(f"{text}\n" for text in texts)


@pytest.mark.parametrize("place", [2, -3])
def test_a_line_that_is_not_there_is_an_index_error(place):
    with pytest.raises(IndexError):
        lines_of(["a", "b"])[place]


sentences = st.lists(st.lists(st.integers(3, 300), max_size=9), max_size=20)


@given(sentences, st.data())
def test_a_part_holds_the_sentences_between_two_places(lists, data):
    start = data.draw(st.integers(0, len(lists)))
    stop = data.draw(st.integers(start, 25))
    part = Sentences.from_lists(lists, 301).part(start, stop)
    assert list(part) == lists[start:stop]
    assert part.lengths.tolist() == [len(pieces) + 1 for pieces in lists[start:stop]]


@given(sentences, st.integers(0, 2**20))
def test_selected_sentences_keep_their_order(lists, bits):
    keep = np.array([bits >> place & 1 for place in range(len(lists))], dtype=bool)
    kept = [pieces for pieces, kept in zip(lists, keep, strict=True) if kept]
    selected = Sentences.from_lists(lists, 301).select(keep)
    assert list(selected) == kept
    assert selected.lengths.tolist() == [len(pieces) + 1 for pieces in kept]
