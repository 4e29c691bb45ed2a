from __future__ import annotations

import os
import posixpath
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports import build, notebook
from reports.build import ReportError, build_site
from reports.pages import SCALE_NOTES

ROOT = Path(build.__file__).parent.parent
VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class _Page(HTMLParser):
    """Checks that tags are balanced, and gathers links, ids and what would load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        if tag == "a":
            self.links.append(values.get("href") or "")
        elif tag != "use":  # an SVG's own marker
            self.loads += [values[name] for name in ("src", "href", "xlink:href", "data") if values.get(name)]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag


def _pages(site: Path) -> dict[str, str]:
    """Every page by its place in the site."""
    return {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


# What every site has beside the pages of studies and runs.
FRAME = ["departures.html", "index.html", "method.html", "runs.html"]


@pytest.fixture
def quick(monkeypatch):
    """Pages without a kernel, for what does not depend on their content; records which were asked for."""
    asked: list[tuple[str, str]] = []

    def run(study, scale, database, runs, output, say, kernels):
        asked.append((study, scale))
        return build.Fragment("<h1>quick</h1>")

    monkeypatch.setattr(build, "_run_notebook", run)
    return asked


def test_the_site_is_a_scorecard_and_a_page_per_study_with_runs(mixed_site):
    pages = sorted(_pages(mixed_site))
    assert [page for page in pages if not page.startswith("runs/")] == sorted(
        [*FRAME, "table3-paper.html", "table3-smoke.html"]
    )
    assert len([page for page in pages if page.startswith("runs/")]) == 8


def test_pages_are_well_formed_and_their_links_lead_somewhere(mixed_site):
    pages = _pages(mixed_site)
    parsed = {name: _Page(html) for name, html in pages.items()}
    for name, page in parsed.items():
        assert len(page.ids) == len(set(page.ids)), f"an id occurs twice in {name}"
        for link in page.links:
            if link.startswith("data:application/pdf;base64,"):
                continue
            file, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
            assert target in pages or target == "results.duckdb", f"{name} links to {link}"
            assert not anchor or anchor in parsed[target].ids, f"{name} links to {link}"
    assert "table3-smoke.html" in parsed["index.html"].links


def test_pages_load_nothing_from_anywhere(mixed_site):
    for html in _pages(mixed_site).values():
        assert _Page(html).loads == []
        assert not re.search(r"@import|url\(\s*['\"]?https?:", html)
        assert "default-src 'none'" in html


def test_text_from_the_database_is_escaped(mixed_site):
    pages = _pages(mixed_site)
    for html in pages.values():
        assert "<script>alert" not in html
        assert "<unk>" not in html
    told = [name for name, html in pages.items() if "&lt;script&gt;alert" in html]
    assert {"index.html", "runs.html", "table3-smoke.html"} < set(told)
    assert len(told) == 4  # and the page of the run that failed


def test_each_scale_with_runs_has_a_page_that_says_what_it_is_worth(two_scale_database, tmp_path, quick):
    build_site(two_scale_database, tmp_path)
    pages = _pages(tmp_path)
    studies = [page for page in pages if "/" not in page and page not in FRAME]
    assert sorted(studies) == ["table3-small.html", "table3-smoke.html"]
    for scale, other in (("smoke", "small"), ("small", "smoke")):
        assert SCALE_NOTES[scale] in pages[f"table3-{scale}.html"]
        assert SCALE_NOTES[scale].capitalize() in pages["index.html"]
        assert f"table3-{other}.html" in _Page(pages[f"table3-{scale}.html"]).links
    assert "Nothing has run yet at paper scale" in pages["index.html"]


def test_the_study_page_has_table_figures_claims_and_provenance_and_no_code(mixed_site):
    html = _pages(mixed_site)["table3-smoke.html"]
    for wanted in ('<table class="paper">', "<svg", "training step", "3 seeds would settle it", "da7a00000001"):
        assert wanted in html
    assert "tables.table3(" not in html
    assert "Traceback" not in html
    assert "Warning" not in html


def test_the_scorecard_counts_every_claim_and_lists_it_without_script(mixed_site):
    html = _pages(mixed_site)["index.html"]
    for count in (
        "1 of 3 claims decided",
        "1 of 4 claims decided",
        "1 reproduced",
        "1 agrees",
        "1 undecided",
        "1 not comparable",
    ):
        assert count in html
    assert len(re.findall(r"<li id=.*? data-verdict=", html)) == 3 + 4
    assert '<form class="filters" id="filters" hidden>' in html


def test_the_scorecard_says_where_the_numbers_come_from(mixed_site):
    html = _pages(mixed_site)["index.html"]
    for wanted in ("c0de00000001", "torch 2.9.1", "Test CPU", "5 done", "1 failed", "aiayn query"):
        assert wanted in html
    assert "sacrebleu None" not in html


def test_an_empty_database_gives_a_site_that_says_so(empty_home, tmp_path):
    index = build_site(empty_home / "results.duckdb", tmp_path / "site")
    assert "No studies are registered" in index.read_text(encoding="utf-8")
    pages = _pages(tmp_path / "site")
    assert sorted(pages) == FRAME
    assert "No runs yet" in pages["runs.html"]
    for page in pages.values():
        _Page(page)


def test_progress_is_told(two_scale_database, tmp_path, quick):
    said: list[str] = []
    index = build_site(two_scale_database, tmp_path, on_progress=said.append)
    # Notebooks run side by side.
    assert sorted(said[:2]) == [f"table3 at {scale} scale: running the notebook" for scale in ("small", "smoke")]
    assert said[2:] == ["2 run page(s)", f"the scorecard is {index}"]


def test_only_the_studies_asked_for_are_built_and_other_pages_stay(two_scale_database, tmp_path, quick):
    build_site(two_scale_database, tmp_path, studies=[])
    assert quick == []
    (tmp_path / "other-smoke.html").write_text("kept", encoding="utf-8")
    build_site(two_scale_database, tmp_path, studies=["table3", "table3"])
    assert sorted(quick) == [("table3", "small"), ("table3", "smoke")]
    assert (tmp_path / "other-smoke.html").read_text(encoding="utf-8") == "kept"


def test_a_page_of_a_scale_without_runs_is_taken_away(two_scale_database, tmp_path, quick):
    build_site(two_scale_database, tmp_path, studies=[])
    (tmp_path / "table3-paper.html").write_text("of runs that were there", encoding="utf-8")
    build_site(two_scale_database, tmp_path)
    assert not (tmp_path / "table3-paper.html").exists()


def test_a_page_that_fails_is_named_and_the_rest_is_built(two_scale_database, tmp_path, monkeypatch):
    build_site(two_scale_database, tmp_path, studies=[])
    (tmp_path / "table3-smoke.html").write_text("of yesterday", encoding="utf-8")

    def run(study, scale, database, runs, output, say, kernels):
        if scale == "smoke":
            raise ReportError("table3.ipynb: it broke")
        return build.Fragment("<h1>fine</h1>")

    monkeypatch.setattr(build, "_run_notebook", run)
    with pytest.raises(ReportError, match=r"table3\.ipynb: it broke; the scorecard without it is .*index\.html"):
        build_site(two_scale_database, tmp_path)
    pages = _pages(tmp_path)
    assert "table3-smoke.html" not in pages
    for name in ("index.html", "table3-small.html"):
        assert "table3-smoke.html" not in _Page(pages[name]).links


def test_errors_are_one_line_that_says_what_to_do(mixed_database, tmp_path):
    with pytest.raises(ReportError, match="aiayn run table3"):
        build_site(tmp_path / "results.duckdb", tmp_path / "site")
    with pytest.raises(ReportError, match="study 'table9' is not in this database; studies: table3"):
        build_site(mixed_database, tmp_path / "other site", studies=["table9"])
    (tmp_path / "broken.duckdb").write_text("not a database at all", encoding="utf-8")
    with pytest.raises(ReportError, match="not a DuckDB database"):
        build_site(tmp_path / "broken.duckdb", tmp_path / "site")


def test_a_failing_notebook_leaves_no_half_page(mixed_database, tmp_path, monkeypatch):
    monkeypatch.setattr(notebook, "_run", lambda *_: (_ for _ in ()).throw(ReportError("stopped")))
    with pytest.raises(ReportError, match="stopped"):
        build_site(mixed_database, tmp_path)
    assert [page for page in _pages(tmp_path) if page.startswith("table3")] == []


def test_importing_the_build_loads_nothing_heavy():
    heavy = ["papermill", "nbconvert", "matplotlib", "pandas", "seaborn", "torch", "ray", "duckdb", "studies", "core"]
    code = f"import sys, reports.build; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_pages_end_with_the_page_in_hand_when_the_report_is_interrupted(two_scale_database, tmp_path, monkeypatch):
    made, one_made = [], threading.Event()

    def pages(database, runs, output):
        for number in range(1_000):
            made.append(number)
            yield str(number)
            one_made.set()
            time.sleep(0.01)

    def interrupted(*arguments):
        assert one_made.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "build_run_pages", pages)
    monkeypatch.setattr(build, "_build_study_pages", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_site(two_scale_database, tmp_path)
    assert len(made) < 1_000


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_report_that_is_stopped_ends_in_order_and_in_a_line(
    number: signal.Signals, code: int, two_scale_database, tmp_path
):
    home, site = tmp_path / "home", tmp_path / "site"
    shutil.copytree(two_scale_database.parent, home)
    command = [sys.executable, "-m", "aiayn", "report", "table3", "-o", str(site), "--home", str(home)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as report:
        told = iter(report.stderr.readline, "")
        assert any("running the notebook" in line for line in told)
        report.send_signal(number)
        last = [line for line in told if "running the notebook" not in line]
    assert report.returncode == code
    assert last == ["stopped; what is done is kept, and the same command does the rest\n"]
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("aiayn-report-")]
    assert not list(site.rglob("*.ipynb"))
