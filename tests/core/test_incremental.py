"""Step by step equals the full pass, whatever happens to beams and sentences between the steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from core.data.vocabulary import PAD_ID
from core.incremental import IncrementalDecoder
from core.transformer import Transformer

BuildModel = Callable[..., Transformer]
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def pieces(*lengths: int, seed: int = 0, vocab_size: int = 23) -> Tensor:
    """(B, longest) random ids, none of them special, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, vocab_size, (length,), generator=generator) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)


def test_cached_steps_give_the_logits_of_one_full_pass(build_model: BuildModel):
    for changes in ({}, {"positions": "learned"}):
        model = build_model(**changes)
        decoder = IncrementalDecoder(model)
        src, tgt_in = pieces(4, 20, 9), pieces(21, 21, 21, seed=1)
        full = model.logits(model(src, tgt_in))
        state = decoder.start(src, beam_size=1)
        for t in range(21):
            assert state.position == t
            assert_close(decoder.step(tgt_in[:, t : t + 1], state)[:, 0], full[:, t], **TIGHT)


def test_beams_may_change_places_and_sentences_may_leave_between_steps(build_model: BuildModel):
    model = build_model()
    decoder = IncrementalDecoder(model)
    src, num_beams = pieces(5, 17), 3
    state = decoder.start(src, num_beams)
    first, second, third = (pieces(3, 3, seed=seed) for seed in (1, 2, 3))  # (sentences, beams) each
    decoder.step(first, state)
    decoder.step(second, state)
    # The first sentence leaves; the second goes on from its beams 2, 0, 2.
    chosen = torch.tensor([2, 0, 2])
    state.select_beams(num_beams + chosen)
    state.select_sentences(torch.tensor([1]))
    stepped = decoder.step(third[1:], state)[0]
    prefixes = torch.stack([first[1, chosen], second[1, chosen], third[1]], dim=1)  # (beams, 3)
    full = model.logits(model(src[1:].expand(num_beams, -1), prefixes))[:, -1]
    assert_close(stepped, full, **TIGHT)


def test_learned_positions_refuse_a_longer_output(build_model: BuildModel):
    decoder = IncrementalDecoder(build_model(positions="learned", max_learned_positions=6))
    state = decoder.start(pieces(2), beam_size=1)
    for _ in range(6):
        decoder.step(pieces(1), state)
    with pytest.raises(ValueError, match="position 6"):
        decoder.step(pieces(1), state)
