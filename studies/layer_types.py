"""The layer types of Table 1 as what they multiply and what they read, so that their costs can be counted.

Counted are the products of one layer as section 4 does: attention without its projections. Nothing here asks for the
table's formulas: claims hold the growth of these counts against them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Sizes:
    """n positions of d dimensions; k is a kernel's width, r a neighbourhood's, odd as it has a middle (Table 1)."""

    n: int = 1_024
    d: int = 512
    k: int = 3
    r: int = 65


# The sizes over which growth is fitted, each a doubling, or as near as a neighbourhood with a middle comes.
VALUES = {
    "n": (64, 128, 256, 512),
    "d": (64, 128, 256, 512),
    "k": (16, 32, 64, 128),
    "r": (17, 33, 65, 129),
}
# A dilated stack of kernel 3 reaches 3^6 positions in 6 layers.
KERNEL, LAYERS = 3, 6


Product = tuple[int, int, int, int]
"""`times` matrix products of (rows, inner) by (inner, columns)."""


@dataclass(frozen=True)
class LayerType:
    """Attributes:
    products: the matrix products of one layer.
    waits_for: of a position, the position whose output must be there before its own can be computed; None where all
        can be computed at once.
    offsets: how far a signal moves in hop number 0, 1, ...: from any position to those at these distances. A hop is
        a layer, or for a recurrence a step within one.
    """

    products: Callable[[Sizes], list[Product]]
    waits_for: Callable[[int], int | None]
    offsets: Callable[[Sizes, int], range]


def _at_once(position: int) -> None:
    return None


def _one_before(position: int) -> int | None:
    return position - 1 if position else None


SELF_ATTENTION = LayerType(
    products=lambda s: [(1, s.n, s.d, s.n), (1, s.n, s.n, s.d)],  # queries by keys, weights by values
    waits_for=_at_once,
    offsets=lambda s, hop: range(1 - s.n, s.n),
)
RECURRENT = LayerType(
    products=lambda s: [(1, s.n, s.d, s.d), (s.n, 1, s.d, s.d)],  # the inputs together, the states one by one
    waits_for=_one_before,
    offsets=lambda s, hop: range(0, 2),
)
CONVOLUTIONAL = LayerType(  # contiguous kernels, as in ConvS2S
    products=lambda s: [(1, s.n, s.k * s.d, s.d)],
    waits_for=_at_once,
    offsets=lambda s, hop: range(0, s.k),
)
DILATED = replace(  # as in ByteNet: the gaps grow by k from layer to layer
    CONVOLUTIONAL, offsets=lambda s, hop: range(0, s.k ** (hop + 1), s.k**hop)
)
SEPARABLE = replace(  # a kernel for each dimension, then a product at each position
    CONVOLUTIONAL, products=lambda s: [(s.n * s.d, 1, s.k, 1), (1, s.n, s.d, s.d)]
)
RESTRICTED = LayerType(  # self-attention to r positions around each
    products=lambda s: [(s.n, 1, s.d, s.r), (s.n, 1, s.r, s.d)],
    waits_for=_at_once,
    offsets=lambda s, hop: range(-(s.r // 2), s.r // 2 + 1),
)
FEED_FORWARD = LayerType(  # at each position, with d_ff = 4 d (3.3)
    products=lambda s: [(1, s.n, s.d, 4 * s.d), (1, s.n, 4 * s.d, s.d)],
    waits_for=_at_once,
    offsets=lambda s, hop: range(0, 1),
)


def multiply_adds(layer: LayerType, sizes: Sizes) -> int:
    """Multiplications of one layer."""
    return sum(times * rows * inner * columns for times, rows, inner, columns in layer.products(sizes))


def sequential_operations(layer: LayerType, sizes: Sizes) -> int:
    """The longest chain of positions each of which waits for the one before."""
    chain: list[int] = []
    for position in range(sizes.n):
        before = layer.waits_for(position)
        chain.append(1 if before is None else chain[before] + 1)
    return max(chain)


def path_length(layer: LayerType, sizes: Sizes) -> int:
    """Hops until a signal from the first position has reached the last: the longest of the shortest paths."""
    import numpy as np

    reached = np.zeros(sizes.n, dtype=bool)
    reached[0] = True
    hops = 0
    while not reached[-1]:
        reached = _spread(reached, layer.offsets(sizes, hops))
        hops += 1
    return hops


def _spread(reached: np.ndarray, offsets: range) -> np.ndarray:
    """Where a signal is after a hop: everywhere that one of the offsets leads from where it was."""
    import numpy as np

    n = len(reached)
    there = np.flatnonzero(reached)
    moved = (there[:, None] + np.arange(offsets.start, offsets.stop, offsets.step)).ravel()
    spread = np.zeros(n, dtype=bool)
    spread[moved[(moved >= 0) & (moved < n)]] = True
    return spread


def growth_exponent(count: Callable[[Sizes], float], size: str, values: tuple[int, ...]) -> float:
    """With what power a count grows in one size: the slope of its logarithm over the size's, by least squares."""
    import numpy as np

    counts = [count(replace(Sizes(), **{size: value})) for value in values]
    slope, _ = np.polyfit(np.log(values), np.log(counts), 1)
    return float(slope)
