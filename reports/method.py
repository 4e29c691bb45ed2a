"""What the page on method shows: how verdicts are reached, and how often they were wrong where the truth was known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.pages import Fragment, render

# Written by tests/benchmarks/calibration.py, which takes minutes.
CALIBRATION = Path(__file__).with_name("calibration.json")
_PANELS = (
    ("order", "Order: first better than second", "true difference"),
    ("value", "Value: as printed, within a margin", "margin, with the truth in its middle"),
)


def context() -> dict[str, Any]:
    """The context of `site/method.html`."""
    calibration = json.loads(CALIBRATION.read_text(encoding="utf-8"))
    wrong = calibration["wrong_verdicts"]
    seeds = sorted({row["num_seeds"] for row in wrong})
    return {
        "calibration": calibration,
        "seeds": seeds,
        "single": _table(wrong, seeds, family=False),
        "family": _table(wrong, seeds, family=True),
        "beyond": _beyond(calibration["beyond_promise"], seeds),
        "worst": max(max(row["false_holds"], row["false_fails"]) for row in wrong),
        "power": _power(calibration["power"], seeds),
    }


def _table(rows: Iterable[Mapping[str, Any]], seeds: Sequence[int], family: bool) -> list[dict[str, Any]]:
    """By kind of claim and noise: for each number of seeds, the highest share of wrongly confirmed claims, in per cent.

    The highest of both situations, with the spread between seeds known before and without.
    """
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if (row["family_size"] > 1) is family:
            by_seeds = cells.setdefault((row["kind"], row["noise"]), {})
            by_seeds[row["num_seeds"]] = max(by_seeds.get(row["num_seeds"], 0.0), 100 * row["false_holds"])
    return [
        {"kind": kind, "noise": noise, "shares": [by_seeds.get(count) for count in seeds]}
        for (kind, noise), by_seeds in sorted(cells.items())
    ]


def _beyond(beyond: Mapping[str, Sequence[Mapping[str, Any]]], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """What no promise covers: by broken assumption, for each number of seeds, the highest share wrongly confirmed."""
    cells: dict[tuple[str, str], dict[int, float]] = {}

    def note(what: str, about: str, row: Mapping[str, Any]) -> None:
        by_seeds = cells.setdefault((what, about), {})
        by_seeds[row["num_seeds"]] = max(by_seeds.get(row["num_seeds"], 0.0), 100 * row["false_holds"])

    for row in beyond["assumptions"]:
        note(row["what"], row["kind"], row)
    for row in beyond["noise"]:
        about = "any kind, alone" if row["family_size"] == 1 else f"any of {row['family_size']} together"
        note(f"noise {row['noise']}, skewness 2", about, row)
    return [
        {"what": what, "about": about, "shares": [by_seeds.get(count) for count in seeds]}
        for (what, about), by_seeds in cells.items()
    ]


def _power(rows: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> Fragment:
    """How often a true claim is decided, by its distance from the edge and by seeds; one claim, spread known before."""
    from matplotlib.ticker import PercentFormatter

    from reports.drawing import DASHES, SERIES, drawing, panel

    panels = []
    for kind, title, effect_name in _PANELS:
        with drawing(4.8, 3.4) as (figure, axes):
            words = []
            for number, count in enumerate(seeds):
                points = [
                    (row["effect"], row["decided"])
                    for row in rows
                    if (row["kind"], row["num_seeds"], row["family_size"]) == (kind, count, 1) and row["known_spread"]
                ]
                label = f"{count} seed{'s' if count > 1 else ''}"
                axes.plot(*zip(*points, strict=True), color=SERIES[number], dashes=DASHES[number], label=label)
                half = next((effect for effect, decided in points if decided >= 0.5), None)
                words.append(f"{label}: half of the studies are decided from {half} spreads")
            axes.set_title(title)
            axes.set_xlabel(f"{effect_name}, in spreads between seeds")
            axes.set_ylabel("decided")
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            axes.set_ylim(-0.02, 1.02)
            axes.legend(loc="lower right")
            panels.append(panel(figure, f"power-{kind}", f"{title}: " + "; ".join(words)))
    return render(
        "figure.html",
        panels=panels,
        panel_width="26rem",
        caption="Share of simulated studies that decide a true claim, normal noise, spread between seeds known before.",
    )
