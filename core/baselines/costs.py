"""What each baseline costs, in closed form from its sizes alone: parameters, and multiply-adds a piece.

Needs no torch, so that planning answers at once; tests hold every form against the built model and torch's counter.
`core.complexity` adds the Transformer and makes whole trainings of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from core.architecture_config import ByteNetConfig, ConvS2SConfig, ExtendedNeuralGPUConfig


@dataclass(frozen=True)
class Cost:
    """What one architecture of one size costs.

    Attributes:
        parameters: trainable numbers, each shared matrix counted once.
        per_source, per_target: multiply-adds of the matrix products of a forward pass, for each source and each target
            piece; the vocabulary's product is part of the latter.
    """

    parameters: int
    per_source: float
    per_target: float


def _convs2s(config: ConvS2SConfig, sentence_pieces: float) -> Cost:
    """Convolutions to twice the units, for the gate, and where units change the residual's map; in the decoder two
    maps and two products with the sentence a layer, for its attention. With `weight_norm` a map has one number more
    for each of its outputs, its length. The table of words is multiplied with in the decoder alone.
    """
    d, lengths = config.d_model, int(config.weight_norm)
    widths = [config.blocks[0][0], *(units for units, _ in config.blocks)]
    maps = [
        *((kernel * before, 2 * units) for before, (units, kernel) in zip(widths, config.blocks, strict=False)),
        *((before, units) for before, units in pairwise(widths) if before != units),
        (d, widths[0]),
        (widths[-1], d),
    ]
    attentions = [pair for units in widths[1:] for pair in ((units, d), (d, units))]
    parameters = sum(inputs * outputs + (1 + lengths) * outputs for inputs, outputs in (*maps, *maps, *attentions))
    per_side = sum(inputs * outputs for inputs, outputs in maps)
    asked = sum(inputs * outputs for inputs, outputs in attentions) + 2 * len(config.blocks) * d * sentence_pieces
    return Cost(
        parameters=config.vocab_size * d + 2 * config.max_positions * d + parameters,
        per_source=per_side,
        per_target=per_side + asked + config.vocab_size * d,
    )


def _bytenet(config: ByteNetConfig, sentence_pieces: float) -> Cost:
    """Blocks of three maps; the encoder's work on unfolded sources, which are longer. Rounding up a source's places is
    left out.
    """
    d, inner, k = config.d_model, config.d_inner, config.kernel_size
    products = 2 * d * inner + k * inner * inner
    block = products + 2 * inner + d + 2 * (d + 2 * inner)
    num_blocks, places = len(config.dilations), config.length_ratio
    if sentence_pieces:
        places += config.length_extra / sentence_pieces
    return Cost(
        parameters=config.vocab_size * d + 2 * num_blocks * block + 2 * (d * d + d) + 2 * 2 * d,
        per_source=places * num_blocks * products,
        per_target=num_blocks * products + 2 * d * d + config.vocab_size * d,
    )


def _extended_neural_gpu(config: ExtendedNeuralGPUConfig, sentence_pieces: float) -> Cost:
    """Every piece is one step over the whole image, so nearly all of it grows with the sentence; the decoder's gates
    read a tape too. Rounding up an image's columns, and its growth where a target is longer, are left out.
    """
    d, kernel = config.d_model, config.kernel_size**2
    convolutions = config.num_layers * 3 * kernel * d * d
    places = config.length_ratio * sentence_pieces * config.image_width
    return Cost(
        parameters=config.vocab_size * d + 3 * convolutions + 2 * config.num_layers * 3 * d,
        per_source=places * convolutions,
        per_target=places * 2 * convolutions + config.vocab_size * d,
    )


COSTS: dict[type, Callable[[Any, float], Cost]] = {
    ConvS2SConfig: _convs2s,
    ByteNetConfig: _bytenet,
    ExtendedNeuralGPUConfig: _extended_neural_gpu,
}
"""By the type of a configuration, its cost.

The second argument, `sentence_pieces`, is how many pieces the sentence of a piece has, on the average over pieces:
products whose number grows with the sentence grow with it. 0 leaves those out.
"""
