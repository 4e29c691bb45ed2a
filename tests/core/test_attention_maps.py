"""Attention weights out of a model: the ones that it attends with, of the layer, head and sentence asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from core.architecture_config import ArchitectureConfig, MemoryNetworkConfig, RecurrentConfig
from core.architectures import build_model as build_architecture
from core.attention_maps import KINDS, attention_maps, merge_pieces, source_side, target_side
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary
from core.transformer import Transformer

Build = Callable[..., Transformer]

# Of different lengths, so that exchanged axes show; the second source is padded (F2).
SRC = torch.tensor([[5, 6, 7, 8, 9, 10, EOS_ID], [11, 12, 13, EOS_ID, PAD_ID, PAD_ID, PAD_ID]])
TGT = torch.tensor([[BOS_ID, 14, 15, 16, 17], [BOS_ID, 18, 19, 20, 21]])


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    lines = [
        "The law will never be perfect .",
        "The application should be just , in my opinion .",
        "näher daran €",
    ] * 20
    return Vocabulary.learn(lines, 330)


def torchs_weights(attention: nn.Module, x: Tensor, memory: Tensor, mask: Tensor, d_k: int) -> Tensor:
    """(B, H, T, S) of torch's own arithmetic, head by head, from the projections."""
    found = []
    for head in range(attention.num_heads):
        rows = slice(head * d_k, (head + 1) * d_k)
        query = nn.functional.linear(x, attention.query.weight[rows])
        key = nn.functional.linear(memory, attention.key.weight[rows])
        scores = torch.einsum("btd,bsd->bts", query, key) / d_k**0.5
        found.append(scores.masked_fill(~mask, -torch.inf).softmax(-1))
    return torch.stack(found, dim=1)


def test_weights_are_those_that_the_first_layer_attends_with(build_model: Build) -> None:
    model = build_model()
    found = attention_maps(model, SRC, TGT)
    x = model.encoder_positions(model.embedding(SRC))
    d_k = model.config.d_k
    expected = torchs_weights(model.encoder_layers[0].self_attention, x, x, (SRC != PAD_ID)[:, None, :], d_k)
    torch.testing.assert_close(found.weights["encoder"][1], expected)
    y = model.decoder_positions(model.embedding(TGT))
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = torchs_weights(model.decoder_layers[0].self_attention, y, y, causal, d_k)
    torch.testing.assert_close(found.weights["decoder"][1], expected)


def test_walk_ends_where_the_model_does(build_model: Build) -> None:
    """Every layer's weights depend on the states below it: equal states at the end mean that none was another's."""
    model = build_model()
    last = model.decoder_layers[-1]
    seen = {}
    handle = last.cross_attention.query.register_forward_hook(lambda _, inputs, __: seen.update(x=inputs[0]))
    attention_maps(model, SRC, TGT)
    walked = seen["x"]
    model.decode(TGT, model.encode(SRC), SRC)
    handle.remove()
    torch.testing.assert_close(walked, seen["x"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_a_distribution_over_keys(kind: str, build_model: Build) -> None:
    """F1: were the axes exchanged, columns would sum to 1."""
    for weights in attention_maps(build_model(), SRC, TGT).weights[kind].values():
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert (weights.sum(-2) - 1).abs().max() > 0.01


def test_f2_cross_attention_has_target_rows_and_source_columns(build_model: Build) -> None:
    weights = attention_maps(build_model(), SRC, TGT).weights
    assert weights["encoder"][2].shape == (2, 2, 7, 7)
    assert weights["decoder"][2].shape == (2, 2, 5, 5)
    assert weights["cross"][2].shape == (2, 2, 5, 7)


def test_padding_is_never_looked_at_and_the_future_neither(build_model: Build) -> None:
    weights = attention_maps(build_model(), SRC, TGT).weights
    for layer in (1, 2):
        assert not weights["encoder"][layer][1, :, :, 4:].any()
        assert not weights["cross"][layer][1, :, :, 4:].any()
        assert not weights["decoder"][layer].triu(1).any()


def test_b49_b12_straight_after_a_training_step_dropout_is_off(build_model: Build) -> None:
    """B49, pitfall B12: dropped weights do not sum to 1 and change from call to call."""
    model = build_model(dropout=0.5).train()
    model(SRC, TGT).square().sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.01 * parameter.grad)
    first, second = (attention_maps(model, SRC, TGT).weights for _ in range(2))
    for kind in KINDS:
        for layer in (1, 2):
            assert torch.equal(first[kind][layer], second[kind][layer])
            torch.testing.assert_close(first[kind][layer].sum(-1), torch.ones_like(first[kind][layer][..., 0]))
    assert model.training
    assert all(module.training for module in model.modules())


def test_b51_d12_a_head_is_its_own_and_not_the_mean(build_model: Build) -> None:
    """B51, pitfall D12."""
    found = attention_maps(build_model(num_heads=4), SRC, kinds=["encoder"])
    layer = found.weights["encoder"][2]
    head = found.head("encoder", 2, 3)
    assert head.shape == (7, 7)
    assert torch.equal(head, layer[0, 2])
    assert (head - layer[0].mean(0)).abs().max() > 0.01
    with pytest.raises(ValueError, match="no head 5: layer 2 has heads 1 to 4"):
        found.head("encoder", 2, 5)


def test_only_what_is_asked_for_is_kept(build_model: Build) -> None:
    model = build_model(num_layers=4)
    whole = attention_maps(model, SRC, TGT).weights
    part = attention_maps(model, SRC, TGT, layers=[3], kinds=["cross"]).weights
    assert set(part) == {"cross"}
    assert set(part["cross"]) == {3}
    torch.testing.assert_close(part["cross"][3], whole["cross"][3])


def test_layers_above_the_asked_one_are_not_computed(build_model: Build) -> None:
    model = build_model(num_layers=4)
    ran = []
    for number, layer in enumerate(model.encoder_layers, start=1):
        layer.feed_forward.register_forward_hook(lambda *_, number=number: ran.append(number))
    attention_maps(model, SRC, layers=[2], kinds=["encoder"])
    assert ran == [1, 2]


@pytest.mark.parametrize("layer", [0, 3, -1])
def test_layer_that_does_not_exist_is_refused(layer: int, build_model: Build) -> None:
    with pytest.raises(ValueError, match=rf"no layer {layer}: this model has layers 1 to 2"):
        attention_maps(build_model(), SRC, layers=[layer], kinds=["encoder"])


def test_decoder_without_a_target_is_refused(build_model: Build) -> None:
    with pytest.raises(ValueError, match="needs a target sentence"):
        attention_maps(build_model(), SRC)


def test_b49_f3_labels_have_start_and_end_and_the_length_of_their_axis(vocabulary: Vocabulary) -> None:
    (pieces,) = vocabulary.encode_batch(["The law will never be perfect."])
    source, target = source_side(vocabulary, pieces), target_side(vocabulary, pieces)
    assert source.labels[-1] == "⟨eos⟩"
    assert target.labels[0] == "⟨bos⟩"
    for side in (source, target):
        assert len(side.ids) == len(side.labels) == len(side.words) == len(pieces) + 1
    assert source.word_labels == ("The", "law", "will", "never", "be", "perfect", ".", "⟨eos⟩")


def test_words_of_any_script_come_back_whole(vocabulary: Vocabulary) -> None:
    text = 'Ääkköset 日本語 مرحبا x<y & "z" $5$'
    (pieces,) = vocabulary.encode_batch([text])
    words = source_side(vocabulary, pieces).word_labels[:-1]
    assert words == ("Ääkköset", "日本語", "مرحبا", "x", "<", "y", "&", '"', "z", '"', "$", "5", "$")


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_every_piece_has_a_word_and_words_go_from_left_to_right(vocabulary: Vocabulary, text: str) -> None:
    (pieces,) = vocabulary.encode_batch([text])
    ids = [*pieces, EOS_ID]
    words = merge_pieces(ids, vocabulary.pieces(ids))
    assert words[0] == 0
    assert set(np.diff(words)) <= {0, 1}
    assert words.count(words[-1]) == 1  # the end symbol is nobody's part


# Other architectures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "num_layers"),
    [
        (RecurrentConfig.bahdanau(23, d_model=8), 1),
        (RecurrentConfig.gnmt(23, d_model=8, num_layers=3), 1),
        (MemoryNetworkConfig(23, d_model=8, num_hops=3), 3),
    ],
)
def test_another_architectures_maps_are_its_weights_over_the_source(
    config: ArchitectureConfig, num_layers: int
) -> None:
    model = build_architecture(config)  # in training mode: dropout must be off all the same
    src, tgt_in = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]]), torch.tensor([[1, 5, 6, 7], [1, 8, 9, 0]])
    maps = attention_maps(model, src, tgt_in, kinds=("cross",)).weights["cross"]
    assert list(maps) == list(range(1, num_layers + 1))
    for layer, weights in zip(maps.values(), model.eval().source_attention(src, tgt_in), strict=True):
        assert_close(layer, weights)
        assert layer.shape == (2, 1, 4, 4)
        assert_close(layer[0].sum(-1), torch.ones(1, 4))
    assert list(attention_maps(model, src, tgt_in, [num_layers], ("cross",)).weights["cross"]) == [num_layers]


def test_kinds_and_layers_that_another_architecture_lacks_are_refused() -> None:
    src = torch.tensor([[5, 6, 2]])
    model = build_architecture(RecurrentConfig.bahdanau(23, d_model=8))
    with pytest.raises(ValueError, match="RecurrentModel has no encoder attention; it attends to the source alone"):
        attention_maps(model, src, src, kinds=("encoder",))
    with pytest.raises(ValueError, match="no layer 2: this model has layers 1 to 1"):
        attention_maps(model, src, src, [2], ("cross",))
    with pytest.raises(ValueError, match="RecurrentModel has no attention over the source"):
        attention_maps(build_architecture(RecurrentConfig(23, d_model=8)), src, src, kinds=("cross",))
