"""Section 3 measured: what its sentences say of the model's own parts (`core`), at the paper's sizes.

Differences and counts are the same on any machine. Ratios of seconds are this machine's, of one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.attention import MultiHeadAttention
from core.attention_functions import ATTENTION_FUNCTIONS, AttentionFunction
from core.layer_measures import bytes_kept, count_flops, seconds_of
from core.layers import Embedding, FeedForward, sinusoid
from results.records import RunResult, Score
from studies.inference import error_of_mean, fit_exponent
from studies.scales import PAPER
from studies.trials.phases import Phases
from studies.work import StatementProbe

MODEL = PAPER.base.model
ROUNDS = 5

# Widths of queries and keys over which growth is fitted, and how many dot products a softmax is over.
WIDTHS = (4, 16, 64, 256, 1_024)
NUM_QUERIES, NUM_KEYS = 200, 64
# Sentences of as many pieces, for speed and memory.
BATCH, LENGTH = 4, 32
SPEED_WIDTHS = (16, 32, 64, 128, 256)
HEADS = (1, 2, 4, 8, 16, 32)
POSITIONS_FITTED, POSITIONS_TESTED = 100, 2_000
OFFSETS = (1, 7, 100)


def measure(probe: StatementProbe, seed: int) -> RunResult:
    """Carry out one probe; `seed` is of weights and inputs."""
    phase = Phases()
    torch.manual_seed(seed)
    with phase("measure"):
        scores = tuple(STATEMENTS[probe.statement]())
    return RunResult(seconds=phase.seconds["measure"], params=0, phases=phase.seconds, scores=scores)


# 3.2.1: scaling -------------------------------------------------------------------------------------------------------


def _dot_products(function: str) -> Iterator[Score]:
    """How the variance of what the softmax gets, and the softmax's gradient, grow with d_k.

    Components of queries and keys are normal with variance 1 (footnote 4). Logarithms of the weights are the scores
    but for a constant, and the trace of the softmax's Jacobian is 1 minus the sum of the squared weights.
    """
    variances, gradients = [], []
    for d_k in WIDTHS:
        query = torch.randn(NUM_QUERIES, 1, 1, d_k, dtype=torch.float64)
        key = torch.randn(NUM_QUERIES, 1, NUM_KEYS, d_k, dtype=torch.float64)
        _, weights = ATTENTION_FUNCTIONS[function](d_k)(query, key, key)
        variances.append(weights.log().var(dim=-1).mean().item())
        gradients.append((1 - (weights**2).sum(dim=-1)).mean().item())
    signature = f"attention:{function}|keys:{NUM_KEYS}|components:normal"
    yield _growth("variance_exponent", WIDTHS, variances, signature)
    yield _growth("gradient_exponent", WIDTHS, gradients, signature)


def _growth(name: str, sizes: Sequence[int], values: Sequence[float], signature: str) -> Score:
    fit = fit_exponent(sizes, values)
    details = {"sizes": list(sizes), "values": list(values), "fit": fit.error.to_details()}
    return Score(name, float(fit.exponent), signature, f"sizes/d_k={sizes[0]}-{sizes[-1]}", len(sizes), details)


# 3.2.1 and 3.2.2: speed and memory ------------------------------------------------------------------------------------


def _dot_product_against_additive() -> Iterator[Score]:
    """Seconds of a forward and a backward pass, and bytes kept between them, over d_k; the scores are of base's d_k."""
    functions = [ATTENTION_FUNCTIONS[name] for name in ("scaled", "additive")]
    ratios, memory = [], []
    for d_k in SPEED_WIDTHS:
        passes = [_attention_pass(function(d_k)) for function in functions]
        seconds = seconds_of([lambda both=both: both().sum().backward() for both in passes], ROUNDS)
        ratios.append(seconds[:, 0] / seconds[:, 1])
        kept = [bytes_kept(both) for both in passes]
        memory.append(kept[0] / kept[1])
    place = SPEED_WIDTHS.index(MODEL.d_k)
    signature = f"layers:scaled over additive|heads:{MODEL.num_heads}|sentences:{BATCH} of {LENGTH}"
    dataset = f"sizes/d_k={MODEL.d_k}"
    medians = [float(np.median(each)) for each in ratios]
    yield Score(
        "time_ratio", medians[place], f"seconds:processor, one core, both passes|{signature}", dataset, ROUNDS,
        {"sizes": list(SPEED_WIDTHS), "ratios": medians, "repeats": error_of_mean(ratios[place]).to_details()},
    )  # fmt: skip
    yield Score(
        "memory_ratio", memory[place], f"bytes:kept for the backward pass|{signature}", dataset, 1,
        {"sizes": list(SPEED_WIDTHS), "ratios": memory},
    )  # fmt: skip


def _attention_pass(function: AttentionFunction) -> Callable[[], Tensor]:
    shape = (BATCH, MODEL.num_heads, LENGTH, function.d_k)
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    return lambda: function(query, key, value)[0]


class _Heads(nn.Module):
    """Multi-head self-attention of the base model with another number of heads."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        width = MODEL.d_model // num_heads
        self.attention = MultiHeadAttention(MODEL.d_model, num_heads, width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, None)


def _heads() -> Iterator[Score]:
    """The cost of h heads of d_model / h over that of one of d_model, in operations and seconds."""
    flops = [count_flops(_Heads(num_heads), LENGTH, MODEL.d_model) for num_heads in HEADS]
    x = torch.randn(BATCH, LENGTH, MODEL.d_model)
    layers = [_Heads(num_heads) for num_heads in HEADS]
    with torch.inference_mode():
        seconds = seconds_of([lambda layer=layer: layer(x) for layer in layers], ROUNDS)
    ratios = seconds / seconds[:, :1]
    place = HEADS.index(MODEL.num_heads)
    signature = f"layers:{MODEL.num_heads} heads over 1|d_model:{MODEL.d_model}|sentences:{BATCH} of {LENGTH}"
    dataset = f"sizes/h={MODEL.num_heads}"
    yield Score(
        "flops_ratio", flops[place] / flops[0], f"operations:torch-flop-counter|{signature}", dataset, 1,
        {"sizes": list(HEADS), "ratios": [count / flops[0] for count in flops]},
    )  # fmt: skip
    yield Score(
        "time_ratio", float(np.median(ratios[:, place])), f"seconds:processor, one core|{signature}", dataset, ROUNDS,
        {
            "sizes": list(HEADS), "ratios": np.median(ratios, axis=0).tolist(),
            "repeats": error_of_mean(ratios[:, place]).to_details(),
        },
    )  # fmt: skip


# 3.3 to 3.5 -----------------------------------------------------------------------------------------------------------


def _difference(value: float, signature: str, num_items: int, **details: Any) -> Score:
    return Score("output_difference", value, signature, "made-up/normal", num_items, details)


@torch.no_grad()
def _feed_forward() -> Iterator[Score]:
    """How far the model's feed-forward layer is from two of torch's convolutions with its weights, at most."""
    layer = FeedForward(MODEL.d_model, MODEL.d_ff).double()
    inner, outer = (nn.Conv1d(*sizes, kernel_size=1).double() for sizes in ((512, 2_048), (2_048, 512)))
    for convolution, linear in ((inner, layer.inner), (outer, layer.outer)):
        convolution.weight.copy_(linear.weight.unsqueeze(2))
        convolution.bias.copy_(linear.bias)
    x = torch.randn(2, LENGTH, MODEL.d_model, dtype=torch.float64)
    convolved = outer(torch.relu(inner(x.transpose(1, 2)))).transpose(1, 2)
    difference = (layer(x) - convolved).abs().max().item()
    yield _difference(difference, "layers:feed-forward less two convolutions|double", x[..., 0].numel())


@torch.no_grad()
def _embedding() -> Iterator[Score]:
    """What a looked-up vector is, over the row of the weights that it comes from."""
    embedding = Embedding(100, MODEL.d_model).double()
    nn.init.normal_(embedding.weight)
    pieces = torch.arange(100)
    ratios = embedding(pieces) / embedding.weight
    yield Score(
        "embedding_scale", ratios.median().item(), "ratio:vector over weight|double", f"sizes/d_model={MODEL.d_model}",
        ratios.numel(), {"lowest": ratios.min().item(), "highest": ratios.max().item()},
    )  # fmt: skip


def _positions() -> Iterator[Score]:
    """Whether one linear map takes PE(pos) to PE(pos + k): fitted to some positions, it is tested on later ones.

    The map is fitted pair by pair of a sine and its cosine; the wavelengths are by what a pair turns in one position.
    """
    table = sinusoid(POSITIONS_TESTED + max(OFFSETS), MODEL.d_model).numpy().reshape(-1, MODEL.d_model // 2, 2)
    worst = {}
    for offset in OFFSETS:
        residuals = [
            table[:POSITIONS_TESTED, pair] @ _fitted_map(table[:, pair], offset)
            - table[offset : POSITIONS_TESTED + offset, pair]
            for pair in range(table.shape[1])
        ]
        worst[offset] = float(np.abs(residuals).max())
    (sine, cosine) = table[1].T  # at position 1 the pair has turned by 2 pi / wavelength
    wavelengths = 2 * math.pi / np.arctan2(sine, cosine)
    yield _difference(
        max(worst.values()), f"positions:sinusoid, a linear map from {POSITIONS_FITTED} positions|double",
        POSITIONS_TESTED, by_offset=list(worst.values()), offsets=list(OFFSETS), wavelengths=wavelengths.tolist(),
    )  # fmt: skip


def _fitted_map(pairs: np.ndarray, offset: int) -> np.ndarray:
    """(2, 2), by least squares from the first positions of a sine and a cosine to those `offset` later."""
    return np.linalg.lstsq(pairs[:POSITIONS_FITTED], pairs[offset : POSITIONS_FITTED + offset], rcond=None)[0]


STATEMENTS: dict[str, Callable[[], Iterator[Score]]] = {
    "scaled": lambda: _dot_products("scaled"),
    "unscaled": lambda: _dot_products("unscaled"),
    "dot_product_against_additive": _dot_product_against_additive,
    "eight_heads_against_one": _heads,
    "feed_forward": _feed_forward,
    "embedding": _embedding,
    "positions": _positions,
}
