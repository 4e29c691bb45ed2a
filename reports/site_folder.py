"""The folder of a site: that it may be written, and that it is ours.

A site replaces files with plain names, index.html among them. So a folder that holds anything else is refused before
the first page is made, and a site carries a mark by which its workspace knows it again.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from reports.notebook import ReportError
from results.errors import ResultsError
from results.output import require_outside

SNAPSHOT = "results.duckdb"
_MARK = ".aiayn-site"
_ELSEWHERE = "choose another folder: aiayn report -o DIR"


class SiteError(ReportError):
    """The folder that was named cannot, or must not, hold a site."""


def require_site_folder(output: Path, home: Path) -> None:
    """Make sure, without touching anything, that the site of the workspace `home` may be written to `output`.

    HOME/site is there for it. Any other folder must be missing, empty, or hold this workspace's site.

    Raises:
        SiteError: it may not, or cannot.
    """
    try:
        require_outside(output / SNAPSHOT, home)
    except ResultsError:
        raise SiteError(f"{output} is where {home} keeps its runs, data and database; {_ELSEWHERE}") from None
    standing = next(place for place in (output, *output.parents) if os.path.lexists(place))
    if not os.path.isdir(standing):
        raise SiteError(f"cannot write {output} ({standing} is no folder); move that away, or {_ELSEWHERE}")
    if not os.access(standing, os.R_OK | os.W_OK | os.X_OK):
        raise SiteError(f"cannot write {output} (no permission for {standing}); {_ELSEWHERE}")
    if standing != output or output == home / "site":
        return
    mark = output / _MARK
    if mark.exists():
        if mark.read_text(encoding="utf-8", errors="replace") != _mark_of(home):
            raise SiteError(f"{output} is the site of another workspace; {_ELSEWHERE}")
    elif any(output.iterdir()):
        raise SiteError(f"{output} holds other files than a site of {home}; {_ELSEWHERE}")


def open_site_folder(output: Path, home: Path) -> None:
    """Make the folder and leave the mark in it, after `require_site_folder`; raises SiteError too."""
    require_site_folder(output, home)
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / _MARK).write_text(_mark_of(home), encoding="utf-8")
    except OSError as error:
        raise SiteError(f"cannot write {error.filename or output} ({error.strerror}); {_ELSEWHERE}") from None


def _mark_of(home: Path) -> str:
    # Not the path itself, since a site may be published.
    return hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:16] + "\n"
