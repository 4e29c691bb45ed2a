"""Greedy and beam search with the paper's length penalty (section 6.1), over one batch of sentences.

Shapes: B sentences, S source pieces, k beams, V vocabulary, V' >= V columns of logits, t pieces decoded so far, P paths
followed for each sentence: its beams, or the one of greedy search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from core.config import DecodeConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID


class SearchState(Protocol):
    """What a decoder keeps of a batch between two steps. `position`: pieces that it has been fed."""

    position: int

    def select_beams(self, parents: Tensor) -> None:
        """Let each beam go on from the past of beam `parents` (B, k) int64 of its sentence."""

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences at `rows` (B',) int64, where each rows[i] is i or at least B'."""


class StepDecoder(Protocol):
    """A model, in eval mode, that decodes one position at a time. Several threads may use one, each with own states."""

    device: torch.device

    def start(self, src: Tensor, beam_size: int) -> SearchState:
        """Read src (B, S), end symbols included; the state before the first step, for `beam_size` beams a sentence."""

    def step(self, pieces: Tensor, state: SearchState) -> Tensor:
        """Feed every beam's newest piece, (B, k) ids, and extend `state`.

        Returns:
            (B, k, V') logits of the next piece, V' >= V, minus infinity beyond V; the caller may write over them.
        """


@dataclass(frozen=True)
class Hypothesis:
    """One translation: piece ids without begin and end symbols.

    `log_prob` is the sum over its pieces, the end symbol included; `score` is that divided by the length penalty.
    `finished` is False when the length limit came before the end symbol. `from_greedy` is True when no beam led to it,
    but the greedy path beside them (`DecodeConfig.never_below_greedy`).
    """

    pieces: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool
    from_greedy: bool = False


def length_penalty(length: Tensor | int, alpha: float) -> Tensor | float:
    """((5 + length) / 6)^alpha, Wu et al.'s form, which section 6.1 takes over; `length` counts the end symbol."""
    return ((5 + length) / 6) ** alpha


def source_batch(sources: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Piece ids, each with its end symbol, padded on the right: (B, S) int64."""
    rows = [torch.tensor([*source, EOS_ID]) for source in sources]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID).to(device)


@torch.inference_mode()
def greedy_search(decoder: StepDecoder, src: Tensor, config: DecodeConfig) -> list[Hypothesis]:
    """The most probable next piece, until the end symbol or the limit of input + `max_extra_pieces`.

    Args:
        src: (B, S) ids, end symbol included, padding on the right.
    """
    results: list[Hypothesis | None] = [None] * src.size(0)
    state, rows = decoder.start(src, beam_size=1), _Rows.start(src, 1, config)
    while rows.sentence.numel():
        log_probs = _log_probs(decoder.step(rows.history[..., -1], state))
        rows.live, _, piece = _best_continuations(log_probs, rows.live, num_best=1)
        rows.history = torch.cat((rows.history, piece.unsqueeze(-1)), dim=-1)
        stopped = (piece[:, 0] == EOS_ID) | (state.position >= rows.limit)
        for row in stopped.nonzero().flatten().tolist():
            pieces = rows.history[row, 0, 1:].tolist()
            results[int(rows.sentence[row])] = _hypothesis(pieces, float(rows.live[row, 0]), config)
        _leave(stopped, rows, state)
    return results


@torch.inference_mode()
def beam_search(decoder: StepDecoder, src: Tensor, config: DecodeConfig) -> list[Hypothesis]:
    """The best-scoring hypothesis of each sentence (section 6.1: beam 4, alpha 0.6, at most input + 50 pieces).

    Each step looks at the 2k best continuations, so that k live ones are left even if k of them end. A sentence stops
    when no live path can still win: its log-probability can only fall, so the largest penalty that it could reach
    bounds its score. A hypothesis that ended is preferred to one that the limit cut off. A stopped sentence leaves the
    batch.

    Beams can lose the greedy path and then end below its score. With `never_below_greedy` it is searched for by itself,
    in those sentences alone, and competes under the same score; so no result scores below that of `greedy_search`, up
    to rounding.

    Args:
        src: (B, S) ids, end symbol included, padding on the right.
    """
    k = config.beam_size
    results: list[Hypothesis | None] = [None] * src.size(0)
    lost = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)  # sentences whose greedy path no beam holds
    state, rows = decoder.start(src, k), _Rows.start(src, k, config)
    rows.live[:, 1:] = -torch.inf  # all beams start equal: only one may open, or the k best would be k copies

    def record(row: int, path: int, ending: list[int], log_prob: Tensor) -> None:
        pieces = rows.history[row, path, 1:].tolist() + ending
        results[int(rows.sentence[row])] = _hypothesis(pieces, float(log_prob), config)

    while rows.sentence.numel():
        log_probs = _log_probs(decoder.step(rows.history[..., -1], state))
        totals, path, piece = _best_continuations(log_probs, rows.live, 2 * k)

        ended = piece == EOS_ID
        penalty = length_penalty(state.position, config.length_penalty)
        score, place = (totals.masked_fill(~ended, -torch.inf) / penalty).max(dim=1)
        for row in (score > rows.best_score).nonzero().flatten().tolist():
            record(row, int(path[row, place[row]]), [EOS_ID], totals[row, place[row]])
        rows.best_score = torch.maximum(rows.best_score, score)

        rows.live, going_on = totals.masked_fill_(ended, -torch.inf).topk(k, dim=1)  # (B, k) of the candidates
        if config.never_below_greedy:
            lost[rows.sentence] |= rows.follow_greedy(path, ended, going_on)
        path, piece = path.gather(1, going_on), piece.gather(1, going_on)
        rows.continue_with(path, piece)
        state.select_beams(path)

        most, place = rows.live.max(dim=1)
        can_win = most / length_penalty(rows.limit, config.length_penalty) > rows.best_score
        stopped = (state.position >= rows.limit) | ~can_win
        for row in (stopped & (rows.best_score == -torch.inf)).nonzero().flatten().tolist():
            record(row, int(place[row]), [], most[row])
        _leave(stopped, rows, state)

    # DEPARTURE(6.1): greedy search competes with the beams, because a result below its score is a fault of the search
    # and not of the model; the paper's search has its beams alone. Chosen by `DecodeConfig.never_below_greedy`, which
    # is on; `Hypothesis.from_greedy` marks where it decides.
    again = lost.nonzero().flatten()
    if again.numel():
        del state  # its memory
        for sentence, greedy in zip(again.tolist(), greedy_search(decoder, src[again], config), strict=True):
            found = results[sentence]
            if (greedy.finished, greedy.score) > (found.finished, found.score):
                results[sentence] = replace(greedy, from_greedy=True)
    return results


def _hypothesis(pieces: list[int], log_prob: float, config: DecodeConfig) -> Hypothesis:
    finished = pieces[-1] == EOS_ID
    score = log_prob / length_penalty(len(pieces), config.length_penalty)
    return Hypothesis(tuple(pieces[:-1] if finished else pieces), log_prob, score, finished)


@dataclass
class _Rows:
    """What search keeps of each sentence still in the batch; row i of every tensor belongs to input `sentence[i]`.

    `sentence` (B,) int64; `limit` (B,) most pieces, the end symbol included; `live` (B, P) log-probabilities;
    `history` (B, P, 1 + t) pieces, the begin symbol first; `best_score` (B,) of the paths that ended, at first minus
    infinity; `greedy` (B,) the path that greedy search would be on, -1 where none is.
    """

    sentence: Tensor
    limit: Tensor
    live: Tensor
    history: Tensor
    best_score: Tensor
    greedy: Tensor

    @classmethod
    def start(cls, src: Tensor, num_paths: int, config: DecodeConfig) -> Self:
        num_sentences, device = src.size(0), src.device
        return cls(
            sentence=torch.arange(num_sentences, device=device),
            limit=(src != PAD_ID).sum(dim=1) - 1 + config.max_extra_pieces,
            live=torch.zeros(num_sentences, num_paths, device=device),
            history=torch.full((num_sentences, num_paths, 1), BOS_ID, device=device),
            best_score=torch.full((num_sentences,), -torch.inf, device=device),
            greedy=torch.zeros(num_sentences, dtype=torch.int64, device=device),
        )

    def continue_with(self, path: Tensor, piece: Tensor) -> None:
        """Let each path be the past of `path` (B, P) and then `piece` (B, P)."""
        past = self.history.gather(1, path.unsqueeze(-1).expand_as(self.history))
        self.history = torch.cat((past, piece.unsqueeze(-1)), dim=-1)

    def follow_greedy(self, path: Tensor, ended: Tensor, going_on: Tensor) -> Tensor:
        """Find the greedy path among those that go on.

        Args:
            path, ended: (B, 2k) of each candidate, the best at the front: which path it continues, and whether it ends.
            going_on: (B, k) the candidates that become paths.

        Returns:
            (B,) bool, where it was lost: some path was on it, and now neither goes on nor ends as it does.
        """
        of_greedy = path == self.greedy.unsqueeze(1)
        next_step = of_greedy & (of_greedy.cumsum(dim=1) == 1)  # its most probable continuation
        follows = next_step.gather(1, going_on)
        lost = (self.greedy >= 0) & ~(next_step & ended).any(dim=1) & ~follows.any(dim=1)
        self.greedy = torch.where(follows.any(dim=1), follows.byte().argmax(dim=1), -1)
        return lost

    def keep(self, rows: Tensor) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[rows])


def _leave(stopped: Tensor, rows: _Rows, state: SearchState) -> None:
    """Take the sentences at `stopped` (B,) bool out of the batch; the others stay, or fill the places of these."""
    if not stopped.any():
        return
    going_on = (~stopped).nonzero().flatten()
    count = going_on.numel()
    kept = torch.arange(count, device=stopped.device)
    kept[stopped[:count]] = going_on[going_on >= count]
    rows.keep(kept)
    state.select_sentences(kept)


# Columns of logits that are looked at as one group.
_GROUP_SIZE = 32


def _log_probs(logits: Tensor) -> Tensor:
    """Logits (B, P, V'), written over -> log-probabilities (B, P, group size, groups), minus infinity at padding and at
    the begin symbol, whose probabilities are part of the softmax all the same.

    Column c is in group c % groups, so that the maxima of groups are taken over whole registers.
    """
    log_probs = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    torch.log_softmax(log_probs, dim=-1, out=log_probs)
    log_probs[..., PAD_ID] = log_probs[..., BOS_ID] = -torch.inf
    return log_probs.unflatten(-1, (_GROUP_SIZE if log_probs.size(-1) % _GROUP_SIZE == 0 else 1, -1))


def _best_continuations(log_probs: Tensor, live: Tensor, num_best: int) -> tuple[Tensor, Tensor, Tensor]:
    """The most probable ways for the paths of a sentence to go on by one piece.

    The c best of all lie in the c groups with the greatest maxima. (Torch's top-k over all P * V' numbers would take as
    long as the projection itself: 35 of 75 ms at base size on a core.)

    Args:
        log_probs: (B, P, group size, groups), as from `_log_probs`.
        live: (B, P) the paths' own log-probabilities.

    Returns:
        totals (B, num_best) log-probabilities, the best at the front, and the path and piece of each. Where fewer are
        possible at all, there is padding at minus infinity.
    """
    size, groups = log_probs.shape[2:]
    greatest = log_probs.amax(dim=2).add_(live.unsqueeze(-1))  # (B, P, groups)
    chosen = greatest.flatten(1).topk(num_best, dim=1).indices
    path, group = chosen // groups, chosen % groups
    sentence = torch.arange(live.size(0), device=live.device).unsqueeze(1)
    members = log_probs[sentence, path, :, group].add_(live.gather(1, path).unsqueeze(-1))  # (B, num_best, size)
    totals, place = members.flatten(1).topk(num_best, dim=1)
    which, member = place // size, place % size
    piece = (member * groups + group.gather(1, which)).masked_fill_(totals == -torch.inf, PAD_ID)
    return totals, path.gather(1, which), piece
