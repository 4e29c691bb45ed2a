"""How things look on a page: the Jinja environment, number formats, and the words and signs of scales and verdicts.

Every template escapes what it is given, so text from the database (a failure's reason, a title) can hold any
character. Only the files of `reports/site/` and fragments rendered from them are trusted as HTML.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

SITE = Path(__file__).parent / "site"

SCALE_NOTES = {
    "smoke": "a generated toy corpus; absolute numbers cannot be compared with the paper",
    "small": "small real corpora and small models; absolute numbers cannot be compared with the paper, orders and "
    "differences can",
    "paper": "the paper's own data, sizes and steps; absolute numbers can be compared",
}


@dataclass(frozen=True)
class VerdictStyle:
    """How a verdict is shown: a sign that does not rest on colour alone, and one sentence of meaning."""

    sign: str
    meaning: str

    # The colour belongs to the CSS class `verdict-<slug>` of style.css.


VERDICTS: dict[str, VerdictStyle] = {
    "reproduced": VerdictStyle("✓", "measured at full size and within the claim's tolerance"),
    "agrees": VerdictStyle("✓", "the order or difference holds at this smaller scale"),
    "not reproduced": VerdictStyle("✕", "measured at full size and outside the claim's tolerance"),
    "disagrees": VerdictStyle("✕", "the order or difference does not hold at this smaller scale"),
    "undecided": VerdictStyle("?", "too few seeds to tell; the reason says how many would settle it"),
    "blocked": VerdictStyle("!", "cannot run here; the reason says what is missing"),
    "not comparable": VerdictStyle("≠", "an absolute value, or another metric, that this scale cannot decide"),
    "not run": VerdictStyle("·", "no finished run yet"),
    "quoted": VerdictStyle("”", "another system's published number, repeated and not measured"),
}


# The study whose probe keeps all layers and kinds of attention: what each head does is told on a page of its own, and
# its weights can be explored on another.
EXPLORED_STUDY = "figure5"
HEADS_PAGE = "heads"
ATTENTION_STUDIES = ("figure3", "figure4", EXPLORED_STUDY)
# Pages whose notebooks draw what run folders hold.
READS_RUNS = (*ATTENTION_STUDIES, HEADS_PAGE, "table4")


class Fragment(str):
    """Trusted HTML that a notebook cell displays and a template inserts unescaped."""

    def _repr_html_(self) -> str:
        return str(self)

    def __html__(self) -> str:
        return str(self)


def slug(text: str) -> str:
    """A name for a CSS class or an element id: letters, digits, dots and underscores stay, the rest becomes hyphens."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "._") else "-" for char in text)


def number(value: float | None, digits: int | None = None, signed: bool = False) -> Markup | str:
    """A number for reading: fixed `digits` after the point, or four significant ones; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return Markup('<span class="missing" title="no value">–</span>')
    if digits is not None:
        text = f"{value:+,.{digits}f}" if signed else f"{value:,.{digits}f}"
    elif value == int(value) and abs(value) < 1e15:
        text = f"{value:+,.0f}" if signed else f"{value:,.0f}"
    else:
        text = f"{value:+.4g}" if signed else f"{value:.4g}"
    if not text.strip("+-0.,"):
        text = text.lstrip("+-")  # a rounded zero has no sign
    return text.replace("-", "\N{MINUS SIGN}")


def measured(value: float | None) -> Markup | str:
    """A measured number: two places, as scores are printed, or four significant digits where that would say nothing."""
    plain = value is not None and (value == 0 or 0.05 <= abs(value) < 10_000)
    return number(value, 2) if plain else number(value)


def power(value: float | None) -> Markup | str:
    """A large number as the paper prints it, 2.3 · 10¹⁹; a dash where there is none."""
    if value is None:
        return number(value)
    digits, _, exponent = f"{value:.1e}".partition("e")
    return Markup("{} · 10<sup>{}</sup>").format(digits, int(exponent))


def duration(seconds: float | None) -> Markup | str:
    """Seconds as a person says them: 48 s, 12 min, 3.4 h."""
    if seconds is None or seconds < 120:
        return number(seconds, 0) if seconds is None else f"{number(seconds, 0)} s"
    if seconds < 7200:
        return f"{number(seconds / 60, 0)} min"
    return f"{number(seconds / 3600, 1)} h"


def moment(value: datetime | str | None) -> Markup | str:
    """A date and time to the minute; a string passes unchanged."""
    if value is None:
        return number(None)
    return value if isinstance(value, str) else f"{value:%Y-%m-%d %H:%M}"


def score_notes(details: dict[str, Any]) -> Markup:
    """The counts behind a score that say whether it can be trusted, in a few words."""
    notes = []
    if "low" in details and "high" in details:
        notes.append(Markup("test set alone: {} to {}").format(number(details["low"], 1), number(details["high"], 1)))
    if "length_ratio" in details:
        notes.append(Markup("length {} of the reference").format(number(details["length_ratio"], 3)))
    counts = {
        "unfinished": "unfinished",
        "from_greedy": "by greedy search alone",
        "empty_outputs": "empty",
        "errors": "errors",
    }
    for name, words in counts.items():
        if details.get(name):
            notes.append(Markup("{} {}").format(details[name], words))
    notes += [Markup("{}").format(details[name]) for name in ("warning", "reason") if details.get(name)]
    return Markup(", ").join(notes)


@cache
def environment() -> Environment:
    """The one Jinja environment: escaping on, and a misspelt name is an error instead of an empty string."""
    env = Environment(
        loader=FileSystemLoader(SITE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters = (number, measured, power, duration, moment, slug, score_notes)
    env.filters.update({function.__name__: function for function in filters})
    env.globals.update(
        scale_notes=SCALE_NOTES,
        verdict_styles=VERDICTS,
        css=Markup((SITE / "style.css").read_text(encoding="utf-8")),
        filter_script=Markup((SITE / "filter.js").read_text(encoding="utf-8")),
    )
    return env


def render(template: str, **context: Any) -> Fragment:
    """One template of `reports/site/` filled in."""
    return Fragment(environment().get_template(template).render(**context))
