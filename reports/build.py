"""Builds the site: a page for every study and scale, run and departure, the method, and `index.html`, the scorecard.

Every file is written under another name and renamed when it is complete, so a reader never meets half a report. The
site needs no network: style, script and figures are inside each page.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from reports import data, method, notebook, tables
from reports.index import scorecard
from reports.notebook import ReportError
from reports.pages import EXPLORED_STUDY, HEADS_PAGE, READS_RUNS, Fragment, render
from reports.run_pages import build_run_pages
from reports.site_folder import SNAPSHOT, SiteError, open_site_folder
from results.database import connect
from results.database import snapshot as take_snapshot
from results.errors import ResultsError
from results.records import SCALES

__all__ = ["ReportError", "SiteError", "build_site"]

# A kernel takes a few hundred MiB, and most of a page's time is its start.
MOST_KERNELS = 4
NOTEBOOKS = Path(__file__).parent / "notebooks"


def build_site(
    database: Path,
    output: Path,
    studies: Sequence[str] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Path:
    """Build the site for `database` in the folder `output` and return the path of its `index.html`.

    All pages are made from one snapshot of the database, which stays beside them as `results.duckdb`: runs may go on
    meanwhile, and whoever doubts a number finds the very rows that it was made from.

    Args:
        database: the results database, beside the workspace's `runs`; it is only read.
        output: the site's folder, made if missing (`reports.site_folder`). Pages of studies that are not asked for stay
            as they are.
        studies: whose pages to build; None builds those of all registered studies.
        on_progress: called with one line of text at each step.

    Raises:
        SiteError: `output` must not, or cannot, be written; it is as it was.
        ReportError: there is no such database, no such study, or a page failed. The other pages and the scorecard are
            then built all the same, without a link to the page that failed.
    """
    database, output = Path(database).absolute(), Path(output).absolute()
    say = on_progress or (lambda line: None)
    open_site_folder(output, database.parent)
    try:
        copy = output / SNAPSHOT
        sha256 = take_snapshot(database, copy)
        snapshot = {"sha256": sha256, "code_version": data.code_version(copy)}
        titles = {row["study"]: row["title"] for row in data.studies(copy)}
        chosen = list(titles) if studies is None else _check_studies(studies, list(titles))
        runs = database.parent / "runs"
        if EXPLORED_STUDY in chosen:
            chosen.insert(0, HEADS_PAGE)  # the most to draw: as the last it would keep one core alone
            titles[HEADS_PAGE] = "What the heads of a run do"
        # The copy stays open, which nobody writes: each read would open it anew.
        with closing(connect(copy, read_only=True)), _run_pages_meanwhile(copy, runs, output) as run_pages:
            failures = _build_study_pages(chosen, titles, copy, runs, output, snapshot, say)
        failures += _build_explorers(chosen, copy, runs, output)
        made = run_pages.result()
        if made:
            say(f"{made} run page(s)")
        _write_page(output / "runs.html", snapshot, "all_runs.html", tables.all_runs(copy))
        _write_page(output / "departures.html", snapshot, "departures.html", {"departures": data.departures(copy)})
        _write_page(output / "method.html", snapshot, "method.html", method.context())
        index = output / "index.html"
        _write_page(index, snapshot, "index.html", scorecard(copy, output))
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


@contextmanager
def _run_pages_meanwhile(database: Path, runs: Path, output: Path) -> Iterator[Future[int]]:
    """Run pages, drawn here while the notebooks' kernels draw theirs; how many, once the block has ended.

    What ends the block early, as Ctrl-C does, ends this after the page that is being made.
    """
    stop = threading.Event()

    def build() -> int:
        return sum(1 for _ in takewhile(lambda _: not stop.is_set(), build_run_pages(database, runs, output)))

    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            yield pool.submit(build)
        except BaseException:
            stop.set()
            raise


def _build_study_pages(
    studies: Sequence[str],
    titles: Mapping[str, str],
    database: Path,
    runs: Path,
    output: Path,
    snapshot: Mapping[str, Any],
    say: Callable[[str], None],
) -> list[str]:
    """Each study's page at each scale that it has, as many at a time as there are cores; what failed, a line each.

    A page that is out of date or failed is taken away, so that none is left that no longer tells the truth, and its
    siblings do not link to it.
    """
    # The page on heads is of the runs that Figure 5 measures.
    scales = {study: _scales_of(EXPLORED_STUDY if study == HEADS_PAGE else study, database) for study in studies}
    bodies: dict[tuple[str, str], Fragment] = {}
    failures = []
    kernels = notebook.Kernels()

    def body(study: str, scale: str) -> Fragment:
        say(f"{study} at {scale} scale: running the notebook")
        return _run_notebook(study, scale, database, runs, output, say, kernels)

    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, MOST_KERNELS)) as pool:
        waiting = {pool.submit(body, study, scale): (study, scale) for study in studies for scale in scales[study]}
        try:
            for finished in as_completed(waiting):
                study, scale = waiting[finished]
                try:
                    bodies[study, scale] = finished.result()
                except ReportError as error:
                    failures.append(str(error))
        except BaseException:  # such as Ctrl-C, which reaches neither threads nor kernels
            pool.shutdown(wait=False, cancel_futures=True)
            kernels.end()
            raise
    for study in studies:
        built = [scale for scale in SCALES if (study, scale) in bodies]
        siblings = [{"scale": scale, "href": _page(output, study, scale).name} for scale in built]
        for stale in set(SCALES) - set(built):
            _page(output, study, stale).unlink(missing_ok=True)
        for scale in built:
            context = {"title": titles.get(study, study), "study": study, "scale": scale, "siblings": siblings}
            _write_page(_page(output, study, scale), snapshot, "study.html", context | {"body": bodies[study, scale]})
    return sorted(failures)


def _build_explorers(studies: Sequence[str], database: Path, runs: Path, output: Path) -> list[str]:
    """The explorer of each scale whose attention was kept; what failed, a line each."""
    failures = []
    if EXPLORED_STUDY not in studies:
        return failures
    from reports import attention_pages

    for scale in SCALES:
        try:
            attention_pages.build_explorer(database, runs, scale, output)
        except (ResultsError, ValueError) as error:
            failures.append(f"the explorer of {scale}: {error}")
    return failures


def _notebook_of(study: str, runs: Path) -> tuple[Path, dict[str, str]]:
    """A study's notebook and the parameters that it has beyond the usual: its own, or the one for any study."""
    own = NOTEBOOKS / f"{study}.ipynb"
    if not own.exists():
        return NOTEBOOKS / "study.ipynb", {"study": study}
    return own, {"runs": str(runs)} if study in READS_RUNS else {}


def _check_studies(studies: Sequence[str], known: Sequence[str]) -> list[str]:
    for study in studies:
        if study not in known:
            raise ReportError(f"study {study!r} is not in this database; studies: {', '.join(known) or 'none'}")
    return list(dict.fromkeys(studies))


def _page(output: Path, study: str, scale: str) -> Path:
    return output / f"{study}-{scale}.html"


def _scales_of(study: str, database: Path) -> list[str]:
    """The scales at which a study has runs, or a claim that needs none and is decided; the smallest where none is."""
    present = {row["scale"] for row in data.runs(database, study)}
    present |= {
        scale
        for scale in SCALES
        if any(claim["verdict"] in tables.DECIDED for claim in data.claims(database, scale, study))
    }
    return [scale for scale in SCALES if scale in present] or [SCALES[0]]


def _run_notebook(
    study: str,
    scale: str,
    database: Path,
    runs: Path,
    output: Path,
    say: Callable[[str], None],
    kernels: notebook.Kernels,
) -> Fragment:
    failed_copy = output / f"{study}-{scale}.failed.ipynb"
    failed_copy.unlink(missing_ok=True)
    path, more = _notebook_of(study, runs)
    parameters = {"database": str(database), "scale": scale} | more
    return Fragment(notebook.to_html(notebook.execute(path, parameters, failed_copy, say, kernels)))


def _write_page(path: Path, snapshot: Mapping[str, Any], template: str, context: Mapping[str, Any]) -> None:
    """Write a page under another name, then rename: a reader sees the old page or the new one."""
    text = render(template, **context, snapshot=snapshot, built=datetime.now(UTC))
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
