"""The decoder one position at a time, from kept keys and values: what search needs instead of full passes.

Shapes: B sentences, S source pieces, k beams a sentence, H heads, V vocabulary, t pieces decoded so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.transformer import DecoderLayer, Transformer, padding_mask


@dataclass
class LayerCache:
    """What one decoder layer keeps between steps of decoding.

    `keys` (B * k, H, t, d_k) and `values` (B * k, H, t, d_v) are each beam's past; `memory_keys` (B, H, S, d_k) and
    `memory_values` (B, H, S, d_v) are the source's, computed once.
    """

    keys: Tensor
    values: Tensor
    memory_keys: Tensor
    memory_values: Tensor

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Add one position: (B * k, H, 1, d_k) and (B * k, H, 1, d_v)."""
        self.keys = torch.cat((self.keys, keys), dim=2)
        self.values = torch.cat((self.values, values), dim=2)


@dataclass
class DecoderState:
    """The decoder between two steps: how many positions are done, the layers' caches, and the source's mask."""

    position: int
    layers: list[LayerCache]
    memory_mask: Tensor

    def select_beams(self, rows: Tensor) -> None:
        """Let beam i go on from the past of beam rows[i]; `rows` (B * k) int64."""
        for layer in self.layers:
            layer.keys = layer.keys.index_select(0, rows)
            layer.values = layer.values.index_select(0, rows)

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only these sentences' source; `sentences` (B') int64. Their beams are chosen by `select_beams`."""
        for layer in self.layers:
            layer.memory_keys = layer.memory_keys.index_select(0, sentences)
            layer.memory_values = layer.memory_values.index_select(0, sentences)
        self.memory_mask = self.memory_mask.index_select(0, sentences)


class IncrementalDecoder:
    """A Transformer that decodes step by step; the model must be in eval mode."""

    def __init__(self, model: Transformer) -> None:
        self._model = model

    def start(self, src: Tensor, beam_size: int) -> DecoderState:
        """Encode `src` (B, S) and lay out the caches for `beam_size` beams a sentence."""
        config, memory = self._model.config, self._model.encode(src)
        rows = src.size(0) * beam_size
        layers = []
        for layer in self._model.decoder_layers:
            memory_keys, memory_values = layer.cross_attention.project_memory(memory)
            layers.append(
                LayerCache(
                    keys=memory.new_empty(rows, config.num_heads, 0, config.d_k),
                    values=memory.new_empty(rows, config.num_heads, 0, config.d_v),
                    memory_keys=memory_keys,
                    memory_values=memory_values,
                )
            )
        return DecoderState(position=0, layers=layers, memory_mask=padding_mask(src))

    def step(self, pieces: Tensor, state: DecoderState) -> Tensor:
        """Feed every beam's newest piece, (B, k) ids; returns the next one's logits (B, k, V). Extends `state`."""
        # Position takes the place of a sequence axis: all beams stand at the same one.
        model = self._model
        x = model.decoder_positions(model.embedding(pieces.reshape(-1, 1)), start=state.position)
        x = x.view(*pieces.shape, -1)
        for layer, cache in zip(model.decoder_layers, state.layers, strict=True):
            x = _layer_step(layer, x, cache, state.memory_mask)
        state.position += 1
        return model.logits(x)


def _layer_step(layer: DecoderLayer, x: Tensor, cache: LayerCache, memory_mask: Tensor) -> Tensor:
    """One position of the layer for each of k beams a sentence, from kept keys and values.

    A beam's own past is its row of the cache. The source is shared: the k beams of a sentence stand as k query
    positions over one copy of its keys and values.

    Args:
        x: (B, k, d_model), the newest position of every beam.
        cache: extended in place by this position.
        memory_mask: (B, 1, 1, S).

    Returns:
        (B, k, d_model).
    """
    rows = x.reshape(-1, 1, x.size(-1))  # (B * k, 1, d_model)
    cache.append(*layer.self_attention.project_memory(rows))
    attended, _ = layer.self_attention.attend(rows, cache.keys, cache.values, mask=None)
    x = layer.self_attention_norm(x, attended.view_as(x))
    attended, _ = layer.cross_attention.attend(x, cache.memory_keys, cache.memory_values, memory_mask)
    x = layer.cross_attention_norm(x, attended)
    return layer.feed_forward_norm(x, layer.feed_forward(x))
