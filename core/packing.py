"""Batches without padding: the real pieces of all sentences stand one after the other, as rows (n, d_model).

Almost all of a Transformer works on one position at a time, and there padding is work for nothing. Attention alone must
know which rows are one sentence. It takes sentences of like lengths together, in groups, and sees each group as a
rectangle of cells as wide as its longest sentence.

Shapes: n rows of one side; a group has B sentences of up to T query and S key positions; H heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.data.batching import Batch
from core.data.split import ParallelSplit, Sentences
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID

# A group ends before a sentence that is longer than its shortest one by this factor, and a piece more: with a smaller
# one an unsorted batch falls into many groups of small products, with a larger one cells are padding to a large part.
_GROUP_GROWTH = 1.3
# Torch's CPU softmax leaves its vector code for rows of fewer than 16 numbers, and is then ten times slower
# (torch 2.13: 0.30 ms against 0.03 ms for 16,000 numbers in rows of 15 and of 16), so no group has fewer keys.
_FEWEST_KEYS = 16

Indices = NDArray[np.int64]
Side = Literal["queries", "keys"]


@dataclass(frozen=True, eq=False)
class Packing:
    """Where the sentences of one side lie in its rows: `lengths` (sentences,) int64, rows of each, none of them 0."""

    lengths: Indices

    @cached_property
    def num_rows(self) -> int:
        """n."""
        return int(self.lengths.sum())

    @cached_property
    def starts(self) -> Indices:
        """(sentences,) the first row of each."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def positions(self) -> Indices:
        """(n,) the place of each row in its sentence, from 0."""
        return np.arange(self.num_rows) - np.repeat(self.starts, self.lengths)


class Group(NamedTuple):
    """Sentences that attend together: B of them, T query and S key positions of each.

    `barred` is float, broadcastable to (B, H, T, S): 0 where a query may attend, -inf where not; None: all may.
    """

    num_sentences: int
    num_queries: int
    num_keys: int
    barred: Tensor | None


@dataclass(frozen=True, eq=False)
class Cells:
    """The way from rows to the cells of all groups, and back.

    A row (H * sum of widths numbers) holds one or more parts side by side, as queries, keys and values, each with H
    heads. A part's cells stand by group, sentence, head and position: what `torch.bmm` wants. All parts' cells lie in
    one memory, part after part, and are moved in units, numbers that divide every width.

    Attributes:
        widths: numbers of one head, for each part.
        num_cells: cells of a part.
        from_rows: int64, for each unit of the memory, the unit of the rows that it shows. A cell beyond its sentence's
            end shows the sentence's last row: it holds numbers, which nothing may depend on.
        to_rows: int64, for each unit of the rows, the unit of the memory that shows it.
        beyond: int64, the units of the memory beyond a sentence's end.
    """

    widths: tuple[int, ...]
    num_cells: int
    row_width: int
    from_rows: Tensor
    to_rows: Tensor
    beyond: Tensor

    @property
    def unit(self) -> int:
        return math.gcd(*self.widths)

    def empty(self, like: Tensor) -> Tensor:
        """Memory for all cells, (units, unit), of the type of `like`."""
        return like.new_empty(self.from_rows.numel(), self.unit)

    def take(self, rows: Tensor) -> Tensor:
        """Rows (n, row_width) -> the memory of all cells."""
        return rows.reshape(-1, self.unit).index_select(0, self.from_rows)

    def take_gradient(self, rows: Tensor) -> Tensor:
        """`take`, with zero beyond a sentence's end: what is there has no part in the loss."""
        memory = self.take(rows)
        return memory.index_fill_(0, self.beyond, 0.0) if self.beyond.numel() else memory

    def put(self, memory: Tensor) -> Tensor:
        """The memory of all cells -> rows (n, row_width); cells beyond a sentence's end are left behind."""
        return memory.index_select(0, self.to_rows).view(-1, self.row_width)

    def parts(self, memory: Tensor) -> list[Tensor]:
        """A view of each part in the memory of all cells: (cells, width)."""
        sizes = [self.num_cells * width // self.unit for width in self.widths]
        return [part.view(-1, width) for part, width in zip(memory.split(sizes), self.widths, strict=True)]


class AttentionPlan:
    """How the rows of one side attend to those of another, or to their own; made once a batch, used by every layer.

    Both sides hold the same sentences in the same order. Where that rises in length, groups are few: they are runs of
    neighbours. Off the CPU, where a launch costs more than padding, all sentences are one group.
    """

    def __init__(self, queries: Packing, keys: Packing, causal: bool, device: torch.device) -> None:
        self.queries, self.keys, self.causal, self.device = queries, keys, causal, device
        longest = np.maximum(queries.lengths, keys.lengths)
        bounds = [0, len(longest)] if device.type != "cpu" else _group_bounds(longest)
        self._spans = [slice(*pair) for pair in pairwise(bounds)]
        self._widest = {
            "queries": [int(queries.lengths[span].max()) for span in self._spans],
            "keys": [max(_FEWEST_KEYS, int(keys.lengths[span].max())) for span in self._spans],
        }
        if queries is keys:
            self._widest["queries"] = self._widest["keys"]
        self._cells: dict[tuple[Side, int, tuple[int, ...]], Cells] = {}

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups, in the order of their cells."""
        groups = []
        for span, t, s in zip(self._spans, self._widest["queries"], self._widest["keys"], strict=True):
            lengths = self.keys.lengths[span]
            # With a causal mask, padding stands to the right, where no real query looks.
            real = (np.arange(s) < lengths[:, None])[:, None, None, :]
            allowed = np.tri(t, s, dtype=bool) if self.causal else real
            barred = None
            if not allowed.all():
                barred = torch.from_numpy(np.where(allowed, np.float32(0.0), np.float32(-np.inf))).to(self.device)
            groups.append(Group(len(lengths), t, s, barred))
        return tuple(groups)

    def cells(self, side: Side, num_heads: int, widths: tuple[int, ...]) -> Cells:
        """The cells of one side's rows, which hold parts of these widths a head."""
        key = (side, num_heads, widths)
        if key not in self._cells:
            packing = self.queries if side == "queries" else self.keys
            self._cells[key] = _build_cells(packing, self._spans, self._widest[side], num_heads, widths, self.device)
        return self._cells[key]

    @cached_property
    def bounds(self) -> tuple[Tensor, Tensor]:
        """(sentences + 1,) int32 of each side: where sentences begin and end, for a variable-length kernel."""
        return tuple(
            torch.from_numpy(np.append(packing.starts, packing.num_rows).astype(np.int32)).to(self.device)
            for packing in (self.queries, self.keys)
        )


def _group_bounds(lengths: Indices) -> list[int]:
    """Where groups begin, and the end of the last; a group ends before the first sentence too long for it."""
    bounds, begin = [], 0
    while begin < len(lengths):
        bounds.append(begin)
        too_long = lengths[begin:] > _GROUP_GROWTH * lengths[begin] + 1
        begin = begin + int(too_long.argmax()) if too_long.any() else len(lengths)
    return [*bounds, len(lengths)]


def _build_cells(
    packing: Packing,
    spans: Sequence[slice],
    widest: Sequence[int],
    num_heads: int,
    widths: tuple[int, ...],
    device: torch.device,
) -> Cells:
    unit = math.gcd(*widths)
    row_of_cell, beyond = [], []  # by group, (B, L)
    cell_of_row = np.empty((packing.num_rows, num_heads), dtype=np.int64)
    num_cells = 0
    heads = np.arange(num_heads)
    for span, length in zip(spans, widest, strict=True):
        lengths, starts = packing.lengths[span, None], packing.starts[span, None]
        places = np.arange(length)
        real = places < lengths
        row_of_cell.append(starts + np.minimum(places, lengths - 1))
        # A sentence's cells stand head by head: (B, L, H)
        cells = num_cells + (np.arange(len(lengths))[:, None, None] * num_heads + heads) * length + places[:, None]
        cell_of_row[starts[0, 0] : starts[-1, 0] + lengths[-1, 0]] = cells[real]
        beyond.append(cells[~real].ravel())
        num_cells += cells.size
    # (cells,): the row and head of each
    rows = np.concatenate([np.repeat(row[:, None, :], num_heads, axis=1).ravel() for row in row_of_cell])
    head = np.concatenate([np.tile(np.repeat(heads, row.shape[1]), len(row)) for row in row_of_cell])
    beyond_cells = np.concatenate(beyond)

    row_width = num_heads * sum(widths)
    from_rows, to_rows, beyond_units = [], [], []
    first_unit, first_column = 0, 0  # of this part, in the memory and in a row
    for width in widths:
        units = np.arange(width // unit)
        from_rows.append(((rows * row_width + first_column + head * width)[:, None] // unit + units).ravel())
        to_rows.append((first_unit + cell_of_row[:, :, None] * len(units) + units).reshape(packing.num_rows, -1))
        beyond_units.append((first_unit + beyond_cells[:, None] * len(units) + units).ravel())
        first_unit += num_cells * len(units)
        first_column += num_heads * width
    return Cells(
        widths,
        num_cells,
        row_width,
        *(
            torch.from_numpy(array).to(device, non_blocking=True)
            for array in (
                np.concatenate(from_rows),
                np.concatenate(to_rows, axis=1).ravel(),
                np.concatenate(beyond_units),
            )
        ),
    )


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """Sentence pairs by their rows, in rising length.

    Attributes:
        src: (n_src,) int64, pieces and EOS of each source.
        tgt_in, tgt_out: (n_tgt,) int64, BOS and pieces, pieces and EOS of each target.
        encoder, decoder, cross: who attends to whom: sources, targets to their past, targets to sources.
    """

    src: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    encoder: AttentionPlan
    decoder: AttentionPlan
    cross: AttentionPlan

    def padded(self) -> Batch:
        """The same sentences, in the same order, padded on the right."""
        sources, targets = self.encoder.queries.lengths.tolist(), self.decoder.queries.lengths.tolist()
        return Batch(
            *(
                nn.utils.rnn.pad_sequence(rows.split(lengths), batch_first=True, padding_value=PAD_ID)
                for rows, lengths in ((self.src, sources), (self.tgt_in, targets), (self.tgt_out, targets))
            )
        )


def pack(split: ParallelSplit, indices: NDArray[np.integer], device: torch.device) -> PackedBatch:
    """The sentence pairs `indices` of a split."""
    longer = np.maximum(split.src_lengths[indices], split.tgt_lengths[indices])
    indices = np.asarray(indices)[np.argsort(longer, kind="stable")]
    sources = Packing(split.src_lengths[indices].astype(np.int64))
    targets = Packing(split.tgt_lengths[indices].astype(np.int64))
    pieces = (
        _pieces(split.src, indices, sources, after=EOS_ID),
        _pieces(split.tgt, indices, targets, before=BOS_ID),
        _pieces(split.tgt, indices, targets, after=EOS_ID),
    )
    return PackedBatch(
        *(_to_device(array, device) for array in pieces),
        encoder=AttentionPlan(sources, sources, causal=False, device=device),
        decoder=AttentionPlan(targets, targets, causal=True, device=device),
        cross=AttentionPlan(targets, sources, causal=False, device=device),
    )


def _pieces(
    sentences: Sentences,
    indices: NDArray[np.integer],
    packing: Packing,
    before: int | None = None,
    after: int | None = None,
) -> Indices:
    """(n,) the pieces of these sentences, each with a symbol before or after."""
    symbols = packing.starts if before is not None else packing.starts + packing.lengths - 1
    is_piece = np.ones(packing.num_rows, dtype=bool)
    is_piece[symbols] = False
    rows = np.full(packing.num_rows, before if before is not None else after, dtype=np.int64)
    shift = 1 if before is not None else 0
    places = np.repeat(sentences.offsets[indices] - packing.starts - shift, packing.lengths) + np.arange(
        packing.num_rows
    )
    rows[is_piece] = sentences.flat[places[is_piece]]
    return rows


def _to_device(array: Indices, device: torch.device) -> Tensor:
    """A tensor on the device; to a GPU through pinned memory, so that the copy waits for nothing."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
