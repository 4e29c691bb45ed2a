"""ByteNet: a decoder of masked, dilated convolutions on an encoder of dilated ones (Kalchbrenner et al. 2016).

Sections below are of that paper, arXiv 1610.10099. There is no attention: the decoder's place i reads the encoder's
place i, and what lies elsewhere comes by the convolutions, whose reach doubles from layer to layer.

Shapes: n_src and n_tgt packed rows; B sentences, k beams, U unfolded places of a source.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from core.architecture_config import ByteNetConfig
from core.baselines.rows import PastRows, Reads, RowLinear, RowModel, gather, neighbours, packing_of, padded_rows
from core.data.vocabulary import PAD_ID
from core.layers import Dropout
from core.packing import AttentionPlan, Packing


class ResidualBlock(nn.Module):
    """Section 3.5, the form with ReLUs: to half the width, a dilated convolution, and back; a norm before each ReLU."""

    def __init__(self, config: ByteNetConfig, dilation: int) -> None:
        super().__init__()
        d, inner = config.d_model, config.d_inner
        self.dilation = dilation
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in (d, inner, inner))
        self.narrow, self.taps, self.widen = (
            RowLinear(d, inner),
            RowLinear(config.kernel_size * inner, inner),
            RowLinear(inner, d),
        )

    def convolved(self, x: Tensor) -> Tensor:
        """(..., d_model) -> (..., d_inner), what the convolution reads."""
        return torch.relu(self.norms[1](self.narrow(torch.relu(self.norms[0](x)))))

    def forward(self, x: Tensor, reads: Reads) -> Tensor:
        """x (n, d_model) -> the same shape."""
        return self.merged(x, self.taps(gather(self.convolved(x), reads)))

    def merged(self, x: Tensor, convolution: Tensor) -> Tensor:
        """x (..., d_model) + what comes of the convolution's result (..., d_inner)."""
        return x + self.widen(torch.relu(self.norms[2](convolution)))


class ByteNet(RowModel):
    """Encoder and decoder of residual blocks, whose dilations double within a set; sets are repeated (section 3.4).

    Each stack ends in a norm, as its blocks begin with one. The paper leaves open how a target's embedding and the
    encoder's column below it meet: they are added. Before the shared table stands a linear map, since the last layer's
    ReLU gives no negative numbers.
    """

    config: ByteNetConfig

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__(config)
        self.encoder_layers, self.decoder_layers = (
            nn.ModuleList(ResidualBlock(config, dilation) for dilation in config.dilations) for _ in range(2)
        )
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.last = RowLinear(config.d_model, config.d_model)
        self.output = RowLinear(config.d_model, config.d_model)
        self.dropout = Dropout(config.dropout)
        nn.init.normal_(self.embedding.weight, std=1.0 / math.sqrt(config.d_model))

    def encode_rows(self, src: Tensor, packing: Packing) -> tuple[Tensor, Packing]:
        """src (n_src,) ids -> the unfolded source (n, d_model), and where its sentences lie.

        A source of S pieces becomes ceil(length_ratio * S) + length_extra places, so that most targets end before it
        does (section 3.2, dynamic unfolding); places beyond the source begin as zeros.
        """
        unfolded = Packing(np.array([self.config.unfolded(length) for length in packing.lengths.tolist()]))
        pieces = src.new_full((unfolded.num_rows,), PAD_ID)
        places = np.repeat(unfolded.starts, packing.lengths) + packing.positions
        pieces[torch.from_numpy(places).to(src.device)] = src
        x = self.embedding(pieces) * (pieces != PAD_ID).unsqueeze(1)
        k, reads = self.config.kernel_size, {}
        for layer in self.encoder_layers:
            if layer.dilation not in reads:
                offsets = [layer.dilation * (tap - (k - 1) // 2) for tap in range(k)]
                reads[layer.dilation] = neighbours(unfolded, offsets, src.device)
            x = layer(x, reads[layer.dilation])
        return self.encoder_norm(x), unfolded

    def over_rows(self, src: Tensor, tgt_in: Tensor, cross: AttentionPlan) -> Tensor:
        """src (n_src,), tgt_in (n_tgt,) ids -> (n_tgt, d_model)."""
        targets = cross.queries
        source, unfolded = self.encode_rows(src, cross.keys)
        x = self.embedding(tgt_in) + gather(source, _columns(unfolded, targets, src.device))
        k, reads = self.config.kernel_size, {}
        for layer in self.decoder_layers:
            if layer.dilation not in reads:
                reads[layer.dilation] = neighbours(targets, [layer.dilation * tap for tap in range(1 - k, 1)], x.device)
            x = layer(x, reads[layer.dilation])
        return self.finish(x)

    def finish(self, x: Tensor) -> Tensor:
        """The last block's output (..., d_model) -> hidden states; dropout on the last ReLU, as in section 5."""
        return self.output(self.dropout(torch.relu(self.last(torch.relu(self.decoder_norm(x))))))


def _columns(unfolded: Packing, targets: Packing, device: torch.device) -> Reads:
    """Row i of a target reads row i of its unfolded source; beyond that one's end it reads zeros."""
    longest = np.repeat(unfolded.lengths, targets.lengths)
    inside = targets.positions < longest
    rows = np.repeat(unfolded.starts, targets.lengths) + targets.positions
    taps = np.where(inside, rows, unfolded.num_rows)
    readers = np.full(unfolded.num_rows, targets.num_rows)
    readers[rows[inside]] = np.flatnonzero(inside)
    return Reads(*(torch.from_numpy(each).unsqueeze(1).to(device) for each in (taps, readers)))


class _Source(NamedTuple):
    """`columns` (B, U, d_model) of the unfolded source, zeros beyond each one's end."""

    columns: Tensor


class ByteNetDecoder:
    """A ByteNet, in eval mode, that decodes step by step: a layer keeps what its convolution still reaches."""

    def __init__(self, model: ByteNet) -> None:
        self._model, self._config = model, model.config
        self.device = model.embedding.weight.device

    @torch.no_grad()
    def start(self, src: Tensor, beam_size: int) -> PastRows:
        """Encode src (B, S); the state before the first step, for `beam_size` beams a sentence."""
        columns, unfolded = self._model.encode_rows(src[src != PAD_ID], packing_of(src))
        reach = self._config.kernel_size - 1
        pasts = [
            columns.new_zeros(src.size(0), beam_size, reach * layer.dilation, self._config.d_inner)
            for layer in self._model.decoder_layers
        ]
        return PastRows(0, pasts, _Source(padded_rows(columns, unfolded, int(unfolded.lengths.max()))))

    @torch.no_grad()
    def step(self, pieces: Tensor, state: PastRows) -> Tensor:
        """Feed every beam's newest piece, (B, k) ids, and extend `state`; (B, k, V) logits of the next piece."""
        x, columns = self._model.embedding(pieces), state.source.columns
        if state.position < columns.size(1):
            x = x + columns[:, state.position].unsqueeze(1)
        for number, layer in enumerate(self._model.decoder_layers):
            convolution = layer.taps(state.taps(number, layer.convolved(x), layer.dilation))
            x = layer.merged(x, convolution)
        state.position += 1
        return self._model.logits(self._model.finish(x))
