"""Parameter counts and training cost in closed form, from a configuration alone (Table 3's last column).

Needs no torch, so that planning answers at once; tests hold the counts against the built model.
"""

from __future__ import annotations

from core.architecture_config import ArchitectureConfig
from core.config import TrainConfig


def num_parameters(config: ArchitectureConfig) -> int:
    """Trainable numbers of the Transformer, each shared matrix counted once.

    Per layer: attention projections without biases, the feed-forward network with them, two numbers a dimension for
    each LayerNorm. The vocabulary matrix is one (section 3.4). At 40,960 pieces the base model has 65.07M, Table 3's
    65; at 37,000 it has 63.05M.
    """
    d = config.d_model
    attention = d * config.num_heads * (2 * config.d_k + 2 * config.d_v)
    feed_forward = 2 * d * config.d_ff + config.d_ff + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    learned = 2 * config.max_learned_positions * d if config.positions == "learned" else 0
    return config.vocab_size * d + learned + config.num_layers * (encoder_layer + decoder_layer)


def training_flops(model: ArchitectureConfig, train: TrainConfig, sentence_pieces: float = 0.0) -> float:
    """Operations of the matrix products of a whole training: 2 per multiply-add, times 3 for the backward pass.

    Source pieces pass the encoder and the keys and values of the decoder's attention over it; target pieces pass the
    rest of the decoder and the vocabulary product. Left out: softmax, norms, dropout, the optimiser.

    Args:
        sentence_pieces: how many pieces the sentence of a piece has, on the average over pieces; attention's own
            products (queries by keys, weights by values) grow with it. 0 leaves them out.
    """
    d = model.d_model
    query_output = d * model.num_heads * (model.d_k + model.d_v)
    key_value = query_output
    feed_forward = 2 * d * model.d_ff
    attention = sentence_pieces * model.num_heads * (model.d_k + model.d_v)
    per_source = model.num_layers * (query_output + 2 * key_value + feed_forward + attention)
    per_target = model.num_layers * (2 * query_output + key_value + feed_forward + 2 * attention)
    per_target += model.vocab_size * d
    return 6.0 * train.train_steps * (train.source_tokens * per_source + train.target_tokens * per_target)
