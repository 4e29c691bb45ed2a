"""Batches by word pieces (section 5.1): training updates of mixed lengths made of micro-batches of like lengths.

A token is a real word piece, special symbol included; padding is never counted in a budget (pitfall C12).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.config import TrainConfig
from core.data.split import ParallelSplit
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    import torch

Lengths = NDArray[np.integer]
"""(sentences,) tokens of each."""
Indices = NDArray[np.int64]
"""Sentences of one batch, by their place in the split."""

# Room left for padding in a micro-batch when an update is divided into shares.
_PADDING_ALLOWANCE = 0.1
# An epoch cut into fewer shares would pad more than 10%: on Multi30k 64 shares pad 8 to 9%, 32 shares 14 to 16% ...
_LEAST_SHARES = 64
# ... but in a very small set, shares of a few sentences would cost more than the padding.
_LEAST_SHARE_SENTENCES = 16

_logger = logging.getLogger(__name__)


class Batch(NamedTuple):
    """One padded batch; every tensor int64, padded on the right with PAD_ID.

    `src`: (B, S) pieces and EOS. `tgt_in`: (B, T) BOS and pieces. `tgt_out`: (B, T) pieces and EOS.
    """

    src: torch.Tensor
    tgt_in: torch.Tensor
    tgt_out: torch.Tensor


def collate(split: ParallelSplit, indices: Indices, device: torch.device | str = "cpu") -> Batch:
    """The tensors of these sentences, in this order."""
    import torch  # the rest of the data needs no torch

    arrays = (
        split.src.padded(indices, PAD_ID, after=EOS_ID),
        split.tgt.padded(indices, PAD_ID, before=BOS_ID),
        split.tgt.padded(indices, PAD_ID, after=EOS_ID),
    )
    return Batch(*(torch.from_numpy(array).to(device, non_blocking=True) for array in arrays))


def epoch_batches(
    src_lengths: Lengths,
    tgt_lengths: Lengths,
    source_tokens: int,
    target_tokens: int,
    micro_batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[list[Indices]]:
    """One epoch: updates, each a list of micro-batches, each the indices of its sentences; every sentence once.

    Sentences are put in order of length and cut into shares of equal size; an update takes a fixed number of shares,
    drawn at random, so that it mixes lengths though a share hardly pads. All updates of an epoch thus have the same
    number of tokens, up to a sentence a share, and no small update is left over at its end. The side that would
    exceed its budget first (`source_tokens` or `target_tokens`) comes as near to it as a whole number of updates
    allows; the other side stays below its own on average. A set smaller than one update is one update.

    The order is a function of (seed, epoch) alone.

    Args:
        micro_batch_tokens: most tokens of a micro-batch on either side, padding included.

    Raises:
        ValueError: no sentence, or one longer than a micro-batch.
    """
    src_lengths, tgt_lengths = np.asarray(src_lengths), np.asarray(tgt_lengths)
    _require_lengths(src_lengths, tgt_lengths, micro_batch_tokens)
    rng = np.random.default_rng((seed, epoch))
    order = _order_by_length(src_lengths, tgt_lengths, rng)

    totals = int(src_lengths.sum()), int(tgt_lengths.sum())
    updates_worth = totals[0] / source_tokens, totals[1] / target_tokens
    num_updates = math.ceil(max(updates_worth))
    room = micro_batch_tokens * (1 - _PADDING_ALLOWANCE)
    least_shares = max(max(totals) / room, min(_LEAST_SHARES, len(order) / _LEAST_SHARE_SENTENCES))
    shares_per_update = math.ceil(least_shares / num_updates)
    binding_lengths = src_lengths if updates_worth[0] >= updates_worth[1] else tgt_lengths
    shares = _cut_evenly(order, binding_lengths, num_updates * shares_per_update)

    drawn = rng.permutation(len(shares))
    return [
        [batch for share in update for batch in _fit(shares[share], src_lengths, tgt_lengths, micro_batch_tokens)]
        for update in np.array_split(drawn, math.ceil(len(shares) / shares_per_update))
    ]


class UpdateStream:
    """Updates without end, epoch after epoch, from a place that can be saved and restored.

    The place is (epoch, number of updates already handed out in it); the same place and seed give the same updates.
    """

    def __init__(self, split: ParallelSplit, config: TrainConfig, seed: int) -> None:
        self._split, self._config, self._seed = split, config, seed
        _require_lengths(split.src_lengths, split.tgt_lengths, config.micro_batch_tokens)
        totals = int(split.src_lengths.sum()), int(split.tgt_lengths.sum())
        if totals[0] < config.source_tokens and totals[1] < config.target_tokens:
            _logger.warning(
                "the training text has %d source and %d target tokens, fewer than one update of %d and %d: "
                "every update is the whole text, and the effective batch is smaller than configured",
                *totals, config.source_tokens, config.target_tokens,
            )  # fmt: skip
        self._start_epoch(0)

    def next_update(self) -> list[Indices]:
        """The micro-batches of the next update; begins a new epoch where the last one is used up."""
        if self._position == len(self._updates):
            self._start_epoch(self._epoch + 1)
        self._position += 1
        return self._updates[self._position - 1]

    def state(self) -> dict[str, int]:
        """The place in the data, as plain numbers for a checkpoint."""
        return {"epoch": self._epoch, "update": self._position}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go to a place that `state` gave, for the same split, configuration and seed.

        Raises:
            ValueError: no such place in this data.
        """
        self._start_epoch(state["epoch"])
        if not 0 <= state["update"] <= len(self._updates):
            raise ValueError(
                f"no update {state['update']} in epoch {state['epoch']}, which has {len(self._updates)}; "
                f"the place was saved with other data or another configuration"
            )
        self._position = state["update"]

    def _start_epoch(self, epoch: int) -> None:
        config = self._config
        self._epoch, self._position = epoch, 0
        self._updates = epoch_batches(
            self._split.src_lengths,
            self._split.tgt_lengths,
            config.source_tokens,
            config.target_tokens,
            config.micro_batch_tokens,
            self._seed,
            epoch,
        )


def share(update: Sequence[Indices], split: ParallelSplit, rank: int, world_size: int) -> list[Indices]:
    """One rank's micro-batches of an update that `world_size` ranks compute together.

    The sentences of the update, in the order of its micro-batches, are cut where the tokens of both sides divide
    evenly; a micro-batch that holds a cut is divided there. So ranks differ by about a sentence in their tokens, pad
    no more than one rank alone, and together have every sentence of the update once, whatever their number.

    Raises:
        ValueError: no such rank, or fewer sentences than ranks, which would leave one without work.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank={rank} must be at least 0 and less than world_size={world_size}")
    sentences = np.concatenate(update)
    if len(sentences) < world_size:
        raise ValueError(
            f"an update of {len(sentences)} sentences cannot be shared by {world_size} ranks; use fewer of them, "
            "or raise source_tokens and target_tokens"
        )
    tokens = split.src_lengths[sentences].astype(np.int64) + split.tgt_lengths[sentences]
    parts = np.arange(1, world_size)
    cuts = _even_cuts(tokens, world_size)
    # One sentence a rank at least: part i begins at i or later, and leaves one for each part after it.
    cuts = parts + np.clip(np.maximum.accumulate(cuts - parts), 0, len(sentences) - world_size)
    begin, end = np.concatenate([[0], cuts, [len(sentences)]])[rank : rank + 2]
    starts = np.cumsum([0, *map(len, update)])
    pieces = (batch[max(begin - start, 0) : max(end - start, 0)] for start, batch in zip(starts, update, strict=False))
    return [piece for piece in pieces if len(piece)]


def evaluation_batches(split: ParallelSplit, max_batch_tokens: int) -> list[Indices]:
    """Batches of like lengths over a whole split, longest first so that memory runs out at once or never.

    Every sentence once; at most `max_batch_tokens` on either side, padding included, save for a single sentence that
    is longer.
    """
    order = np.lexsort((split.tgt_lengths, split.src_lengths))[::-1]
    total = max(int(split.src_lengths.sum()), int(split.tgt_lengths.sum()))
    shares = _cut_evenly(order, split.src_lengths, math.ceil(total / max_batch_tokens / (1 - _PADDING_ALLOWANCE)))
    return [batch for share in shares for batch in _fit(share, split.src_lengths, split.tgt_lengths, max_batch_tokens)]


def _order_by_length(src_lengths: Lengths, tgt_lengths: Lengths, rng: np.random.Generator) -> Indices:
    """Indices so that neighbours are alike on both sides; sentences of equal lengths are in random order.

    One side, drawn at random, decides; within one length of it the other side rises and falls in turn, so that it
    does not jump where the next length begins.
    """
    shuffled = rng.permutation(len(src_lengths))
    major, minor = (src_lengths, tgt_lengths) if rng.integers(2) else (tgt_lengths, src_lengths)
    longest = max(int(src_lengths.max()), int(tgt_lengths.max()))
    # The smallest type: numpy sorts numbers of 8 and 16 bits by radix, in linear time.
    small = np.min_scalar_type(longest)
    major, minor = major[shuffled].astype(small), minor[shuffled].astype(small)
    falling = (major & 1) == rng.integers(2)
    return shuffled[np.lexsort((np.where(falling, longest - minor, minor).astype(small), major))]


def _cut_evenly(order: Indices, lengths: Lengths, num_shares: int) -> list[Indices]:
    """Consecutive parts of `order` with equal numbers of tokens, as near as whole sentences allow; none is empty."""
    return [share for share in np.split(order, _even_cuts(lengths[order], num_shares)) if len(share)]


def _even_cuts(tokens: Lengths, num_parts: int) -> NDArray[np.int64]:
    """(num_parts - 1,) places that divide consecutive sentences into parts of equal tokens, rising."""
    ends = np.cumsum(tokens, dtype=np.int64)
    middles = ends - tokens / 2
    return np.searchsorted(middles, ends[-1] * np.arange(1, num_parts) / num_parts)


def _fit(share: Indices, src_lengths: Lengths, tgt_lengths: Lengths, max_tokens: int) -> list[Indices]:
    """The share in as few equal parts as keep `max_tokens`, padding included, on both sides."""
    longest = max(int(src_lengths[share].max()), int(tgt_lengths[share].max()))
    num_parts = math.ceil(len(share) / max(1, max_tokens // longest))
    return np.array_split(share, num_parts)


def _require_lengths(src_lengths: Lengths, tgt_lengths: Lengths, micro_batch_tokens: int) -> None:
    if not len(src_lengths):
        raise ValueError("there is no sentence to make batches of")
    for side, lengths in (("source", src_lengths), ("target", tgt_lengths)):
        if lengths.max() > micro_batch_tokens:
            raise ValueError(
                f"sentence {lengths.argmax()} has {lengths.max()} {side} tokens, "
                f"more than micro_batch_tokens={micro_batch_tokens}; raise it, or lower max_train_pieces"
            )
