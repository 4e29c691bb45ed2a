from __future__ import annotations

import re

from reports import method


def test_the_calibration_on_the_page_is_that_of_the_file_and_within_its_bound():
    context = method.context()
    rows = context["calibration"]["wrong_verdicts"]
    cells = [share for row in (*context["single"], *context["family"]) for share in row["shares"] if share is not None]
    assert max(cells) == 100 * max(row["false_holds"] for row in rows)
    assert 0 < context["worst"] <= context["calibration"]["bound"]
    assert {row["kind"] for row in context["single"]} >= {"value", "order", "difference", "exponent", "threshold"}


def test_more_seeds_decide_more(mixed_site):
    html = (mixed_site / "method.html").read_text(encoding="utf-8")
    words = re.search(r'aria-label="Order: [^"]*"', html)[0]
    halves = [float(half) for half in re.findall(r"decided from ([\d.]+) spreads", words)]
    assert len(halves) == 5
    assert halves == sorted(halves, reverse=True)


def test_what_no_promise_covers_is_on_the_page(mixed_site):
    html = (mixed_site / "method.html").read_text(encoding="utf-8")
    section = html[html.index('id="beyond"') : html.index('id="power"')]
    rows = method.context()["beyond"]
    assert section.count("<tr><th") == len(rows) + 1
    worst = max(share for row in rows for share in row["shares"] if share is not None)
    assert worst > 100 * method.context()["worst"]  # it would be idle if nothing were worse there
    assert f"{worst:.1f} %" in section
