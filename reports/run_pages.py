"""One page a run: what it is, how it went, what it says, and where each number comes from.

A run's page follows from its files alone, so a page is made again only when they changed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reports import data
from reports.data import Row
from reports.pages import SITE, Fragment, render
from reports.tables import machine

# Raised whenever this module draws something else for the same run; the templates are looked at by themselves.
_FORMAT = 2
_NUM_SAMPLES = 12
_SOURCE = re.compile(r'<meta name="aiayn-source" content="([^"]*)">')
_SERIES = (("train", "nll"), ("dev", "ppl"), ("train", "learning_rate"))


def build_run_pages(database: Path, runs_dir: Path, output: Path, built: datetime | None = None) -> Iterator[str]:
    """Write `output/runs/<run>.html` for each run whose page is missing or older than its files; yields those made.

    Pages of runs that are no more are taken away; what is none of these pages stays.

    Args:
        runs_dir: the workspace's run folders, from which a few lines of each run's output are read.
    """
    folder = output / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    sources = data.run_sources(database)
    for page in folder.glob("*.html"):
        if page.stem not in sources and _source_of(page) is not None:
            page.unlink()
    for run, files in sources.items():
        page, source = folder / f"{run}.html", f"{_version()} {files}"
        if _source_of(page) == source:
            continue
        text = render_run(database, runs_dir, run, source, built or datetime.now(UTC))
        unfinished = page.with_name(f".{page.name}.tmp")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(page)
        yield run


def _version() -> str:
    style = sum(int((SITE / name).stat().st_mtime_ns) for name in ("run.html", "shell.html", "style.css"))
    return f"{_FORMAT}.{style}"


def _source_of(page: Path) -> str | None:
    """What a page was made from, as its head says; None where there is no page of ours."""
    if not page.is_file():
        return None
    with page.open(encoding="utf-8", errors="replace") as file:
        found = _SOURCE.search(file.read(2_000))
    return found[1] if found else None


def render_run(database: Path, runs_dir: Path, run: str, source: str, built: datetime) -> Fragment:
    """The whole page of one run."""
    row = data.run(database, run)
    return render(
        "run.html",
        run=row,
        source=source,
        machine=machine(row),
        phases=_shares(row["phases"]),
        curves=_curves(database, row),
        config=[(part, _settings(values)) for part, values in row["config"].items()],
        scores=row["scores"],
        samples=_samples(row["artifacts"], runs_dir / run),
        built=built,
    )


def _settings(values: Any) -> list[tuple[str, Any]]:
    return list(values.items()) if isinstance(values, dict) else [("", values)]


def _shares(phases: dict[str, float]) -> list[tuple[str, float, float]]:
    """(phase, seconds, share of all) of the wall time that the last attempt took."""
    total = sum(phases.values())
    return [(name, seconds, seconds / total if total else 0.0) for name, seconds in phases.items()]


def _curves(database: Path, row: Row) -> Fragment | None:
    """Perplexity and learning rate by update; None for a run that has logged nothing."""
    metrics = data.run_metrics(database, row["run"], _SERIES)
    if not any(metrics.values()):
        return None
    from matplotlib.ticker import MaxNLocator

    from reports.drawing import INK, MUTED, SERIES, drawing, log_ticks, panel

    panels = []
    with drawing(4.8, 3.2) as (figure, axes):
        train = [
            (point["step"], math.exp(point["value"]))
            for point in metrics["train", "nll"]
            if point["value"] is not None and point["value"] < 50  # beyond it a perplexity says nothing any more
        ]
        dev = [(point["step"], point["value"]) for point in metrics["dev", "ppl"] if point["value"] is not None]
        for points, name, color, marker in ((train, "training", MUTED, ""), (dev, "development", SERIES[0], "o")):
            if points:
                axes.plot(*zip(*points, strict=True), color=color, marker=marker, markersize=4, label=name)
        axes.set_title("Perplexity per word piece")
        axes.set_xlabel("update")
        if train or dev:
            axes.set_yscale("log")
            log_ticks(axes.yaxis)
            axes.legend()
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        last = f", at the end {dev[-1][1]:.2f} on the development set" if dev else ""
        words = f"Perplexity by update{last}"
        panels.append(panel(figure, f"{row['run']}-perplexity", words, pdf=False))
    rates = [(point["step"], point["value"]) for point in metrics["train", "learning_rate"] if point["value"]]
    if rates:
        with drawing(4.8, 3.2) as (figure, axes):
            axes.plot(*zip(*rates, strict=True), color=INK)
            axes.set_title("Learning rate (Eq. 3)")
            axes.set_xlabel("update")
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3))
            words = f"Learning rate by update, highest {max(rate for _, rate in rates):.3g}"
            panels.append(panel(figure, f"{row['run']}-rate", words, pdf=False))
    return render("figure.html", panels=panels, panel_width="min(24rem, 100%)", caption="")


def _samples(artifacts: Sequence[Row], folder: Path) -> list[Row]:
    """A few sentences that the run has produced: of its last evaluation with source and reference where these were
    kept, else the first lines of its output. A file that is gone or damaged gives none, and is no reason to fail.
    """
    by_kind = {artifact["kind"]: folder / artifact["path"] for artifact in artifacts}
    try:
        if "samples" in by_kind:
            lines = by_kind["samples"].read_text(encoding="utf-8").split("\n")
            rows = [json.loads(line) for line in lines if line]
            json.dumps(rows, ensure_ascii=False).encode()  # half a character, which JSON can spell, has no page
            last = max((row["step"] for row in rows), default=0)
            return [row for row in rows if row["step"] == last][:_NUM_SAMPLES]
        if "output" in by_kind:
            with by_kind["output"].open(encoding="utf-8") as file:
                return [{"output": line.rstrip("\n")} for line, _ in zip(file, range(_NUM_SAMPLES), strict=False)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return []
