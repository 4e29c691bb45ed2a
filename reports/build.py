"""Builds the site: one page per study that has a notebook and per scale that has runs, and `index.html`, the scorecard.

Every file is written under another name and renamed when it is complete, so a reader never meets half a report. The
site needs no network: style, script and figures are inside each page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reports import data, notebook, tables
from reports.notebook import ReportError
from reports.pages import Fragment, render
from results.errors import ResultsError
from results.records import SCALES

__all__ = ["ReportError", "build_site"]

NOTEBOOKS = Path(__file__).parent / "notebooks"


def build_site(
    database: Path,
    output: Path,
    studies: Sequence[str] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Path:
    """Build the site for `database` in the folder `output` and return the path of its `index.html`.

    Args:
        database: the results database; it is only read.
        output: the site's folder, made if missing. Pages of studies that are not asked for stay as they are.
        studies: whose pages to build; None builds all that have a notebook.
        on_progress: called with one line of text at each step.

    Raises:
        ReportError: there is no such database, a study has no notebook, or a page failed. The other pages and the
            scorecard are then built all the same, without a link to the page that failed.
    """
    database, output = Path(database).absolute(), Path(output).absolute()
    chosen = _with_notebook() if studies is None else _check_studies(studies)
    say = on_progress or (lambda line: None)
    try:
        titles = {row["study"]: row["title"] for row in data.studies(database)}
        output.mkdir(parents=True, exist_ok=True)
        failures = []
        for study in chosen:
            failures += _build_pages(study, titles.get(study, study), database, output, say)
        index = output / "index.html"
        _write(index, _index(database, output))
    except ResultsError as error:
        raise ReportError(str(error)) from error
    except OSError as error:
        place = error.filename or output
        raise ReportError(f"cannot write {place} ({error.strerror}); choose another folder with -o") from error
    if failures:
        others = f" ({len(failures) - 1} more failed)" if len(failures) > 1 else ""
        raise ReportError(f"{failures[0]}{others}; the scorecard without it is {index}")
    say(f"the scorecard is {index}")
    return index


def _build_pages(study: str, title: str, database: Path, output: Path, say: Callable[[str], None]) -> list[str]:
    """One study's page at each scale that it has; returns what failed, a line each.

    A page that is out of date or failed is taken away, so that none is left that no longer tells the truth.
    """
    scales = _scales_of(study, database)
    siblings = [{"scale": scale, "href": _page(output, study, scale).name} for scale in scales]
    failures = []
    for stale in set(SCALES) - set(scales):
        _page(output, study, stale).unlink(missing_ok=True)
    for scale in scales:
        page = _page(output, study, scale)
        say(f"{study} at {scale} scale: running the notebook")
        try:
            body = _run_notebook(study, scale, database, output, say)
        except ReportError as error:
            page.unlink(missing_ok=True)
            failures.append(str(error))
            continue
        context = {"title": title, "study": study, "scale": scale, "siblings": siblings}
        _write(page, render("study.html", **context, body=body, built=datetime.now(UTC)))
    return failures


def _with_notebook() -> list[str]:
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def _check_studies(studies: Sequence[str]) -> list[str]:
    known = _with_notebook()
    for study in studies:
        if study not in known:
            raise ReportError(f"study {study!r} has no report; studies with one: {', '.join(known)}")
    return list(dict.fromkeys(studies))


def _page(output: Path, study: str, scale: str) -> Path:
    return output / f"{study}-{scale}.html"


def _scales_of(study: str, database: Path) -> list[str]:
    """The scales at which a study has runs, or the smallest scale where it has none."""
    present = {row["scale"] for row in data.runs(database, study)}
    return [scale for scale in SCALES if scale in present] or [SCALES[0]]


def _run_notebook(study: str, scale: str, database: Path, output: Path, say: Callable[[str], None]) -> Fragment:
    failed_copy = output / f"{study}-{scale}.failed.ipynb"
    failed_copy.unlink(missing_ok=True)
    executed = notebook.execute(
        NOTEBOOKS / f"{study}.ipynb", {"database": str(database), "scale": scale}, failed_copy, on_progress=say
    )
    return Fragment(notebook.to_html(executed))


def _index(database: Path, output: Path) -> Fragment:
    studies, runs = data.studies(database), data.runs(database)
    claims = {scale: data.claims(database, scale) for scale in SCALES}
    ran = {row["scale"] for row in runs}
    active = [s for s in SCALES if s in ran or any(c["verdict"] != "not run" for c in claims[s])] or [SCALES[0]]
    shown = tables.sort_claims(claim for scale in active for claim in claims[scale])
    verdicts = [verdict for verdict, _ in tables.count_verdicts(claim["verdict"] for claim in shown)]
    return render(
        "index.html",
        scales=[_scale_card(scale, studies, claims[scale], output) for scale in active] if studies else [],
        idle_scales=[scale for scale in SCALES if scale not in active] if studies else [],
        claims=shown,
        filters=[
            ("verdict", "Verdict", verdicts),
            ("study", "Study", sorted({claim["study"] for claim in shown})),
            ("scale", "Scale", active),
        ],
        provenance=_provenance(runs, data.problems(database)),
        built=datetime.now(UTC),
    )


def _scale_card(scale: str, studies: list[data.Row], claims: list[data.Row], output: Path) -> dict[str, Any]:
    cards = []
    for study in studies:
        own = [claim["verdict"] for claim in claims if claim["study"] == study["study"]]
        page = _page(output, study["study"], scale)
        href = page.name if page.exists() else None
        cards.append({**study, "claims": len(own), "counts": tables.count_verdicts(own), "href": href})
    decided = sum(claim["verdict"] in tables.DECIDED for claim in claims)
    return {"scale": scale, "studies": cards, "claims": len(claims), "decided": decided}


def _provenance(runs: list[data.Row], problems: list[data.Row]) -> dict[str, Any]:
    """Code, versions, machines and time of all runs together, and what of them could not be read."""
    versions = {(name, str(version)) for run in runs for name, version in run["versions"].items() if version}
    return tables.summarise_runs(runs) | {
        "runs": len(runs),
        "first": min((run["started"] for run in runs if run["started"]), default=None),
        "last": max((run["finished"] for run in runs if run["finished"]), default=None),
        "versions": sorted(versions),
        "problems": problems,
    }


def _write(path: Path, text: str) -> None:
    """Write a page under another name, then rename: a reader sees the old page or the new one."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
