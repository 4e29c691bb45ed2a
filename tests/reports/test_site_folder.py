"""Where a site may be written: nothing of other people's, and nothing that a workspace keeps, is ever replaced."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reports import build
from reports.build import build_site
from reports.run_pages import _samples, build_run_pages
from reports.site_folder import SiteError, require_site_folder
from results.store import Store


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without a kernel."""
    monkeypatch.setattr(build, "_run_notebook", lambda *_: build.Fragment("<h1>quick</h1>"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["index.html", "runs/notes.html", "results.duckdb"])
def test_folder_of_other_files_is_refused_and_left_as_it_was(two_scale_database: Path, tmp_path: Path, name: str):
    file = tmp_path / "mine" / name
    file.parent.mkdir(parents=True)
    file.write_text("my own", encoding="utf-8")
    with pytest.raises(SiteError, match=r"mine holds other files than a site of .*choose another folder"):
        build_site(two_scale_database, tmp_path / "mine")
    assert contents(tmp_path / "mine") == {name: b"my own"}


def test_site_of_another_workspace_is_refused_and_ones_own_is_built_again(
    two_scale_database: Path, empty_home: Path, tmp_path: Path
):
    site = tmp_path / "site"
    build_site(two_scale_database, site)
    before = contents(site)
    with pytest.raises(SiteError, match="is the site of another workspace"):
        build_site(empty_home / "results.duckdb", site)
    assert contents(site) == before
    build_site(two_scale_database, site)


def test_only_pages_of_runs_are_taken_away(two_scale_database: Path, empty_home: Path, tmp_path: Path):
    pages = tmp_path / "runs"
    (made,) = list(build_run_pages(two_scale_database, two_scale_database.parent / "runs", tmp_path))[:1]
    notes = {"notes.html": b"my own", "latin.html": "<p>ä".encode("latin-1")}
    for name, content in notes.items():
        (pages / name).write_bytes(content)
    (pages / "folder.html").mkdir()
    assert list(build_run_pages(empty_home / "results.duckdb", empty_home / "runs", tmp_path)) == []
    assert not (pages / f"{made}.html").exists()
    assert contents(pages) == notes


@pytest.mark.parametrize("place", [".", "runs", "runs/new", "data/site", "link"])
def test_what_a_workspace_keeps_is_no_place_for_a_site(empty_home: Path, place: str):
    (empty_home / "runs").mkdir()
    (empty_home / "link").symlink_to(empty_home / "runs")
    before = sorted(empty_home.rglob("*"))
    with pytest.raises(SiteError, match="keeps its runs, data and database; choose another folder"):
        build_site(empty_home / "results.duckdb", empty_home / place)
    assert sorted(empty_home.rglob("*")) == before


def test_folder_that_cannot_be_written_is_refused(empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    for place in ("file", "file/site", "nowhere"):
        with pytest.raises(SiteError, match=r"cannot write .* is no folder\); move that away, or choose another"):
            require_site_folder(tmp_path / place, empty_home)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SiteError, match=r"cannot write .*new site \(no permission for .*choose another folder"):
        require_site_folder(tmp_path / "new site", empty_home)


def test_the_workspaces_own_folder_needs_no_mark(two_scale_database: Path, tmp_path: Path):
    """Such as that of an older version, or of a workspace that was moved."""
    home = tmp_path / "home"
    Store(home).ingest()
    (home / "site").mkdir()
    (home / "site" / "index.html").write_text("older", encoding="utf-8")
    (home / "site" / ".aiayn-site").write_text("of another place", encoding="utf-8")
    build_site(home / "results.duckdb", home / "site")
    assert "older" not in (home / "site" / "index.html").read_text(encoding="utf-8")


def test_samples_that_no_page_can_hold_are_left_out(tmp_path: Path):
    artifacts = [{"kind": "samples", "path": "samples.jsonl"}]
    lines = ['{"step": 2, "output": "ein Haus"}\n', '{"step": 2, "output": "\\ud800"}\n']
    (tmp_path / "samples.jsonl").write_text(lines[0], encoding="utf-8")
    assert _samples(artifacts, tmp_path) == [{"step": 2, "output": "ein Haus"}]
    (tmp_path / "samples.jsonl").write_text("".join(lines), encoding="utf-8")
    assert _samples(artifacts, tmp_path) == []


def test_run_that_cannot_be_read_has_no_page_and_stops_no_other(two_scale_database: Path, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(two_scale_database.parent / "runs", home / "runs")
    broken, healthy = sorted((home / "runs").iterdir())
    (broken / "run.json").write_text("{", encoding="utf-8")
    Store(home).ingest()
    assert list(build_run_pages(home / "results.duckdb", home / "runs", tmp_path)) == [healthy.name]
