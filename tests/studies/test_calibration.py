"""Verdicts are as seldom wrong as they say, on studies drawn with a known truth. The full table: tests/benchmarks."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from studies.claim import METRICS, Claim
from studies.inference import LEVEL, Spread, estimate, evidence, holm
from studies.measurements import Measurements
from studies.scales import PAPER, SeedSpread
from studies.verdict import Question, decide_family

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "reports" / "calibration.json"
STUDIES = 1_000
# What 1,000 studies can show: three standard errors above a true 5%.
TOLERATED = 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    path = ROOT / "tests" / "benchmarks" / "calibration.py"
    spec = importlib.util.spec_from_file_location("calibration", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(calibration: ModuleType) -> list[dict]:
    return calibration.wrong_verdicts(STUDIES)


def test_wrong_verdicts_stay_below_the_bound(calibration: ModuleType, rows: list[dict]) -> None:
    assert calibration.too_often_wrong(rows, TOLERATED) == []


def test_every_kind_noise_and_number_of_seeds_is_drawn(calibration: ModuleType, rows: list[dict]) -> None:
    singles = {(row["kind"], row["num_seeds"], row["noise"]) for row in rows if row["family_size"] == 1}
    kinds = ("value", "order", "difference", "threshold", "exponent")
    assert singles == {(kind, n, noise) for kind in kinds for n in (1, 2, 3, 5, 10) for noise in calibration.NOISES}
    assert {row["known_spread"] for row in rows} == {True, False}
    assert {row["family_size"] for row in rows} == {1, 15}


def test_the_simulation_would_notice_a_method_that_errs(calibration: ModuleType, rows: list[dict]) -> None:
    """Without the correction a family errs far more often, and exponential noise is beyond what is promised."""
    families = [row for row in rows if row["kind"] == "order" and row["family_size"] == 15]
    uncorrected = [row["false_holds_uncorrected"] for row in families if not row["known_spread"]]
    assert min(uncorrected) > TOLERATED
    skewed = {name: noise for name, noise in calibration.BEYOND.items() if name == "exponential up"}
    assert calibration.too_often_wrong(calibration.wrong_verdicts(STUDIES, skewed), TOLERATED)


def test_more_seeds_and_larger_effects_decide_more(calibration: ModuleType) -> None:
    curves: dict[tuple, dict[tuple, float]] = {}
    for row in calibration.power(STUDIES):
        key = (row["kind"], row["known_spread"], row["family_size"])
        curves.setdefault(key, {})[row["num_seeds"], row["effect"]] = row["decided"]
    assert len(curves) == 8
    for decided in curves.values():
        for (num_seeds, effect), share in decided.items():
            assert share <= decided.get((num_seeds, 2 * effect), 1.0)
        assert decided[10, 4.0] > 0.95
        assert decided[10, 0.0] <= 2 * LEVEL


def test_the_published_table_is_of_this_method_and_has_no_cell_above_its_bound(calibration: ModuleType) -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    again = f"studies/inference.py has changed; run: {table['command']} -o reports/calibration.json"
    assert table["method_version"] == calibration.method_version(), again
    assert table["studies"] >= 10_000
    assert calibration.too_often_wrong(table["wrong_verdicts"]) == []
    names = ("kind", "noise", "num_seeds", "known_spread", "family_size")
    cells = [[row[name] for name in names] for row in table["wrong_verdicts"]]
    assert cells == [[row[name] for name in names] for row in calibration.wrong_verdicts(2)]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("num_seeds", [1, 3])
@pytest.mark.parametrize("kind", ["value", "order", "difference", "threshold"])
def test_the_verdicts_themselves_say_what_the_arrays_say(kind: str, num_seeds: int, known: bool) -> None:
    """What is simulated on arrays is what `decide_family` does with one study after another."""
    rng = np.random.default_rng(5)
    paired = kind in ("order", "difference")
    metric = "dev_bleu"
    assert METRICS[metric].lower_is_better is False
    trials = ("first", "second") if paired else ("first",)
    more = {"order": {}, "threshold": {"expected": 0.0, "bound": ">"}}.get(kind, {"expected": 0.0, "tolerance": 4.0})
    claims = [Claim(f"c{i}", "cell", "says", kind, metric, trials, "here", **more) for i in range(4)]
    region = (0.0, math.inf) if kind in ("order", "threshold") else (-4.0, 4.0)
    scale = replace(PAPER, seed_spread={metric: SeedSpread(0.3, 4, "made up")} if known else {})
    words: set[str] = set()
    for _ in range(25):
        values = rng.normal(scale=0.4, size=(4, 2, num_seeds)) + rng.normal(scale=3.0, size=(4, 2, 1))
        questions = [
            Question(
                claim,
                scale,
                {trial: Measurements(dict(enumerate(values[i, side]))) for side, trial in enumerate(trials)},
            )
            for i, claim in enumerate(claims)
        ]
        seen = values[:, 0] - values[:, 1] if paired else values[:, 0]
        before = Spread(0.3 * math.sqrt(2 if paired else 1), 3) if known else None
        found = evidence(estimate(seen, before, skew_cancels=paired), *region)
        holds, fails = holm(found.holds) <= LEVEL, holm(found.fails) <= LEVEL
        expected = [
            "reproduced" if h else "not reproduced" if f else "undecided" for h, f in zip(holds, fails, strict=True)
        ]
        verdicts = [verdict.verdict for verdict in decide_family(questions)]
        assert verdicts == expected
        words |= set(verdicts)
    assert len(words) == 1 if num_seeds == 1 and not known else len(words) >= 2
