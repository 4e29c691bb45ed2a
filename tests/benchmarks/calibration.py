"""How often verdicts are wrong, and how often they decide at all: studies drawn with a known truth, by the thousand.

    python tests/benchmarks/calibration.py [--studies 20000] [-o reports/calibration.json]

Every study is drawn where a verdict errs most easily: the truth lies on the edge of what is claimed. The share of wrong
verdicts must stay below 5% for every kind of claim, number of seeds and noise in `NOISES`, with the spread between
seeds known before and without, for one claim and for a family of 15; else the command fails. What lies beyond the
promise is measured too, and marked. Spreads are in units of one run's standard deviation between seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results import provenance
from studies import inference
from studies.inference import LEVEL, Spread, estimate, evidence, fit_exponent, holm
from studies.runs import judging_version

BOUND = 0.05
SEEDS = (1, 2, 3, 5, 10)
FAMILY = 15
PRIOR_SEEDS = 4
# Half the width of an equivalence's region: narrow, as for BLEU at the paper's scale, and wide.
MARGINS = (0.5, 1.7, 5.0)
EXPONENT_SIZES = (64, 128, 256, 512, 1024, 2048)
EXPONENT_NOISE = 0.05  # of the logarithm of one timing
EXPONENT_MARGIN = 0.25
EFFECTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)

Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray]

NOISES: Mapping[str, tuple[str, Draw]] = {
    "normal": ("normal", lambda rng, shape: rng.standard_normal(shape)),
    "t3": ("Student's t with 3 degrees of freedom", lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3)),
    "skewed up": ("gamma of shape 4, skewness 1", lambda rng, shape: (rng.standard_gamma(4, shape) - 4) / 2),
    "skewed down": ("the same, mirrored", lambda rng, shape: (4 - rng.standard_gamma(4, shape)) / 2),
}
BEYOND: Mapping[str, tuple[str, Draw]] = {
    "exponential up": ("exponential, skewness 2", lambda rng, shape: rng.standard_exponential(shape) - 1),
    "exponential down": ("the same, mirrored", lambda rng, shape: 1 - rng.standard_exponential(shape)),
}
PAIRED = {"value": False, "threshold": False, "exponent": False, "order": True, "difference": True}


def generator(*key: object) -> np.random.Generator:
    """A generator of its own for each cell, so that no number depends on which others are computed."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def draw_sample(
    kind: str, noise: Draw, num_seeds: int, known: bool, shape: tuple[int, ...], rng: np.random.Generator
) -> inference.Estimate:
    """Estimates of studies whose true mean is 0: (studies,) or, for a family, (studies, claims).

    The spread known before comes from runs of its own, the same for all claims of a family. Comparisons of a family
    share their first trial.
    """
    known_sd = noise(rng, (shape[0], PRIOR_SEEDS)).std(axis=1, ddof=1).reshape(-1, *(1 for _ in shape[1:]))
    if kind == "exponent":
        errors = EXPONENT_NOISE * noise(rng, (*shape, num_seeds, len(EXPONENT_SIZES)))
        fit = fit_exponent(EXPONENT_SIZES, np.exp(errors))
        error = np.sqrt((fit.error.sd**2).mean(axis=-1))
        return estimate(fit.exponent, Spread(error, num_seeds * fit.error.degrees))
    values = noise(rng, (*shape, num_seeds))
    if PAIRED[kind]:
        values = noise(rng, (shape[0], *(1 for _ in shape[1:]), num_seeds)) - values
        known_sd = known_sd * np.sqrt(2)
    return estimate(values, Spread(known_sd, PRIOR_SEEDS - 1) if known else None, skew_cancels=PAIRED[kind])


def regions(kind: str) -> list[tuple[float, float]]:
    """Claimed regions on whose edge 0 lies."""
    if kind in ("order", "threshold"):
        return [(0.0, np.inf), (-np.inf, 0.0)]
    margins = (EXPONENT_MARGIN,) if kind == "exponent" else MARGINS
    return [region for margin in margins for region in ((0.0, 2 * margin), (-2 * margin, 0.0))]


def single_cell(kind: str, noise: Draw, num_seeds: int, known: bool, studies: int, key: object) -> dict[str, float]:
    """Wrong verdicts on one claim: the worst over its regions. On the edge both may be called wrong."""
    sample = draw_sample(kind, noise, num_seeds, known, (studies,), generator("single", kind, num_seeds, known, key))
    found = [evidence(sample, *region) for region in regions(kind)]
    return {
        "false_holds": max(float((each.holds <= LEVEL).mean()) for each in found),
        "false_fails": max(float((each.fails <= LEVEL).mean()) for each in found),
    }


def family_cell(kind: str, noise: Draw, num_seeds: int, known: bool, studies: int, key: object) -> dict[str, float]:
    """A family with all its truths on the edge: how often any of its verdicts is wrong, corrected and not."""
    rng = generator("family", kind, num_seeds, known, key)
    sample = draw_sample(kind, noise, num_seeds, known, (studies, FAMILY), rng)
    region = regions(kind)[-1]
    found = evidence(sample, *region)
    return {
        "false_holds": float((holm(found.holds) <= LEVEL).any(axis=1).mean()),
        "false_fails": float((holm(found.fails) <= LEVEL).any(axis=1).mean()),
        "false_holds_uncorrected": float((found.holds <= LEVEL).any(axis=1).mean()),
    }


def mixed_family_cell(noise: Draw, num_seeds: int, known: bool, studies: int, key: object) -> dict[str, float]:
    """A family of orders: a third true by 3 standard deviations, a third false by as much, a third ties."""
    rng = generator("mixed", num_seeds, known, key)
    sample = draw_sample("order", noise, num_seeds, known, (studies, FAMILY), rng)
    effects = np.repeat([3.0, 0.0, -3.0], FAMILY // 3)
    found = evidence(replace(sample, mean=sample.mean + effects), 0.0, np.inf)
    holds, fails = holm(found.holds) <= LEVEL, holm(found.fails) <= LEVEL
    wrong = (holds & (effects <= 0)) | (fails & (effects >= 0))
    return {
        "false_holds": float((holds & (effects <= 0)).any(axis=1).mean()),
        "false_fails": float((fails & (effects >= 0)).any(axis=1).mean()),
        "any_wrong": float(wrong.any(axis=1).mean()),
    }


def _cells(noises: Mapping[str, tuple[str, Draw]]) -> Iterator[tuple[str, Draw, int, bool]]:
    for name, (_, noise) in noises.items():
        for num_seeds in SEEDS:
            for known in (True, False):
                if num_seeds > 1 or known:  # one seed without a known spread decides nothing, whatever it is
                    yield name, noise, num_seeds, known


def wrong_verdicts(studies: int, noises: Mapping[str, tuple[str, Draw]] = NOISES) -> list[dict[str, Any]]:
    """One row a cell: kind, noise, num_seeds, known_spread, family_size, and the shares of wrong verdicts."""
    rows = []
    for name, noise, num_seeds, known in _cells(noises):
        cell = {"noise": name, "num_seeds": num_seeds, "known_spread": known}
        for kind in PAIRED:
            if kind == "exponent" and not known:
                continue  # a fit always comes with its error
            rows.append(
                {"kind": kind, **cell, "family_size": 1, **single_cell(kind, noise, num_seeds, known, studies, name)}
            )
        for kind in ("value", "threshold", "order", "difference"):
            wrong = family_cell(kind, noise, num_seeds, known, max(studies // 2, 1), name)
            rows.append({"kind": kind, **cell, "family_size": FAMILY, **wrong})
        wrong = mixed_family_cell(noise, num_seeds, known, max(studies // 2, 1), name)
        rows.append({"kind": "orders, true and false", **cell, "family_size": FAMILY, **wrong})
    return rows


def beyond_promise(studies: int) -> list[dict[str, Any]]:
    """What the method does not promise, measured all the same: a known spread that is too small, unlike noises in the
    two trials of a comparison, seeds that are added until a claim holds, and a bootstrap over seeds.
    """
    rows = []
    for num_seeds in SEEDS:
        cell = {"kind": "order", "num_seeds": num_seeds}
        rng = generator("beyond", num_seeds)
        for factor in (2, 3):
            known = Spread(np.sqrt(2) / factor * np.sqrt(rng.chisquare(3, studies) / 3), PRIOR_SEEDS - 1)
            values = rng.standard_normal((studies, num_seeds)) - rng.standard_normal((studies, num_seeds))
            found = evidence(estimate(values, known, skew_cancels=True), 0.0, np.inf)
            what = f"known spread too small by a factor of {factor}"
            rows.append({"what": what, **cell, "false_holds": float((found.holds <= LEVEL).mean())})
        if num_seeds == 1:
            continue
        skewed = NOISES["skewed up"][1]
        values = 3 * skewed(rng, (studies, num_seeds)) - skewed(rng, (studies, num_seeds))
        found = evidence(estimate(values, skew_cancels=True), -np.inf, 0.0)
        what = "skewed noise, three times as wide in the first trial, no known spread"
        rows.append({"what": what, **cell, "false_holds": float((found.holds <= LEVEL).mean())})
        grown = rng.standard_normal((studies, num_seeds)) - rng.standard_normal((studies, num_seeds))
        looks = [
            evidence(estimate(grown[:, :seen], skew_cancels=True), 0.0, np.inf).holds <= LEVEL
            for seen in SEEDS
            if 1 < seen <= num_seeds
        ]
        what = "a look at each number of seeds on the way, until one decides"
        rows.append({"what": what, **cell, "false_holds": float(np.any(looks, axis=0).mean())})
        few = min(studies, 2_000)
        values = rng.standard_normal((few, num_seeds)) - rng.standard_normal((few, num_seeds))
        drawn = rng.integers(num_seeds, size=(few, 1_000, num_seeds))
        means = np.take_along_axis(values[:, None, :], drawn, axis=2).mean(axis=2)
        wrong = float((np.quantile(means, LEVEL, axis=1) > 0).mean())
        rows.append({"what": "bootstrap over seeds in place of Student's t", **cell, "false_holds": wrong})
    return rows


def power(studies: int) -> list[dict[str, Any]]:
    """How often a true claim is found to hold, by its distance from the edge, with normal noise.

    For an order, `effect` is the true difference; for a value, the margin with the truth in its middle. `family_size`
    15 is the first level of Holm's method: what a claim needs that is the only true one of its family.
    """
    rows = []
    for kind in ("order", "value"):
        for num_seeds in SEEDS:
            for known in (True, False):
                if num_seeds == 1 and not known:
                    continue
                rng = generator("power", kind, num_seeds, known)
                sample = draw_sample(kind, NOISES["normal"][1], num_seeds, known, (studies,), rng)
                for effect in EFFECTS:
                    region = (-effect, np.inf) if kind == "order" else (-effect, effect)
                    holds = evidence(sample, *region).holds
                    for size in (1, FAMILY):
                        rows.append(
                            {
                                "kind": kind,
                                "num_seeds": num_seeds,
                                "known_spread": known,
                                "family_size": size,
                                "effect": effect,
                                "decided": float((holds * size <= LEVEL).mean()),
                            }
                        )
    return rows


def worst(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row with the largest share of wrong verdicts of either sort."""
    return max(rows, key=lambda row: max(row["false_holds"], row["false_fails"], row.get("any_wrong", 0.0)))


def too_often_wrong(rows: list[dict[str, Any]], bound: float = BOUND) -> list[dict[str, Any]]:
    """The rows in which verdicts are wrong more often than the bound."""
    names = ("false_holds", "false_fails", "any_wrong")
    return [row for row in rows if any(row.get(name, 0.0) > bound for name in names)]


def method_version() -> str:
    """Hash of the mathematics that the numbers are about."""
    return provenance.code_version([Path(inference.__file__)])


def as_json(result: Mapping[str, Any]) -> str:
    """The result with four decimals, and each row of a table on a line of its own."""
    rounded = json.loads(json.dumps(result), parse_float=lambda text: round(float(text), 4))

    def lines(value: Any, indent: str) -> str:
        inner = f",\n{indent} "
        if isinstance(value, dict) and any(isinstance(entry, (dict, list)) for entry in value.values()):
            entries = [f"{json.dumps(name)}: {lines(entry, indent + ' ')}" for name, entry in value.items()]
            return f"{{\n{indent} {inner.join(entries)}\n{indent}}}"
        if isinstance(value, list):
            return f"[\n{indent} {inner.join(lines(entry, indent + ' ') for entry in value)}\n{indent}]"
        return json.dumps(value, ensure_ascii=False)

    return lines(rounded, "") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=20_000)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    rows = wrong_verdicts(arguments.studies)
    beyond = wrong_verdicts(arguments.studies, BEYOND)
    result = {
        "command": f"python tests/benchmarks/calibration.py --studies {arguments.studies}",
        "method_version": method_version(),
        "judging_version": judging_version(),
        "studies": arguments.studies,
        "level": LEVEL,
        "bound": BOUND,
        "noises": {name: described for name, (described, _) in {**NOISES, **BEYOND}.items()},
        "wrong_verdicts": rows,
        "beyond_promise": {"noise": beyond, "assumptions": beyond_promise(arguments.studies)},
        "power": power(arguments.studies),
    }
    if arguments.output:
        arguments.output.write_text(as_json(result), encoding="utf-8")
    print(f"{len(rows)} cells of {arguments.studies} studies each; wrong verdicts, the worst of each noise:")
    for name in (*NOISES, *BEYOND):
        row = worst([row for row in rows + beyond if row["noise"] == name])
        beside = "" if name in NOISES else " (not promised)"
        print(f"  {name}{beside}: {json.dumps(row)}")
    failing = too_often_wrong(rows)
    for row in failing:
        print(f"above {BOUND:.0%}: {json.dumps(row)}", file=sys.stderr)
    sys.exit(1 if failing else 0)


if __name__ == "__main__":
    main()
