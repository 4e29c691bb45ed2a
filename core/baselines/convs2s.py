"""ConvS2S: gated convolutions and an attention in every decoder layer (Gehring et al. 2017, arXiv 1705.03122).

Sections below are of that paper. Shapes: n_src and n_tgt packed rows; B sentences, k beams, S source pieces.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from core.architecture_config import ConvS2SConfig
from core.attention import attend_over_rows
from core.baselines.rows import PastRows, RowLinear, RowModel, gather, neighbours, packing_of, padded_rows
from core.data.vocabulary import PAD_ID
from core.layers import Dropout, LearnedPositions
from core.packing import AttentionPlan

HALF = math.sqrt(0.5)
"""A sum of two parts of one variance, times this, has that variance again (section 3.4)."""
POSITIONS_STD = 0.1
"""Of learned positions at the start (section 3.5)."""


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


class GatedConvolution(nn.Module):
    """v([A B]) = A * sigmoid(B) of a convolution that gives A and B (section 3.2), after dropout on its input.

    `resize` brings the input to the output's width, for the residual, where the two differ.
    """

    def __init__(self, inputs: int, units: int, kernel_size: int, config: ConvS2SConfig) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dropout = Dropout(config.dropout)
        self.taps = _linear(kernel_size * inputs, 2 * units, config, gain=4.0)
        self.resize = _linear(inputs, units, config) if inputs != units else nn.Identity()


def _linear(inputs: int, outputs: int, config: ConvS2SConfig, gain: float = 1.0) -> RowLinear:
    """A map that keeps the variance of its input (section 3.5): 4 p / n before a gate, 1 / n elsewhere, p the share
    that dropout keeps, applied as the authors' code does, to every map; weight-normalised (Salimans and Kingma 2016).
    """
    linear = RowLinear(inputs, outputs)
    nn.init.normal_(linear.weight, std=math.sqrt(gain * (1.0 - config.dropout) / inputs))
    nn.init.zeros_(linear.bias)
    return weight_norm(linear) if config.weight_norm else linear


class LayerAttention(nn.Module):
    """A decoder layer's attention (section 3.3): its state with the target embedding asks, encoder outputs answer."""

    def __init__(self, units: int, config: ConvS2SConfig) -> None:
        super().__init__()
        self.query = _linear(units, config.d_model, config)
        self.output = _linear(config.d_model, units, config)


class ConvS2S(RowModel):
    """Encoder and decoder of gated convolutions.

    The table of words is the shared one. It is read unscaled, which gives words the start of N(0, 0.1) that positions
    have; and there is no second table before the softmax.
    """

    config: ConvS2SConfig

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__(config)
        d, widths = config.d_model, [units for units, _ in config.blocks]
        inputs = [widths[0], *widths]
        self.encoder_positions = LearnedPositions(config.max_learned_positions, d)
        self.decoder_positions = LearnedPositions(config.max_learned_positions, d)
        self.dropout = Dropout(config.dropout)
        self.encoder_input, self.decoder_input = _linear(d, widths[0], config), _linear(d, widths[0], config)
        self.encoder_layers, self.decoder_layers = (
            nn.ModuleList(
                GatedConvolution(before, units, kernel, config)
                for before, (units, kernel) in zip(inputs, config.blocks, strict=False)
            )
            for _ in range(2)
        )
        self.attentions = nn.ModuleList(LayerAttention(units, config) for units in widths)
        self.encoder_output, self.decoder_output = _linear(widths[-1], d, config), _linear(widths[-1], d, config)
        nn.init.normal_(self.embedding.weight, std=1.0 / math.sqrt(d))
        for positions in (self.encoder_positions, self.decoder_positions):
            nn.init.normal_(positions.weight, std=POSITIONS_STD)

    def encode_rows(self, src: Tensor, side: AttentionPlan) -> tuple[Tensor, Tensor]:
        """src (n_src,) ids -> what decoder layers compare with and what they take, each (n_src, d_model).

        What they take has the words themselves beside the encoder's output, as memory of what stood there.
        """
        packing = side.keys
        embedded = self._embed(src, self.encoder_positions, packing.positions)
        x = self.encoder_input(embedded)
        for layer, (_, kernel) in zip(self.encoder_layers, self.config.blocks, strict=True):
            reads = neighbours(packing, range(-((kernel - 1) // 2), kernel // 2 + 1), x.device)
            gated = nn.functional.glu(layer.taps(gather(layer.dropout(x), reads)))
            x = (gated + layer.resize(x)) * HALF
        # Every decoder layer attends, so their gradients add up here; words are left out (section 3.4).
        keys = _ScaledGradient.apply(self.encoder_output(x), 1.0 / len(self.attentions))
        return keys, (keys + embedded) * HALF

    def over_rows(self, src: Tensor, tgt_in: Tensor, cross: AttentionPlan) -> Tensor:
        """src (n_src,), tgt_in (n_tgt,) ids -> (n_tgt, d_model)."""
        d, targets = self.config.d_model, cross.queries
        source = torch.cat(self.encode_rows(src, cross), dim=1)
        # A mean of m vectors has 1 / m of their variance, if the weights are even (section 3.4).
        spread = torch.from_numpy(cross.keys.lengths).to(source).sqrt()
        spread = spread.repeat_interleave(torch.from_numpy(targets.lengths).to(src.device)).unsqueeze(1)
        embedded = self._embed(tgt_in, self.decoder_positions, targets.positions)
        x = self.decoder_input(embedded)
        for layer, attention, (_, kernel) in zip(self.decoder_layers, self.attentions, self.config.blocks, strict=True):
            reads = neighbours(targets, range(1 - kernel, 1), x.device)
            gated = nn.functional.glu(layer.taps(gather(layer.dropout(x), reads)))
            # The products here are not scaled; Eq. 1's division by sqrt(d_k) is undone.
            query = (attention.query(gated) + embedded) * (HALF * math.sqrt(d))
            attended = attend_over_rows(query, source, cross, 1, d, d) * spread
            gated = (attention.output(attended) + gated) * HALF
            x = (gated + layer.resize(x)) * HALF
        return self.dropout(self.decoder_output(x))

    def _embed(self, pieces: Tensor, positions: LearnedPositions, places) -> Tensor:
        return self.dropout(positions.add_at(self.embedding(pieces) / self.embedding.scale, places))

    def source_attention(self, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, ...]:
        """The weights of each decoder layer over the source, (B, 1, T, S): see `SequenceModel.source_attention`."""
        decoder = ConvS2SDecoder(self)
        state = decoder.start(src, beam_size=1)
        steps = [decoder.attend(piece, state)[1] for piece in tgt_in.split(1, dim=1)]
        return tuple(torch.cat(weights, dim=1).unsqueeze(1) for weights in zip(*steps, strict=True))


class _Source(NamedTuple):
    """What decoder layers attend to: `keys` (B, d_model, S), `values` (B, S, d_model), times the square root of the
    sentence's length; `barred` (B, 1, S), minus infinity at padding.
    """

    keys: Tensor
    values: Tensor
    barred: Tensor


class ConvS2SDecoder:
    """A ConvS2S, in eval mode, that decodes step by step: a layer keeps its last kernel - 1 inputs."""

    def __init__(self, model: ConvS2S) -> None:
        self._model, self._config = model, model.config
        self.device = model.embedding.weight.device
        self._input, self._output = model.decoder_input.now(), model.decoder_output.now()
        self._layers = [
            (
                layer.taps.now(),
                attention.query.now(),
                attention.output.now(),
                layer.resize if isinstance(layer.resize, nn.Identity) else layer.resize.now(),
            )
            for layer, attention in zip(model.decoder_layers, model.attentions, strict=True)
        ]

    @torch.no_grad()
    def start(self, src: Tensor, beam_size: int) -> PastRows:
        """Encode src (B, S); the state before the first step, for `beam_size` beams a sentence."""
        packing = packing_of(src)
        plan = AttentionPlan(packing, packing, causal=False, device=src.device)
        keys, values = self._model.encode_rows(src[src != PAD_ID], plan)
        keys, values = (padded_rows(rows, packing, src.size(1)) for rows in (keys, values))
        padding = src == PAD_ID
        spread = (~padding).sum(dim=1).to(values).sqrt()[:, None, None]
        barred = keys.new_zeros(padding.shape).masked_fill_(padding, -torch.inf).unsqueeze(1)
        widths = [self._config.blocks[0][0], *(units for units, _ in self._config.blocks)]
        pasts = [
            keys.new_zeros(src.size(0), beam_size, kernel - 1, width)
            for width, (_, kernel) in zip(widths, self._config.blocks, strict=False)
        ]
        return PastRows(0, pasts, _Source(keys.transpose(1, 2).contiguous(), values * spread, barred))

    @torch.no_grad()
    def step(self, pieces: Tensor, state: PastRows) -> Tensor:
        """Feed every beam's newest piece, (B, k) ids, and extend `state`; (B, k, V) logits of the next piece."""
        return self._model.logits(self.attend(pieces, state)[0])

    @torch.no_grad()
    def attend(self, pieces: Tensor, state: PastRows) -> tuple[Tensor, list[Tensor]]:
        """`step` up to the last hidden states (B, k, d_model), and each layer's weights over the source (B, k, S)."""
        model, source, weights = self._model, state.source, []
        rows = (model.embedding(pieces) / model.embedding.scale).flatten(0, 1)
        embedded = model.decoder_positions(rows.unsqueeze(1), start=state.position).view(*pieces.shape, -1)
        x = self._input(embedded)
        for number, (convolve, ask, answer, resize) in enumerate(self._layers):
            gated = nn.functional.glu(convolve(state.taps(number, x)))
            query = (ask(gated) + embedded) * HALF
            weights.append(torch.softmax(torch.baddbmm(source.barred, query, source.keys), dim=-1))
            gated = (answer(torch.bmm(weights[-1], source.values)) + gated) * HALF
            x = (gated + resize(x)) * HALF
        state.position += 1
        return self._output(x), weights
