"""Table 1 as printed (table1_published.csv), the layer types worked by hand, and the growth that follows from them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.layer_types import (
    CONVOLUTIONAL,
    DILATED,
    FEED_FORWARD,
    RECURRENT,
    RESTRICTED,
    SELF_ATTENTION,
    SEPARABLE,
    LayerType,
    Sizes,
    growth_exponent,
    multiply_adds,
    path_length,
    sequential_operations,
)
from studies.table1 import ROWS, STUDY

PUBLISHED = list(csv.DictReader(Path(__file__).with_name("table1_published.csv").open(encoding="utf-8")))
SIZES = Sizes(n=7, d=5, k=3, r=4)


def powers(formula: str) -> dict[str, int]:
    """The exponents of a printed order of growth: {"n": 2, "d": 1} of O(n^2 * d)."""
    inside = formula.removeprefix("O(").removesuffix(")")
    if inside == "1":
        return {}
    found = {}
    for sign, part in zip((1, -1), inside.split(" / "), strict=False):
        for factor in part.split(" * "):
            name, _, power = factor.partition("^")
            found[name] = sign * int(power or 1)
    return found


def test_rows_are_the_printed_ones() -> None:
    assert [
        (row["layer_type"], row["complexity_per_layer"], row["sequential_operations"], row["maximum_path_length"])
        for row in PUBLISHED
    ] == [(row.id, row.complexity_formula, row.sequential_formula, row.path_formula) for row in ROWS]


def test_claimed_exponents_are_those_of_the_printed_formulas() -> None:
    for row, printed in zip(ROWS, PUBLISHED, strict=True):
        assert row.complexity == powers(printed["complexity_per_layer"])
        assert row.sequential == powers(printed["sequential_operations"]).get("n", 0)
        if "log" in printed["maximum_path_length"]:
            assert row.path is None
        else:
            assert {size: power for size, power in row.path.items() if power} == powers(printed["maximum_path_length"])


def test_every_cell_has_a_counted_and_a_measured_claim() -> None:
    cells = {(row.label, formula) for row in ROWS for formula in (row.complexity_formula, row.path_formula)}
    for label, formula in cells:
        claims = [c for c in STUDY.claims if re.match(rf"Table 1, {re.escape(label)}, ", c.cell) and formula in c.cell]
        assert {bool(claim.compute) for claim in claims} == {True, False}, (label, formula)
    assert sum("sequential operations" in claim.cell for claim in STUDY.claims) == 8
    assert STUDY.awaited == ()


@pytest.mark.parametrize(
    ("layer", "by_hand"),
    [
        (SELF_ATTENTION, 2 * 7 * 7 * 5),
        (RECURRENT, 2 * 7 * 5 * 5),
        (CONVOLUTIONAL, 7 * 3 * 5 * 5),
        (DILATED, 7 * 3 * 5 * 5),
        (RESTRICTED, 2 * 7 * 5 * 4),
        (SEPARABLE, 7 * 5 * 3 + 7 * 5 * 5),
        (FEED_FORWARD, 2 * 7 * 5 * 20),
    ],
)
def test_multiplications_by_hand(layer: LayerType, by_hand: int) -> None:
    assert multiply_adds(layer, SIZES) == by_hand


@pytest.mark.parametrize(
    ("layer", "sizes", "by_hand"),
    [
        (SELF_ATTENTION, Sizes(n=100), 1),
        (RECURRENT, Sizes(n=100), 99),
        (CONVOLUTIONAL, Sizes(n=100, k=3), 50),  # two positions further a layer: 99 / 2
        (CONVOLUTIONAL, Sizes(n=100, k=100), 1),
        (DILATED, Sizes(n=27, k=3), 3),  # 2 + 6 + 18 = 26 positions further
        (DILATED, Sizes(n=28, k=3), 4),
        (RESTRICTED, Sizes(n=101, r=20), 10),  # ten to either side
    ],
)
def test_paths_by_hand(layer: LayerType, sizes: Sizes, by_hand: int) -> None:
    assert path_length(layer, sizes) == by_hand


def test_only_a_recurrence_waits() -> None:
    layers = (SELF_ATTENTION, RECURRENT, CONVOLUTIONAL, DILATED, RESTRICTED, SEPARABLE)
    assert [sequential_operations(layer, Sizes(n=50)) for layer in layers] == [1, 50, 1, 1, 1, 1]


@given(st.integers(2, 5), st.integers(1, 4))
def test_dilated_kernels_connect_k_to_the_m_positions_in_m_layers(k: int, m: int) -> None:
    assert path_length(DILATED, Sizes(n=k**m, k=k)) == m


def test_growth_is_the_power() -> None:
    assert growth_exponent(lambda sizes: 3.0 * sizes.n**1.5, "n", (10, 20, 40)) == pytest.approx(1.5)


def test_text_of_section_4_by_its_own_formulas() -> None:
    by_id = {claim.id: claim for claim in STUDY.claims}
    assert by_id["table1.self_attention_cheaper_than_recurrent"].compute() == pytest.approx(511 / 512)
    assert by_id["table1.convolution_connects_all"].compute() == 2
    # n^2 d + n d^2 against 2 n^2 d + 8 n d^2, at d = n / 2: (1/2 + 1/4) / (1 + 2).
    sizes = Sizes(n=512, d=256, k=512)
    ratio = multiply_adds(SEPARABLE, sizes) / (
        multiply_adds(SELF_ATTENTION, sizes) + multiply_adds(FEED_FORWARD, sizes)
    )
    assert ratio == pytest.approx(0.25)
