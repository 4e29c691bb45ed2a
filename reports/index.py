"""What stands on `index.html`: how studies fare at each scale, every claim, and where the runs come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports import data, tables
from reports.data import Row
from results.records import SCALES


def scorecard(database: Path, output: Path) -> dict[str, Any]:
    """The context of `site/index.html`; studies link to the pages that `output` holds."""
    studies, runs = data.studies(database), data.runs(database)
    claims = {scale: data.claims(database, scale) for scale in SCALES}
    ran = {row["scale"] for row in runs}
    active = [s for s in SCALES if s in ran or any(c["verdict"] in tables.DECIDED for c in claims[s])] or [SCALES[0]]
    shown = [claim for scale in active for claim in claims[scale]]
    tables.link_runs(shown, runs)
    verdicts = [verdict for verdict, _ in tables.count_verdicts(claim["verdict"] for claim in shown)]
    for claim in shown:
        page = output / f"{claim['study']}-{claim['scale']}.html"
        claim["href"] = page.name if page.exists() else None
    return {
        "scales": [_scale_card(scale, studies, claims[scale], output) for scale in active] if studies else [],
        "idle_scales": [scale for scale in SCALES if scale not in active] if studies else [],
        **tables.fold_claims(shown),
        "filters": [
            ("verdict", "Verdict", verdicts),
            ("study", "Study", list(dict.fromkeys(claim["study"] for claim in shown))),
            ("scale", "Scale", active),
        ],
        "provenance": _provenance(runs, data.problems(database)),
    }


def _scale_card(scale: str, studies: list[Row], claims: list[Row], output: Path) -> dict[str, Any]:
    cards = []
    for study in studies:
        own = [claim["verdict"] for claim in claims if claim["study"] == study["study"]]
        if not own:
            continue  # all that it claims is about another scale
        # A study without a run at this scale may have a page at another, where it says what it is about.
        pages = (output / f"{study['study']}-{name}.html" for name in (scale, *SCALES))
        href = next((page.name for page in pages if page.exists()), None)
        cards.append({**study, "claims": len(own), "counts": tables.count_verdicts(own), "href": href})
    decided = sum(claim["verdict"] in tables.DECIDED for claim in claims)
    return {"scale": scale, "studies": cards, "claims": len(claims), "decided": decided}


def _provenance(runs: list[Row], problems: list[Row]) -> dict[str, Any]:
    """Code, versions, machines and time of all runs together, and what of them could not be read."""
    versions = {(name, str(version)) for run in runs for name, version in run["versions"].items() if version}
    return tables.summarise_runs(runs) | {
        "runs": len(runs),
        "first": min((run["started"] for run in runs if run["started"]), default=None),
        "last": max((run["finished"] for run in runs if run["finished"]), default=None),
        "versions": sorted(versions),
        "problems": problems,
    }
