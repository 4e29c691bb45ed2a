"""Table 1: how a layer's cost, its sequential steps and its longest path grow, and what section 4 says of them.

Each cell is an order of growth, so what is checked is an exponent, and beside it the constant that the layer has here.
It is checked up to three times: as it follows from the closed form of the layer's products, counted on the layer at
work, and, of costs, timed there. A layer at work has sizes of its own, so its runs and claims mean the same at every
scale and stand at full size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from studies.claim import Claim, Kind
from studies.computed import computed
from studies.layer_types import (
    CONVOLUTIONAL,
    DILATED,
    FEED_FORWARD,
    KERNEL,
    LAYERS,
    RECURRENT,
    RESTRICTED,
    SELF_ATTENTION,
    SEPARABLE,
    VALUES,
    LayerType,
    Sizes,
    growth_exponent,
    multiply_adds,
    path_length,
    sequential_operations,
)
from studies.study import Study, Trial
from studies.work import ComplexityProbe

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


def _growth(count: Callable[[LayerType, Sizes], int], layer: LayerType, size: str) -> float:
    return growth_exponent(partial(count, layer), size, VALUES[size])


def _at_work(
    id_: str, cell: str, statement: str, kind: Kind, metric: str, trial: str, expected: float, **more: Any
) -> Claim:
    """A claim about a layer at work, which has sizes of its own."""
    return Claim(
        id=id_,
        cell=cell,
        statement=statement,
        kind=kind,
        metric=metric,
        trials=(trial,),
        expected=expected,
        own_sizes=True,
        **{"source": "Table 1"} | more,
    )


def _by_formula(id_: str, cell: str, statement: str, expected: float, compute: Callable[[], float]) -> Claim:
    return computed(
        id_,
        cell,
        f"{statement}, by the products' closed form.",
        "exponent",
        expected,
        compute,
        kind="exponent",
        tolerance=COUNTED_MARGIN,
        source="Table 1",
    )


def _cell_claims() -> Iterator[Claim]:
    for row in ROWS:
        cell, stem = f"Table 1, {row.label}", f"table1.{row.id}"
        for size, power in row.complexity.items():
            yield from _cost_claims(row, size, power, f"{cell}, complexity per layer {row.complexity_formula}")
        id_, where = f"{stem}.sequential.n", f"{cell}, sequential operations {row.sequential_formula}"
        statement = f"{row.label}: the operations that must wait for each other grow as n^{row.sequential}"
        compute = partial(_growth, sequential_operations, row.layer, "n")
        yield _by_formula(id_, where, statement, row.sequential, compute)
        yield _at_work(
            f"{id_}.measured",
            where,
            f"{statement}, counted on the graph of the layer at work.",
            "exponent",
            "steps_exponent",
            f"{row.id}.steps.n",
            row.sequential,
            tolerance=COUNTED_MARGIN,
        )
        where = f"{cell}, maximum path length {row.path_formula}"
        for size, power in (row.path or {}).items():
            id_ = f"{stem}.path.{size}"
            statement = f"{row.label}: the longest path between two positions grows as {size}^{power}"
            yield _by_formula(id_, where, statement, power, partial(_growth, path_length, row.layer, size))
            yield _path_at_work(id_, where, statement, f"{row.id}.path.{size}", power)
        if row.path is None:
            yield from _logarithmic_path(f"{stem}.path.n", where, row)


def _cost_claims(row: Row, size: str, power: int, cell: str) -> Iterator[Claim]:
    id_, trial = f"table1.{row.id}.complexity.{size}", f"{row.id}.cost.{size}"
    statement = f"{row.label}: the operations of a layer grow as {size}^{power}"
    yield _by_formula(id_, cell, statement, power, partial(_growth, multiply_adds, row.layer, size))
    at_work = partial(_at_work, cell=cell, trial=trial)
    yield at_work(
        f"{id_}.flops",
        statement=f"{statement}, counted on the layer at work.",
        kind="exponent",
        metric="flops_exponent",
        expected=power,
        tolerance=COUNTED_MARGIN,
    )
    yield at_work(
        f"{id_}.closed_form",
        statement=f"{row.label}: the closed form with its constant is what is counted at every {size} (largest share).",
        kind="value",
        metric="flops_difference",
        expected=0.0,
        tolerance=0.0,
    )
    yield at_work(
        f"{id_}.measured",
        statement=f"{row.label}: the time of a layer grows as {size}^{power}, measured on the machine at hand.",
        kind="exponent",
        metric="time_exponent",
        expected=power,
        tolerance=MEASURED_MARGIN,
    )


def _path_at_work(id_: str, cell: str, statement: str, trial: str, power: int, **more: Any) -> Claim:
    return _at_work(
        f"{id_}.measured",
        cell,
        f"{statement}, by which inputs reach which outputs.",
        "exponent",
        "path_exponent",
        trial,
        power,
        tolerance=COUNTED_MARGIN,
        **more,
    )


def _logarithmic_path(id_: str, cell: str, row: Row) -> Iterator[Claim]:
    n = KERNEL**LAYERS
    statement = f"{row.label}: kernels of width {KERNEL} connect {n} = {KERNEL}^{LAYERS} positions in {LAYERS} layers"
    yield computed(
        id_,
        cell,
        f"{statement}, by the kernels' offsets.",
        "path_length",
        LAYERS,
        lambda: path_length(row.layer, Sizes(n=n, k=KERNEL)),
        tolerance=0,
        source="Table 1",
    )
    yield _at_work(
        f"{id_}.measured",
        cell,
        f"{statement}, by which inputs reach which outputs.",
        "value",
        "path_length",
        f"{row.id}.path.n",
        LAYERS,
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
    against = partial(_at_work, cell="Section 4", trial="self_attention_against_recurrent", source="section 4")
    yield against(
        "table1.self_attention_like_recurrent.flops",
        statement="A self-attention layer takes as many operations as a recurrent one where n = d, counted at work.",
        kind="value",
        metric="flops_ratio",
        expected=1.0,
        tolerance=0.0,
    )
    yield against(
        "table1.self_attention_cheaper_than_recurrent.measured",
        statement="A self-attention layer is faster than a recurrent one if n < d, measured on the machine at hand "
        "(the worst of ten such n and d).",
        kind="threshold",
        metric="time_ratio",
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
    yield _at_work(
        "table1.convolution_connects_all.measured",
        "Section 4",
        "One convolution with k < n does not connect all pairs, by which inputs reach which outputs (k = 63, n = 64).",
        "threshold",
        "path_length",
        "contiguous.path.k",
        1,
        bound=">",
        source="section 4",
    )
    for size, power in (("n", 1), ("k", -1)):
        id_, statement = f"table1.contiguous_stack.{size}", "To connect all pairs takes O(n/k) contiguous convolutions"
        yield growth(
            id_,
            statement=f"{statement}: layers grow as {size}^{power}.",
            expected=power,
            compute=partial(_growth, path_length, CONVOLUTIONAL, size),
        )
        statement = f"{statement}: layers grow as {size}^{power}"
        yield _path_at_work(id_, "Section 4", statement, f"contiguous.path.{size}", power, source="section 4")
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

    yield _at_work(
        "table1.separable_as_attention.flops",
        "Section 4",
        "A separable convolution with k = n costs as much as self-attention and a feed-forward layer: their ratio "
        "stays as n and d grow together, counted at work.",
        "exponent",
        "flops_exponent",
        "separable_against_attention",
        0,
        tolerance=COUNTED_MARGIN,
        source="section 4",
    )


def _trials() -> Iterator[Trial]:
    for row in ROWS:
        for size in row.complexity:
            label = f"operations and seconds over {size}"
            yield _trial(f"{row.id}.cost.{size}", row.label, label, ComplexityProbe(row.id, "cost", size))
        yield _trial(f"{row.id}.steps.n", row.label, "steps over n", ComplexityProbe(row.id, "steps", "n"))
        for size in row.path or "n":
            label = f"longest path over {size}"
            yield _trial(f"{row.id}.path.{size}", row.label, label, ComplexityProbe(row.id, "path", size))
    for size in "nk":
        name, label = f"contiguous.path.{size}", f"longest path over {size}"
        yield _trial(name, "Contiguous convolutions", label, ComplexityProbe("contiguous", "path", size))
    for name, label, layer in (
        ("self_attention_against_recurrent", "self-attention over recurrence", "self_attention"),
        ("separable_against_attention", "separable convolution over attention and feed-forward", "separable"),
    ):
        yield _trial(name, "Section 4", label, ComplexityProbe(layer, "against", "n"))


def _trial(name: str, group: str, label: str, work: ComplexityProbe) -> Trial:
    return Trial(name, group, label, lambda base: base, work)


STUDY = Study(
    name="table1",
    title="Complexity, sequential operations and path lengths by layer type",
    cells="Table 1; section 4",
    trials=tuple(_trials()),
    claims=(*_cell_claims(), *_text_claims()),
)
