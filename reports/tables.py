"""The tables of the reports as HTML, each from one or two views of the database; every cell's text is escaped.

Published values are the paper's and are marked so; measured ones come from finished runs. A cell without a value
shows a dash, and a failed run shows as failed: nothing is left out and no number stands in for a missing one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reports import data
from reports.data import Row
from reports.pages import VERDICTS, Fragment, render

# The columns of Table 3 that a row can change, as the paper writes them.
_SETTINGS = {
    "N": Markup("<i>N</i>"),
    "d_model": Markup("<i>d</i><sub>model</sub>"),
    "d_ff": Markup("<i>d</i><sub>ff</sub>"),
    "h": Markup("<i>h</i>"),
    "d_k": Markup("<i>d</i><sub>k</sub>"),
    "d_v": Markup("<i>d</i><sub>v</sub>"),
    "p_drop": Markup("<i>P</i><sub>drop</sub>"),
    "eps_ls": Markup("<i>ε</i><sub>ls</sub>"),
    "positions": "positions",
    "train_steps": "steps",
}

# Verdicts that answer the claim at the scale at hand.
DECIDED = ("reproduced", "not reproduced", "agrees", "disagrees")

# Verdicts that are shown one by one; claims with another are gathered, since they have nothing to tell yet.
TELLING = (*DECIDED, "undecided")


def count_verdicts(verdicts: Iterable[str]) -> list[tuple[str, int]]:
    """Verdicts that occur, with their counts, in the fixed order of `VERDICTS`; unknown ones last."""
    counts = Counter(verdicts)
    order = [*VERDICTS, *sorted(counts.keys() - VERDICTS.keys())]
    return [(verdict, counts[verdict]) for verdict in order if counts[verdict]]


def sort_claims(claims: Iterable[Row]) -> list[Row]:
    """What readers come for first: verdicts that tell something, and of these the measured ones before the computed."""
    return sorted(claims, key=lambda claim: (claim["verdict"] not in TELLING, claim["kind"] == "exact"))


def heading(database: Path | str, study: str) -> Fragment:
    """A study's title and the cells of the paper that it is about."""
    (row,) = [row for row in data.studies(database) if row["study"] == study]
    return render("heading.html", **row)


def verdict_summary(database: Path | str, study: str, scale: str) -> Fragment:
    """How a study's claims fare at one scale: a stacked bar and the counts."""
    counts = count_verdicts(claim["verdict"] for claim in data.claims(database, scale, study))
    decided = sum(count for verdict, count in counts if verdict in DECIDED)
    return render("verdicts.html", counts=counts, total=sum(n for _, n in counts), decided=decided, scale=scale)


def claims(database: Path | str, study: str, scale: str) -> Fragment:
    """A study's claims: statement, published and measured value, interval, verdict and its reason."""
    rows = data.claims(database, scale, study)
    link_runs(rows, data.runs(database, study, scale))
    return render("claims.html", **fold_claims(rows))


def fold_claims(rows: Iterable[Row]) -> dict[str, Any]:
    """Claims with something to tell in the order of `sort_claims`, and the `silent` rest by verdict."""
    rows = sort_claims(rows)
    return {
        "telling": [row for row in rows if row["verdict"] in TELLING],
        "silent": [
            (verdict, [row for row in rows if row["verdict"] == verdict])
            for verdict, _ in count_verdicts(row["verdict"] for row in rows)
            if verdict not in TELLING
        ],
    }


def table3(database: Path | str, scale: str) -> Fragment:
    """Table 3 with published and measured values and their differences from base, side by side."""
    rows = data.table3(database, scale)
    base = next((row for row in rows if row["trial"] == "base"), {})
    by_trial = _claims_by_trial(data.claims(database, scale, "table3"), [row["trial"] for row in rows])
    for row in rows:
        row["changes"] = _changes(row, base)
        row["claims"] = by_trial[row["trial"]]
        row["counts"] = count_verdicts(claim["verdict"] for claim in row["claims"])
    groups = [
        {"letter": label if len(label) == 1 else None, "rows": list(members)}
        for label, members in groupby(rows, key=lambda row: row["row"])
    ]
    has_spread = any(row["seeds"] and row["seeds"] > 1 for row in rows)
    settings = _changes(base, {}) if base else []
    return render("table3.html", groups=groups, settings=settings, scale=scale, has_spread=has_spread)


# What Table 1 is about, and in what each of them grows.
_GROWTH = (
    ("complexity", "Operations a layer", "ndkr"),
    ("sequential", "Sequential operations", "n"),
    ("path", "Longest path", "nr"),
)


def table1(database: Path | str, scale: str) -> Fragment:
    """Table 1: orders of growth as printed, beside exponents by closed form, by count and as measured at work."""
    rows = data.table1(database, scale)
    printed = {"complexity": "complexity", "sequential": "sequential_operations", "path": "maximum_path_length"}
    for row in rows:
        row["cells"] = [
            {
                "printed": row[printed[quantity]],
                "exponents": [_exponents(row, quantity, size) for size in sizes if _exponents(row, quantity, size)],
                "layers": row["measured_path_layers"] if quantity == "path" else None,
            }
            for quantity, _, sizes in _GROWTH
        ]
    return render("table1.html", rows=rows, quantities=[label for _, label, _ in _GROWTH])


def _exponents(row: Row, quantity: str, size: str) -> dict[str, Any]:
    """A size and its exponents by how they were found; nothing where none was."""
    bases = {
        "by formula": row[f"counted_{quantity}_{size}"],
        "counted at work": row.get(f"flops_{quantity}_{size}"),
        "timed" if quantity == "complexity" else "counted at work": row[f"measured_{quantity}_{size}"],
    }
    found = {basis: value for basis, value in bases.items() if value is not None}
    return {"size": size, "found": found} if found else {}


def table2(database: Path | str, scale: str) -> Fragment:
    """Table 2: BLEU and training cost as printed, and what was measured of our rows; the others are quoted."""
    return render("table2.html", rows=data.table2(database, scale), scale=scale, directions=("ende", "enfr"))


def table4(database: Path | str, scale: str) -> Fragment:
    """Table 4: F1 as printed, and what was measured of our rows; the others are quoted."""
    return render("table4.html", rows=data.table4(database, scale), scale=scale)


def capabilities(database: Path | str, scale: str) -> Fragment:
    """The lectures' capability table: each cell as they have it, and as its probe measured it."""
    cells = data.capabilities(database, scale)
    rows = [{"label": label, "cells": list(row)} for label, row in groupby(cells, key=lambda cell: cell["label"])]
    for row in rows:
        asked = next((cell for cell in row["cells"] if cell["task"]), {"task": None, "chance": None})
        row |= {"task": asked["task"], "chance": asked["chance"]}
    models = [(cell["model_label"], cell["seeds"], cell["failed"]) for cell in rows[0]["cells"]] if rows else []
    differing = [cell for cell in cells if None not in (cell["published"], cell["measured"])]
    differing = [cell for cell in differing if cell["published"] != cell["measured"]]
    return render("capabilities.html", rows=rows, models=models, scale=scale, differing=differing)


def runs(database: Path | str, study: str, scale: str) -> Fragment:
    """Where a study's numbers come from: runs, seeds, data, code, hardware, time, and how to run it again."""
    rows = data.runs(database, study, scale)
    return render(
        "runs.html",
        runs=[row | {"machine": machine(row)} for row in rows],
        study=study,
        scale=scale,
        seeds=sorted({row["seed"] for row in rows}),
        troubled=sum(row["status"] in ("failed", "diverged") for row in rows),
        **summarise_runs(rows),
    )


def all_runs(database: Path | str) -> dict[str, Any]:
    """The context of `site/all_runs.html`: every run, and how many ended how."""
    rows = data.runs(database)
    return {"runs": [row | {"machine": machine(row)} for row in rows], **summarise_runs(rows)}


def link_runs(claims: Iterable[Row], runs: Sequence[Row]) -> None:
    """Give each claim, as `runs`, those that speak for it: of its trials at its scale, the newest of a seed."""
    newest: dict[tuple[str, str, str], dict[int, Row]] = {}
    for run in runs:  # the newest first within trial and seed
        newest.setdefault((run["study"], run["scale"], run["trial"]), {}).setdefault(run["seed"], run)
    for claim in claims:
        claim["runs"] = [
            run
            for trial in claim["trials"] or ()
            for run in newest.get((claim["study"], claim["scale"], trial), {}).values()
        ]


def summarise_runs(rows: Sequence[Row]) -> dict[str, Any]:
    """What a set of runs has in common: statuses, code, data and machines with their counts, and seconds in all."""

    def tally(values: Iterable[str | None]) -> list[tuple[str, int]]:
        return Counter(value for value in values if value).most_common()

    return {
        "statuses": tally(row["status"] for row in rows),
        "code": tally(row["code_version"] for row in rows),
        "dirty": sum(bool(row["dirty"]) for row in rows),
        "data": tally(row["data_fingerprint"] for row in rows),
        "machines": tally(machine(row) for row in rows),
        "seconds": sum(row["seconds"] or 0.0 for row in rows),
    }


def machine(run: Row) -> str:
    """A run's machine in words: its GPUs if it had any, then its processor."""
    hardware = run["hardware"]
    parts = [f"{count} × {name}" for name, count in Counter(run["gpus"]).items()]
    parts += [str(hardware["cpu"])] if hardware.get("cpu") else []
    parts += [f"{hardware['cores']} cores"] if hardware.get("cores") else []
    parts += [f"{hardware['memory_gib']} GiB"] if hardware.get("memory_gib") else []
    return ", ".join(parts)


def _changes(row: Row, base: Row) -> list[Markup]:
    """What a row sets otherwise than `base`, one `name = value` each; all of its settings where `base` is empty."""
    return [
        Markup("{} = {}").format(label, _setting(name, row[name]))
        for name, label in _SETTINGS.items()
        if not base or row[name] != base[name]
    ]


def _setting(name: str, value: Any) -> str:
    return f"{value // 1000}K" if name == "train_steps" and value and value % 1000 == 0 else str(value)


def _claims_by_trial(claims: list[Row], trials: Sequence[str]) -> dict[str, list[Row]]:
    """The claims that speak of one trial's own row, each with a short `label`.

    A claim's id is `table3.<row>.<trial>.<metric>`, or `table3.<trial>.<metric>` where row and trial have one name
    (base, big). A claim that compares has `<better>_over_<worse>` for a trial and stands with both, except with base,
    which is the yardstick of most. Trials' names may hold dots (`drop0.0`).
    """
    by_trial: dict[str, list[Row]] = {trial: [] for trial in trials}
    for claim in claims:
        cell, _, metric = claim["claim"].partition(".")[2].rpartition(".")
        for trial in trials:
            own = cell == trial or cell.endswith(f".{trial}")
            compared = trial != "base" and trial in cell.partition(".")[2].split("_over_")
            if own or compared:
                name = metric if own else f"{cell.partition('.')[2]} in {metric}"
                by_trial[trial].append(claim | {"label": name.replace("_", " ")})
    return by_trial
