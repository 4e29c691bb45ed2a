from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.pages import SCALE_NOTES, SITE, VERDICTS, duration, number, render, slug
from results.records import SCALES
from results.records import VERDICTS as STORED_VERDICTS


@pytest.mark.parametrize(
    ("value", "digits", "signed", "text"),
    [
        (4.92, 2, False, "4.92"),
        (-0.9, 1, True, "−0.9"),
        (0.37, 2, True, "+0.37"),
        (-0.004, 2, True, "0.00"),
        (0.0, 1, True, "0.0"),
        (65.0, None, False, "65"),
        (312_000, None, False, "312,000"),
        (0.14759, None, False, "0.1476"),
        (1234.56, 1, False, "1,234.6"),
    ],
)
def test_number_is_readable(value, digits, signed, text):
    assert number(value, digits, signed) == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_no_number_is_shown_as_a_dash_and_never_as_zero(value):
    assert re.sub("<.*?>", "", number(value, 2)) == "–"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (48.4, "48 s"), (720, "12 min"), (12_240, "3.4 h")])
def test_duration_in_a_persons_unit(seconds, text):
    assert duration(seconds) == text


def test_every_scale_and_verdict_of_the_store_has_its_words_and_its_colour():
    css = (SITE / "style.css").read_text(encoding="utf-8")
    assert list(SCALE_NOTES) == list(SCALES)
    assert set(VERDICTS) == set(STORED_VERDICTS)
    assert all(f".verdict-{slug(verdict)} {{" in css for verdict in VERDICTS)


def _luminance(color: str) -> float:
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_colours_have_the_contrast_that_wcag_aa_asks_for():
    css = (SITE / "style.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)[:2]
    for theme in (light, dark):
        colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", theme))
        pairs = [("ink", "page"), ("muted", "page"), ("muted", "soft"), ("note", "note-soft")]
        pairs += [(text, "card") for text in ("ink", "muted", "link", *map(slug, VERDICTS))]
        for text, background in pairs:
            lighter, darker = sorted((_luminance(colors[text]), _luminance(colors[background])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, f"{text} on {background}"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def _claim(**values):
    names = (
        "claim",
        "study",
        "cell",
        "statement",
        "expected",
        "tolerance",
        "unit",
        "scale",
        "measured",
        "low",
        "high",
        "test_low",
        "test_high",
    )
    return (
        dict.fromkeys(names)
        | {
            "num_runs": 0,
            "misquote": False,
            "reading": "",
            "full_size": False,
            "reason": None,
            "verdict": "agrees",
            "claim": "c",
        }
        | values
    )


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_text_of_a_claim_reaches_the_page_as_text(text):
    plain, filled = _Reader(), _Reader()
    plain.feed(render("claims.html", telling=[_claim(statement="x", reason="x", claim="x", unit="x")], silent=[]))
    filled.feed(render("claims.html", telling=[_claim(statement=text, reason=text, claim=text, unit=text)], silent=[]))
    filled.close()
    assert filled.tags == plain.tags
    assert text in filled.text
