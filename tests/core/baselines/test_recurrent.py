"""Recurrent encoder-decoders against torch's own modules and values worked by hand; then what holds for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from core.architecture_config import RecurrentConfig
from core.baselines.recurrence import RecurrentLayer, lengths_of, reverse_within
from core.baselines.recurrent import AdditiveAttention, RecurrentDecoder, RecurrentModel
from core.complexity import num_parameters, training_flops
from core.config import DecodeConfig, TrainConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.search import beam_search, greedy_search
from core.sequence_model import num_parameters as counted_parameters

V = 23
CONFIGS = {
    "plain": RecurrentConfig.sutskever(V, num_layers=1, d_model=12, cell="elman"),
    "sutskever": RecurrentConfig.sutskever(V, num_layers=2, d_model=12),
    "bahdanau": RecurrentConfig.bahdanau(V, d_model=12),
    "bahdanau, deep": RecurrentConfig.bahdanau(V, d_model=12, cell="lstm", num_layers=3),
    "gnmt": RecurrentConfig.gnmt(V, d_model=12, num_layers=4, dropout=0.0),
    "gnmt, one way": RecurrentConfig.gnmt(V, d_model=12, num_layers=2, bidirectional=False, residual_from=2),
}
ATTENDING = [name for name, config in CONFIGS.items() if config.attention != "none"]
TIGHT = {"rtol": 0.0, "atol": 1e-12}


def build(name: str) -> RecurrentModel:
    """In float64 and eval mode, with random biases too."""
    return RecurrentModel(CONFIGS[name]).double().eval()


def pieces(*lengths: int, seed: int = 0) -> Tensor:
    """(B, longest) random ids, none of them special, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, V, (length,), generator=generator) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)


# Truth from outside ---------------------------------------------------------------------------------------------------


def test_additive_attention_by_hand() -> None:
    """v . tanh(W s + U h) with W = U = I and v = (1, 2): 3 tanh(1) = 2.2848 for h = (0, 1), and 0 for h = (-1, 0)."""
    attention = AdditiveAttention(2, 2)
    with torch.no_grad():
        attention.query.weight.copy_(torch.eye(2))
        attention.key.weight.copy_(torch.eye(2))
        attention.score.weight.copy_(torch.tensor([[1.0, 2.0]]))
    annotations = torch.tensor([[[0.0, 1.0], [-1.0, 0.0], [5.0, 5.0]]])
    is_real = torch.tensor([[True, True, False]])
    query = torch.tensor([[[1.0, 0.0]]])
    context, weights = attention(query, attention.key(annotations), annotations, is_real)
    first = 1 / (1 + math.exp(-3 * math.tanh(1.0)))
    assert first == pytest.approx(0.90761, abs=1e-5)
    assert_close(weights, torch.tensor([[[first, 1 - first, 0.0]]]))
    assert_close(context, torch.tensor([[[first - 1, first]]]))


def test_sutskevers_model_is_two_torch_lstms_the_first_over_the_reversed_source() -> None:
    model = build("sutskever")
    theirs = {stack: nn.LSTM(12, 12, num_layers=2, batch_first=True).double() for stack in ("encoder", "decoder")}
    for stack, lstm in theirs.items():
        for number, layer in enumerate(getattr(model, f"{stack}_layers")):
            for name, weight in layer.kernel.named_parameters():
                getattr(lstm, name.replace("l0", f"l{number}")).data.copy_(weight)
    src, tgt_in = [5, 6, 7, 8, EOS_ID], [BOS_ID, 9, 10]
    embedded = model.embedding(torch.tensor([src[::-1]]))
    _, state = theirs["encoder"](embedded)
    expected, _ = theirs["decoder"](model.embedding(torch.tensor([tgt_in])), state)
    padded = torch.tensor([src + [PAD_ID] * 2, [5] * 7])  # among longer ones, so that it is packed
    assert_close(model(padded, torch.tensor([tgt_in, tgt_in]))[:1], expected, **TIGHT)


@pytest.mark.parametrize(("cell", "kind"), [("elman", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_both_ways_are_torchs_bidirectional_kernel(cell: str, kind: type[nn.RNNBase]) -> None:
    model = RecurrentModel(RecurrentConfig.bahdanau(V, d_model=6, cell=cell)).double()
    theirs = kind(6, 6, batch_first=True, bidirectional=True).double()
    for suffix, layer in (("", model.encoder_layers[0]), ("_reverse", model.backward_layer)):
        for name, weight in layer.kernel.named_parameters():
            getattr(theirs, name + suffix).data.copy_(weight)
    src = pieces(3, 7, 5)
    packed = pack_padded_sequence(model.embedding(src), lengths_of(src), batch_first=True, enforce_sorted=False)
    outputs, state = theirs(packed)
    annotations = pad_packed_sequence(outputs, batch_first=True)[0]
    memory = model.encode(src)
    assert_close(memory.annotations[memory.is_real], annotations[memory.is_real], **TIGHT)
    final = state[0] if cell == "lstm" else state
    assert_close(memory.states[0][0], torch.tanh(model.bridge(final[1])), **TIGHT)


@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_a_layers_steps_are_its_kernel(cell: str) -> None:
    layer = RecurrentLayer(cell, 5, 7).double()
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    outputs, state = layer.read(x, torch.tensor([4, 4, 4]))
    stepped = layer.state_of(torch.zeros(3, 7, dtype=torch.float64))
    for place in range(4):
        stepped = layer.step(x[:, place], stepped)
        assert_close(stepped[0], outputs[:, place], **TIGHT)
    for ours, theirs in zip(stepped, state, strict=True):
        assert_close(ours, theirs, **TIGHT)


def test_reversal_leaves_padding_in_place() -> None:
    src = torch.tensor([[5, 6, 7, 0], [8, 9, 10, 11]])
    assert reverse_within(src, lengths_of(src)).tolist() == [[7, 6, 5, 0], [11, 10, 9, 8]]


def test_gnmts_form_by_its_parts() -> None:
    """Layer 1 reads both ways, layer 2 reads both; residuals from layer 3; every decoder layer but the first reads the
    context of the first's state (Wu et al., sections 3.1 to 3.3)."""
    model = build("gnmt")
    inputs = [layer.kernel.input_size for layer in model.encoder_layers]
    assert (inputs, model.backward_layer.kernel.input_size) == ([12, 24, 12, 12], 12)
    assert [layer.kernel.input_size for layer in model.decoder_layers] == [12, 24, 24, 24]
    src, tgt_in = pieces(5, 5), pieces(4, 4, seed=1)
    memory = model.encode(src)
    x = model.decoder_layers[0](model.embedding(tgt_in), memory.states[0])
    context, _ = model.attention(x, memory.keys, memory.annotations, memory.is_real)
    second = model.decoder_layers[1](torch.cat((x, context), -1), memory.states[1])
    third = second + model.decoder_layers[2](torch.cat((second, context), -1), memory.states[2])
    fourth = third + model.decoder_layers[3](torch.cat((third, context), -1), memory.states[3])
    assert_close(model(src, tgt_in), fourth, **TIGHT)


def test_sutskevers_layers_have_the_printed_64_million_parameters() -> None:
    """An LSTM layer of 1000 has 4 * (1000 * 2000 + 2 * 1000) = 8,008,000; theirs are eight (their section 3.4)."""
    layers = num_parameters(RecurrentConfig.sutskever(80_000)) - 80_000 * 1_000
    assert layers == 8 * 8_008_000
    assert round(layers / 1e6) == 64


# What holds for all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_changes_nothing(name: str) -> None:
    model = build(name)
    src, tgt_in = pieces(4, 9, 1), pieces(5, 2, 7, seed=1)
    together = model(src, tgt_in)
    for row, (s, t) in enumerate(zip((4, 9, 1), (5, 2, 7), strict=True)):
        assert_close(together[row, :t], model(src[row : row + 1, :s], tgt_in[row : row + 1, :t])[0], **TIGHT)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_state_depends_on_a_later_target_piece(name: str) -> None:
    model = build(name)
    src, tgt_in = pieces(6, 4), pieces(7, 7, seed=1)
    changed = tgt_in.clone()
    changed[:, 4] = (changed[:, 4] - 2) % (V - 3) + 3
    before, after = model(src, tgt_in), model(src, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("name", CONFIGS)
def test_beams_may_change_places_and_sentences_may_leave_between_steps(
    name: str, assert_beams_may_change_places: Callable[..., None]
) -> None:
    assert_beams_may_change_places(build(name), pieces(5, 17, 9, 2), num_steps=5, atol=TIGHT["atol"])


@pytest.mark.parametrize("name", CONFIGS)
def test_products_of_fewer_bits_change_little_and_train(name: str) -> None:
    model = build(name).float()
    src, tgt_in = pieces(4, 9), pieces(5, 5, seed=1)
    exact = model.logits(model(src, tgt_in))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.logits(model(src, tgt_in))
    logits.float().sum().backward()
    assert_close(logits.float(), exact, rtol=0.0, atol=0.05)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_is_a_distribution_over_the_real_source_pieces(name: str) -> None:
    (weights,) = build(name).source_attention(pieces(4, 9), pieces(5, 5, seed=1))
    assert weights.shape == (2, 1, 5, 9)
    assert_close(weights.sum(-1), torch.ones(2, 1, 5, dtype=torch.float64), **TIGHT)
    assert (weights[0, :, :, 4:] == 0).all()
    assert (weights[0, :, :, :4] > 0).all()


def test_without_attention_there_are_no_weights_to_be_had() -> None:
    with pytest.raises(ValueError, match="RecurrentModel has no attention over the source"):
        build("sutskever").source_attention(pieces(4), pieces(5))


@pytest.mark.parametrize("name", CONFIGS)
def test_closed_forms_count_the_built_model(name: str) -> None:
    config, length = CONFIGS[name], 6
    model = RecurrentModel(config).double()  # float32 has a kernel whose products the counter does not see
    assert num_parameters(config) == counted_parameters(model)
    src, tgt_in = pieces(length), pieces(length)
    with FlopCounterMode(display=False) as counter:
        model.logits(model(src, tgt_in))
    train = TrainConfig(train_steps=1, source_tokens=length, target_tokens=length)
    assert training_flops(config, train, sentence_pieces=length) == 3 * counter.get_total_flops()


@pytest.mark.parametrize("name", ["plain", "sutskever", "bahdanau", "gnmt"])
def test_fifty_pairs_are_learned_by_heart(name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    config = CONFIGS[name]
    torch.manual_seed(1)
    model = RecurrentModel(type(config)(**{**config.__dict__, "d_model": 48}))
    src = torch.randint(3, V, (50, 4), generator=generator)
    tgt = torch.cat((torch.randint(3, V, (50, 3), generator=generator), torch.full((50, 1), EOS_ID)), dim=1)
    tgt_in = torch.cat((torch.full((50, 1), BOS_ID), tgt[:, :-1]), dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.tensor(torch.inf)
    for _ in range(200):
        if loss < 0.05:
            break
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model.logits(model(src, tgt_in)).flatten(0, 1), tgt.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    for search, beam_size in ((greedy_search, 1), (beam_search, 3)):
        found = search(RecurrentDecoder(model.eval()), src, DecodeConfig(beam_size=beam_size))
        assert [list(each.pieces) for each in found] == tgt[:, :-1].tolist()


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ({"attention": "gnmt", "num_layers": 1}, "num_layers=1 has none; use 'bahdanau'"),
        ({"residual_from": 3, "num_layers": 2}, "residual_from=3 must lie between 2 and num_layers=2"),
        ({"residual_from": 2, "bidirectional": True}, "with bidirectional use 3"),
        ({"cell": "qrnn"}, "cell='qrnn' must be one of elman, gru, lstm"),
        ({"attention": "luong"}, "attention='luong' must be one of none, bahdanau, gnmt"),
        ({"num_layers": 0}, "num_layers=0 must be a whole number of at least 1"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_sizes_that_cannot_be_meant_are_refused(sizes: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RecurrentConfig(V, **sizes)
