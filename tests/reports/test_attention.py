"""Pictures of attention: what is drawn is the weight of that head, and every label is shown as the text that it is."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from PIL import Image, ImageStat

from reports.attention import (
    columns_picture,
    draw_sentence,
    find_word,
    grid_picture,
    head_color,
    matrix_picture,
    missing_characters,
    save_picture,
    strongest,
    writable_form,
)
from results.attention_file import SentenceAttention, TokenSide

HOSTILE = ("<unk>", "&", '"', "$x$", "a$", "_{b}", "\\frac", "</svg>", "Привет", "مرحبا")


def weights(num_heads: int, rows: int, columns: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (num_heads, rows))


@pytest.fixture
def sentence() -> SentenceAttention:
    """Two layers of four heads; the first word is of two pieces."""
    source = TokenSide(("▁Un", "just", "▁law", "⟨eos⟩"), (0, 0, 1, 2), ("Unjust", "law", "⟨eos⟩"))
    target = TokenSide(("⟨bos⟩", "▁Gesetz"), (0, 1), ("⟨bos⟩", "Gesetz"))
    made = {"encoder": np.stack([weights(4, 4, 4, 1), weights(4, 4, 4, 2)]), "cross": np.stack([weights(4, 2, 4)] * 2)}
    return SentenceAttention("test/1", "Unjust law", {"source": source, "target": target}, (4, 5), made)


def lines(figure) -> list[tuple[int, int, tuple, float]]:
    """(row, column, colour, opacity) of every line of a picture of one head."""
    (collection,) = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    return [
        (round(segment[0][1]), round(segment[1][1]), tuple(color[:3]), color[3])
        for segment, color in zip(collection.get_segments(), collection.get_colors(), strict=True)
    ]


def test_a_line_goes_from_who_looks_to_what_is_looked_at_as_opaque_as_its_weight() -> None:
    """F2: rows at the left, columns at the right, of 3 and 5 tokens."""
    drawn = np.zeros((1, 3, 5))
    drawn[0, [0, 1, 2], [4, 0, 2]] = 1.0
    drawn[0, 1] = [0.5, 0.3, 0.19, 0.01, 0.0]
    with columns_picture(drawn, "abc", "vwxyz", [6], "t") as figure:
        found = {(row, column): (color, opacity) for row, column, color, opacity in lines(figure)}
    assert set(found) == {(0, 4), (1, 0), (1, 1), (1, 2), (2, 2)}  # 0.01 is too pale to be drawn
    assert all(color == to_rgb(head_color(6)) for color, _ in found.values())
    assert found[0, 4][1] == 1.0 > found[1, 0][1] > found[1, 1][1] > found[1, 2][1]


def test_one_word_alone_has_lines() -> None:
    with columns_picture(weights(2, 4, 4), "abcd", "abcd", [1, 2], "t", focus=[2]) as figure:
        assert {row for row, *_ in lines(figure)} == {2}


@pytest.mark.parametrize("labels", [HOSTILE, ("日本語", "€", "ﬁ", "", " ", "a" * 60)], ids=["markup", "odd"])
def test_b50_f5_labels_are_drawn_as_the_text_that_they_are(labels: tuple[str, ...], tmp_path: Path) -> None:
    """B50, pitfall F5: in SVG the characters themselves, in a picture that can be read; PNG and PDF are made too."""
    made = weights(1, len(labels), len(labels))
    for picture, forms in (
        (columns_picture(made, labels, labels, [1], "$title$ <b>"), ("svg", "png", "pdf")),
        (matrix_picture(made[0], labels, labels, 1, "$title$ <b>"), ("svg",)),
        (grid_picture(made, labels, labels, [1], "$title$ <b>"), ("svg",)),
    ):
        with picture as figure:
            for form in forms:
                save_picture(figure, tmp_path / f"picture.{form}")
        texts = [each.text for each in ElementTree.parse(tmp_path / "picture.svg").iter() if each.tag.endswith("text")]
        for label in labels:
            assert not label.strip() or texts.count(label) >= 2, label
        assert "$title$ <b>" in texts
    assert (tmp_path / "picture.pdf").read_bytes().startswith(b"%PDF-")
    assert ImageStat.Stat(Image.open(tmp_path / "picture.png").convert("L")).stddev[0] > 5


def test_characters_that_no_font_has_are_named() -> None:
    assert missing_characters(["naïve", "Привет", "⟨eos⟩"]) == ""
    assert missing_characters(["a\U000f1234"]) == "\U000f1234"


def test_long_sentences_stay_legible(tmp_path: Path) -> None:
    """F6: 60 tokens and 8 heads: text keeps its size, since the picture grows, and the file stays small."""
    labels = [f"token{i}" for i in range(60)]
    made = weights(8, 60, 60)
    with columns_picture(made, labels, labels, range(1, 9), "long") as figure:
        assert figure.get_size_inches()[1] > 60 * 0.2
        sizes = {text.get_fontsize() for text in figure.axes[0].texts if text.get_text().startswith("token")}
        assert min(sizes) >= 9
        figure.canvas.draw()
        boxes = sorted(
            (text.get_window_extent() for text in figure.axes[0].texts if text.get_text().startswith("token")),
            key=lambda box: (box.x0 > 100, -box.y0),
        )
        left = [box for box in boxes if box.x1 < figure.bbox.width / 2]
        assert len(left) == 60
        assert all(above.y0 >= below.y1 - 1 for above, below in pairwise(left))
        save_picture(figure, tmp_path / "long.svg")
    assert (tmp_path / "long.svg").stat().st_size < 3_000_000


def test_f1_f2_weights_with_rows_and_columns_exchanged_are_refused() -> None:
    made = weights(2, 5, 5)
    with (
        pytest.raises(ValueError, match=r"sums to .*are rows and columns exchanged"),
        columns_picture(made.transpose(0, 2, 1), "abcde", "abcde", [1, 2], "t"),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"weights are \(2, 5, 7\)"),
        columns_picture(weights(2, 5, 7), "abcdefg", "abcde", [1, 2], "t"),
    ):
        pass


def test_b51_d12_the_head_that_is_named_is_the_one_drawn(sentence: SentenceAttention) -> None:
    """B51, pitfall D12: head 3 of layer 5 by its numbers, and not a mean."""
    with draw_sentence(sentence, "encoder", 5, [3], "columns", words=False) as figure:
        drawn = {(row, column) for row, column, *_ in lines(figure)}
        names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    expected = sentence.weights["encoder"][1, 2]
    assert drawn == {(row, column) for row, column in zip(*np.nonzero(expected >= 0.02), strict=True)}
    assert names == ["head 3"]
    with draw_sentence(sentence, "encoder", 5, [3], "matrix", words=False) as figure:
        shown = figure.axes[0].collections[0].get_array()
    np.testing.assert_allclose(np.reshape(shown, (4, 4)), expected, atol=1e-6)


def test_words_are_the_sum_and_the_mean_of_their_pieces(sentence: SentenceAttention) -> None:
    with draw_sentence(sentence, "cross", 4, [1], "matrix") as figure:
        shown = np.reshape(figure.axes[0].collections[0].get_array(), (2, 3))
    pieces = sentence.weights["cross"][0, 0]
    np.testing.assert_allclose(shown, np.stack([pieces[:, :2].sum(1), pieces[:, 2], pieces[:, 3]], 1), atol=1e-6)


def test_grid_has_a_matrix_for_each_head(sentence: SentenceAttention) -> None:
    with draw_sentence(sentence, "encoder", 4, view="grid") as figure:
        titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == ["head 1", "head 2", "head 3", "head 4"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("encoder", 6, [1]), "layer 6 was not kept; kept: 4, 5"),
        (("encoder", 5, [5]), "no head 5: layer 5 has heads 1 to 4"),
        (("decoder", 5, [1]), "has no decoder attention"),
        (("encoder", 5, None, "matrix"), "a matrix shows one head and 4 are asked for"),
    ],
)
def test_what_is_not_there_is_refused(arguments: tuple, message: str, sentence: SentenceAttention) -> None:
    with pytest.raises(ValueError, match=message):
        draw_sentence(sentence, *arguments)


def test_a_word_is_found_as_written_before_whatever_its_case() -> None:
    assert find_word(["The", "law", "the"], "the") == [2]
    assert find_word(["The", "law"], "the") == [0]
    with pytest.raises(ValueError, match="no word 'x' in: The law"):
        find_word(["The", "law"], "x")


def test_strongest_names_the_target_of_each_head(sentence: SentenceAttention) -> None:
    heads, rows = strongest(sentence, "encoder", 5, [2], focus=[1], wide=False)
    merged = sentence.word_layer("encoder", 5)[1, 1]
    assert heads == ("looks", "position", "head", "at", "at_position", "weight")
    place = int(merged.argmax())
    assert rows == [("law", 1, 2, ("Unjust", "law", "⟨eos⟩")[place], place, float(merged[place]))]


@pytest.mark.parametrize("name", ["a.gif", "a", "none/a.png"])
def test_file_that_cannot_be_drawn_is_refused_before_any_work(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot (draw|write)"):
        writable_form(tmp_path / name)
