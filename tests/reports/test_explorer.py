"""The explorer in a real browser: it loads alone, pointing lights what it should, its numbers are the stored ones."""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from reports.explorer import LEVELS, quantise, render_explorer, write_explorer
from results.attention_file import SentenceAttention, TokenSide

HOSTILE = (
    "<unk>",
    "&",
    '"',
    "$x$",
    "</script><script>document.title='hacked'</script>",
    "<b>bold</b>",
    "日本",
    "مرحبا",
)
# Half a step of 8 bits, and half precision's rounding of what is stored.
CLOSE = 0.5 / LEVELS + 1e-6


def draw(seed: int, layers: int, heads: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.2), (layers, heads, rows))


def made(id_: str, words: tuple[str, ...], seed: int = 1, layers: int = 3, heads: int = 4) -> SentenceAttention:
    """A sentence whose first word is of two pieces, with a target of three."""
    pieces = ("▁" + words[0][:1], words[0][1:] or "x", *(f"▁{word}" for word in words[1:]), "⟨eos⟩")
    numbers = (0, 0, *range(1, len(words) + 1))
    source = TokenSide(pieces, numbers, (*words, "⟨eos⟩"))
    target = TokenSide(("⟨bos⟩", "▁ein", "▁Wort"), (0, 1, 2), ("⟨bos⟩", "ein", "Wort"))
    s = len(pieces)
    weights = {
        "encoder": draw(seed, layers, heads, s, s),
        "decoder": draw(seed + 1, layers, heads, 3, 3),
        "cross": draw(seed + 2, layers, heads, 3, s),
    }
    sides = {"source": source, "target": target}
    return SentenceAttention(id_, " ".join(words), sides, tuple(range(1, layers + 1)), weights)


SENTENCES = [made("a", ("Unjust", "laws", "should", "be", "changed")), made("b", HOSTILE, seed=7)]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explorer") / "attention.html"
    write_explorer(path, SENTENCES, "Attention of <run>", layer=2, kind="encoder", home="index.html")
    return path


def ready(page, turn: int = 1):
    # Not by a function: the page forbids what is evaluated from text, and polling would do that.
    page.wait_for_selector(f"body[data-ready='{turn}']")
    return page


def settled(page):
    """The page after what was asked for is painted."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


def numbers(page, side: str = "columns") -> list[float]:
    """The weights that stand beside the tokens of a side."""
    return [float(text) if text else 0.0 for text in page.locator(f"[data-side={side}] .weight").all_text_contents()]


def token(page, side: str, place: int):
    return page.locator(f"[data-side={side}] .token").nth(place)


def only_head(page, head: int) -> None:
    page.click(".heads button[name=none]")
    page.locator(".head-list input").nth(head - 1).check()


def canvas_brightness(page) -> float:
    from PIL import Image, ImageStat

    shot = page.locator(".maps canvas").screenshot()
    return ImageStat.Stat(Image.open(io.BytesIO(shot)).convert("L")).mean[0]


def test_numbers_are_the_stored_weights_within_their_8_bits(page_file, visit) -> None:
    page = ready(visit(page_file))
    page.uncheck("input[name=words]")
    ready(page, 2)
    only_head(page, 3)
    for place in (0, 4):
        token(page, "rows", place).hover()
        settled(page)
        np.testing.assert_allclose(
            numbers(page), SENTENCES[0].weights["encoder"][1, 2, place], atol=CLOSE + 0.0005
        )  # three digits are shown
    packed = json.loads(page.locator("#data").text_content())["sentences"][0]["weights"]["encoder"]
    values = np.frombuffer(zlib.decompress(base64.b64decode(packed["bytes"])), dtype=np.uint8) / LEVELS
    np.testing.assert_allclose(values.reshape(packed["shape"]), SENTENCES[0].weights["encoder"], atol=CLOSE)


def test_words_are_merged_by_the_rule_of_the_stored_ones(page_file, visit) -> None:
    page = ready(visit(page_file))
    only_head(page, 2)
    token(page, "rows", 0).hover()
    settled(page)
    np.testing.assert_allclose(numbers(page), SENTENCES[0].word_layer("encoder", 2)[1, 0], atol=2 * CLOSE + 0.0005)


def test_pointing_changes_what_is_lit_and_leaving_puts_it_out(page_file, visit) -> None:
    page = ready(visit(page_file))
    whole = canvas_brightness(settled(page))
    token(page, "rows", 1).hover()
    assert token(settled(page), "rows", 1).get_attribute("aria-selected") == "true"
    assert page.locator(".readout b").inner_text() == "laws"
    one = canvas_brightness(page)
    assert one != whole
    token(page, "rows", 3).hover()
    settled(page)
    assert token(page, "rows", 1).get_attribute("aria-selected") == "false"
    assert page.locator(".token.lit").count() == 1
    assert canvas_brightness(page) != one
    page.mouse.move(5, 5)
    settled(page)
    assert page.locator(".token.lit").count() == 0
    assert not any(numbers(page))


def test_pointing_at_what_is_looked_at_shows_who_looks(page_file, visit) -> None:
    page = ready(visit(page_file))
    only_head(page, 1)
    token(page, "columns", 2).hover()
    settled(page)
    expected = SENTENCES[0].word_layer("encoder", 2)[0, :, 2]
    np.testing.assert_allclose(numbers(page, "rows"), expected, atol=2 * CLOSE + 0.0005)
    assert "is looked at most by" in page.locator(".readout").inner_text()


def test_pickers_choose_sentence_kind_layer_and_heads(page_file, visit) -> None:
    page = ready(visit(page_file))
    assert page.locator("select[name=layer]").input_value() == "2"
    page.select_option("select[name=kind]", "cross")
    ready(page, 2)
    assert page.locator("[data-side=rows] .text").all_text_contents() == ["⟨bos⟩", "ein", "Wort"]
    page.select_option("select[name=layer]", "3")
    ready(page, 3)
    only_head(page, 4)
    token(page, "rows", 2).hover()
    settled(page)
    expected = SENTENCES[0].word_layer("cross", 3)[3, 2]
    np.testing.assert_allclose(numbers(page), expected, atol=2 * CLOSE + 0.0005)
    page.click(".heads button[name=all]")
    token(page, "rows", 2).hover()
    settled(page)
    np.testing.assert_allclose(
        numbers(page), SENTENCES[0].word_layer("cross", 3)[:, 2].mean(0), atol=2 * CLOSE + 0.0005
    )
    page.select_option("select[name=sentence]", "1")
    ready(page, 4)
    page.select_option("select[name=kind]", "encoder")
    assert ready(page, 5).locator("[data-side=rows] .token").count() == len(HOSTILE) + 1


def test_keyboard_moves_holds_and_lets_go(page_file, visit) -> None:
    page = ready(visit(page_file))
    token(page, "rows", 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert token(settled(page), "rows", 2).get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    token(page, "rows", 0).hover()  # held: pointing elsewhere changes nothing
    assert token(settled(page), "rows", 2).get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    assert token(settled(page), "columns", 2).get_attribute("aria-selected") == "true"
    page.keyboard.press("End")
    assert token(settled(page), "columns", 5).get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    assert settled(page).locator(".token.lit").count() == 0
    assert page.locator("[data-side] [tabindex='0']").count() == 2  # one stop of the tabulator a side


def test_touch_lights_and_keeps(page_file, visit) -> None:
    page = ready(visit(page_file, width=390, touch=True))
    token(page, "rows", 1).tap()
    assert token(settled(page), "rows", 1).get_attribute("aria-selected") == "true"
    token(page, "columns", 3).tap()
    assert token(settled(page), "columns", 3).get_attribute("aria-selected") == "true"
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_b50_f5_tokens_that_are_markup_are_shown_as_text_and_the_page_is_intact(page_file, visit) -> None:
    """B50, pitfall F5."""
    page = ready(visit(page_file))
    page.select_option("select[name=sentence]", "1")
    ready(page, 2)
    assert page.locator("[data-side=rows] .text").all_text_contents() == [*HOSTILE, "⟨eos⟩"]
    assert page.title() == "Attention of <run>"
    assert page.locator("[data-side=rows] b").count() == 0
    token(page, "rows", 0).hover()
    assert settled(page).locator(".readout b").inner_text() == "<unk>"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)], ids=["desk, light", "phone, dark"])
def test_it_is_accessible_and_fits_its_screen(page_file, visit, scheme, width) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="install the dev extra")
    page = ready(visit(page_file, scheme, width))
    token(page, "rows", 1).focus()
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    found = axe.Axe().run(page).response["violations"]
    grave = [fault for fault in found if fault["impact"] in ("serious", "critical")]
    assert not grave, [(fault["id"], fault["nodes"][0]["html"]) for fault in grave]


def test_f6_sixty_tokens_with_all_layers_heads_and_kinds_work(tmp_path: Path, visit) -> None:
    """F6: 60 tokens x 6 layers x 8 heads x 3 kinds; every token is pointed at, and the last one is lit."""
    words = tuple(f"word{i}" for i in range(58))
    write_explorer(tmp_path / "long.html", [made("long", words, layers=6, heads=8)], "long")
    page = ready(visit(tmp_path / "long.html"))
    token(page, "rows", 0).focus()
    for _ in range(58):
        page.keyboard.press("ArrowDown")
    assert token(settled(page), "rows", 58).get_attribute("aria-selected") == "true"
    assert sum(numbers(page)) == pytest.approx(1.0, abs=0.1)


def test_twenty_sentences_of_a_base_size_model_stay_under_5_mb() -> None:
    rng = np.random.default_rng(3)
    words = tuple(f"w{i}" for i in range(30))
    sentences = [made(str(i), words, seed=int(rng.integers(1e6)), layers=6, heads=8) for i in range(20)]
    assert len(render_explorer(sentences, "twenty").encode()) < 5_000_000


def test_it_links_to_nothing_on_the_network(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!index\.html|#content)[^"']+""", text) == []


def test_8_bits_are_the_nearest_of_256() -> None:
    weights = np.linspace(0, 1, 10_001)
    assert np.abs(quantise(weights) / LEVELS - weights).max() <= 0.5 / LEVELS + 1e-9
    assert quantise(np.array([0.0, 1.0])).tolist() == [0, LEVELS]


def test_nothing_to_explore_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no sentence to explore"):
        write_explorer(tmp_path / "x.html", [], "none")
    with pytest.raises(ValueError, match=r"cannot write .*none/x\.html"):
        write_explorer(tmp_path / "none" / "x.html", SENTENCES, "none")
    assert list(tmp_path.iterdir()) == []
