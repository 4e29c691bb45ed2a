"""Step by step equals the full pass, whatever happens to beams and sentences between the steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from core import cpu
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
    """Pitfall B6: nothing is scaled on one of the two ways alone."""
    for changes in ({}, {"positions": "learned"}):
        model = build_model(**changes)
        decoder = IncrementalDecoder(model)
        src, tgt_in = pieces(4, 20, 9), pieces(21, 21, 21, seed=1)
        full = model.logits(model(src, tgt_in))
        state = decoder.start(src, beam_size=1)
        for t in range(21):
            assert state.position == t
            assert_close(decoder.step(tgt_in[:, t : t + 1], state)[:, 0, :23], full[:, t], **TIGHT)


@pytest.mark.parametrize("num_steps", [3, 25])
def test_beams_may_change_places_and_sentences_may_leave_between_steps(
    build_model: BuildModel, num_steps: int, assert_beams_may_change_places: Callable[..., None]
):
    assert_beams_may_change_places(build_model(), pieces(5, 17, 9, 2, 11), num_steps, atol=TIGHT["atol"])


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN")
def test_matrices_packed_for_onednn_give_the_same_logits(build_model: BuildModel, monkeypatch: pytest.MonkeyPatch):
    model = build_model(d_model=64, d_ff=96).float()
    src, tgt_in = pieces(4, 20, 9), pieces(12, 12, 12, seed=1)
    monkeypatch.setattr(cpu, "mkl_is_slow", lambda: True)
    packed = IncrementalDecoder(model)
    monkeypatch.undo()
    state = packed.start(src, beam_size=1)
    full = model.logits(model(src, tgt_in))
    for t in range(12):
        stepped = packed.step(tgt_in[:, t : t + 1], state)
        assert_close(stepped[:, 0, :23], full[:, t], rtol=0.0, atol=2e-5)
        assert (stepped[..., 23:] == -torch.inf).all()


def test_learned_positions_refuse_a_longer_output(build_model: BuildModel):
    decoder = IncrementalDecoder(build_model(positions="learned", max_learned_positions=6))
    state = decoder.start(pieces(2), beam_size=1)
    for _ in range(6):
        decoder.step(pieces(1), state)
    with pytest.raises(ValueError, match="position 6"):
        decoder.step(pieces(1), state)
