"""The decoder one position at a time, from kept keys and values: what search needs instead of full passes.

Shapes: B sentences, S source pieces, k beams a sentence, N = B * k beams in all, H heads, V vocabulary. A *slot* is one
place in a sentence's cache, for the keys and values of one position of one beam.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from core import cpu
from core.transformer import DecoderLayer, Transformer, padding_mask

# Floats in one AVX-512 register. Scores come in rows of a multiple of it, because torch's softmax over shorter rows
# leaves its vector code and takes ten times as long.
_LANES = 16
# Logits come in a multiple of this many columns, so that search can reduce them in 32 groups of whole registers.
_LOGITS_MULTIPLE = 32 * _LANES

# Positions that a cache has slots for at first.
_FIRST_POSITIONS = 16
# Rows that oneDNN packs a matrix for.
_USUAL_ROWS = 128


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


class _Matrix:
    """Weights (outputs, inputs) of one input, stacked, and laid out once for products with few rows.

    Over torch's own layout so small a product spends much of its time on the layout: 32 rows gain a third to a half by
    a contiguous (inputs, outputs) matrix, 128 rows a tenth to a fifth (MKL, AVX-512). Where MKL is slow the matrix is
    packed for oneDNN, whose calls are those of `core.cpu`.
    """

    def __init__(self, *weights: Tensor, bias: Tensor | None = None) -> None:
        stacked = torch.cat([weight.detach() for weight in weights])
        self._bias, self._through_onednn = bias, cpu.prefers_onednn(stacked)
        if self._through_onednn:
            self._matrix = torch.ops.mkldnn._reorder_linear_weight(stacked.contiguous(), _USUAL_ROWS)
        else:
            self._matrix = stacked.t().contiguous()

    def times(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """x (n, inputs) -> the product (n, outputs), without the bias; MKL writes it to `out`."""
        if self._through_onednn:
            return torch.ops.mkldnn._linear_pointwise(x, self._matrix, None, "none", [], "")
        return torch.mm(x, self._matrix, out=out)

    def relu(self, x: Tensor) -> Tensor:
        """max(0, product + bias)."""
        if self._through_onednn:
            return torch.ops.mkldnn._linear_pointwise(x, self._matrix, self._bias, "relu", [], "")
        return torch.addmm(self._bias, x, self._matrix).relu_()

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """residual (n, outputs) + the product + the bias, where there is one."""
        if self._through_onednn:
            return torch.ops.mkldnn._linear_pointwise(x, self._matrix, self._bias, "none", [], "").add_(residual)
        if self._bias is None:
            return torch.addmm(residual, x, self._matrix)
        return torch.addmm(self._bias, x, self._matrix).add_(residual)


class _LayerWeights:
    """One decoder layer's matrices, those of the queries scaled by 1 / sqrt(d_k), and its norms."""

    def __init__(self, layer: DecoderLayer, d_k: int) -> None:
        own, source, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        scale = 1.0 / math.sqrt(d_k)
        self.query_key_value = _Matrix(own.query.weight * scale, own.key.weight, own.value.weight)
        self.own_output = _Matrix(own.output.weight)
        self.source_query = _Matrix(source.query.weight * scale)
        self.source_output = _Matrix(source.output.weight)
        self.inner = _Matrix(feed_forward.inner.weight, bias=feed_forward.inner.bias)
        self.outer = _Matrix(feed_forward.outer.weight, bias=feed_forward.outer.bias)
        self.own_norm = _norm(layer.self_attention_norm.norm)
        self.source_norm = _norm(layer.cross_attention_norm.norm)
        self.feed_forward_norm = _norm(layer.feed_forward_norm.norm)


def _norm(norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """The norm's kernel; by way of the module, a call takes four times as long."""
    return partial(
        torch.layer_norm, normalized_shape=norm.normalized_shape, weight=norm.weight, bias=norm.bias, eps=norm.eps
    )


@dataclass
class _LayerCache:
    """What one layer keeps: `keys` (B, H, d_k, slots) and `values` (B, H, slots, d_v) of all beams' positions, and
    `memory_keys` (B, H, d_k, S) and `memory_values` (B, H, S, d_v) of the source, computed once for all its beams.

    Keys stand in columns, as the product with few queries wants them.
    """

    keys: Tensor
    values: Tensor
    memory_keys: Tensor
    memory_values: Tensor


@dataclass
class DecoderState:
    """The decoder between two steps; made by `IncrementalDecoder.start`.

    A position's keys and values stay in the slot where they were written, whichever beams go on from it. `visible`
    (B, k, slots) says where each beam's past lies: 0 there and minus infinity elsewhere, to be added to the scores. So
    the k beams of a sentence are k queries over one cache, and what they share is kept and read once. `memory_mask`
    (B, S) is the same for the source: 0 at real pieces.

    The first `used` slots have been written. When none is left, those that no beam sees any more are given up, and if
    that leaves more than three quarters in use, their number doubles.
    """

    position: int
    used: int
    layers: list[_LayerCache]
    visible: Tensor
    memory_mask: Tensor
    logits: Tensor
    """(N, V') where each step writes: memory that is not taken and given back anew."""

    def select_beams(self, parents: Tensor) -> None:
        """Let each beam go on from the past of beam `parents` (B, k) int64 of its sentence."""
        past = self.visible[:, :, : self.used]
        past.copy_(past.gather(1, parents.unsqueeze(-1).expand_as(past)))

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences at `rows` (B',) int64, where each rows[i] is i or at least B'.

        A sentence that stays keeps its place or fills that of one which leaves, so that only the latter are copied.
        """
        count, used = rows.numel(), self.used
        moved = (rows != torch.arange(count, device=rows.device)).nonzero().flatten()
        origins = rows[moved]
        for layer in self.layers:
            layer.keys[moved, :, :, :used] = layer.keys[origins, :, :, :used]
            layer.values[moved, :, :used] = layer.values[origins, :, :used]
            layer.memory_keys[moved] = layer.memory_keys[origins]
            layer.memory_values[moved] = layer.memory_values[origins]
            layer.keys, layer.values = layer.keys[:count], layer.values[:count]
            layer.memory_keys, layer.memory_values = layer.memory_keys[:count], layer.memory_values[:count]
        self.visible, self.memory_mask = self.visible[rows], self.memory_mask[rows]

    def open_slots(self) -> slice:
        """Slots for one more position of every beam, each of which will see its own."""
        num_beams = self.visible.size(1)
        if self.used + num_beams > self.visible.size(2):
            self._make_room()
        new = slice(self.used, self.used + num_beams)
        self.visible[:, :, new].diagonal(dim1=1, dim2=2).zero_()
        self.used = new.stop
        return new

    def _make_room(self) -> None:
        """Move the slots that some beam sees together, in their order; double them if few are left over."""
        size = self.visible.size(2)
        seen = (self.visible == 0).any(dim=1)  # (B, slots)
        used = int(seen.sum(dim=1).max())
        kept = seen.byte().argsort(dim=1, descending=True, stable=True)[:, :used]  # (B, used)
        more = size if 4 * used > 3 * size else 0

        visible = self.visible.gather(2, kept.unsqueeze(1).expand(-1, self.visible.size(1), -1))
        self.visible = nn.functional.pad(visible, (0, size + more - used), value=-torch.inf)
        for layer in self.layers:
            batch, heads, d_k, _ = layer.keys.shape
            keys = layer.keys.gather(3, kept[:, None, None].expand(batch, heads, d_k, used))
            values = layer.values.gather(2, kept[:, None, :, None].expand(batch, heads, used, layer.values.size(3)))
            if more:
                layer.keys = layer.keys.new_zeros(batch, heads, d_k, size + more)
                layer.values = layer.values.new_zeros(batch, heads, size + more, layer.values.size(3))
            layer.keys[..., :used] = keys
            layer.values[:, :, :used] = values
        self.used = used


class IncrementalDecoder:
    """A Transformer, in eval mode, that decodes step by step with the weights that it has now.

    It keeps nothing of a sentence itself, so several threads may use it, each with states of its own.
    """

    def __init__(self, model: Transformer) -> None:
        self._model, self._config = model, model.config
        self._layers = [_LayerWeights(layer, model.config.d_k) for layer in model.decoder_layers]
        self.device = model.embedding.weight.device
        self._num_columns = _round_up(model.config.vocab_size, _LOGITS_MULTIPLE)  # V'
        missing = self._num_columns - model.config.vocab_size
        self._projection = _Matrix(nn.functional.pad(model.embedding.weight, (0, 0, 0, missing)))

    @torch.no_grad()
    def start(self, src: Tensor, beam_size: int) -> DecoderState:
        """Encode src (B, S); the state before the first step, for `beam_size` beams a sentence."""
        config, (num_sentences, src_length) = self._config, src.shape
        memory = self._model.encode(src)
        columns = _round_up(src_length, _LANES)
        slots = _FIRST_POSITIONS * beam_size
        shape = (num_sentences, config.num_heads)
        layers = []
        for layer in self._model.decoder_layers:
            keys, values = layer.cross_attention.project_memory(memory)  # (B, H, S, d_k), (B, H, S, d_v)
            layers.append(
                _LayerCache(
                    keys=memory.new_zeros(*shape, config.d_k, slots),
                    values=memory.new_zeros(*shape, slots, config.d_v),
                    memory_keys=nn.functional.pad(keys.transpose(2, 3), (0, columns - src_length)).contiguous(),
                    memory_values=nn.functional.pad(values, (0, 0, 0, columns - src_length)).contiguous(),
                )
            )
        memory_mask = memory.new_full((num_sentences, columns), -torch.inf)
        memory_mask[:, :src_length].masked_fill_(padding_mask(src)[:, 0, 0], 0.0)
        visible = memory.new_full((num_sentences, beam_size, slots), -torch.inf)
        logits = memory.new_empty(num_sentences * beam_size, self._num_columns)
        return DecoderState(0, 0, layers, visible, memory_mask, logits)

    @torch.no_grad()
    def step(self, pieces: Tensor, state: DecoderState) -> Tensor:
        """Feed every beam's newest piece, (B, k) ids, and extend `state`.

        Returns:
            (B, k, V') logits of the next piece; V' is V rounded up, and the columns beyond V hold minus infinity. The
            caller may change them; the next step writes over them.
        """
        new = state.open_slots()
        # Position takes the place of a sequence axis: all beams stand at the same one.
        embedded = self._model.embedding(pieces.reshape(-1, 1))
        x = self._model.decoder_positions(embedded, start=state.position).squeeze(1)  # (N, d_model)
        own_mask = self._for_heads(state.visible[:, :, : _round_up(state.used, _LANES)])
        memory_mask = self._for_heads(state.memory_mask.unsqueeze(1))
        for weights, cache in zip(self._layers, state.layers, strict=True):
            x = self._layer_step(weights, cache, x, own_mask, memory_mask, new)
        state.position += 1
        logits = self._projection.times(x, out=state.logits[: x.size(0)])
        logits[:, self._config.vocab_size :] = -torch.inf
        return logits.view(*pieces.shape, -1)

    def _for_heads(self, mask: Tensor) -> Tensor:
        """(B, k or 1, L) -> (B * H, k or 1, L)."""
        return mask.unsqueeze(1).expand(-1, self._config.num_heads, -1, -1).flatten(0, 1)

    def _layer_step(
        self, weights: _LayerWeights, cache: _LayerCache, x: Tensor, own_mask: Tensor, memory_mask: Tensor, new: slice
    ) -> Tensor:
        """One position of `DecoderLayer.forward` for every beam; x and the result (N, d_model)."""
        config, by_head = self._config, (cache.keys.size(0), -1, self._config.num_heads)  # B, k, H
        widths = [config.num_heads * width for width in (config.d_k, config.d_k, config.d_v)]
        query, key, value = weights.query_key_value.times(x).split_with_sizes(widths, dim=1)
        cache.keys[..., new] = key.view(*by_head, config.d_k).permute(0, 2, 3, 1)
        cache.values[:, :, new] = value.view(*by_head, config.d_v).transpose(1, 2)
        slots = own_mask.size(2)
        query = query.view(*by_head, config.d_k)
        attended = _attend(query, cache.keys[..., :slots], cache.values[:, :, :slots], own_mask)
        x = weights.own_norm(weights.own_output.plus(attended, x))

        query = weights.source_query.times(x).view(*by_head, config.d_k)
        attended = _attend(query, cache.memory_keys, cache.memory_values, memory_mask)
        x = weights.source_norm(weights.source_output.plus(attended, x))

        return weights.feed_forward_norm(weights.outer.plus(weights.inner.relu(x), x))


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Eq. 1 for k queries a sentence.

    Args:
        query: (B, k, H, d_k), scaled already.
        keys: (B, H, d_k, L).
        values: (B, H, L, d_v).
        mask: (B * H, k or 1, L), added to the scores.

    Returns:
        (N, H * d_v).
    """
    num_sentences, num_beams, num_heads, _ = query.shape
    scores = torch.baddbmm(mask, query.transpose(1, 2).flatten(0, 1), keys.flatten(0, 1))  # (B * H, k, L)
    attended = torch.bmm(torch.softmax(scores, dim=-1), values.flatten(0, 1))  # (B * H, k, d_v)
    return attended.view(num_sentences, num_heads, num_beams, -1).transpose(1, 2).reshape(num_sentences * num_beams, -1)
