"""Table 1: how a layer's cost, its sequential steps and its longest path grow, and what section 4 says of them.

Each cell is an order of growth, so what is checked is an exponent, never a constant. Counted exponents follow from the
layer types alone; measured ones, from layers that are timed, wait for trials that this version has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from studies.claim import Claim
from studies.computed import computed
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
from studies.study import Study

# A counted exponent is off by lower-order terms at finite sizes, a timed one by caches and the cost of a call.
COUNTED_MARGIN = 0.1
MEASURED_MARGIN = 0.25


@dataclass(frozen=True)
class Row:
    """One printed row: the formulas as printed, and the exponents that they say, by size.

    `path` is None where the path grows as a logarithm, which is no power.
    """

    id: str
    label: str
    complexity_formula: str
    sequential_formula: str
    path_formula: str
    layer: LayerType
    complexity: dict[str, int]
    sequential: int
    path: dict[str, int] | None


ROWS = (
    Row(
        "self_attention",
        "Self-Attention",
        "O(n^2 * d)",
        "O(1)",
        "O(1)",
        SELF_ATTENTION,
        {"n": 2, "d": 1},
        0,
        {"n": 0},
    ),
    Row("recurrent", "Recurrent", "O(n * d^2)", "O(n)", "O(n)", RECURRENT, {"n": 1, "d": 2}, 1, {"n": 1}),
    Row(
        "convolutional",
        "Convolutional",
        "O(k * n * d^2)",
        "O(1)",
        "O(log_k(n))",
        DILATED,
        {"k": 1, "n": 1, "d": 2},
        0,
        None,
    ),
    Row(
        "self_attention_restricted",
        "Self-Attention (restricted)",
        "O(r * n * d)",
        "O(1)",
        "O(n / r)",
        RESTRICTED,
        {"r": 1, "n": 1, "d": 1},
        0,
        {"n": 1, "r": -1},
    ),
)

# The sizes over which growth is fitted, each a doubling.
VALUES = {
    "n": (64, 128, 256, 512),
    "d": (64, 128, 256, 512),
    "k": (16, 32, 64, 128),
    "r": (16, 32, 64, 128),
}
# A dilated stack of kernel 3 reaches 3^6 positions in 6 layers.
KERNEL, LAYERS = 3, 6


def _growth(count: Callable[[LayerType, Sizes], int], layer: LayerType, size: str) -> float:
    return growth_exponent(partial(count, layer), size, VALUES[size])


def _exponents(
    id_: str, cell: str, statement: str, source: str, expected: float, trial: str, metric: str, compute: Callable
) -> Iterator[Claim]:
    """One exponent twice: as it follows from the layer's products, and as a layer that runs will show it."""
    yield computed(
        id_,
        cell,
        f"{statement}, counted.",
        "exponent",
        expected,
        compute,
        kind="exponent",
        tolerance=COUNTED_MARGIN,
        source=source,
    )
    yield Claim(
        id=f"{id_}.measured",
        cell=cell,
        statement=f"{statement}, measured.",
        kind="exponent",
        metric=metric,
        trials=(trial,),
        source=source,
        expected=expected,
        tolerance=MEASURED_MARGIN,
    )


def _cell_claims() -> Iterator[Claim]:
    for row in ROWS:
        cell, stem = f"Table 1, {row.label}", f"table1.{row.id}"
        for size, power in row.complexity.items():
            yield from _exponents(
                f"{stem}.complexity.{size}",
                f"{cell}, complexity per layer {row.complexity_formula}",
                f"{row.label}: the operations of a layer grow as {size}^{power}",
                "Table 1",
                power,
                f"{row.id}.time.{size}",
                "time_exponent",
                partial(_growth, multiply_adds, row.layer, size),
            )
        yield from _exponents(
            f"{stem}.sequential.n",
            f"{cell}, sequential operations {row.sequential_formula}",
            f"{row.label}: the operations that must wait for each other grow as n^{row.sequential}",
            "Table 1",
            row.sequential,
            f"{row.id}.steps.n",
            "steps_exponent",
            partial(_growth, sequential_operations, row.layer, "n"),
        )
        for size, power in (row.path or {}).items():
            yield from _exponents(
                f"{stem}.path.{size}",
                f"{cell}, maximum path length {row.path_formula}",
                f"{row.label}: the longest path between two positions grows as {size}^{power}",
                "Table 1",
                power,
                f"{row.id}.path.{size}",
                "path_exponent",
                partial(_growth, path_length, row.layer, size),
            )
        if row.path is None:
            yield from _logarithmic_path(f"{stem}.path.n", f"{cell}, maximum path length {row.path_formula}", row)


def _logarithmic_path(id_: str, cell: str, row: Row) -> Iterator[Claim]:
    n = KERNEL**LAYERS
    statement = f"{row.label}: kernels of width {KERNEL} connect {n} = {KERNEL}^{LAYERS} positions in {LAYERS} layers"
    yield computed(
        id_,
        cell,
        f"{statement}, counted.",
        "path_length",
        LAYERS,
        lambda: path_length(row.layer, Sizes(n=n, k=KERNEL)),
        tolerance=0,
        source="Table 1",
    )
    yield Claim(
        id=f"{id_}.measured",
        cell=cell,
        statement=f"{statement}, measured.",
        kind="value",
        metric="path_length",
        trials=(f"{row.id}.path.n",),
        source="Table 1",
        expected=LAYERS,
        tolerance=0,
    )


def _ratio(first: tuple[LayerType, ...], second: tuple[LayerType, ...], sizes: Sizes) -> float:
    return sum(multiply_adds(layer, sizes) for layer in first) / sum(multiply_adds(layer, sizes) for layer in second)


def _text_claims() -> Iterator[Claim]:
    """What section 4 says in words; growth rates as exponents, comparisons at sizes that the statement names."""
    says = partial(computed, cell="Section 4", source="section 4")
    growth = partial(says, metric="exponent", kind="exponent", tolerance=COUNTED_MARGIN)
    yield says(
        "table1.self_attention_cheaper_than_recurrent",
        statement="A self-attention layer takes fewer operations than a recurrent one if n < d (511 < 512), counted.",
        metric="ratio",
        bound="<",
        expected=1.0,
        compute=lambda: _ratio((SELF_ATTENTION,), (RECURRENT,), Sizes(n=511, d=512)),
    )
    yield Claim(
        id="table1.self_attention_cheaper_than_recurrent.measured",
        cell="Section 4",
        statement="A self-attention layer is faster than a recurrent one if n < d, measured.",
        kind="threshold",
        metric="time_ratio",
        trials=("self_attention_against_recurrent",),
        source="section 4",
        expected=1.0,
        bound="<",
    )
    yield says(
        "table1.convolution_connects_all",
        statement="One convolution with k < n does not connect all pairs (layers needed at k = 63, n = 64).",
        metric="path_length",
        bound=">",
        expected=1,
        compute=lambda: path_length(CONVOLUTIONAL, Sizes(n=64, k=63)),
    )
    for size, power in (("n", 1), ("k", -1)):
        yield growth(
            f"table1.contiguous_stack.{size}",
            statement=f"To connect all pairs takes O(n/k) contiguous convolutions: layers grow as {size}^{power}.",
            expected=power,
            compute=partial(_growth, path_length, CONVOLUTIONAL, size),
        )
    yield growth(
        "table1.quoted_contiguous_stack_sqrt_k",
        statement="To connect all pairs takes O(sqrt(k) n) contiguous convolutions: layers grow as k^0.5.",
        expected=0.5,
        compute=partial(_growth, path_length, CONVOLUTIONAL, "k"),
        misquote=True,
        source="often taught",
    )
    yield growth(
        "table1.convolution_over_recurrent.k",
        statement="A convolutional layer costs more than a recurrent one by a factor of k: their ratio grows as k^1.",
        expected=1,
        compute=lambda: growth_exponent(partial(_ratio, (CONVOLUTIONAL,), (RECURRENT,)), "k", VALUES["k"]),
    )
    yield says(
        "table1.separable_cost",
        statement="A separable convolution takes k n d + n d^2 operations (at k = 3, n = 1024, d = 512, over that).",
        metric="ratio",
        expected=1.0,
        tolerance=1e-9,
        compute=lambda: multiply_adds(SEPARABLE, Sizes(1_024, 512, 3)) / (3 * 1_024 * 512 + 1_024 * 512**2),
    )
    yield growth(
        "table1.separable_as_attention",
        statement="A separable convolution with k = n costs as much as self-attention and a feed-forward layer: their "
        "ratio stays as n and d grow together.",
        expected=0,
        compute=lambda: growth_exponent(
            lambda s: _ratio((SEPARABLE,), (SELF_ATTENTION, FEED_FORWARD), Sizes(n=s.n, d=s.n // 2, k=s.n)),
            "n",
            VALUES["n"],
        ),
    )


def _build() -> Study:
    claims = (*_cell_claims(), *_text_claims())
    return Study(
        name="table1",
        title="Complexity, sequential operations and path lengths by layer type",
        cells="Table 1; section 4",
        trials=(),
        claims=claims,
        awaited=tuple(dict.fromkeys(trial for claim in claims for trial in claim.trials)),
    )


STUDY = _build()
