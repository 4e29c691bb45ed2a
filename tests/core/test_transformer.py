from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from core.attention import MultiHeadAttention
from core.config import ModelConfig
from core.data.vocabulary import PAD_ID
from core.layers import Dropout, FeedForward, ResidualNorm, sinusoid
from core.loss import projected_cross_entropy
from core.sequence_model import num_parameters
from core.transformer import DecoderLayer, EncoderLayer, Transformer, causal_mask, padding_mask

BuildModel = Callable[..., Transformer]
TIGHT = {"rtol": 0.0, "atol": 1e-10}
# Torch's own layers know only d_k = d_v = d_model / h.
TORCH_SIZES = {"d_model": 16, "num_heads": 2, "d_k": 8, "d_v": 8}


def pieces(*lengths: int, seed: int = 0, vocab_size: int = 23) -> Tensor:
    """(B, longest) random ids, none of them special, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, vocab_size, (length,), generator=generator) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)


def hidden_input(batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, length, 16, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- against torch's own Transformer


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
    theirs.out_proj.weight.copy_(ours.output.weight)
    theirs.in_proj_bias.zero_()
    theirs.out_proj.bias.zero_()


def copy_rest(ours: EncoderLayer | DecoderLayer, theirs: nn.Module, norms: list[ResidualNorm]) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.norm.state_dict())


TORCH_LAYER = {"d_model": 16, "nhead": 2, "dim_feedforward": 32, "dropout": 0.0, "activation": "relu"}


def torchs_encoder_layer(ours: EncoderLayer) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(**TORCH_LAYER, batch_first=True, norm_first=False, dtype=torch.float64)
    copy_rest(ours, theirs, [ours.self_attention_norm, ours.feed_forward_norm])
    return theirs


def torchs_decoder_layer(ours: DecoderLayer) -> nn.TransformerDecoderLayer:
    theirs = nn.TransformerDecoderLayer(**TORCH_LAYER, batch_first=True, norm_first=False, dtype=torch.float64)
    copy_rest(ours, theirs, [ours.self_attention_norm, ours.cross_attention_norm, ours.feed_forward_norm])
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    return theirs


def torchs_transformer(ours: Transformer) -> nn.Transformer:
    theirs = nn.Transformer(d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, batch_first=True)
    # Torch's stacks end in one more norm, which the paper does not have; norm=None leaves it out.
    theirs.encoder.norm = theirs.decoder.norm = None
    theirs.encoder.enable_nested_tensor = False
    theirs.encoder.layers = nn.ModuleList(torchs_encoder_layer(layer) for layer in ours.encoder_layers)
    theirs.decoder.layers = nn.ModuleList(torchs_decoder_layer(layer) for layer in ours.decoder_layers)
    theirs.encoder.num_layers = theirs.decoder.num_layers = len(ours.encoder_layers)
    return theirs


@pytest.mark.parametrize("length", [6, 30])
def test_encoder_layer_agrees_with_torchs(build_model: BuildModel, length: int):
    ours = build_model(**TORCH_SIZES).encoder_layers[1]
    src = pieces(length, 3)
    x = hidden_input(2, length)
    expected = torchs_encoder_layer(ours)(x, src_key_padding_mask=src == PAD_ID)
    assert_close(ours(x, padding_mask(src)), expected, **TIGHT)


@pytest.mark.parametrize(("src_length", "tgt_length"), [(6, 9), (30, 20)])
def test_decoder_layer_agrees_with_torchs(build_model: BuildModel, src_length: int, tgt_length: int):
    ours = build_model(**TORCH_SIZES).decoder_layers[1]
    src = pieces(src_length, 2)
    x, memory = hidden_input(2, tgt_length), hidden_input(2, src_length, seed=1)
    future = torch.ones(tgt_length, tgt_length, dtype=torch.bool).triu(1)
    expected = torchs_decoder_layer(ours)(x, memory, tgt_mask=future, memory_key_padding_mask=src == PAD_ID)
    assert_close(ours(x, memory, causal_mask(tgt_length, x.device), padding_mask(src)), expected, **TIGHT)


def test_whole_transformer_agrees_with_torchs(build_model: BuildModel):
    ours = build_model(**TORCH_SIZES, num_layers=3)
    src, tgt_in = pieces(7, 18, 1), pieces(20, 4, 11, seed=1)

    def embedded(ids: Tensor) -> Tensor:
        return ours.embedding.weight[ids] * 4.0 + sinusoid(ids.size(1), 16)  # sqrt(16) = 4

    real = tgt_in != PAD_ID
    expected = torchs_transformer(ours)(
        embedded(src),
        embedded(tgt_in),
        tgt_mask=torch.ones(20, 20, dtype=torch.bool).triu(1),
        src_key_padding_mask=src == PAD_ID,
        tgt_key_padding_mask=~real,
        memory_key_padding_mask=src == PAD_ID,
    )
    hidden = ours(src, tgt_in)
    assert_close(hidden[real], expected[real], **TIGHT)
    assert_close(ours.logits(hidden), hidden @ ours.embedding.weight.T, **TIGHT)
    # The gradient at the embedding has passed every layer of both stacks.
    gradient, expected_gradient = (
        torch.autograd.grad(output[real].square().sin().sum(), ours.embedding.weight)[0]
        for output in (hidden, expected)
    )
    assert expected_gradient.abs().max() > 1e-2
    assert_close(gradient, expected_gradient, rtol=0.0, atol=1e-9)


# --- what sees what


@pytest.mark.parametrize("length", [8, 24])
@pytest.mark.parametrize("positions", ["sinusoid", "learned"])
def test_causal_mask_hides_future_tokens(build_model: BuildModel, length: int, positions: str):
    """Pitfall B8. B23: an inverted mask lets a tiny model look ahead."""
    model = build_model(positions=positions)
    src, tgt_in = pieces(6, 4), pieces(length, length, seed=1)
    before = model(src, tgt_in)
    for changed in (0, 5, length - 1):
        other = tgt_in.clone()
        other[:, changed] = 3 + (tgt_in[:, changed] - 3 + 1) % 20
        after = model(src, other)
        assert torch.equal(after[:, :changed], before[:, :changed])
        assert (after[:, changed:] != before[:, changed:]).any(-1).all()


def test_every_output_sees_every_source_piece(build_model: BuildModel):
    model = build_model()
    src, tgt_in = pieces(5), pieces(4, seed=1)
    before = model(src, tgt_in)
    for changed in range(5):
        other = src.clone()
        other[0, changed] = 3 + (src[0, changed] - 3 + 1) % 20
        assert ((model(other, tgt_in) - before).abs().amax(-1) > 1e-9).all()


def test_padding_changes_nothing(build_model: BuildModel):
    """Pitfall B18: one padding id on both sides, whose rows nothing depends on."""
    model = build_model()
    src, tgt_in = pieces(5), pieces(7, seed=1)
    plain = model(src, tgt_in)
    for extra in (1, 14, 40):
        padded = model(nn.functional.pad(src, (0, extra)), nn.functional.pad(tgt_in, (0, extra)))
        assert_close(padded[:, :7], plain, **TIGHT)


def test_a_sentence_has_the_same_output_whatever_stands_beside_it(build_model: BuildModel):
    model = build_model()
    src_lengths, tgt_lengths = (1, 19, 7, 12), (22, 3, 1, 9)
    src, tgt_in = pieces(*src_lengths), pieces(*tgt_lengths, seed=1)
    together = model(src, tgt_in)
    for row, (s, t) in enumerate(zip(src_lengths, tgt_lengths, strict=True)):
        alone = model(src[row : row + 1, :s], tgt_in[row : row + 1, :t])
        assert_close(together[row : row + 1, :t], alone, **TIGHT)


def test_order_of_the_source_matters_and_only_through_positions(build_model: BuildModel):
    model = build_model()
    src, tgt_in = pieces(6), pieces(3, seed=1)
    plain = model(src, tgt_in)
    assert (model(src.flip(1), tgt_in) - plain).abs().max() > 1e-3
    model.encoder_positions = nn.Identity()
    assert_close(model(src.flip(1), tgt_in), model(src, tgt_in), **TIGHT)


def test_training_mode_without_dropout_equals_eval_mode(build_model: BuildModel):
    """Pitfall B11. B25."""
    model = build_model(dropout=0.0)
    src, tgt_in = pieces(18, 3), pieces(5, 20, seed=1)
    evaluated = model.eval()(src, tgt_in)
    assert torch.equal(model.train()(src, tgt_in), evaluated)
    assert evaluated.shape == (2, 20, 16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_lengths_1_and_50_in_one_batch_give_no_nan_in_loss_and_gradients(build_model: BuildModel, dtype: torch.dtype):
    """B24."""
    model = build_model(dropout=0.1).to(dtype).train()
    src, tgt_in, tgt_out = pieces(1, 50), pieces(50, 1, seed=1), pieces(50, 1, seed=2)
    real = tgt_out != PAD_ID
    sums = projected_cross_entropy(model(src, tgt_in)[real], model.embedding.weight, tgt_out[real], 0.1)
    sums.smoothed.backward()
    assert sums.smoothed.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name


def test_learned_positions_refuse_a_longer_sentence_on_either_side(build_model: BuildModel):
    model = build_model(positions="learned", max_learned_positions=6)
    model(pieces(6), pieces(6))
    for src_length, tgt_length in ((7, 6), (6, 7)):
        with pytest.raises(ValueError, match="beyond the 6 learned positions"):
            model(pieces(src_length), pieces(tgt_length))


# --- what the model is made of


def test_one_matrix_serves_source_target_and_projection(build_model: BuildModel):
    model = build_model()
    with_vocabulary_side = [name for name, p in model.named_parameters() if 23 in p.shape]
    assert with_vocabulary_side == ["embedding.weight"]
    src, tgt_in = pieces(4), pieces(3, seed=1)
    vocabulary = model.embedding.weight

    def gradient_of(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, vocabulary)[0]

    # It learns from each of its three uses alone.
    memory = model.encode(src)
    assert gradient_of(memory.square().sum()).abs().sum() > 0
    hidden = model.decode(tgt_in, memory.detach(), src)
    assert gradient_of(hidden.square().sum()).abs().sum() > 0
    assert_close(gradient_of(model.logits(hidden.detach()).sum()), hidden.sum((0, 1)).expand(23, 16), **TIGHT)


def test_norm_follows_each_addition_and_none_stands_at_the_end(tiny_config: ModelConfig):
    """Pitfalls B1 and B2. B36."""
    model = Transformer(tiny_config)
    norms = {name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)}
    encoder = {f"encoder_layers.{n}.{part}_norm.norm" for n in range(2) for part in ("self_attention", "feed_forward")}
    decoder = {
        f"decoder_layers.{n}.{part}_norm.norm"
        for n in range(2)
        for part in ("self_attention", "cross_attention", "feed_forward")
    }
    assert norms == encoder | decoder


def test_no_dropout_inside_attention_or_feed_forward(tiny_config: ModelConfig):
    """Pitfall B13. B36."""
    model = Transformer(replace(tiny_config, dropout=0.1))
    inside = [
        name
        for part_name, part in model.named_modules()
        if isinstance(part, (MultiHeadAttention, FeedForward))
        for name, module in part.named_modules(prefix=part_name)
        if "drop" in type(module).__name__.lower()
    ]
    assert inside == []
    # Nor through torch's modules elsewhere.
    assert not any(isinstance(module, nn.modules.dropout._DropoutNd) for module in model.modules())


def test_dropout_falls_on_both_embedding_sums_and_every_sublayer_output_and_nowhere_else(tiny_config: ModelConfig):
    """Pitfall B14."""
    model = Transformer(replace(tiny_config, dropout=0.1, num_layers=3)).train()
    places: Counter[str] = Counter()
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            assert module.rate == 0.1
            module.register_forward_hook(lambda _module, _inputs, _output, name=name: places.update([name]))
    model(pieces(4), pieces(3))
    assert places.pop("dropout") == 2  # embedding + position, in the encoder and in the decoder (5.4)
    assert set(places.values()) == {1}
    assert Counter(name.split(".")[0] for name in places) == {"encoder_layers": 3 * 2, "decoder_layers": 3 * 3}
    assert all(name.endswith("_norm.dropout") for name in places)


def test_layers_differ_from_each_other(tiny_config: ModelConfig):
    """Pitfall B3. B26: cloned layers would start equal."""
    model = Transformer(replace(tiny_config, num_layers=6))
    for stack in (model.encoder_layers, model.decoder_layers):
        for name, parameter in stack[0].named_parameters():
            if parameter.dim() == 2:
                assert all(not torch.equal(parameter, layer.get_parameter(name)) for layer in stack[1:]), name


def test_seed_decides_the_initial_weights(tiny_config: ModelConfig):
    def weights(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(Transformer(tiny_config).parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_initial_statistics(tiny_config: ModelConfig):
    sizes = {"vocab_size": 4_000, "d_model": 64, "d_ff": 256, "num_layers": 1}
    config = replace(tiny_config, **sizes, positions="learned", max_learned_positions=1_000)
    model = Transformer(config)
    # N(0, 1 / d_model): scaled by sqrt(d_model), vectors of unit variance.
    for weight in (model.embedding.weight, model.encoder_positions.weight, model.decoder_positions.weight):
        assert weight.mean().item() == pytest.approx(0.0, abs=3e-3)
        assert weight.std().item() == pytest.approx(1 / 8, rel=0.02)
    assert model.embedding(torch.arange(4_000)[None]).var().item() == pytest.approx(1.0, rel=0.05)
    # Uniform within 1 / sqrt(inputs), so of variance 1 / (3 * inputs).
    inner = model.encoder_layers[0].feed_forward.inner
    assert inner.weight.abs().max().item() == pytest.approx(1 / math.sqrt(64), rel=1e-2)
    assert inner.weight.var().item() == pytest.approx(1 / (3 * 64), rel=0.05)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif name.endswith("norm.weight"):
            assert (parameter == 1).all(), name
    # First predictions are nearly uniform: close to ln 4000 = 8.29 nats.
    src, tgt_in, tgt_out = (pieces(12, 9, seed=seed, vocab_size=4_000) for seed in (0, 1, 2))
    real = tgt_out != PAD_ID
    logits = model.eval().logits(model(src, tgt_in))[real]
    assert nn.functional.cross_entropy(logits, tgt_out[real]).item() == pytest.approx(math.log(4_000), abs=1.5)


def test_both_stacks_have_learned_positions_of_their_own(tiny_config: ModelConfig):
    sinusoid_model = Transformer(tiny_config)
    learned = Transformer(replace(tiny_config, positions="learned"))
    assert num_parameters(learned) - num_parameters(sinusoid_model) == 2 * 64 * 16
    assert not torch.equal(learned.encoder_positions.weight, learned.decoder_positions.weight)


def test_state_survives_a_round_trip(build_model: BuildModel):
    model, other = build_model(), build_model()
    src, tgt_in = pieces(4), pieces(3, seed=1)
    assert not torch.equal(other(src, tgt_in), model(src, tgt_in))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(src, tgt_in), model(src, tgt_in))
