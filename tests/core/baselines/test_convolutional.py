"""What the convolutional baselines have in common: no leak, no influence of padding, steps equal to a full pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from core.architecture_config import (
    ArchitectureConfig,
    ByteNetConfig,
    ConvS2SConfig,
    ExtendedNeuralGPUConfig,
    architecture_from_dict,
    architecture_name,
    architecture_to_dict,
)
from core.architectures import build_decoder, build_model
from core.complexity import num_parameters, training_flops
from core.config import DecodeConfig, TrainConfig
from core.data.vocabulary import PAD_ID
from core.search import beam_search, greedy_search
from core.sequence_model import SequenceModel
from core.sequence_model import num_parameters as counted_parameters

VOCAB_SIZE = 23
TIGHT = {"rtol": 0.0, "atol": 1e-10}
CONFIGS = {
    "convs2s": ConvS2SConfig(
        VOCAB_SIZE, d_model=10, blocks=((12, 3), (12, 3), (14, 1)), dropout=0.0, max_learned_positions=99
    ),
    "convs2s-even": ConvS2SConfig(
        VOCAB_SIZE, 10, ((12, 2), (12, 4)), dropout=0.0, max_learned_positions=99, weight_norm=False
    ),
    "bytenet": ByteNetConfig(VOCAB_SIZE, d_model=12, num_sets=2, set_size=3, dropout=0.0),
    "bytenet-wide": ByteNetConfig(VOCAB_SIZE, 8, 1, 2, kernel_size=5, length_ratio=1.0, length_extra=2, dropout=0.0),
    "neural-gpu": ExtendedNeuralGPUConfig(VOCAB_SIZE, d_model=6, image_width=3, num_layers=2, dropout=0.0),
}
every_model = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def model_of(config: ArchitectureConfig) -> SequenceModel:
    """In float64 and eval mode; everything is random, so that nothing passes by initial zeros and ones."""
    model = build_model(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def pieces(*lengths: int, seed: int = 0) -> Tensor:
    """(B, longest) random ids, none of them special, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, VOCAB_SIZE, (length,), generator=generator) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)


@every_model
def test_hidden_states_have_a_row_for_each_target_piece(config: ArchitectureConfig) -> None:
    model = model_of(config)
    hidden = model(pieces(4, 7), pieces(5, 3))
    assert hidden.shape == (2, 5, config.d_model)
    assert model.logits(hidden).shape == (2, 5, VOCAB_SIZE)


@every_model
def test_no_state_depends_on_a_later_target_piece(config: ArchitectureConfig) -> None:
    model = model_of(config)
    src, tgt_in = pieces(6), pieces(9, seed=1)
    before = model(src, tgt_in)
    for place in range(1, 9):
        changed = tgt_in.clone()
        changed[0, place] = 3 + (tgt_in[0, place] - 2) % (VOCAB_SIZE - 3)
        after = model(src, changed)
        assert_close(after[:, :place], before[:, :place], **TIGHT)
        assert not torch.allclose(after[:, place], before[:, place])


@every_model
def test_a_sentence_has_the_same_states_alone_and_among_longer_ones(config: ArchitectureConfig) -> None:
    model = model_of(config)
    src, tgt_in = pieces(4, 11, 1, 7), pieces(6, 3, 14, 1, seed=1)
    together = model(src, tgt_in)
    for row, (s, t) in enumerate(zip((4, 11, 1, 7), (6, 3, 14, 1), strict=True)):
        alone = model(src[row : row + 1, :s], tgt_in[row : row + 1, :t])
        assert_close(together[row : row + 1, :t], alone, **TIGHT)


@every_model
def test_the_source_is_read_to_its_end(config: ArchitectureConfig) -> None:
    model = model_of(config)
    src, tgt_in = pieces(4), pieces(4, seed=1)
    before = model(src, tgt_in)
    for place in range(4):
        changed = src.clone()
        changed[0, place] = 3 + (src[0, place] - 2) % (VOCAB_SIZE - 3)
        assert not torch.allclose(model(changed, tgt_in)[:, -1], before[:, -1])


@every_model
def test_steps_give_the_logits_of_one_full_pass(config: ArchitectureConfig) -> None:
    model = model_of(config)
    decoder = build_decoder(model)
    src, tgt_in = pieces(4, 20, 9), pieces(30, 30, 30, seed=1)
    full = model.logits(model(src, tgt_in))
    state = decoder.start(src, beam_size=1)
    for place in range(30):
        assert state.position == place
        assert_close(decoder.step(tgt_in[:, place : place + 1], state)[:, 0], full[:, place], **TIGHT)


@every_model
def test_beams_may_change_places_and_sentences_may_leave_between_steps(
    config: ArchitectureConfig, assert_beams_may_change_places: Callable[..., None]
) -> None:
    assert_beams_may_change_places(model_of(config), pieces(5, 12, 9, 2, 7), num_steps=9, atol=TIGHT["atol"])


@every_model
def test_the_closed_forms_count_the_built_model(config: ArchitectureConfig) -> None:
    model = build_model(config).double()  # the counter does not know oneDNN's products, which are float32's
    assert num_parameters(config) == counted_parameters(model)
    # Twenty pieces on either side: no source's places are rounded up, and no row of scores is short and padded.
    src, tgt_in = pieces(20), pieces(20, seed=1)
    with FlopCounterMode(display=False) as counter:
        model.logits(model(src, tgt_in))
    train = TrainConfig(train_steps=11, source_tokens=20, target_tokens=20)
    counted = 3 * 11 * counter.get_total_flops()
    assert training_flops(config, train, sentence_pieces=20) == counted


@every_model
def test_a_stored_configuration_comes_back(config: ArchitectureConfig) -> None:
    stored = architecture_to_dict(config)
    assert stored["architecture"] == architecture_name(config)
    assert architecture_from_dict(stored) == config


@pytest.mark.parametrize("name", ["convs2s", "bytenet", "neural-gpu"])
def test_overfits_fifty_pairs(name: str) -> None:
    """Fifty random pairs by heart, found again by beam and by greedy search: loss, gradient and decoder agree."""
    wide = {
        "convs2s": {"d_model": 48, "blocks": ((48, 3),) * 3},
        "bytenet": {"d_model": 64},
        "neural-gpu": {"d_model": 24, "image_width": 2, "num_layers": 1},
    }[name]
    model = build_model(replace(CONFIGS[name], **wide)).train()
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 7, (2, 50), generator=generator)
    src, tgt = pieces(*lengths[0].tolist()), pieces(*lengths[1].tolist(), seed=1)
    src, tgt = (nn.functional.pad(each, (0, 1)) for each in (src, tgt))
    for each, ends in ((src, lengths[0]), (tgt, lengths[1])):
        each[torch.arange(50), ends] = 2
    tgt_in = nn.functional.pad(tgt, (1, 0), value=1)[:, :-1]
    tgt_in[tgt_in == 2] = PAD_ID
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    least = 0.0
    for _ in range(400):
        log_probs = model.logits(model(src, tgt_in)).flatten(0, 1).log_softmax(-1)
        nll = nn.functional.nll_loss(log_probs, tgt.flatten(), ignore_index=PAD_ID, reduction="none")
        optimizer.zero_grad()
        nll.mean().backward()
        optimizer.step()
        least = nll.max().neg().exp().item()
        if least > 0.9:
            break
    assert least > 0.9
    decoder = build_decoder(model.eval())
    wanted = [row[:length].tolist() for row, length in zip(tgt, lengths[1].tolist(), strict=True)]
    for search, config in ((greedy_search, DecodeConfig(beam_size=1)), (beam_search, DecodeConfig(beam_size=3))):
        found = search(decoder, src, config)
        assert [list(hypothesis.pieces) for hypothesis in found] == wanted
