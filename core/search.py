"""Greedy and beam search with the paper's length penalty (section 6.1), over one batch of sentences.

Shapes: B sentences, S source pieces, k beams, V vocabulary, V' >= V columns of logits, t pieces decoded so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from core.config import DecodeConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.incremental import IncrementalDecoder


@dataclass(frozen=True)
class Hypothesis:
    """One translation: piece ids without begin and end symbols.

    `log_prob` is the sum over its pieces, the end symbol included; `score` is that divided by the length penalty.
    `finished` is False when the length limit came before the end symbol. `from_greedy` is True when beam search had
    given this path up and the greedy path was followed to its end besides (`DecodeConfig.never_below_greedy`).
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
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID).to(device)


@torch.inference_mode()
def greedy_search(decoder: IncrementalDecoder, src: Tensor, config: DecodeConfig) -> list[Hypothesis]:
    """The most probable next piece, until the end symbol or the limit of input + `max_extra_pieces`.

    Args:
        src: (B, S) ids, end symbol included, padding on the right.
    """
    return _follow_greedily(decoder, src, decoder.encode(src), config)


@torch.inference_mode()
def beam_search(decoder: IncrementalDecoder, src: Tensor, config: DecodeConfig) -> list[Hypothesis]:
    """The best-scoring hypothesis of each sentence (section 6.1: beam 4, alpha 0.6, at most input + 50 pieces).

    Each step looks at the 2k best continuations, so that k live ones are left even if k of them end. A sentence stops
    when no live beam can still win: its log-probability can only fall, so the largest penalty that it could reach
    bounds its score. A hypothesis that ended is preferred to one that the limit cut off. A stopped sentence leaves the
    batch.

    A beam can lose the greedy path and then end below its score. With `never_below_greedy` such a sentence is decoded
    greedily too, and the better of the two is returned: then no score is below that of `greedy_search`, up to rounding.

    Args:
        src: (B, S) ids, end symbol included, padding on the right.
    """
    memory = decoder.encode(src)
    found, without_greedy = _follow_beams(decoder, src, memory, config)
    if config.never_below_greedy and without_greedy:
        # DEPARTURE(6.1): the greedy path competes too, under the same score, since a beam that is worse than greedy
        # search is a fault of the search and not of the model; the paper's search has its beams alone. Chosen by
        # `DecodeConfig.never_below_greedy`; `Hypothesis.from_greedy` marks where it decided.
        rows = torch.tensor(without_greedy, device=src.device)
        for index, greedy in zip(
            without_greedy, _follow_greedily(decoder, src[rows], memory[rows], config), strict=True
        ):
            if (greedy.finished, greedy.score) > (found[index].finished, found[index].score):
                found[index] = replace(greedy, from_greedy=True)
    return found


@dataclass
class _Rows:
    """What search keeps of each sentence still in the batch; row i of every tensor belongs to input `sentence[i]`."""

    sentence: Tensor
    """(B,) int64."""
    limit: Tensor
    """(B,) most pieces, the end symbol included."""
    live: Tensor
    """(B, k) log-probabilities."""
    history: Tensor
    """(B, k, 1 + t) pieces, the begin symbol first."""

    def keep(self, rows: Tensor) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[rows])


@dataclass
class _BeamRows(_Rows):
    best_score: Tensor
    """(B,) of the best hypothesis that ended; minus infinity before the first."""
    greedy: Tensor
    """(B,) which beam is on the greedy path; -1 once that path has ended or been lost."""


def _start_rows(src: Tensor, beam_size: int, config: DecodeConfig) -> dict[str, Tensor]:
    num_sentences, device = src.size(0), src.device
    live = torch.full((num_sentences, beam_size), -torch.inf, device=device)
    live[:, 0] = 0.0  # all beams start equal: only one may open, or the k best would be k copies
    return {
        "sentence": torch.arange(num_sentences, device=device),
        "limit": (src != PAD_ID).sum(dim=1) - 1 + config.max_extra_pieces,
        "live": live,
        "history": torch.full((num_sentences, beam_size, 1), BOS_ID, device=device),
    }


def _follow_greedily(
    decoder: IncrementalDecoder, src: Tensor, memory: Tensor, config: DecodeConfig
) -> list[Hypothesis]:
    results: list[Hypothesis | None] = [None] * src.size(0)
    state = decoder.start(src, memory, beam_size=1)
    rows = _Rows(**_start_rows(src, 1, config))
    length = 0
    while rows.sentence.numel():
        length += 1
        logits = decoder.step(rows.history[..., -1], state)
        rows.live, _, piece = _best_continuations(logits, rows.live, 1)
        rows.history = torch.cat((rows.history, piece.unsqueeze(-1)), dim=-1)
        stopped = (piece[:, 0] == EOS_ID) | (length >= rows.limit)
        for row in stopped.nonzero().flatten().tolist():
            pieces = rows.history[row, 0, 1:].tolist()
            results[int(rows.sentence[row])] = _hypothesis(pieces, float(rows.live[row, 0]), config)
        if stopped.any():
            going_on = _going_on(stopped)
            rows.keep(going_on)
            state.select_sentences(going_on)
    return results


def _follow_beams(
    decoder: IncrementalDecoder, src: Tensor, memory: Tensor, config: DecodeConfig
) -> tuple[list[Hypothesis], list[int]]:
    """The best hypothesis that the beams find, and the sentences whose greedy path none of them followed to its end."""
    k, alpha = config.beam_size, config.length_penalty
    results: list[Hypothesis | None] = [None] * src.size(0)
    lost = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)
    state = decoder.start(src, memory, k)
    start = _start_rows(src, k, config)
    rows = _BeamRows(**start, best_score=start["live"][:, 0] - torch.inf, greedy=torch.zeros_like(start["sentence"]))
    length = 0
    while rows.sentence.numel():
        length += 1
        logits = decoder.step(rows.history[..., -1], state)
        totals, beam, piece = _best_continuations(logits, rows.live, 2 * k)
        ended = piece == EOS_ID

        ended_score, position = (totals.masked_fill(~ended, -torch.inf) / length_penalty(length, alpha)).max(dim=-1)
        improved = ended_score > rows.best_score
        rows.best_score = torch.where(improved, ended_score, rows.best_score)
        for row in improved.nonzero().flatten().tolist():
            place = int(position[row])
            pieces = [*rows.history[row, beam[row, place], 1:].tolist(), EOS_ID]
            results[int(rows.sentence[row])] = _hypothesis(pieces, float(totals[row, place]), config)

        rows.live, order = totals.masked_fill(ended, -torch.inf).topk(k, dim=-1)
        # The candidates are sorted, so the first of the greedy beam's is the greedy path's next piece.
        from_greedy = beam == rows.greedy.unsqueeze(1)
        first = from_greedy.byte().argmax(dim=1, keepdim=True)
        goes_on = (order == first) & from_greedy.gather(1, first)  # (B, k)
        ends = (from_greedy & ended).gather(1, first).squeeze(1)
        lost[rows.sentence[(rows.greedy >= 0) & ~ends & ~goes_on.any(dim=1)]] = True
        rows.greedy = torch.where(goes_on.any(dim=1), goes_on.byte().argmax(dim=1), -1)

        beam, piece = beam.gather(1, order), piece.gather(1, order)
        past = rows.history.gather(1, beam.unsqueeze(-1).expand(-1, -1, length))
        rows.history = torch.cat((past, piece.unsqueeze(-1)), dim=-1)
        state.select_beams(beam)

        can_win = rows.live[:, 0] / length_penalty(rows.limit, alpha) > rows.best_score
        stopped = (length >= rows.limit) | ~can_win
        if stopped.any():
            for row in (stopped & (rows.best_score == -torch.inf)).nonzero().flatten().tolist():
                pieces = rows.history[row, 0, 1:].tolist()
                results[int(rows.sentence[row])] = _hypothesis(pieces, float(rows.live[row, 0]), config)
            going_on = _going_on(stopped)
            rows.keep(going_on)
            state.select_sentences(going_on)
    return results, lost.nonzero().flatten().tolist()


def _hypothesis(pieces: list[int], log_prob: float, config: DecodeConfig) -> Hypothesis:
    finished = pieces[-1] == EOS_ID
    score = log_prob / length_penalty(len(pieces), config.length_penalty)
    return Hypothesis(tuple(pieces[:-1] if finished else pieces), log_prob, score, finished)


def _going_on(stopped: Tensor) -> Tensor:
    """(B,) bool -> (B',) the rows that go on: each in its own place, or in that of one which stopped."""
    going_on = (~stopped).nonzero().flatten()
    count = going_on.numel()
    rows = torch.arange(count, device=stopped.device)
    rows[stopped[:count]] = going_on[going_on >= count]
    return rows


# Columns of logits that are looked at as one group.
_GROUP_SIZE = 32


def _best_continuations(logits: Tensor, live: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The most probable ways to go on from a sentence's beams by one piece, best first.

    Padding and the begin symbol are ruled out, though their probabilities are part of the softmax. The logits are first
    reduced to the maxima of groups of columns: the `count` best lie in the `count` groups with the greatest maxima.
    (Torch's top-k over k * V' numbers would take as long as the projection itself: 35 of 75 ms at base size on a core.)

    Args:
        logits: (B, k, V'); written over.
        live: (B, k) the beams' log-probabilities.

    Returns:
        totals (B, count) log-probabilities, and the beam (B, count) and piece (B, count) of each. Where fewer than
        `count` are possible at all, the rest is padding at minus infinity.
    """
    batch, k, columns = logits.shape
    size = _GROUP_SIZE if columns % _GROUP_SIZE == 0 else 1
    groups = columns // size
    log_probs = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    torch.log_softmax(log_probs, dim=-1, out=log_probs)
    log_probs[..., PAD_ID] = log_probs[..., BOS_ID] = -torch.inf
    # Column c is in group c % groups, so that the maxima are taken over whole registers.
    log_probs = log_probs.view(batch, k, size, groups)
    greatest = (log_probs.amax(dim=2) + live.unsqueeze(-1)).flatten(1)  # (B, k * groups)
    chosen = greatest.topk(count, dim=-1).indices
    beam, group = chosen // groups, chosen % groups
    sentence = torch.arange(batch, device=logits.device).unsqueeze(1)
    members = log_probs[sentence, beam, :, group] + live.gather(1, beam).unsqueeze(-1)  # (B, count, size)
    totals, place = members.flatten(1).topk(count, dim=-1)
    which, member = place // size, place % size
    piece = (member * groups + group.gather(1, which)).masked_fill_(totals == -torch.inf, PAD_ID)
    return totals, beam.gather(1, which), piece
