"""Any number of sentences through search: their order, their batches, the threads, and how it ends early."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.config import DecodeConfig
from core.decode import Translator, batches_by_length, translate
from core.incremental import DecoderState, IncrementalDecoder
from core.transformer import Transformer

BuildModel = Callable[..., Transformer]


@pytest.fixture(params=[1, 3])
def num_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """As many threads as torch may use in this test; the test session has one."""
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(1)


def some_sources(*lengths: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(3, 23, length).tolist() for length in lengths]


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("batch_sentences", [1, 2, 64])
def test_a9_results_stand_in_the_order_of_the_input_whatever_the_lengths(
    build_model: BuildModel, num_threads: int, beam_size: int, batch_sentences: int
):
    model = build_model()
    sources = some_sources(3, 1, 7, 0, 7, 2, 5, 12, 1)
    config = DecodeConfig(beam_size=beam_size, max_extra_pieces=5, batch_sentences=batch_sentences)
    found = translate(model, sources, config)
    for source, hypothesis in zip(sources, found, strict=True):
        (alone,) = translate(model, [source], config)
        assert (alone.pieces, alone.finished) == (hypothesis.pieces, hypothesis.finished)
        assert alone.log_prob == pytest.approx(hypothesis.log_prob, rel=1e-9)


def test_progress_tells_how_many_sentences_are_done(build_model: BuildModel, num_threads: int):
    done: list[int] = []
    sources = some_sources(3, 1, 7, 0, 7, 2, 5)
    translate(build_model(), sources, DecodeConfig(max_extra_pieces=2, batch_sentences=2), done.append)
    assert done == sorted(done)
    assert done[-1] == len(sources)
    assert len(done) >= 4
    assert torch.get_num_threads() == num_threads


def test_nothing_to_translate_is_nothing(build_model: BuildModel, num_threads: int):
    assert translate(build_model(), [], DecodeConfig()) == []


def test_translate_turns_dropout_off(build_model: BuildModel):
    model = build_model(dropout=0.5).train()
    sources = some_sources(3, 2)
    config = DecodeConfig(max_extra_pieces=5)
    assert translate(model, sources, config) == translate(model, sources, config)


def test_learned_positions_refuse_a_longer_source_and_say_so(build_model: BuildModel, num_threads: int):
    """D11: refused, not cropped, from a thread too."""
    model = build_model(positions="learned", max_learned_positions=6)
    with pytest.raises(ValueError, match="beyond the 6 learned positions"):
        translate(model, some_sources(2, 8, 2, 2), DecodeConfig(max_extra_pieces=1, batch_sentences=1))
    assert torch.get_num_threads() == num_threads


# --- batches


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 300), max_size=200),
    beam_size=st.integers(1, 5),
    batch_sentences=st.integers(1, 70),
    batch_tokens=st.integers(1, 2_000),
    num_threads=st.integers(1, 4),
)
def test_batches_hold_every_sentence_once_longest_first_within_the_limits(
    lengths: list[int], beam_size: int, batch_sentences: int, batch_tokens: int, num_threads: int
):
    config = DecodeConfig(beam_size=beam_size, batch_sentences=batch_sentences, batch_tokens=batch_tokens)
    batches = batches_by_length(lengths, config, num_threads)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    for batch in batches:
        assert 1 <= len(batch) <= batch_sentences
        assert len(batch) == 1 or len(batch) * beam_size * lengths[batch[0]] <= batch_tokens


@pytest.mark.parametrize(
    ("num_sentences", "num_threads", "sizes"),
    [
        (100, 1, [50, 50]),
        (100, 2, [50, 50]),
        (65, 1, [33, 32]),
        (129, 2, [33, 33, 33, 30]),
        (3, 2, [2, 1]),
        (3, 4, [1, 1, 1]),
        (1, 2, [1]),
    ],
)
def test_sentences_are_shared_out_evenly_among_threads(num_sentences: int, num_threads: int, sizes: list[int]):
    batches = batches_by_length([9] * num_sentences, DecodeConfig(batch_sentences=64), num_threads)
    assert [len(batch) for batch in batches] == sizes


# --- threads


class _Observed(IncrementalDecoder):
    """Notes which threads take steps, and torch's threads in each; takes its time over them."""

    def __init__(self, model: Transformer, seconds: float) -> None:
        super().__init__(model)
        self.seconds = seconds
        self.num_steps = 0
        self.threads: dict[int, int] = {}

    def step(self, pieces: Tensor, state: DecoderState) -> Tensor:
        self.num_steps += 1
        self.threads[threading.get_ident()] = torch.get_num_threads()
        time.sleep(self.seconds)
        return super().step(pieces, state)


def test_each_thread_decodes_a_batch_of_its_own_on_one_core(build_model: BuildModel, num_threads: int):
    decoder = _Observed(build_model(), seconds=0.01)
    config = DecodeConfig(beam_size=2, max_extra_pieces=3, batch_sentences=2)
    Translator(decoder, config).translate(some_sources(*range(12)))
    assert len(decoder.threads) == num_threads
    assert set(decoder.threads.values()) == {1}


def test_no_thread_goes_on_when_nobody_waits_any_more(build_model: BuildModel):
    torch.set_num_threads(2)
    try:
        decoder = _Observed(build_model(), seconds=0.02)
        config = DecodeConfig(beam_size=2, max_extra_pieces=200, batch_sentences=1)
        # The first is done at once; the others would take seconds.
        batches = Translator(decoder, config).decoded_batches(some_sources(*range(20)))
        next(batches)
        batches.close()
        num_steps = decoder.num_steps
        time.sleep(0.1)
        assert decoder.num_steps == num_steps
    finally:
        torch.set_num_threads(1)


def test_the_same_request_to_another_checkpoint_is_not_answered_by_the_first(build_model: BuildModel):
    """B61: what a decoder has packed of a model's weights is of the weights that the model has now."""
    model, other = build_model(), build_model()
    sources, config = some_sources(3, 5, 7), DecodeConfig(max_extra_pieces=5)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    first, wanted = translate(model, sources, config), translate(other, sources, config)
    assert first != wanted
    model.load_state_dict(other.state_dict())
    assert translate(model, sources, config) == wanted
    model.load_state_dict(kept)
    assert translate(model, sources, config) == first
