"""Batches by word pieces (section 5.1): training updates of mixed lengths made of micro-batches of like lengths.

A token is a real word piece, special symbol included; padding is never counted in a budget (pitfall C12).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
# An epoch cut into fewer shares would pad more than 5%: on Multi30k 176 shares pad 4 to 5%, 64 shares 8 to 9% ...
_LEAST_SHARES = 176
# ... but in a very small set, shares of a few sentences would cost more than the padding.
_LEAST_SHARE_SENTENCES = 16
# An update mixes the lengths of as many shares, as the paper's did with a batch on each of 8 GPUs, whatever a
# micro-batch could hold ...
_SHARES_PER_UPDATE = 8
# ... unless they were so small that a device would be idle most of the time.
_LEAST_SHARE_TOKENS = 2_000
# Places of a large array that are worked on at a time.
_PART = 1 << 16

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


@dataclass(frozen=True, eq=False)
class Epoch(Sequence[list[Indices]]):
    """The updates of one epoch, each a list of micro-batches, made when it is asked for: see `epoch_batches`.

    What it holds is 4 bytes a sentence, and little more: `order` (sentences,) uint32, the sentences by length;
    `share_starts` (shares + 1,), the place in it where each share begins; `drawn` (shares,), the shares as updates
    take them.
    """

    order: NDArray[np.uint32]
    share_starts: NDArray[np.int64]
    drawn: NDArray[np.int64]
    num_updates: int
    src_lengths: Lengths
    tgt_lengths: Lengths
    micro_batch_tokens: int

    def __len__(self) -> int:
        return self.num_updates

    def __getitem__(self, index: int) -> list[Indices]:
        place = range(self.num_updates)[index]
        first, end = (len(self.drawn) * update // self.num_updates for update in (place, place + 1))
        batches: list[Indices] = []
        for number in self.drawn[first:end]:
            sentences = self.order[self.share_starts[number] : self.share_starts[number + 1]].astype(np.int64)
            batches += _fit(sentences, self.src_lengths, self.tgt_lengths, self.micro_batch_tokens)
        return batches


def epoch_batches(
    src_lengths: Lengths,
    tgt_lengths: Lengths,
    source_tokens: int,
    target_tokens: int,
    micro_batch_tokens: int,
    seed: int,
    epoch: int,
) -> Epoch:
    """One epoch: updates, each a list of micro-batches, each the indices of its sentences; every sentence once.

    Sentences are put in order of length and cut into shares of equal size; an update takes a fixed number of shares,
    drawn at random, so that it mixes lengths though a share hardly pads. (Below 4,000 tokens an update is one share
    of a large set, and so of about one length.) All updates of an epoch thus have the same
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
    mixed_shares = min(_SHARES_PER_UPDATE, int(max(totals) / num_updates / _LEAST_SHARE_TOKENS))
    shares_per_update = max(math.ceil(least_shares / num_updates), mixed_shares)
    binding_lengths = src_lengths if updates_worth[0] >= updates_worth[1] else tgt_lengths
    tokens = _large_array(len(order), np.int32)
    for part in _parts(len(order)):
        tokens[part] = binding_lengths[order[part]]
    cuts = _even_cuts(tokens, num_updates * shares_per_update)
    # A share without a sentence, as a very long one makes it, is none.
    share_starts = np.unique(np.concatenate([[0], cuts, [len(order)]]))
    num_shares = len(share_starts) - 1
    return Epoch(
        order,
        share_starts,
        rng.permutation(num_shares),
        math.ceil(num_shares / shares_per_update),
        src_lengths,
        tgt_lengths,
        micro_batch_tokens,
    )


class UpdateStream:
    """Updates without end, epoch after epoch, from a place that can be saved and restored.

    The place is (epoch, number of updates already handed out in it); the same place and seed give the same updates,
    whatever the number of ranks that share them (`share`).
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

    def tokens_per_update(self) -> tuple[float, float]:
        """Source and target tokens of an update, on the average over an epoch."""
        split, num_updates = self._split, len(self._updates)
        return int(split.src_lengths.sum()) / num_updates, int(split.tgt_lengths.sum()) / num_updates

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
        self._updates: Sequence[list[Indices]] = ()  # the last epoch goes before the next one is planned
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
    parts = np.arange(1, world_size)
    cuts = _even_cuts(split.src_lengths[sentences] + split.tgt_lengths[sentences], world_size)
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
    src_lengths, tgt_lengths = split.src_lengths, split.tgt_lengths
    order = np.lexsort((tgt_lengths, src_lengths))[::-1]
    total = max(int(src_lengths.sum()), int(tgt_lengths.sum()))
    cuts = _even_cuts(src_lengths[order], math.ceil(total / max_batch_tokens / (1 - _PADDING_ALLOWANCE)))
    parts = [part for part in np.split(order, cuts) if len(part)]
    return [batch for part in parts for batch in _fit(part, src_lengths, tgt_lengths, max_batch_tokens)]


def _order_by_length(src_lengths: Lengths, tgt_lengths: Lengths, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Indices so that neighbours are alike on both sides; sentences of equal lengths are in random order.

    One side, drawn at random, decides; within one length of it the other side rises and falls in turn, so that it
    does not jump where the next length begins.

    Both lengths, random bits and the index are packed into one number a sentence, and the numbers are sorted where
    they lie: 36 million sentences take 2 seconds and 12 bytes each.
    """
    num_sentences = len(src_lengths)
    major, minor = (src_lengths, tgt_lengths) if rng.integers(2) else (tgt_lengths, src_lengths)
    falling = rng.integers(2)
    longest = max(int(src_lengths.max()), int(tgt_lengths.max()))
    length_bits, index_bits = longest.bit_length(), (num_sentences - 1).bit_length()
    random_bits = 64 - 2 * length_bits - index_bits
    if random_bits < 1 or index_bits > 32:
        raise ValueError(f"{num_sentences} sentences of up to {longest} tokens are too many to be put in order")
    keys = _large_array(num_sentences, np.uint64)
    for part in _parts(num_sentences):
        first, second = major[part].astype(np.uint64), minor[part].astype(np.uint64)
        second = np.where((first & 1) == falling, longest - second, second)
        key = first << length_bits | second
        key = key << random_bits | rng.integers(1 << random_bits, size=len(key), dtype=np.uint64)
        keys[part] = key << index_bits | np.arange(part.start, part.start + len(key), dtype=np.uint64)
    keys.sort()
    keys &= (1 << index_bits) - 1
    order = _large_array(num_sentences, np.uint32)
    order[:] = keys
    return order


def _even_cuts(tokens: Lengths, num_parts: int) -> NDArray[np.int64]:
    """(num_parts - 1,) places that divide consecutive sentences into parts of equal tokens, rising."""
    doubled_middles = _large_array(len(tokens), np.int64)
    doubled_middles[:] = tokens
    np.cumsum(doubled_middles, out=doubled_middles)
    total = int(doubled_middles[-1])
    doubled_middles *= 2
    doubled_middles -= tokens
    # In whole numbers, rounded up: with a fraction, all middles would be copied to compare them.
    return np.searchsorted(doubled_middles, -(-2 * total * np.arange(1, num_parts) // num_parts))


def _parts(length: int) -> Iterator[slice]:
    """A large array in parts, so that what is made of one on the way stays small."""
    return (slice(start, start + _PART) for start in range(0, length, _PART))


def _large_array(length: int, dtype: DTypeLike) -> NDArray:
    """A large array whose memory goes back to the system with it; the allocator would keep some of it for later."""
    return np.frombuffer(mmap(-1, max(1, length) * np.dtype(dtype).itemsize), dtype=dtype)[:length]


def _fit(sentences: Indices, src_lengths: Lengths, tgt_lengths: Lengths, max_tokens: int) -> list[Indices]:
    """The sentences in as few equal parts as keep `max_tokens`, padding included, on both sides."""
    longest = max(int(src_lengths[sentences].max()), int(tgt_lengths[sentences].max()))
    num_parts = math.ceil(len(sentences) / max(1, max_tokens // longest))
    return np.array_split(sentences, num_parts)


def _require_lengths(src_lengths: Lengths, tgt_lengths: Lengths, micro_batch_tokens: int) -> None:
    if not len(src_lengths):
        raise ValueError("there is no sentence to make batches of")
    for side, lengths in (("source", src_lengths), ("target", tgt_lengths)):
        if lengths.max() > micro_batch_tokens:
            raise ValueError(
                f"sentence {lengths.argmax()} has {lengths.max()} {side} tokens, "
                f"more than micro_batch_tokens={micro_batch_tokens}; raise it, or lower max_train_pieces"
            )
