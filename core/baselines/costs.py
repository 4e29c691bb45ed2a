"""What each baseline costs, in closed form from its sizes alone: parameters, and multiply-adds a piece.

Needs no torch, so that planning answers at once; tests hold every form against the built model and torch's counter.
`core.complexity` adds the Transformer and makes whole trainings of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from core.architecture_config import (
    ByteNetConfig,
    ConvS2SConfig,
    ExtendedNeuralGPUConfig,
    FeedForwardConfig,
    MemoryNetworkConfig,
    RecurrentConfig,
    RecurrentLabellerConfig,
)


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


def convs2s(config: ConvS2SConfig, sentence_pieces: float) -> Cost:
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
        parameters=config.vocab_size * d + 2 * config.max_learned_positions * d + parameters,
        per_source=per_side,
        per_target=per_side + asked + config.vocab_size * d,
    )


def bytenet(config: ByteNetConfig, sentence_pieces: float) -> Cost:
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


def extended_neural_gpu(config: ExtendedNeuralGPUConfig, sentence_pieces: float) -> Cost:
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


GATES = {"elman": 1, "gru": 3, "lstm": 4}
"""Of one cell: how many maps of input and state it has."""


def recurrent_layer(cell: str, inputs: int, d_model: int) -> tuple[int, int]:
    """Parameters, with torch's two biases a gate, and multiply-adds a piece."""
    products = GATES[cell] * d_model * (inputs + d_model)
    return products + 2 * GATES[cell] * d_model, products


def recurrent(config: RecurrentConfig, sentence_pieces: float) -> Cost:
    """Of a recurrent encoder-decoder.

    What the decoder starts from is made once a sentence, so that its products are left out with `sentence_pieces` 0.
    Additive scores are counted by their product with v; its tanh is no product.
    """
    d, width, layers = config.d_model, config.memory_width, config.num_layers
    attends = config.attention != "none"
    below = 2 * d if config.bidirectional else d
    encoder = [d] * (1 + config.bidirectional) + ([below] + [d] * (layers - 2)) * (layers > 1)
    decoder = [d + width * (config.attention == "bahdanau")] + [d + width * attends] * (layers - 1)
    (encoder_weights, per_source), (decoder_weights, per_target) = (
        map(sum, zip(*(recurrent_layer(config.cell, inputs, d) for inputs in stack), strict=True))
        for stack in (encoder, decoder)
    )
    parameters = config.vocab_size * d + encoder_weights + decoder_weights
    per_target += config.vocab_size * d
    if config.bidirectional:
        parameters += layers * (d * d + d)
        per_source += layers * d * d / sentence_pieces if sentence_pieces else 0.0
    if attends:
        parameters += d * d + width * d + d
        per_source += width * d
        per_target += d * d + sentence_pieces * (d + width)
    if config.attention == "bahdanau":
        parameters += 2 * d * (2 * d + width) + 2 * d
        per_target += 2 * d * (2 * d + width)
    return Cost(parameters, per_source, per_target)


def feed_forward(config: FeedForwardConfig, sentence_pieces: float) -> Cost:
    """Of a feed-forward labeller; over concatenated vectors that of a sentence which fills all places."""
    d, hidden, layers = config.d_model, config.d_ff, config.num_layers
    places = config.max_pieces if config.word_vectors == "concatenated" else 1
    inputs, outputs = (2 * d if places == 1 else places * d), places * d
    products = inputs * hidden + (layers - 1) * hidden * hidden + hidden * outputs
    return Cost(
        parameters=config.vocab_size * d + products + layers * hidden + outputs,
        per_source=products / places,
        per_target=config.vocab_size * d,
    )


def recurrent_labeller(config: RecurrentLabellerConfig, sentence_pieces: float) -> Cost:
    """Of a recurrent labeller."""
    parameters, products = recurrent_layer(config.cell, config.d_model, config.d_model)
    vocabulary = config.vocab_size * config.d_model
    return Cost(vocabulary + config.num_layers * parameters, config.num_layers * products, vocabulary)


def memory_network(config: MemoryNetworkConfig, sentence_pieces: float) -> Cost:
    """Of a memory network: queries by memories and their times, weights by both, in every hop."""
    d, seen = config.d_model, min(sentence_pieces, config.memory_size)
    vocabulary = config.vocab_size * d
    return Cost(
        parameters=3 * vocabulary + 2 * config.memory_size * d + d * d,
        per_source=config.num_hops * (d * d + 2 * d * (sentence_pieces + seen)),
        per_target=vocabulary,
    )


COSTS: dict[type, Callable[[Any, float], Cost]] = {
    ConvS2SConfig: convs2s,
    ByteNetConfig: bytenet,
    ExtendedNeuralGPUConfig: extended_neural_gpu,
    RecurrentConfig: recurrent,
    FeedForwardConfig: feed_forward,
    RecurrentLabellerConfig: recurrent_labeller,
    MemoryNetworkConfig: memory_network,
}
"""By the type of a configuration, its cost.

The second argument, `sentence_pieces`, is how many pieces the sentence of a piece has, on the average over pieces:
products whose number grows with the sentence grow with it. 0 leaves those out.
"""
