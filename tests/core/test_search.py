"""Search against hand-worked scripts, against every sequence there is, and against itself in other batches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.config import DecodeConfig, ModelConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.decode import Translator, translate
from core.incremental import DecoderState, IncrementalDecoder
from core.search import (
    Hypothesis,
    _best_continuations,
    _log_probs,
    beam_search,
    greedy_search,
    length_penalty,
    source_batch,
)
from core.transformer import Transformer

Pieces = tuple[int, ...]
Script = Callable[[Pieces, Pieces], dict[int, float]]
"""The next piece's probabilities, as far as they are not zero, after (source, pieces decoded so far)."""
A, B, C = 3, 4, 5  # the pieces of a vocabulary of six
SCRIPT_VOCAB = 6
CPU = torch.device("cpu")
quickly = settings(deadline=None, max_examples=40)


class ScriptedState:
    """What each beam has decoded so far, and the source of its sentence."""

    def __init__(self, sources: list[Pieces], num_beams: int) -> None:
        self.sources, self.num_beams, self.position = sources, num_beams, 0
        self.prefixes: list[Pieces] = [()] * (len(sources) * num_beams)

    def select_beams(self, parents: Tensor) -> None:
        assert parents.shape == (len(self.sources), self.num_beams)
        self.prefixes = [
            self.prefixes[sentence * self.num_beams + parent]
            for sentence, row in enumerate(parents.tolist())
            for parent in row
        ]

    def select_sentences(self, rows: Tensor) -> None:
        k, kept = self.num_beams, rows.tolist()
        assert all(row == place or row >= len(kept) for place, row in enumerate(kept))
        self.sources = [self.sources[row] for row in kept]
        self.prefixes = [prefix for row in kept for prefix in self.prefixes[row * k : (row + 1) * k]]


class ScriptedDecoder:
    """Stands for a Transformer that follows a script; `batches` records the number of sentences in each step."""

    def __init__(self, probabilities: Script) -> None:
        self.probabilities = probabilities
        self.batches: list[int] = []

    device = CPU

    def start(self, src: Tensor, beam_size: int) -> ScriptedState:
        sources = [tuple(piece for piece in row if piece not in (PAD_ID, EOS_ID)) for row in src.tolist()]
        return ScriptedState(sources, beam_size)

    def step(self, pieces: Tensor, state: ScriptedState) -> Tensor:
        assert pieces.shape == (len(state.sources), state.num_beams)
        self.batches.append(len(state.sources))
        state.position += 1
        newest = pieces.flatten().tolist()
        state.prefixes = [(*prefix, piece) for prefix, piece in zip(state.prefixes, newest, strict=True)]
        logits = torch.full((len(newest), SCRIPT_VOCAB), -torch.inf, dtype=torch.float64)
        for row, prefix in enumerate(state.prefixes):
            assert prefix[0] == BOS_ID
            script = self.probabilities(state.sources[row // state.num_beams], prefix[1:])
            for piece, probability in script.items():
                logits[row, piece] = math.log(probability)
        return logits.view(*pieces.shape, -1)


def random_script(seed: int) -> Script:
    """Another distribution over all six pieces after every source and prefix."""

    def probabilities(source: Pieces, prefix: Pieces) -> dict[int, float]:
        rng = np.random.default_rng((seed, 99, *source, 99, *prefix))
        return dict(enumerate(rng.dirichlet(np.full(SCRIPT_VOCAB, 0.7)) * (1 - 6e-9) + 1e-9))

    return probabilities


def search(model: ScriptedDecoder, source: Sequence[int], **settings) -> Hypothesis:
    config = DecodeConfig(**settings)
    return beam_search(model, source_batch([source], CPU), config)[0]


def log_prob_by(script: Script, source: Pieces) -> Callable[[Pieces, int], float]:
    """(prefix, next piece) to its log-probability."""
    return lambda prefix, piece: math.log(script(source, prefix)[piece])


def best_of_all(
    log_prob_of: Callable[[Pieces, int], float], alphabet: Sequence[int], limit: int, alpha: float
) -> tuple[Pieces, float]:
    """The best finished sequence of at most `limit` pieces, end symbol counted, by looking at every one."""
    scored = {}
    for length in range(limit):
        for sequence in itertools.product(alphabet, repeat=length):
            pieces = (*sequence, EOS_ID)
            log_prob = sum(log_prob_of(pieces[:t], pieces[t]) for t in range(len(pieces)))
            scored[sequence] = log_prob / ((5 + len(pieces)) / 6) ** alpha
    best = max(scored, key=scored.get)
    return best, scored[best]


# --- length penalty


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [(1, 0.6, 1.0), (7, 0.6, 1.515717), (13, 0.6, 1.933182), (13, 1.0, 3.0), (50, 0.0, 1.0), (49, 0.5, 3.0)],
)
def test_length_penalty_by_hand(length: int, alpha: float, expected: float):
    """D6: Wu et al.'s form, and not length^alpha."""
    assert length_penalty(length, alpha) == pytest.approx(expected, abs=5e-7)
    assert length_penalty(torch.tensor([length]), alpha).item() == pytest.approx(expected, abs=5e-7)


# --- beam search against every sequence there is


@quickly
@given(seed=st.integers(0, 2**32), alpha=st.sampled_from([0.0, 0.6, 1.0, 3.0]))
def test_a_wide_beam_finds_the_best_of_all_sequences(seed: int, alpha: float):
    script, source, limit = random_script(seed), (A,), 4
    expected, score = best_of_all(log_prob_by(script, source), (A, B, C), limit, alpha)
    found = search(ScriptedDecoder(script), source, beam_size=40, length_penalty=alpha, max_extra_pieces=limit - 1)
    assert found.pieces == expected
    assert found.finished
    assert found.score == pytest.approx(score, rel=1e-5)
    assert found.log_prob == pytest.approx(score * ((5 + len(expected) + 1) / 6) ** alpha, rel=1e-5)


@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_a_narrow_beam_never_scores_above_the_best_and_scores_its_own_pieces(beam_size: int):
    source, limit = (A, B), 4
    for seed in range(8):
        script = random_script(seed)
        _, best = best_of_all(log_prob_by(script, source), (A, B, C), limit, alpha=0.6)
        found = search(ScriptedDecoder(script), source, beam_size=beam_size, max_extra_pieces=2)
        assert found.score <= best + 1e-5
        pieces = (*found.pieces, EOS_ID)
        log_prob = sum(math.log(script(source, pieces[:t])[piece]) for t, piece in enumerate(pieces))
        assert found.log_prob == pytest.approx(log_prob, rel=1e-5)


def test_a_wide_beam_over_a_real_model_finds_the_best_of_all_sequences(build_model: Callable[..., Transformer]):
    model = build_model(vocab_size=SCRIPT_VOCAB)
    src = source_batch([(A, C)], torch.device("cpu"))

    def log_prob_of(prefix: Pieces, piece: int) -> float:
        hidden = model(src, torch.tensor([[BOS_ID, *prefix]]))
        return torch.log_softmax(model.logits(hidden)[0, -1], dim=-1)[piece].item()

    expected, score = best_of_all(log_prob_of, (A, B, C), limit=4, alpha=0.6)
    found = beam_search(IncrementalDecoder(model), src, DecodeConfig(beam_size=40, max_extra_pieces=2))[0]
    assert found.pieces == expected
    assert found.score == pytest.approx(score, rel=1e-5)


# --- the best continuations


@quickly
@given(
    seed=st.integers(0, 2**32),
    batch=st.integers(1, 3),
    k=st.integers(1, 5),
    columns=st.sampled_from([6, 37, 64, 512, 1536]),
    coarse=st.booleans(),
)
def test_best_continuations_are_those_of_a_plain_top_k(seed: int, batch: int, k: int, columns: int, coarse: bool):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(batch, k, columns, generator=generator, dtype=torch.float64)
    if coarse:
        logits = logits.round()  # ties everywhere
    live = -torch.rand(batch, k, generator=generator, dtype=torch.float64)
    log_probs = torch.log_softmax(logits, dim=-1)
    log_probs[..., [PAD_ID, BOS_ID]] = -torch.inf
    every = (log_probs + live.unsqueeze(-1)).flatten(1)
    totals, beam, piece = _best_continuations(_log_probs(logits), live, 2 * k)
    torch.testing.assert_close(totals, every.topk(2 * k, dim=-1).values)
    torch.testing.assert_close(totals, every.gather(1, beam * columns + piece))
    for row in (beam * columns + piece).tolist():
        assert len(set(row)) == 2 * k


# --- when it stops


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_b31_an_early_poor_end_does_not_stop_the_search(beam_size: int):
    script = {(): {EOS_ID: 0.1, A: 0.9}, (A,): {B: 0.95, EOS_ID: 0.05}, (A, B): {EOS_ID: 1.0}}
    model = ScriptedDecoder(lambda _source, prefix: script.get(prefix, {C: 1.0}))
    found = search(model, (A, A), beam_size=beam_size)
    assert found.pieces == (A, B)
    assert found.log_prob == pytest.approx(math.log(0.9 * 0.95), rel=1e-5)
    assert found.score == pytest.approx(math.log(0.9 * 0.95) / ((5 + 3) / 6) ** 0.6, rel=1e-5)
    greedy = greedy_search(model, source_batch([(A, A)], torch.device("cpu")), DecodeConfig())[0]
    assert found.score >= greedy.score - 1e-6


def test_ends_take_no_beam_from_those_that_go_on():
    """D7: k beams are left even where k of the candidates end."""
    # Both of the two best second steps are ends, 0.30 and 0.27; among two candidates alone no live beam would be left.
    script = {
        (): {A: 0.5, B: 0.3, EOS_ID: 0.2},
        (A,): {EOS_ID: 0.6, C: 0.4},
        (B,): {EOS_ID: 0.9, C: 0.1},
        (A, C): {C: 1.0},
        (A, C, C): {EOS_ID: 1.0},
    }
    model = ScriptedDecoder(lambda _source, prefix: script.get(prefix, {C: 1.0}))
    # alpha = 4: 0.2 at length 4, ln 0.2 / (9 / 6)^4 = -0.32, beats 0.3 at length 2, ln 0.3 / (7 / 6)^4 = -0.65.
    assert search(model, (A, A), beam_size=2, length_penalty=4.0).pieces == (A, C, C)


def test_a_longer_sentence_wins_by_the_length_penalty_alone():
    # The end at once: 0.4. Five pieces and the end: 0.6 * 0.5 = 0.3, whose log is divided by (5 + 6) / 6 if alpha = 1.
    long = (A, B, C, B, A)
    script = {(): {EOS_ID: 0.4, A: 0.6}, (A,): {B: 0.5, A: 0.5}, long: {EOS_ID: 1.0}}

    def probabilities(_source: Pieces, prefix: Pieces) -> dict[int, float]:
        return script.get(prefix) or {long[len(prefix)]: 1.0} if prefix == long[: len(prefix)] else {C: 1.0}

    assert math.log(0.3) / (11 / 6) > math.log(0.4) > math.log(0.3)
    found = {alpha: search(ScriptedDecoder(probabilities), (A,), length_penalty=alpha) for alpha in (0.0, 1.0)}
    assert found[0.0].pieces == ()
    assert found[1.0].pieces == long
    assert found[1.0].score == pytest.approx(math.log(0.3) * 6 / 11, rel=1e-5)


def test_the_search_stops_as_soon_as_no_live_beam_can_win():
    # Ended at ln 0.99. What is left, 0.01, could reach ln 0.01 / (56 / 6)^0.6 = -1.2 at the limit of 51: not enough.
    model = ScriptedDecoder(lambda _source, prefix: {EOS_ID: 0.99, A: 0.01} if not prefix else {A: 1.0})
    assert search(model, (A,)).pieces == ()
    assert len(model.batches) == 1
    # With alpha = 3 it could reach -0.0057: the search must go on, and to the end.
    model.batches.clear()
    assert search(model, (A,), length_penalty=3.0).pieces == ()
    assert len(model.batches) == 51


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_limit_is_the_input_and_50_counted_in_pieces_and_unfinished_output_says_so(beam_size: int):
    """D10: relative to each input, in word pieces."""
    model = ScriptedDecoder(lambda _source, prefix: {A: 0.6, B: 0.4})
    sources = [(A,), (B, C, A, B, C), ()]
    found = Translator(model, DecodeConfig(beam_size=beam_size)).translate(sources)
    assert [len(hypothesis.pieces) for hypothesis in found] == [1 + 50, 5 + 50, 50]
    for hypothesis in found:
        length = len(hypothesis.pieces)
        assert not hypothesis.finished
        assert set(hypothesis.pieces) == {A}
        assert hypothesis.log_prob == pytest.approx(length * math.log(0.6), rel=1e-4)
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + length) / 6) ** 0.6, rel=1e-5)


def test_a_finished_sentence_is_preferred_to_one_cut_off_at_the_limit():
    model = ScriptedDecoder(lambda _source, prefix: {A: 0.99, EOS_ID: 0.01})
    found = search(model, (A,), max_extra_pieces=2)
    assert found.finished
    assert found.pieces == (A, A)
    assert found.log_prob == pytest.approx(math.log(0.99 * 0.99 * 0.01), rel=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_padding_and_begin_symbol_are_never_put_out(beam_size: int):
    script = {PAD_ID: 0.5, BOS_ID: 0.3, A: 0.15, EOS_ID: 0.05}
    model = ScriptedDecoder(lambda _source, prefix: script if len(prefix) < 3 else {PAD_ID: 0.9, EOS_ID: 0.1})
    found = Translator(model, DecodeConfig(beam_size=beam_size, length_penalty=5.0)).translate([(A, A)])[0]
    assert found.finished
    assert set(found.pieces) == {A}


# --- batches


def copy_then_end(source: Pieces, prefix: Pieces) -> dict[int, float]:
    """The source itself is the most probable output."""
    expected = source[len(prefix)] if len(prefix) < len(source) else EOS_ID
    return {piece: 0.9 if piece == expected else 0.02 for piece in range(SCRIPT_VOCAB)}


def test_stopped_sentences_leave_the_batch_and_the_others_do_not_notice():
    sources = [(A, B, C, A, B), (B,), (C, A, B), (), (A, A, A, A)]
    batch = ScriptedDecoder(copy_then_end)
    found = beam_search(batch, source_batch(sources, torch.device("cpu")), DecodeConfig())
    assert found == [search(ScriptedDecoder(copy_then_end), source) for source in sources]
    assert batch.batches[0] == 5
    assert batch.batches == sorted(batch.batches, reverse=True)
    assert batch.batches[-1] < 5
    assert len(set(batch.batches)) > 2


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("positions", ["sinusoid", "learned"])
def test_a_batch_decodes_as_its_sentences_do_one_by_one(
    build_model: Callable[..., Transformer], beam_size: int, positions: str
):
    """D8, D9: neither the beams' order nor padding reaches another sentence. Float64, to nine digits."""
    model = build_model(positions=positions)
    rng = np.random.default_rng(3)
    sources = [rng.integers(3, 23, length).tolist() for length in (4, 17, 1, 9, 2)]
    config = DecodeConfig(beam_size=beam_size, max_extra_pieces=12)
    together = translate(model, sources, config)
    for source, hypothesis in zip(sources, together, strict=True):
        (alone,) = translate(model, [source], config)
        assert (alone.pieces, alone.finished) == (hypothesis.pieces, hypothesis.finished)
        assert alone.log_prob == pytest.approx(hypothesis.log_prob, rel=1e-9)


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 2**32), beam_size=st.integers(1, 5), lengths=st.lists(st.integers(0, 12), max_size=9))
def test_d8_d9_in_float32_too_what_stands_beside_a_sentence_hardly_changes_its_score(
    seed: int, beam_size: int, lengths: list[int]
):
    """A product of other shape rounds otherwise, so scores agree to float32's rounding: 1e-4 of their size."""
    generator = torch.Generator().manual_seed(seed)
    sources = [torch.randint(3, 23, (length,), generator=generator).tolist() for length in lengths]
    config = DecodeConfig(beam_size=beam_size, max_extra_pieces=8)
    together = translate(float32_model(), sources, config)
    for source, hypothesis in zip(sources, together, strict=True):
        (alone,) = translate(float32_model(), [source], config)
        assert alone.score == pytest.approx(hypothesis.score, rel=1e-4)


@cache
def float32_model() -> Transformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return Transformer(ModelConfig(23, num_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8)).eval()


@pytest.mark.parametrize("beam_size", [1, 2, 4, 7])
def test_a_hypothesis_has_the_probability_that_the_full_pass_gives_its_pieces(
    build_model: Callable[..., Transformer], beam_size: int
):
    """Over 60 steps: the cache has given up slots and has grown by then."""
    model = build_model()
    rng = np.random.default_rng(6)
    sources = [rng.integers(3, 23, length).tolist() for length in (11, 3, 8, 8, 1)]
    config = DecodeConfig(beam_size=beam_size, max_extra_pieces=60)
    unending = _Unending(model)
    for source, found in zip(sources, Translator(unending, config).translate(sources), strict=True):
        assert len(found.pieces) == len(source) + 60
        tgt_in = torch.tensor([[BOS_ID, *found.pieces[:-1]]])
        log_probs = torch.log_softmax(unending.ruled(model.logits(model(source_batch([source], CPU), tgt_in))), dim=-1)
        expected = log_probs[0].gather(1, torch.tensor(found.pieces).unsqueeze(1)).sum().item()
        assert found.log_prob == pytest.approx(expected, rel=1e-9)


class _Unending(IncrementalDecoder):
    """A model whose end symbol has no probability."""

    @staticmethod
    def ruled(logits: Tensor) -> Tensor:
        logits[..., EOS_ID] = -torch.inf
        return logits

    def step(self, pieces: Tensor, state: DecoderState) -> Tensor:
        return self.ruled(super().step(pieces, state))


# --- greedy


def test_a_beam_of_one_is_greedy_search():
    sources = [(A, B), (C,), (B, A, C)]
    src = source_batch(sources, torch.device("cpu"))
    for seed in range(6):
        model = ScriptedDecoder(random_script(seed))
        config = DecodeConfig(beam_size=1, max_extra_pieces=6)
        greedy = Translator(model, config).translate(sources)
        for source, hypothesis in zip(sources, greedy, strict=True):
            decoded = (*hypothesis.pieces, EOS_ID) if hypothesis.finished else hypothesis.pieces
            for t, piece in enumerate(decoded):
                probabilities = random_script(seed)(source, decoded[:t])
                assert piece == max((EOS_ID, A, B, C), key=probabilities.get)
        # Beam search may end a sentence where the end symbol comes second, but never for a worse score.
        for one, hypothesis in zip(beam_search(model, src, config), greedy, strict=True):
            assert one.score >= hypothesis.score - 1e-5 or not hypothesis.finished


# The greedy path is A A A: 0.4 * 0.34 * 1 * 1. Of two beams, both go on from B, 0.35 * 0.53 and 0.35 * 0.47, which is
# more than 0.4 * 0.34; then each ends, or not, by a quarter.
TRAP = {
    (): {A: 0.4, B: 0.35, C: 0.25},
    (A,): {A: 0.34, B: 0.33, C: 0.33},
    (B,): {B: 0.53, A: 0.47},
    (A, A): {A: 1.0},
    (A, A, A): {EOS_ID: 1.0},
}


def trap(_source: Pieces, prefix: Pieces) -> dict[int, float]:
    return TRAP.get(prefix) or ({piece: 0.25 for piece in (EOS_ID, A, B, C)} if len(prefix) < 6 else {EOS_ID: 1.0})


def test_d7_where_the_beams_lose_the_greedy_path_it_is_followed_besides():
    src = source_batch([(A, A)], CPU)
    (greedy,) = greedy_search(ScriptedDecoder(trap), src, DecodeConfig())
    assert greedy.pieces == (A, A, A)
    assert greedy.log_prob == pytest.approx(math.log(0.4 * 0.34), rel=1e-5)
    beams_alone = search(ScriptedDecoder(trap), (A, A), beam_size=2, never_below_greedy=False)
    assert beams_alone.pieces == (B, B)
    assert beams_alone.log_prob == pytest.approx(math.log(0.35 * 0.53 * 0.25), rel=1e-5)
    assert not beams_alone.from_greedy
    found = search(ScriptedDecoder(trap), (A, A), beam_size=2)
    assert found.from_greedy
    assert (found.pieces, found.log_prob, found.score) == (greedy.pieces, greedy.log_prob, greedy.score)
    # A beam that holds the path to its end finds it itself.
    assert not search(ScriptedDecoder(trap), (A, A), beam_size=5).from_greedy
    assert search(ScriptedDecoder(trap), (A, A), beam_size=5).pieces == greedy.pieces


@quickly
@given(
    seed=st.integers(0, 2**32),
    beam_size=st.integers(2, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 3.0]),
    sources=st.lists(st.lists(st.sampled_from([A, B, C]), max_size=4).map(tuple), min_size=1, max_size=4),
)
def test_b31_no_score_is_below_that_of_greedy_search(seed: int, beam_size: int, alpha: float, sources: list[Pieces]):
    src, decoder = source_batch(sources, CPU), ScriptedDecoder(random_script(seed))
    config = DecodeConfig(beam_size=beam_size, length_penalty=alpha, max_extra_pieces=5)
    alone = beam_search(decoder, src, replace(config, never_below_greedy=False))
    for found, greedy, beams_alone in zip(
        beam_search(decoder, src, config), greedy_search(decoder, src, config), alone, strict=True
    ):
        assert (found.finished, found.score) >= (greedy.finished, greedy.score - 1e-6)
        assert (found.finished, found.score) >= (beams_alone.finished, beams_alone.score)
        if not found.from_greedy:
            assert found == beams_alone


def test_greedy_search_follows_the_full_pass_of_a_real_model(build_model: Callable[..., Transformer]):
    model = build_model()
    src = source_batch([(5, 9, 14)], torch.device("cpu"))
    found = greedy_search(IncrementalDecoder(model), src, DecodeConfig(max_extra_pieces=8))[0]
    decoded = [*found.pieces, EOS_ID] if found.finished else list(found.pieces)
    logits = model.logits(model(src, torch.tensor([[BOS_ID, *decoded[:-1]]])))[0]
    log_probs = torch.log_softmax(logits, dim=-1)
    log_probs[:, [PAD_ID, BOS_ID]] = -torch.inf
    assert log_probs.argmax(-1).tolist() == decoded
    assert found.log_prob == pytest.approx(log_probs.max(-1).values.sum().item(), rel=1e-5)


def test_sources_get_their_end_symbol_and_padding_on_the_right():
    batch = source_batch([(7, 8, 9), (), (5,)], torch.device("cpu"))
    assert batch.tolist() == [[7, 8, 9, EOS_ID], [EOS_ID, PAD_ID, PAD_ID, PAD_ID], [5, EOS_ID, PAD_ID, PAD_ID]]
