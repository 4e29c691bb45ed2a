"""Greedy and beam search with the paper's length penalty (section 6.1).

Shapes: B sentences, S source pieces, k beams, V vocabulary, t pieces decoded so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.config import DecodeConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.incremental import DecoderState, IncrementalDecoder
from core.transformer import Transformer


@dataclass(frozen=True)
class Hypothesis:
    """One translation: piece ids without begin and end symbols.

    `log_prob` is the sum over its pieces, the end symbol included; `score` is that divided by the length penalty.
    `finished` is False when the length limit came before the end symbol.
    """

    pieces: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool


def length_penalty(length: Tensor | int, alpha: float) -> Tensor | float:
    """((5 + length) / 6)^alpha, Wu et al.'s form, which section 6.1 takes over; `length` counts the end symbol."""
    return ((5 + length) / 6) ** alpha


def source_batch(sources: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Piece ids, each with its end symbol, padded on the right: (B, S) int64."""
    rows = [torch.tensor([*source, EOS_ID]) for source in sources]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID).to(device)


def _next_log_probs(decoder: IncrementalDecoder, pieces: Tensor, state: DecoderState) -> Tensor:
    """(B, k) newest pieces -> (B, k, V) log-probabilities of the next, padding and begin symbol ruled out."""
    log_probs = torch.log_softmax(decoder.step(pieces, state).float(), dim=-1)
    log_probs[..., [PAD_ID, BOS_ID]] = -torch.inf
    return log_probs


@torch.inference_mode()
def greedy_search(decoder: IncrementalDecoder, src: Tensor, config: DecodeConfig) -> list[Hypothesis]:
    """The most probable next piece, until the end symbol or the limit of input + `max_extra_pieces`.

    Args:
        src: (B, S) ids, end symbol included, padding on the right.
    """
    num_sentences, device = src.size(0), src.device
    limits = (src != PAD_ID).sum(dim=1) - 1 + config.max_extra_pieces
    state = decoder.start(src, beam_size=1)
    pieces = torch.full((num_sentences, 1), BOS_ID, device=device)
    log_prob = torch.zeros(num_sentences, device=device)
    running = torch.ones(num_sentences, dtype=torch.bool, device=device)
    decoded: list[Tensor] = []
    while running.any():
        best, pieces = _next_log_probs(decoder, pieces, state).max(dim=-1)
        log_prob += torch.where(running, best.squeeze(1), 0.0)
        decoded.append(torch.where(running, pieces.squeeze(1), PAD_ID))
        running = running & (pieces.squeeze(1) != EOS_ID) & (len(decoded) < limits)
    rows = torch.stack(decoded, dim=1).tolist()
    return [
        _hypothesis([p for p in row if p != PAD_ID], value, config)
        for row, value in zip(rows, log_prob.tolist(), strict=True)
    ]


def _hypothesis(pieces: list[int], log_prob: float, config: DecodeConfig) -> Hypothesis:
    finished = pieces[-1] == EOS_ID
    score = log_prob / length_penalty(len(pieces), config.length_penalty)
    return Hypothesis(tuple(pieces[:-1] if finished else pieces), log_prob, score, finished)


@torch.inference_mode()
def beam_search(decoder: IncrementalDecoder, src: Tensor, config: DecodeConfig) -> list[Hypothesis]:
    """The best-scoring hypothesis of each sentence (section 6.1: beam 4, alpha 0.6, at most input + 50 pieces).

    Each step looks at the 2k best continuations, so that k live ones are left even if k of them end. A sentence stops
    when no live beam can still win: its log-probability can only fall, so the largest penalty that it could reach
    bounds its score. A stopped sentence leaves the batch.

    Args:
        src: (B, S) ids, end symbol included, padding on the right.
    """
    k, alpha, device = config.beam_size, config.length_penalty, src.device
    num_sentences = src.size(0)
    results: list[Hypothesis | None] = [None] * num_sentences
    state = decoder.start(src, k)

    sentence = torch.arange(num_sentences, device=device)  # (B,) which input each row of the batch is
    limits = (src != PAD_ID).sum(dim=1) - 1 + config.max_extra_pieces  # (B,)
    history = torch.full((num_sentences, k, 1), BOS_ID, device=device)  # (B, k, 1 + t)
    live = torch.full((num_sentences, k), -torch.inf, device=device)  # (B, k) log-probabilities
    live[:, 0] = 0.0  # all beams start equal: only one may open, or the k best would be k copies
    best_score = torch.full((num_sentences,), -torch.inf, device=device)
    best_log_prob = best_score.clone()
    best_pieces: list[Tensor | None] = [None] * num_sentences

    length = 0
    while sentence.numel():
        length += 1
        log_probs = _next_log_probs(decoder, history[..., -1], state)
        vocab_size = log_probs.size(-1)
        totals, flat = (live.unsqueeze(-1) + log_probs).flatten(1).topk(2 * k, dim=-1)  # (B, 2k), best first
        beam, piece = flat // vocab_size, flat % vocab_size
        ended = piece == EOS_ID

        ended_score, position = (totals.masked_fill(~ended, -torch.inf) / length_penalty(length, alpha)).max(dim=-1)
        improved = ended_score > best_score
        best_score = torch.where(improved, ended_score, best_score)
        best_log_prob = torch.where(improved, totals.gather(1, position.unsqueeze(1)).squeeze(1), best_log_prob)
        for row in improved.nonzero().flatten().tolist():
            best_pieces[sentence[row]] = history[row, beam[row, position[row]], 1:]

        live, order = totals.masked_fill(ended, -torch.inf).topk(k, dim=-1)
        beam, piece = beam.gather(1, order), piece.gather(1, order)
        history = torch.cat(
            (history.gather(1, beam.unsqueeze(-1).expand(-1, -1, history.size(-1))), piece.unsqueeze(-1)), dim=-1
        )

        at_limit = length >= limits
        stopped = at_limit | (live[:, 0] / length_penalty(limits, alpha) <= best_score)
        for row in stopped.nonzero().flatten().tolist():
            pieces, index = best_pieces[sentence[row]], int(sentence[row])
            if pieces is None:
                results[index] = _hypothesis(history[row, 0, 1:].tolist(), float(live[row, 0]), config)
            else:
                results[index] = Hypothesis(
                    tuple(pieces.tolist()), float(best_log_prob[row]), float(best_score[row]), True
                )

        # One selection of cache rows does both: beams change places, and stopped sentences leave.
        going_on = (~stopped).nonzero().flatten()
        state.select_beams((going_on.unsqueeze(1) * k + beam[going_on]).flatten())
        if going_on.numel() < sentence.numel():
            state.select_sentences(going_on)
            sentence, limits, live, history = sentence[going_on], limits[going_on], live[going_on], history[going_on]
            best_score, best_log_prob = best_score[going_on], best_log_prob[going_on]
    return results


def translate(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    config: DecodeConfig,
    on_progress: Callable[[int], None] | None = None,
) -> list[Hypothesis]:
    """Decode piece ids (without end symbols) of any number of sentences; the result is in the order of the input.

    Sentences of similar length share a batch. A beam of 1 is greedy search. `on_progress` gets the number of
    sentences done after each batch.
    """
    model.eval()
    return decode_all(IncrementalDecoder(model), sources, config, next(model.parameters()).device, on_progress)


def decode_all(
    decoder: IncrementalDecoder,
    sources: Sequence[Sequence[int]],
    config: DecodeConfig,
    device: torch.device,
    on_progress: Callable[[int], None] | None = None,
) -> list[Hypothesis]:
    """`translate` with a decoder at hand."""
    search = greedy_search if config.beam_size == 1 else beam_search
    by_length = sorted(range(len(sources)), key=lambda i: len(sources[i]), reverse=True)
    results: list[Hypothesis | None] = [None] * len(sources)
    for start in range(0, len(by_length), config.batch_sentences):
        batch = by_length[start : start + config.batch_sentences]
        hypotheses = search(decoder, source_batch([sources[i] for i in batch], device), config)
        for i, hypothesis in zip(batch, hypotheses, strict=True):
            results[i] = hypothesis
        if on_progress is not None:
            on_progress(start + len(batch))
    return results
