"""Table 1 measured: each layer type at work (`core.layer_types`), held against its closed form.

Operations, steps and paths are counted on the layer itself and are the same on any machine. Seconds are this machine's:
the medians of a few rounds on one core, whose growth is fitted with the error of the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core import layer_types as at_work
from core.layer_measures import count_flops, hops_between, longest_chain, seconds_of
from results.records import RunResult, Score
from studies import layer_types as formulas
from studies.inference import error_of_mean, fit_exponent
from studies.layer_types import KERNEL, LAYERS, VALUES, LayerType, Sizes, multiply_adds
from studies.trials.phases import Phases
from studies.work import ComplexityProbe


@dataclass(frozen=True)
class Subject:
    """A layer type: how one of these sizes is built, and what it multiplies by its closed form."""

    build: Callable[[Sizes], at_work.LayerType]
    formula: LayerType


SUBJECTS = {
    "self_attention": Subject(lambda s: at_work.SelfAttention(), formulas.SELF_ATTENTION),
    "recurrent": Subject(lambda s: at_work.Recurrent(s.d), formulas.RECURRENT),
    "convolutional": Subject(lambda s: at_work.DilatedConvolutional(s.d, s.k), formulas.DILATED),
    "self_attention_restricted": Subject(lambda s: at_work.RestrictedSelfAttention(s.r), formulas.RESTRICTED),
    "contiguous": Subject(lambda s: at_work.Convolutional(s.d, s.k), formulas.CONVOLUTIONAL),
    "separable": Subject(lambda s: at_work.SeparableConvolutional(s.d, s.k), formulas.SEPARABLE),
    "feed_forward": Subject(lambda s: at_work.PositionWise(s.d), formulas.FEED_FORWARD),
}


def _doublings(low: int, high: int, steps: int = 7) -> tuple[int, ...]:
    """Whole sizes from `low` to `high`, evenly spaced on a logarithmic axis."""
    return tuple(round(size) for size in np.geomspace(low, high, steps))


@dataclass(frozen=True)
class Sweep:
    """Sizes to be timed: large enough that the products take most of the time, small enough for a few seconds.

    A recurrence's width is timed over 8 sequences at once, as its steps are products of a matrix and a vector
    otherwise, which wait for the memory.
    """

    values: tuple[int, ...]
    others: Sizes
    batch: int = 1


TIMED = {
    ("self_attention", "n"): Sweep(_doublings(256, 2_048), Sizes(d=256)),
    ("self_attention", "d"): Sweep(_doublings(256, 2_048), Sizes(n=256)),
    ("recurrent", "n"): Sweep(_doublings(64, 512), Sizes(d=256)),
    ("recurrent", "d"): Sweep(_doublings(256, 1_536), Sizes(n=16), batch=8),
    ("convolutional", "k"): Sweep(_doublings(9, 129), Sizes(n=512, d=128)),
    ("convolutional", "n"): Sweep(_doublings(512, 4_096), Sizes(d=128)),
    ("convolutional", "d"): Sweep(_doublings(128, 1_024), Sizes(n=512)),
    ("self_attention_restricted", "r"): Sweep((33, 49, 65, 97, 129, 193, 257), Sizes(n=512, d=128)),
    ("self_attention_restricted", "n"): Sweep(_doublings(256, 2_048), Sizes(d=256, r=33)),
    ("self_attention_restricted", "d"): Sweep(_doublings(256, 2_048), Sizes(n=256, r=33)),
}
ROUNDS = 5

# What operations are counted at where a size does not vary.
COUNTED = Sizes(n=256)

# What paths are measured over: widths do not change them, so narrow layers do.
PATHS = {
    ("self_attention", "n"): ((16, 32, 64, 128), Sizes(d=4)),
    ("recurrent", "n"): ((16, 32, 64, 128), Sizes(d=4)),
    ("self_attention_restricted", "n"): ((9, 17, 33, 65), Sizes(d=4, r=5)),
    ("self_attention_restricted", "r"): ((9, 17, 33, 65), Sizes(n=65, d=4)),
    ("contiguous", "n"): ((17, 33, 65, 129), Sizes(d=4, k=3)),
    ("contiguous", "k"): ((9, 17, 33, 65), Sizes(n=129, d=4)),
}
# How many positions the picture of hops has: all of a kernel of 3 in three layers.
PICTURED = Sizes(n=27, d=4, k=3, r=9)

GRID = (32, 64, 128, 256, 512)
# Sequences at a time: one alone would leave a recurrence with products of a matrix and a vector.
GRID_BATCH = 4


def measure(probe: ComplexityProbe, seed: int) -> RunResult:
    """Carry out one probe; `seed` is of the weights and inputs, which decide no count."""
    phase = Phases()
    torch.manual_seed(seed)
    with phase("measure"):
        scores = tuple(_MEASURES[probe.measure](probe))
    return RunResult(seconds=phase.seconds["measure"], params=0, phases=phase.seconds, scores=scores)


def _growth(
    name: str, sizes: Sequence[int], costs: Sequence[float], size: str, signature: str, **details: Any
) -> Score:
    """A fitted exponent with its error, and what it was fitted to."""
    fit = fit_exponent(sizes, costs)
    details = {
        "size": size,
        "sizes": list(sizes),
        "costs": [float(cost) for cost in costs],
        "fit": fit.error.to_details(),
        **details,
    }
    return Score(name, float(fit.exponent), signature, f"sizes/{size}={sizes[0]}-{sizes[-1]}", len(sizes), details)


# Operations and seconds ----------------------------------------------------------------------------------------------


def _cost(probe: ComplexityProbe) -> Iterator[Score]:
    subject, size = SUBJECTS[probe.layer], probe.size
    all_sizes = [replace(COUNTED, **{size: value}) for value in VALUES[size]]
    counted = [count_flops(subject.build(sizes), sizes.n, sizes.d) for sizes in all_sizes]
    closed = [2 * multiply_adds(subject.formula, sizes) for sizes in all_sizes]
    signature = f"operations:torch-flop-counter|layer:{probe.layer}"
    yield _growth("flops_exponent", VALUES[size], counted, size, signature)
    worst = max(abs(have - want) / want for have, want in zip(counted, closed, strict=True))
    yield Score(
        "flops_difference", worst, signature, f"sizes/{size}={VALUES[size][0]}-{VALUES[size][-1]}", len(all_sizes),
        {"size": size, "sizes": list(VALUES[size]), "counted": counted, "closed_form": closed},
    )  # fmt: skip
    yield _timed(probe.layer, subject, size)


def _timed(layer: str, subject: Subject, size: str) -> Score:
    sweep = TIMED[layer, size]
    seconds = _seconds([replace(sweep.others, **{size: value}) for value in sweep.values], subject, sweep.batch, ROUNDS)
    others = {name: getattr(sweep.others, name) for name in "ndkr" if name != size}
    return _growth(
        "time_exponent",
        sweep.values,
        np.median(seconds, axis=0).tolist(),
        size,
        f"seconds:processor, median of {ROUNDS} rounds, one core|layer:{layer}|sequences:{sweep.batch}",
        lowest=seconds.min(axis=0).tolist(),
        highest=seconds.max(axis=0).tolist(),
        others=others,
    )


def _seconds(all_sizes: Sequence[Sizes], subject: Subject, batch: int, rounds: int) -> NDArray[np.float64]:
    """(rounds, sizes) seconds of a forward pass."""

    def call(sizes: Sizes) -> Callable[[], torch.Tensor]:
        layer, x = subject.build(sizes), torch.randn(batch, sizes.n, sizes.d)
        return lambda: layer(x)

    with torch.inference_mode():
        return seconds_of([call(sizes) for sizes in all_sizes], rounds)


# Steps and paths -----------------------------------------------------------------------------------------------------


def _steps(probe: ComplexityProbe) -> Iterator[Score]:
    sizes = Sizes(d=8, r=9)
    chains = [longest_chain(SUBJECTS[probe.layer].build(sizes), n, sizes.d) for n in VALUES["n"]]
    signature = f"steps:longest-chain-of-autograd-graph|layer:{probe.layer}"
    yield _growth("steps_exponent", VALUES["n"], chains, "n", signature)


def _path(probe: ComplexityProbe) -> Iterator[Score]:
    subject, size = SUBJECTS[probe.layer], probe.size
    signature = f"path:derivatives-of-outputs-by-inputs|layer:{probe.layer}"
    pictured = hops_between(subject.build(PICTURED), PICTURED.n, PICTURED.d, PICTURED.n).tolist()
    if (probe.layer, size) in PATHS:
        values, others = PATHS[probe.layer, size]
        lengths = [_farthest(subject, replace(others, **{size: value})) for value in values]
        yield _growth("path_exponent", values, lengths, size, signature, hops=pictured)
        if size == "k":
            # The widest kernel that does not reach across.
            sizes = Sizes(n=64, d=4, k=63)
            yield Score("path_length", _farthest(subject, sizes), signature, "sizes/n=64,k=63", 1)
        return
    values = [KERNEL**layers for layers in range(1, LAYERS + 1)]
    lengths = [_farthest(subject, Sizes(n=n, d=2, k=KERNEL)) for n in values]
    details = {"size": "n", "sizes": values, "costs": lengths, "hops": pictured}
    yield Score("path_length", lengths[-1], signature, f"sizes/n={values[-1]},k={KERNEL}", 1, details)


def _farthest(subject: Subject, sizes: Sizes) -> int:
    """The longest path between two positions, in hops."""
    return int(hops_between(subject.build(sizes), sizes.n, sizes.d, sizes.n).max())


# One layer against another -------------------------------------------------------------------------------------------


def _against(probe: ComplexityProbe) -> Iterator[Score]:
    yield from _against_recurrent() if probe.layer == "self_attention" else _against_attention()


def _against_recurrent() -> Iterator[Score]:
    """Self-attention over recurrence, over n and d."""
    attention, recurrent = SUBJECTS["self_attention"], SUBJECTS["recurrent"]
    cells = [Sizes(n=n, d=d) for n in GRID for d in GRID]
    signature = "layers:self_attention over recurrent"
    flops = {
        (s.n, s.d): count_flops(attention.build(s), s.n, s.d) / count_flops(recurrent.build(s), s.n, s.d) for s in cells
    }
    equal = [flops[size, size] for size in GRID]
    yield Score(
        "flops_ratio", max(equal, key=lambda ratio: abs(ratio - 1)), f"operations:torch-flop-counter|{signature}",
        "sizes/n=d", len(equal), {"sizes": list(GRID), "ratios": [[flops[n, d] for d in GRID] for n in GRID]},
    )  # fmt: skip
    first, second = (_seconds(cells, subject, GRID_BATCH, ROUNDS) for subject in (attention, recurrent))
    ratios = first / second  # (rounds, cells)
    typical = np.median(ratios, axis=0)
    shorter = [place for place, sizes in enumerate(cells) if sizes.n < sizes.d]
    worst = max(shorter, key=lambda place: typical[place])
    details = {
        "sizes": list(GRID),
        "ratios": typical.reshape(len(GRID), len(GRID)).tolist(),
        "n": cells[worst].n,
        "d": cells[worst].d,
        "crossovers": [_crossover(typical.reshape(len(GRID), -1)[:, column]) for column in range(len(GRID))],
        "repeats": error_of_mean(ratios[:, worst]).to_details(),
    }
    signature = f"seconds:processor, one core|{signature}|sequences:{GRID_BATCH}|worst where n < d"
    yield Score("time_ratio", float(typical[worst]), signature, "sizes/n<d", len(shorter), details)


def _crossover(ratios: NDArray[np.float64]) -> float | None:
    """The n at which ratios over GRID pass 1, between two sizes on a logarithmic axis; None if they do not."""
    logs = np.log(ratios)
    for place in range(len(GRID) - 1):
        if logs[place] < 0 <= logs[place + 1]:
            share = logs[place] / (logs[place] - logs[place + 1])
            return float(GRID[place] * (GRID[place + 1] / GRID[place]) ** share)
    return None


def _against_attention() -> Iterator[Score]:
    """A separable convolution with k = n over self-attention and a feed-forward layer, as n and d grow together."""
    ratios = []
    for n in VALUES["n"]:
        sizes = Sizes(n=n, d=n // 2, k=n)
        separable, *others = (
            count_flops(SUBJECTS[name].build(sizes), n, sizes.d)
            for name in ("separable", "self_attention", "feed_forward")
        )
        ratios.append(separable / sum(others))
    signature = "operations:torch-flop-counter|layers:separable over self_attention and feed_forward"
    yield _growth("flops_exponent", VALUES["n"], ratios, "n", signature)


_MEASURES: dict[str, Callable[[ComplexityProbe], Iterator[Score]]] = {
    "cost": _cost,
    "steps": _steps,
    "path": _path,
    "against": _against,
}
