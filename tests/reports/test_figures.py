from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from reports import data, figures


def _svgs(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)]


def _text(svg: ElementTree.Element) -> set[str]:
    return {element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")}


def test_differences_are_two_labelled_panels_with_published_and_measured(mixed_database):
    bleu, ppl = _svgs(figures.table3_differences(mixed_database, "smoke"))
    assert {"BLEU", "published", "measured", "(A) h1", "(D) drop0.0", "big"} <= _text(bleu)
    assert {"Perplexity", "difference from base, per word piece (lower is better)"} <= _text(ppl)


def test_differences_are_told_in_words_and_say_what_is_missing(mixed_database):
    html = figures.table3_differences(mixed_database, "smoke")
    assert "h1 −0.90 / −2.00" in html
    assert "drop0.0 −1.20 / no value" in html
    assert "Rows without a measured difference: 3 of 5" in html


def test_learning_curves_have_a_panel_for_each_group_that_was_run(mixed_database):
    panels = _svgs(figures.learning_curves(mixed_database, "table3", "smoke"))
    texts = [_text(panel) for panel in panels]
    assert [next(t for t in text if t.startswith("(")) for text in texts] == [
        "(A) heads", "(C) size", "(D) dropout and smoothing",
    ]  # fmt: skip
    assert all({"training step", "perplexity per word piece", "base"} <= text for text in texts)


@pytest.mark.parametrize(("num_trials", "titles"), [(7, ["all trials"]), (10, ["t0 to t4", "t5 to t9"])])
def test_many_learning_curves_are_spread_over_panels(num_trials, titles, monkeypatch, mixed_database):
    rows = [
        {"trial": f"t{trial}", "seed": 1, "step": step, "value": 3.0} for trial in range(num_trials) for step in (1, 2)
    ]
    monkeypatch.setattr(data, "curves", lambda *_, **__: rows)
    texts = [_text(panel) for panel in _svgs(figures.learning_curves(mixed_database, "table4", "smoke"))]
    assert [[title for title in titles if title in text] for text in texts] == [[title] for title in titles]
    assert {f"t{trial}" for trial in range(num_trials)} <= set().union(*texts)


def test_a_diverged_run_is_drawn_as_far_as_it_was_finite(mixed_database):
    html = figures.learning_curves(mixed_database, "table3", "smoke")
    assert "drop0.0" in html
    drawn = re.sub(r"data:application/pdf;base64,[^\"]*", "", html)
    assert "nan" not in drawn.lower().replace("dominant", "")


@pytest.mark.parametrize("draw", [figures.table3_differences, lambda db, s: figures.learning_curves(db, "table3", s)])
def test_figures_of_an_empty_database_are_no_error(empty_home, draw):
    draw(empty_home / "results.duckdb", "smoke")


def test_colours_follow_the_page_so_that_light_and_dark_both_work(mixed_database):
    html = figures.table3_differences(mixed_database, "smoke")
    html += figures.learning_curves(mixed_database, "table3", "smoke")
    bare = re.sub(r"var\(--[\w-]+, #[0-9a-f]{6}\)", "", html)
    assert not re.findall(r"(?:fill|stroke): ?#[0-9a-f]{3,6}", bare)


def test_a_figure_is_drawn_the_same_twice(mixed_database):
    assert figures.table3_differences(mixed_database, "smoke") == figures.table3_differences(mixed_database, "smoke")
