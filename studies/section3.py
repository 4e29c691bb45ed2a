"""Section 3, the architecture: what its sentences and footnotes say that can be computed or measured.

Sizes are held against the base model that would be run. Where a sentence is mathematics, it is computed. What the
model's own parts do, and what they cost on the machine at hand, is measured at the paper's sizes
(`studies.trials.statement_probe`) and means the same at every scale. Sentences about quality after training are
measured on small made-up tasks (`studies.trials.task_probe`): they belong to the scale that was asked for, and at the
paper's scale are about other data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.complexity import num_parameters, training_flops
from core.config import RunConfig
from studies.claim import METRICS, Claim, Identity, Kind
from studies.computed import computed, setting
from studies.scales import PAPER
from studies.study import Study, Trial
from studies.wmt14 import BASE_STEPS, BLEU, identity
from studies.work import StatementProbe, TaskProbe

if TYPE_CHECKING:
    import numpy as np

# What sampling leaves of an exponent of 0, and more.
COUNTED_MARGIN = 0.1
D_MODEL, D_K = PAPER.base.model.d_model, PAPER.base.model.d_k


# 3.2.1: dot products of independent components -----------------------------------------------------------------------

# Two distributions with mean 0 and variance 1, as value: probability; the second is as lopsided as it is discrete.
SYMMETRIC = {-1.0: 0.5, 1.0: 0.5}
LOPSIDED = {-0.5: 0.8, 2.0: 0.2}


def dot_product_moments(component: dict[float, float], d_k: int) -> tuple[float, float]:
    """Mean and variance of q . k for independent components of this distribution: the distribution itself is computed.

    A sum's probabilities are its terms' convolved. Values are multiples of 1/4, which index the arrays.
    """
    import numpy as np

    products: dict[int, float] = {}
    for q, p in component.items():
        for k, other in component.items():
            step = round(4 * q * k)
            products[step] = products.get(step, 0.0) + p * other
    lowest = min(products)
    term = np.zeros(max(products) - lowest + 1)
    for step, probability in products.items():
        term[step - lowest] = probability
    total = np.ones(1)
    for _ in range(d_k):
        total = np.convolve(total, term)
    values = (np.arange(len(total)) + d_k * lowest) / 4
    mean = float(total @ values)
    return mean, float(total @ (values - mean) ** 2)


def softmax_gradient(d_k: int, scaled: bool, num_keys: int = 64, samples: int = 2_000) -> float:
    """Mean over queries of the trace of the softmax's Jacobian, 1 - sum p^2, over dot products with 64 keys.

    q and k have standard normal components, so that given |q| the dot products are normal with variance |q|^2.
    """
    import numpy as np

    random = np.random.default_rng(1706_03762)
    scores = np.sqrt(random.chisquare(d_k, (samples, 1))) * random.standard_normal((samples, num_keys))
    if scaled:
        scores /= math.sqrt(d_k)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return float((1 - (weights**2).sum(axis=1)).mean())


def gradient_growth(scaled: bool) -> float:
    """With what power of d_k the softmax's gradient grows, from d_k = 64 to 4096."""
    import numpy as np

    sizes = (64, 256, 1_024, 4_096)
    slope, _ = np.polyfit(np.log(sizes), np.log([softmax_gradient(d_k, scaled) for d_k in sizes]), 1)
    return float(slope)


# 3.3: a convolution with kernel size 1 -------------------------------------------------------------------------------


def convolution(inputs: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """(n, d_in) by a kernel (width, d_in, d_out) -> (n - width + 1, d_out): each output reads `width` neighbours."""
    import numpy as np

    windows = np.lib.stride_tricks.sliding_window_view(inputs, len(kernel), axis=0)  # (positions, d_in, width)
    return np.einsum("piw,wio->po", windows, kernel)


def feed_forward_residual() -> float:
    """How far max(0, x W1) W2 at each position is from two convolutions with kernel size 1, at most."""
    import numpy as np

    random = np.random.default_rng(1706_03762)
    x, w1, w2 = (random.standard_normal(shape) for shape in ((20, 64), (64, 256), (256, 64)))
    at_each = np.stack([np.maximum(0, row @ w1) @ w2 for row in x])
    convolved = convolution(np.maximum(0, convolution(x, w1[None])), w2[None])
    return float(np.abs(at_each - convolved).max())


# 3.5: positions ------------------------------------------------------------------------------------------------------


def positional_encoding(num_positions: int, d_model: int = D_MODEL) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) = cos(the same): (num_positions, d_model)."""
    import numpy as np

    angles = np.arange(num_positions)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(num_positions, d_model)


def linear_map_residual(offsets: tuple[int, ...] = (1, 7, 100), num_positions: int = 600) -> float:
    """How far PE(pos+k) is from R_k PE(pos), at most over positions and these k.

    R_k is one linear map for all positions: it turns each pair of a sine and its cosine by what k positions turn it.
    """
    import numpy as np

    encoding = positional_encoding(num_positions + max(offsets)).reshape(-1, D_MODEL // 2, 2)
    worst = 0.0
    for k in offsets:
        turn = k * 2 * math.pi / wavelengths()
        rotations = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])  # (to, from, pair)
        mapped = np.einsum("tfi,pif->pit", rotations, encoding[:num_positions])
        worst = max(worst, float(np.abs(mapped - encoding[k : num_positions + k]).max()))
    return worst


def wavelengths(divisor: int = D_MODEL // 2) -> np.ndarray:
    """Of every pair of dimensions, 2 pi 10000^(i/divisor); the formula's divisor of i is d_model/2."""
    import numpy as np

    return 2 * math.pi * 10_000 ** (np.arange(D_MODEL // 2) / divisor)


def _uneven_steps() -> float:
    import numpy as np

    steps = wavelengths()[1:] / wavelengths()[:-1]
    return float(np.ptp(steps))


# The claims ----------------------------------------------------------------------------------------------------------


def _setting_claims() -> Iterator[Claim]:
    for id_, section, what, expected, path in (
        ("layers", "3.1", "layers of either stack, N", 6, "num_layers"),
        ("d_model", "3.1", "d_model", 512, "d_model"),
        ("heads", "3.2.2", "heads, h", 8, "num_heads"),
        ("d_k", "3.2.2", "d_k = d_model / h", 64, "d_k"),
        ("d_v", "3.2.2", "d_v = d_model / h", 64, "d_v"),
        ("d_ff", "3.3", "d_ff", 2048, "d_ff"),
    ):
        yield setting(f"section3.{id_}", section, what, expected, lambda: PAPER.base.model, path)


def _dot_product_claims() -> Iterator[Claim]:
    says = partial(computed, cell="Section 3.2.1, footnote 4", source="section 3.2.1")
    for label, distribution in (("symmetric", SYMMETRIC), ("lopsided", LOPSIDED)):
        moments = partial(dot_product_moments, distribution, D_K)
        given = f"components independent with mean 0 and variance 1, {label}"
        for id_, what, metric, expected, compute in (
            ("mean", "the dot product has mean 0", "residual", 0.0, lambda m=moments: m()[0]),
            ("variance", f"the dot product has variance d_k = {D_K}", "variance", D_K, lambda m=moments: m()[1]),
            ("scaled", "divided by sqrt(d_k) it has variance 1", "variance", 1.0, lambda m=moments: m()[1] / D_K),
        ):
            yield says(
                f"section3.dot_product.{id_}.{label}",
                statement=f"{what[0].upper()}{what[1:]} ({given}).",
                metric=metric,
                expected=expected,
                compute=compute,
                tolerance=1e-9 * max(expected, 1.0),
            )
    yield says(
        "section3.dot_product.unscaled_gradient",
        statement=f"Without scaling, the softmax's gradient falls as d_k grows (with a power below {-COUNTED_MARGIN}).",
        metric="exponent",
        bound="<",
        expected=-COUNTED_MARGIN,
        compute=partial(gradient_growth, scaled=False),
    )
    yield says(
        "section3.dot_product.scaled_gradient",
        statement="With scaling, the softmax's gradient does not depend on d_k.",
        metric="exponent",
        kind="exponent",
        expected=0.0,
        tolerance=COUNTED_MARGIN,
        compute=partial(gradient_growth, scaled=True),
    )


def _structure_claims() -> Iterator[Claim]:
    model, train = PAPER.base.model, PAPER.base.train
    yield computed(
        "section3.heads_cost",
        "Section 3.2.2",
        "8 heads of d_model / 8 cost about as much as one head of full size (FLOPs of a training, counted).",
        "ratio",
        1.0,
        lambda: (
            training_flops(model, train, PAPER.sentence_pieces)
            / training_flops(model.with_heads(1), train, PAPER.sentence_pieces)
        ),
        tolerance=0.05,
        source="section 3.2.2",
    )
    yield computed(
        "section3.feed_forward_convolutions",
        "Section 3.3",
        "The feed-forward network is two convolutions with kernel size 1 (largest difference).",
        "residual",
        0.0,
        feed_forward_residual,
        tolerance=1e-9,
        source="section 3.3",
    )
    yield computed(
        "section3.shared_embeddings",
        "Section 3.4",
        "Both embeddings and the pre-softmax map are one matrix: one more piece adds d_model parameters, once.",
        "number",
        D_MODEL,
        lambda: num_parameters(replace(model, vocab_size=model.vocab_size + 1)) - num_parameters(model),
        tolerance=0.0,
        source="section 3.4",
    )


def _position_claims() -> Iterator[Claim]:
    says = partial(computed, cell="Section 3.5", source="section 3.5")
    yield says(
        "section3.positions.linear",
        statement="PE(pos+k) is a linear function of PE(pos) for every fixed k (largest residual; k = 1, 7, 100).",
        metric="residual",
        expected=0.0,
        tolerance=1e-9,
        compute=linear_map_residual,
    )
    yield says(
        "section3.positions.geometric",
        statement="The wavelengths form a geometric progression (spread of the quotients of neighbours).",
        metric="residual",
        expected=0.0,
        tolerance=1e-9,
        compute=_uneven_steps,
    )
    yield says(
        "section3.positions.shortest",
        statement="The shortest wavelength is 2 pi.",
        metric="wavelength",
        expected=2 * math.pi,
        tolerance=1e-9,
        compute=lambda: float(wavelengths()[0]),
    )
    longest = partial(
        says,
        statement="The longest wavelength is 10000 * 2 pi.",
        metric="wavelength",
        expected=10_000 * 2 * math.pi,
        tolerance=0.01 * 10_000 * 2 * math.pi,
    )
    # 2i = d_model never occurs, so the formula ends at 10000^(510/512).
    yield longest(
        "section3.positions.longest",
        compute=lambda: float(wavelengths()[-1]),
        reading="by the formula of section 3.5, at d_model = 512",
    )
    yield longest(
        "section3.positions.longest_in_code",
        compute=lambda: float(wavelengths(D_MODEL // 2 - 1)[-1]),
        reading="by the authors' code, which divides by one dimension less",
    )


# At work --------------------------------------------------------------------------------------------------------------

# What is called a small and a large d_k, and all over which accuracy is drawn.
SMALL_DK, LARGE_DK = 4, 256
TASK_WIDTHS = (SMALL_DK, 32, LARGE_DK)
# Accuracies this near, in points, are about equal.
ACCURACY_MARGIN = 5.0
# Sequences are as many times as long as the longest in training.
LONGER = 2


def _at_work(
    id_: str, section: str, statement: str, kind: Kind, metric: str, trial: str, expected: float, **more: Any
) -> Claim:
    """A claim about a part of the model at work, which has sizes of its own."""
    return Claim(
        id=f"section3.{id_}",
        cell=f"Section {section}",
        statement=statement,
        kind=kind,
        metric=metric,
        trials=(trial,),
        source=f"section {section}",
        expected=expected,
        own_sizes=True,
        **more,
    )


def _measured_claims() -> Iterator[Claim]:
    """What takes a part of the model, a stopwatch or a training."""
    for function, power in (("unscaled", 1.0), ("scaled", 0.0)):
        yield _at_work(
            f"dot_product.{function}_variance.measured",
            "3.2.1",
            f"The variance of what the softmax gets grows as d_k^{power:g}: {function} attention at work.",
            "exponent",
            "variance_exponent",
            function,
            power,
            tolerance=COUNTED_MARGIN,
        )
    yield _at_work(
        "dot_product.unscaled_gradient.measured",
        "3.2.1",
        f"Without scaling, the softmax's gradient falls as d_k grows (power below {-COUNTED_MARGIN}), at work.",
        "threshold",
        "gradient_exponent",
        "unscaled",
        -COUNTED_MARGIN,
        bound="<",
    )
    yield _at_work(
        "dot_product.scaled_gradient.measured",
        "3.2.1",
        "With scaling, the softmax's gradient does not depend on d_k, at work.",
        "exponent",
        "gradient_exponent",
        "scaled",
        0.0,
        tolerance=COUNTED_MARGIN,
    )
    for what, metric in (("is faster", "time_ratio"), ("takes less memory", "memory_ratio")):
        yield _at_work(
            f"dot_product.{METRICS[metric].label}",
            "3.2.1",
            f"Dot-product attention {what} in practice than additive attention.",
            "threshold",
            metric,
            "dot_product_against_additive",
            1.0,
            bound="<",
        )
    yield from _task_claims()
    yield _at_work(
        "heads_cost.flops",
        "3.2.2",
        "8 heads of d_model / 8 take as many operations as one head of full size, counted at work.",
        "value",
        "flops_ratio",
        "eight_heads_against_one",
        1.0,
        tolerance=0.0,
    )
    yield _at_work(
        "heads_cost.measured",
        "3.2.2",
        "8 heads of d_model / 8 take about the time of one head of full size, measured on the machine at hand.",
        "value",
        "time_ratio",
        "eight_heads_against_one",
        1.0,
        tolerance=0.25,
    )
    for id_, section, statement, trial in (
        (
            "feed_forward_convolutions.measured",
            "3.3",
            "The model's feed-forward layer gives what two convolutions with kernel size 1 give (largest difference).",
            "feed_forward",
        ),
        (
            "positions.linear.measured",
            "3.5",
            "A linear map fitted to the model's first positions takes PE(pos) to PE(pos+k) at all others (largest "
            "difference; k = 1, 7, 100).",
            "positions",
        ),
    ):
        yield _at_work(id_, section, statement, "value", "output_difference", trial, 0.0, tolerance=1e-6)
    yield _at_work(
        "embedding_scale",
        "3.4",
        "The embedding weights are multiplied by sqrt(d_model) (at d_model = 512).",
        "value",
        "embedding_scale",
        "embedding",
        math.sqrt(D_MODEL),
        tolerance=1e-4,
    )


def _task_claims() -> Iterator[Claim]:
    """Sentences about quality, which the paper says of translation: at its scale, a score must be of that."""
    compared = partial(
        Claim, cell="Section 3.2.1", source="section 3.2.1", metric="recall_accuracy", identity=_translation()
    )
    yield compared(
        id="section3.additive_over_unscaled.large_dk",
        statement=f"Additive attention beats dot products without scaling at large d_k ({LARGE_DK}; recall of values).",
        kind="order",
        trials=(f"additive.dk{LARGE_DK}", f"unscaled.dk{LARGE_DK}"),
    )
    yield compared(
        id="section3.additive_like_unscaled.small_dk",
        statement=f"Additive attention and dot products without scaling are about equal at small d_k ({SMALL_DK}; "
        "recall of values).",
        kind="difference",
        trials=(f"additive.dk{SMALL_DK}", f"unscaled.dk{SMALL_DK}"),
        expected=0.0,
        tolerance=ACCURACY_MARGIN,
    )
    yield Claim(
        id="section3.positions.extrapolate",
        cell="Section 3.5",
        statement="Sinusoids hold up better than learned positions on sequences longer than those seen in training "
        f"({LONGER} times as long, naming the symbol before at positions beyond).",
        kind="order",
        metric="longer_accuracy",
        trials=("sinusoid.longer", "learned.longer"),
        source="section 3.5",
        identity=_translation(),
    )


def _translation() -> Identity:
    return identity("newstest2013", "de", BLEU["de"], BASE_STEPS, BASE_STEPS)


def _trials() -> Iterator[Trial]:
    for name, group, label in (
        ("scaled", "3.2.1", "variance and gradient over d_k, scaled"),
        ("unscaled", "3.2.1", "variance and gradient over d_k, unscaled"),
        ("dot_product_against_additive", "3.2.1", "seconds and memory over d_k"),
        ("eight_heads_against_one", "3.2.2", "operations and seconds over h"),
        ("feed_forward", "3.3", "two convolutions"),
        ("embedding", "3.4", "vectors over weights"),
        ("positions", "3.5", "linear maps and wavelengths"),
    ):
        yield Trial(name, group, label, _unchanged, StatementProbe(name))
    for function in ("scaled", "unscaled", "additive"):
        for d_k in TASK_WIDTHS:
            label = f"{function} attention, d_k = {d_k}, recall"
            yield Trial(f"{function}.dk{d_k}", "3.2.1", label, _unchanged, TaskProbe("recall", function, d_k))
    for kind in ("sinusoid", "learned"):
        label = f"{kind} positions, {LONGER} x the longest trained"
        yield Trial(f"{kind}.longer", "3.5", label, _unchanged, TaskProbe("longer", kind, LONGER))


def _unchanged(base: RunConfig) -> RunConfig:
    return base


STUDY = Study(
    name="section3",
    title="Statements about the architecture",
    cells="Section 3",
    trials=tuple(_trials()),
    claims=(
        *_setting_claims(),
        *_dot_product_claims(),
        *_structure_claims(),
        *_position_claims(),
        *_measured_claims(),
    ),
)
