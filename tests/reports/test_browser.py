"""The site in a real browser: loads without errors or network, can be read by everybody, filters, prints."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="install the dev extra")


def _pages(site: Path) -> list[Path]:
    """Every page of the site, and of the runs' pages one of each kind: a finished and a failed one."""
    runs = sorted((site / "runs").glob("*.html"))
    failed = [page for page in runs if 'class="status-failed"' in page.read_text(encoding="utf-8")]
    done = [page for page in runs if 'class="status-done"' in page.read_text(encoding="utf-8")]
    return [*sorted(site.glob("*.html")), done[0], failed[0]]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)], ids=["desk, light", "phone, dark"])
def test_every_page_is_accessible_fits_its_screen_and_loads_nothing(mixed_site, visit, scheme, width):
    for path in _pages(mixed_site):
        page = visit(path, scheme, width)
        too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert too_wide <= 0, f"{path.name} is {too_wide} px wider than the screen"
        found = axe.Axe().run(page).response["violations"]
        grave = [fault for fault in found if fault["impact"] in ("serious", "critical")]
        assert not grave, (path.name, [(fault["id"], fault["nodes"][0]["html"]) for fault in grave])


def test_filters_show_what_they_say_and_unfold_it(mixed_site, visit):
    page = visit(mixed_site / "index.html")
    everything = page.locator("ul.claims > li").count()
    assert page.locator("output").inner_text() == f"{everything} of {everything}"
    page.select_option("select[name=verdict]", "undecided")
    shown = page.locator("ul.claims > li:visible")
    assert shown.count() == 1
    assert "undecided" in shown.first.inner_text()
    page.select_option("select[name=verdict]", "not comparable")  # folded until it is asked for
    assert page.locator("ul.claims > li:visible").count() == 1
    page.select_option("select[name=verdict]", "")
    page.fill("input[name=text]", "no claim has this text")
    assert page.locator("ul.claims > li:visible").count() == 0
    assert page.locator("output").inner_text() == f"0 of {everything}"


def test_a_claim_leads_to_its_place_in_the_report_and_to_its_runs(mixed_site, visit):
    page = visit(mixed_site / "index.html")
    claim = page.locator("ul.claims > li", has_text="One head is worse.").first
    claim.locator(".claim-cell > a").click()
    assert page.url.endswith("table3-smoke.html#table3.a.base_over_h1.bleu")
    page.go_back()
    claim.locator(".claim-runs > a").first.click()
    assert page.locator("h1").inner_text().startswith("table3/")


def test_pages_are_not_blank_and_follow_light_and_dark(mixed_site, visit):
    from PIL import Image, ImageStat

    for name in ("index.html", "table3-smoke.html"):
        brightness = {}
        for scheme in ("light", "dark"):
            shot = visit(mixed_site / name, scheme).screenshot()
            picture = ImageStat.Stat(Image.open(io.BytesIO(shot)).convert("L"))
            assert picture.stddev[0] > 5, f"{name} is blank in {scheme}"
            brightness[scheme] = picture.mean[0]
        assert brightness["light"] > 180 > 90 > brightness["dark"]


def test_the_figures_download_as_pdf(mixed_site, visit, tmp_path):
    page = visit(mixed_site / "table3-smoke.html")
    with page.expect_download() as waiting:
        page.locator("a.download").first.click()
    file = tmp_path / "figure.pdf"
    waiting.value.save_as(file)
    assert waiting.value.suggested_filename == "table3-smoke-differences-bleu.pdf"
    assert file.read_bytes().startswith(b"%PDF-")


def test_printing_unfolds_the_claims(mixed_site, visit):
    page = visit(mixed_site / "index.html")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.silent:not([open])").count() == 0
    assert page.pdf().startswith(b"%PDF-")
