"""Parameter counts and training cost in closed form, from a configuration alone (Table 3's last column).

Needs no torch, so that planning answers at once; tests hold the counts against the built model. The other
architectures' forms stand in `core.baselines.costs`.
"""

from __future__ import annotations

from core.architecture_config import ArchitectureConfig, ModelConfig
from core.baselines.costs import COSTS, Cost
from core.config import TrainConfig


def num_parameters(config: ArchitectureConfig) -> int:
    """Trainable numbers of a model of any architecture, each shared matrix counted once.

    At 40,960 pieces the Transformer's base has 65.07M, Table 3's 65; at 37,000 it has 63.05M.
    """
    return _cost(config, 0.0).parameters


def training_flops(model: ArchitectureConfig, train: TrainConfig, sentence_pieces: float = 0.0) -> float:
    """Operations of the matrix products of a whole training: 2 per multiply-add, times 3 for the backward pass.

    Left out: softmax, norms, dropout, the optimiser.

    Args:
        sentence_pieces: how many pieces the sentence of a piece has, on the average over pieces; attention's own
            products (queries by keys, weights by values) grow with it. 0 leaves them out.
    """
    return train.train_steps * update_flops(model, train.source_tokens, train.target_tokens, sentence_pieces)


def update_flops(
    model: ArchitectureConfig, source_tokens: float, target_tokens: float, sentence_pieces: float
) -> float:
    """Operations of one update of so many tokens, as `training_flops` counts them."""
    cost = _cost(model, sentence_pieces)
    return 6.0 * (source_tokens * cost.per_source + target_tokens * cost.per_target)


def _cost(config: ArchitectureConfig, sentence_pieces: float) -> Cost:
    if isinstance(config, ModelConfig):
        return _transformer(config, sentence_pieces)
    return COSTS[type(config)](config, sentence_pieces)


def _transformer(config: ModelConfig, sentence_pieces: float) -> Cost:
    """Of the Transformer.

    Parameters of a layer: attention projections without biases, the feed-forward network with them, two numbers a
    dimension for each LayerNorm. The vocabulary matrix is one (section 3.4). Source pieces pass the encoder and the
    keys and values of the decoder's attention over it; target pieces pass the rest of the decoder and the vocabulary
    product.
    """
    d = config.d_model
    query_output = d * config.num_heads * (config.d_k + config.d_v)
    key_value = query_output
    feed_forward = 2 * d * config.d_ff
    norm = 2 * d
    encoder_layer = query_output + key_value + feed_forward + config.d_ff + d + 2 * norm
    decoder_layer = 2 * (query_output + key_value) + feed_forward + config.d_ff + d + 3 * norm
    learned = 2 * config.max_learned_positions * d if config.positions == "learned" else 0
    attention = sentence_pieces * config.num_heads * (config.d_k + config.d_v)
    return Cost(
        parameters=config.vocab_size * d + learned + config.num_layers * (encoder_layer + decoder_layer),
        per_source=config.num_layers * (query_output + 2 * key_value + feed_forward + attention),
        per_target=config.num_layers * (2 * query_output + key_value + feed_forward + 2 * attention)
        + config.vocab_size * d,
    )
