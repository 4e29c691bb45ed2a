"""Convolutions over packed rows: a layer's inputs are gathered sentence by sentence, and nothing is padding.

Shapes: n rows of all sentences, one after the other; C numbers in a row; k taps of a convolution.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from core import cpu
from core.data.vocabulary import PAD_ID
from core.packing import AttentionPlan, PackedBatch, Packing
from core.sequence_model import SequenceModel


@dataclass(frozen=True, eq=False)
class Reads:
    """Which rows are read where, and the way back, so that the gradient is a gather too.

    Attributes:
        taps: (m, k) int64, the k rows that each of m results reads; n, the number of rows, stands for a row of zeros.
        readers: (n, j) int64, the places in `taps`, row by row, that read each row; m * k stands for none.
    """

    taps: Tensor
    readers: Tensor


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, reads: Reads) -> Tensor:
        ctx.reads = reads
        return _with_zero(rows).index_select(0, reads.taps.flatten()).view(len(reads.taps), -1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        taps, readers = ctx.reads.taps, ctx.reads.readers
        grads = _with_zero(grad.reshape(taps.numel(), -1)).index_select(0, readers.flatten())
        return grads.view(*readers.shape, -1).sum(1), None


def _with_zero(rows: Tensor) -> Tensor:
    return nn.functional.pad(rows, (0, 0, 0, 1))


def gather(rows: Tensor, reads: Reads) -> Tensor:
    """rows (n, C) -> (m, k * C): the rows that each result reads, side by side."""
    return _Gather.apply(rows, reads)


def neighbours(packing: Packing, offsets: Sequence[int], device: torch.device) -> Reads:
    """What a convolution with these offsets reads: of row i the rows i + offset of the same sentence, and else zeros.

    Offsets of 0 and below are a masked convolution, which sees no later row.
    """
    taps = _shifted(packing, offsets, packing.num_rows)
    number = np.arange(len(offsets))
    # Row i is the tap number j of row i - offsets[j].
    readers = _shifted(packing, [-offset for offset in offsets], -1)
    readers = np.where(readers < 0, taps.size, readers * len(offsets) + number)
    return Reads(torch.from_numpy(taps).to(device), torch.from_numpy(readers).to(device))


def _shifted(packing: Packing, offsets: Sequence[int], outside: int) -> NDArray[np.int64]:
    """(n, k): row i + offset for each offset, `outside` where that is no row of the same sentence."""
    places = packing.positions[:, None] + np.asarray(offsets)
    inside = (places >= 0) & (places < np.repeat(packing.lengths, packing.lengths)[:, None])
    return np.where(inside, np.arange(packing.num_rows)[:, None] + np.asarray(offsets), outside)


def padded_rows(rows: Tensor, packing: Packing, length: int) -> Tensor:
    """Packed rows (n, C) -> (B, length, C), zeros beyond a sentence's end."""
    padded = nn.utils.rnn.pad_sequence(rows.split(packing.lengths.tolist()), batch_first=True)
    return nn.functional.pad(padded, (0, 0, 0, length - padded.size(1)))


class RowLinear(nn.Linear):
    """A linear map of packed rows. As a convolution of k taps it maps (n, k * C), what `gather` gives."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, in) -> (n, out), by the products of the device."""
        return cpu.affine(x, self.weight, self.bias) if cpu.handles(x) else super().forward(x)

    def now(self) -> Callable[[Tensor], Tensor]:
        """The map with the weights of this moment, for decoding: a normalised weight is then computed once."""
        weight, bias = self.weight.detach(), self.bias.detach()
        return lambda x: nn.functional.linear(x, weight, bias)


class RowModel(SequenceModel):
    """A model whose layers work on packed rows, and on those alone; padded batches are packed first."""

    @abstractmethod
    def over_rows(self, src: Tensor, tgt_in: Tensor, cross: AttentionPlan) -> Tensor:
        """src (n_src,), tgt_in (n_tgt,) ids -> last hidden states (n_tgt, d_model); `cross` has both sides' lengths."""

    def forward_packed(self, batch: PackedBatch) -> Tensor:
        """A row for each target piece, (n_tgt, d_model)."""
        return self.over_rows(batch.src, batch.tgt_in, batch.cross)

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (B, S), tgt_in (B, T) ids, padding on the right -> (B, T, d_model), zeros at padding."""
        sources, targets = packing_of(src), packing_of(tgt_in)
        cross = AttentionPlan(targets, sources, causal=False, device=src.device)
        rows = self.over_rows(src[src != PAD_ID], tgt_in[tgt_in != PAD_ID], cross)
        return padded_rows(rows, targets, tgt_in.size(1))


def packing_of(pieces: Tensor) -> Packing:
    """Where the sentences of padded pieces (B, L) lie in their rows."""
    return Packing((pieces != PAD_ID).sum(dim=1).cpu().numpy())


@dataclass
class PastRows:
    """A convolutional decoder between two steps: the layers' last inputs, and what was read of the source.

    `pasts` has (B, k, rows, C) for each layer, as many rows as its convolution looks back. `source` has tensors whose
    first axis is the sentence.
    """

    position: int
    pasts: list[Tensor]
    source: NamedTuple

    def taps(self, layer: int, newest: Tensor, dilation: int = 1) -> Tensor:
        """What the layer's masked convolution reads at this step, (B, k, k' * C); `newest` (B, k, C) is remembered."""
        rows = torch.cat((self.pasts[layer], newest.unsqueeze(2)), dim=2)
        self.pasts[layer] = rows[:, :, 1:]
        return rows[:, :, ::dilation].flatten(2)

    def select_beams(self, parents: Tensor) -> None:
        """Let each beam go on from the past of beam `parents` (B, k) int64 of its sentence."""
        sentence = torch.arange(parents.size(0), device=parents.device).unsqueeze(1)
        self.pasts = [past[sentence, parents] for past in self.pasts]

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences at `rows` (B',) int64."""
        self.pasts = [past[rows] for past in self.pasts]
        self.source = type(self.source)(*(each[rows] for each in self.source))
