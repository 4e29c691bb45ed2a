"""The file of attention weights: the same numbers, labels and ids come back, words merged by the stated rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.attention_file import SentenceAttention, TokenSide, load, merge_words, save
from results.errors import ResultsError

SOURCE = TokenSide(("▁Un", "just", "▁law", "<&>", "⟨eos⟩"), (0, 0, 1, 2, 3), ("Unjust", "law", "<&>", "⟨eos⟩"))
TARGET = TokenSide(("⟨bos⟩", "▁Gesetz", "e"), (0, 1, 1), ("⟨bos⟩", "Gesetze"))


def sentence(id_: str = "test/1", seed: int = 1) -> SentenceAttention:
    draw = np.random.default_rng(seed)
    shapes = {"encoder": (2, 4, 5, 5), "cross": (2, 4, 3, 5)}
    weights = {kind: draw.dirichlet(np.ones(shape[-1]), shape[:-1]) for kind, shape in shapes.items()}
    return SentenceAttention(id_, 'Unjust law <&> "é"', {"source": SOURCE, "target": TARGET}, (2, 5), weights)


def test_everything_comes_back_within_half_precision(tmp_path: Path) -> None:
    written = [sentence("a", 1), sentence("b", 2)]
    save(tmp_path / "attention.npz", written, {"layer": 5})
    read = load(tmp_path / "attention.npz")
    assert read.notes == {"layer": 5}
    for before, after in zip(written, read.sentences, strict=True):
        assert (after.id, after.text, after.sides, after.layers) == (
            before.id,
            before.text,
            before.sides,
            before.layers,
        )
        for kind, weights in before.weights.items():
            np.testing.assert_allclose(after.weights[kind], weights, rtol=2**-11, atol=3e-8)
    np.testing.assert_allclose(read.sentence("b").layer("cross", 5).sum(-1), 1, atol=1e-3)
    assert [path.name for path in tmp_path.iterdir()] == ["attention.npz"]


def test_f4_a_sentence_is_found_by_its_id_and_ids_differ(tmp_path: Path) -> None:
    """F4: a picture of another sentence."""
    save(tmp_path / "attention.npz", [sentence("a", 1), sentence("b", 2)], {})
    read = load(tmp_path / "attention.npz")
    assert (read.sentence("b").layer("encoder", 2) == np.float16(sentence("b", 2).weights["encoder"][0])).all()
    with pytest.raises(ValueError, match="no sentence 'c' in the file; it has a, b"):
        read.sentence("c")
    with pytest.raises(ValueError, match="two sentences have the id 'a'"):
        save(tmp_path / "other.npz", [sentence("a"), sentence("a")], {})


def test_b51_a_layer_by_its_number_and_not_by_its_place() -> None:
    weights = sentence().weights["encoder"]
    np.testing.assert_array_equal(sentence().layer("encoder", 5), np.float32(weights[1]))
    with pytest.raises(ValueError, match="layer 1 was not kept; kept: 2, 5"):
        sentence().layer("encoder", 1)
    with pytest.raises(ValueError, match="has no decoder attention; kept: encoder, cross"):
        sentence().layer("decoder", 2)


def test_f2_f3_weights_that_do_not_fit_their_labels_are_refused() -> None:
    turned = {"cross": np.ones((2, 4, 5, 3)) / 3}
    with pytest.raises(ValueError, match=r"cross weights are \(2, 4, 5, 3\), its labels say \(2, 4, 3, 5\)"):
        SentenceAttention("x", "", {"source": SOURCE, "target": TARGET}, (2, 5), turned)


@pytest.mark.parametrize(
    ("pieces", "words", "labels"),
    [(("a",), (0, 1), ("a", "b")), (("a", "b"), (1, 0), ("a", "b")), (("a", "b"), (0, 2), ("a", "b"))],
)
def test_words_that_do_not_count_from_left_to_right_are_refused(pieces, words, labels) -> None:
    with pytest.raises(ValueError, match="word"):
        TokenSide(pieces, words, labels)


def test_to_a_word_is_the_sum_and_from_a_word_the_mean() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.5, 0.2], [0.0, 0.0, 1.0]])
    merged = merge_words(weights, (0, 0, 1), (0, 0, 1))
    np.testing.assert_allclose(merged, [[0.55, 0.45], [0.0, 1.0]], atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_merged_rows_still_sum_to_one(seed: int, sizes: list[int]) -> None:
    words = np.repeat(np.arange(len(sizes)), sizes)
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(words)), (2, len(words)))
    merged = merge_words(weights, words, words)
    assert merged.shape == (2, len(sizes), len(sizes))
    np.testing.assert_allclose(merged.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a file of arrays"])
def test_file_that_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "attention.npz").write_bytes(content)
    # What the reader of archives says of it would tell nobody what to do.
    with pytest.raises(ResultsError, match=r"attention\.npz is damaged and holds no .* can be read; put .* --rerun$"):
        load(tmp_path / "attention.npz")
    with pytest.raises(ResultsError, match="is missing"):
        load(tmp_path / "none.npz")


def test_file_with_code_in_it_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "attention.npz", index=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ResultsError, match="holds no attention weights"):
        load(tmp_path / "attention.npz")
