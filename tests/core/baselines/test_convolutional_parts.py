"""The special part of each convolutional baseline, against values worked by hand or by torch's own modules."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from core.architecture_config import ByteNetConfig, ConvS2SConfig, ExtendedNeuralGPUConfig, unfold
from core.architectures import build_decoder, build_model
from core.baselines.bytenet import ByteNet
from core.baselines.convs2s import ConvS2S
from core.baselines.neural_gpu import ExtendedNeuralGPU, GatedConvolution, written
from core.baselines.rows import gather, neighbours
from core.packing import AttentionPlan, Packing


def pieces(length: int, seed: int = 0) -> Tensor:
    return torch.randint(3, 20, (1, length), generator=torch.Generator().manual_seed(seed))


def own_plan(length: int) -> AttentionPlan:
    packing = Packing(np.array([length]))
    return AttentionPlan(packing, packing, causal=False, device=torch.device("cpu"))


def fill(model: nn.Module, value: float = 0.0) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)


# Rows -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("offsets", "padding", "dilation"), [((-1, 0, 1), (1, 1), 1), ((-4, -2, 0), (4, 0), 2)])
def test_gathered_rows_make_torchs_convolution_of_each_sentence_and_its_gradients(
    offsets: tuple[int, ...], padding: tuple[int, int], dilation: int
) -> None:
    lengths = (3, 1, 7)
    rows = torch.randn(11, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 4, 3, dtype=torch.float64, requires_grad=True)
    reads = neighbours(Packing(np.array(lengths)), offsets, rows.device)
    ours = gather(rows, reads) @ weight.permute(0, 2, 1).reshape(5, -1).t()
    theirs = torch.cat([
        nn.functional.conv1d(nn.functional.pad(part.t()[None], padding), weight, dilation=dilation)[0].t()
        for part in rows.split(lengths)
    ])  # fmt: skip
    assert_close(ours, theirs)
    direction = torch.randn_like(ours)
    for one, other in zip(
        torch.autograd.grad(ours, (rows, weight), direction),
        torch.autograd.grad(theirs, (rows, weight), direction),
        strict=True,
    ):
        assert_close(one, other)


# ConvS2S --------------------------------------------------------------------------------------------------------------


def test_a_gated_layer_by_hand() -> None:
    """One word of one number: the gate is A * sigmoid(B), and each sum of two parts is multiplied by sqrt(0.5)."""
    config = ConvS2SConfig(5, d_model=1, blocks=((1, 1),), dropout=0.0, max_learned_positions=4, weight_norm=False)
    model = build_model(config).double().eval()
    fill(model)
    with torch.no_grad():
        model.embedding.weight[3] = 2.0
        model.encoder_positions.weight[0] = 1.0
        for linear in (model.encoder_input, model.encoder_output):
            linear.weight.fill_(1.0)
        model.encoder_layers[0].taps.weight.copy_(torch.tensor([[0.5], [2.0]]))
    src = torch.tensor([[3]])
    weights = model.source_attention(src, torch.tensor([[1]]))
    assert weights[0].item() == 1.0  # one source piece gets all of it
    # The word reads 2 + 1 = 3; A = 1.5, B = 6.
    gated = 1.5 / (1.0 + math.exp(-6.0))
    keys = (gated + 3.0) * math.sqrt(0.5)
    values = (keys + 3.0) * math.sqrt(0.5)
    from core.baselines.rows import packing_of
    from core.packing import AttentionPlan

    packing = packing_of(src)
    found_keys, found_values = model.encode_rows(
        src[0], AttentionPlan(packing, packing, causal=False, device=src.device)
    )
    assert_close(found_keys.item(), keys)
    assert_close(found_values.item(), values)


def test_what_is_attended_to_is_multiplied_by_the_root_of_the_sentences_length() -> None:
    """m * sqrt(1 / m) = sqrt(m): the mean of 16 independent values has a sixteenth of their variance (section 3.4)."""
    sizes = {"d_model": 8, "blocks": ((8, 3),), "dropout": 0.0, "max_learned_positions": 40, "weight_norm": False}
    model = build_model(ConvS2SConfig(20, **sizes)).double().eval()
    with torch.no_grad():
        model.attentions[0].query.weight.zero_()
        model.decoder_positions.weight.zero_()
        model.embedding.weight[1] = 0.0  # so that the query is 0 and all weights are even
    src = pieces(16)
    (weights,) = model.source_attention(src, torch.tensor([[1]]))
    assert_close(weights, torch.full((1, 1, 1, 16), 1 / 16, dtype=torch.float64))
    _, values = model.encode_rows(src[0], own_plan(16))
    state = build_decoder(model).start(src, beam_size=1)
    assert_close((weights[0] @ state.source.values)[0, 0], 4.0 * values.mean(0))


def test_source_attention_has_a_distribution_over_real_pieces_for_each_layer_and_target_piece() -> None:
    config = ConvS2SConfig(20, d_model=8, blocks=((8, 3), (10, 3)), dropout=0.0, max_learned_positions=40)
    model = build_model(config).double().eval()
    src = torch.cat((nn.functional.pad(pieces(3), (0, 4)), pieces(7, seed=1)))
    weights = model.source_attention(src, torch.cat((pieces(5), pieces(5, seed=2))))
    assert len(weights) == 2
    for layer in weights:
        assert layer.shape == (2, 1, 5, 7)
        assert_close(layer.sum(-1), torch.ones(2, 1, 5, dtype=torch.float64))
        assert (layer[0, :, :, 3:] == 0).all()


def test_weights_start_with_the_variance_that_keeps_activations_as_they_are() -> None:
    """Section 3.5: sqrt(4 p / n) before a gate, and sqrt(p / n), as the authors' code, elsewhere; biases 0."""
    config = ConvS2SConfig(50, d_model=256, blocks=((256, 3),), dropout=0.2, max_learned_positions=64)
    model = build_model(config)
    assert model.encoder_layers[0].taps.weight.std().item() == pytest.approx(math.sqrt(4 * 0.8 / (3 * 256)), rel=0.01)
    assert model.encoder_input.weight.std().item() == pytest.approx(math.sqrt(0.8 / 256), rel=0.02)
    assert not model.encoder_input.bias.any()


def test_weight_normalisation_makes_length_and_direction_parameters_of_their_own() -> None:
    model = build_model(ConvS2SConfig(20, d_model=8, blocks=((8, 3),), max_learned_positions=9))
    parameters = dict(model.encoder_input.named_parameters())
    length, direction = (parameters[f"parametrizations.weight.original{number}"] for number in (0, 1))
    assert_close(length[:, 0], direction.norm(dim=1))
    with torch.no_grad():
        length.mul_(2.0)
        direction.mul_(5.0)
    assert_close(model.encoder_input.weight, length * direction / direction.norm(dim=1, keepdim=True))


def test_the_encoders_gradient_is_divided_by_the_number_of_attentions() -> None:
    """Section 3.4; what reaches the words past the encoder is not."""
    grads = []
    for depth in (1, 4):
        config = ConvS2SConfig(20, d_model=8, blocks=((8, 1),) * depth, dropout=0.0, max_learned_positions=9)
        torch.manual_seed(1)
        model: ConvS2S = build_model(config).double()
        keys, _ = model.encode_rows(pieces(4)[0], own_plan(4))
        keys.sum().backward()
        grads.append(model.encoder_output.bias.grad[0].item())
    assert grads == [4.0, 1.0]  # of 4 rows


# ByteNet --------------------------------------------------------------------------------------------------------------


def bytenet(**changes) -> ByteNet:
    sizes = {"d_model": 8, "num_sets": 1, "set_size": 4, "dropout": 0.0} | changes
    return build_model(ByteNetConfig(20, **sizes)).double().eval()


def reach(outputs: Tensor, inputs: Tensor, place: int) -> list[int]:
    """The rows of `inputs` that row `place` of `outputs` depends on."""
    (grad,) = torch.autograd.grad(outputs[place].sum(), inputs, retain_graph=True)
    return grad.abs().sum(-1).nonzero().flatten().tolist()


def test_dilations_double_within_a_set() -> None:
    assert ByteNetConfig(20, num_sets=2, set_size=5).dilations == (1, 2, 4, 8, 16, 1, 2, 4, 8, 16)


@pytest.mark.parametrize(("set_size", "num_sets"), [(1, 1), (2, 1), (4, 1), (3, 2)])
def test_the_decoder_reaches_back_as_far_as_its_dilations_add_up_to(set_size: int, num_sets: int) -> None:
    """k = 3: a set of dilations 1, 2, ..., 2^(s-1) reaches 2 (2^s - 1) places back, for s layers."""
    model = bytenet(set_size=set_size, num_sets=num_sets)
    length, wanted = 50, num_sets * 2 * (2**set_size - 1)
    rows = torch.randn(length, 8, dtype=torch.float64, requires_grad=True)
    x = rows
    for layer in model.decoder_layers:
        offsets = [layer.dilation * tap for tap in (-2, -1, 0)]
        x = layer(x, neighbours(Packing(np.array([length])), offsets, x.device))
    assert reach(x, rows, 45) == list(range(45 - wanted, 46))


def test_the_encoder_reaches_both_ways() -> None:
    model = bytenet(set_size=3)
    captured: list[Tensor] = []
    embedding = model.embedding.forward

    def keep(ids: Tensor) -> Tensor:
        captured.append(embedding(ids).detach().requires_grad_())
        return captured[-1]

    model.embedding.forward = keep
    states, unfolded = model.encode_rows(pieces(30)[0], Packing(np.array([30])))
    assert unfolded.lengths.tolist() == [36]  # 1.2 times 30
    assert reach(states, captured[0], 15) == list(range(15 - 7, 15 + 8))


def test_a_target_reads_the_column_below_it_and_nothing_beyond_the_unfolded_source() -> None:
    """Dynamic unfolding: with no convolution to bring it, place i of the target sees source place i alone."""
    model = bytenet(set_size=1, kernel_size=1, length_ratio=1.0)
    src, tgt_in = pieces(4), pieces(7, seed=1)
    before = model(src, tgt_in)
    for place in range(4):
        changed = src.clone()
        changed[0, place] = 3 + (src[0, place] - 2) % 17
        differs = (model(changed, tgt_in) != before).any(-1)[0]
        assert differs.nonzero().flatten().tolist() == [place]


@pytest.mark.parametrize(
    ("ratio", "length", "wanted"), [(1.2, 5, 6), (1.2, 10, 12), (1.2, 1, 2), (1.0, 7, 7), (1.5, 3, 5)]
)
def test_a_source_is_unfolded_by_the_ratio_rounded_up(ratio: float, length: int, wanted: int) -> None:
    assert unfold(ratio, length) == wanted


def test_a_block_by_hand() -> None:
    """d_model 2, one tap: x + W3 relu(norm(W2 relu(norm(W1 relu(norm x))))), the norm of two numbers being -1 and 1."""
    block = bytenet(d_model=4, set_size=1, kernel_size=1).decoder_layers[0]
    fill(block)
    with torch.no_grad():
        for norm in block.norms:
            norm.weight.fill_(1.0)
        block.narrow.weight.copy_(torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]))
        block.taps.weight.copy_(3.0 * torch.eye(2))
        block.widen.bias.fill_(10.0)
        block.widen.weight[0] = torch.tensor([1.0, 1.0])
    x = torch.tensor([[-1.0, -1.0, 1.0, 1.0]], dtype=torch.float64)
    # relu(norm x) = (0, 0, 1, 1); narrowed (0, 1); normed (-1, 1), relu (0, 1), tripled (0, 3), normed (-1, 1), (0, 1).
    reads = neighbours(Packing(np.array([1])), [0], x.device)
    assert_close(block(x, reads), x + torch.tensor([[11.0, 10.0, 10.0, 10.0]], dtype=torch.float64), rtol=0, atol=1e-4)


# Extended Neural GPU --------------------------------------------------------------------------------------------------


def test_the_gate_by_hand() -> None:
    """u = sigmoid(1), r = sigmoid(-2), all else 1: u s + (1 - u) tanh(r s + 0.5), for one map and one place."""
    layer = GatedConvolution(ExtendedNeuralGPUConfig(9, d_model=1, kernel_size=1, dropout=0.0), with_tape=False)
    fill(layer)
    with torch.no_grad():
        layer.gates.bias.copy_(torch.tensor([1.0, -2.0]))
        layer.candidate.weight.fill_(1.0)
        layer.candidate.bias.fill_(0.5)
    update, reset, state = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(2)), 0.7
    wanted = update * state + (1 - update) * math.tanh(reset * state + 0.5)
    assert layer(torch.full((1, 1, 1, 1), state)).item() == pytest.approx(wanted, rel=1e-6)


def test_the_tape_enters_all_three_functions() -> None:
    layer = GatedConvolution(ExtendedNeuralGPUConfig(9, d_model=1, kernel_size=1, dropout=0.0), with_tape=True)
    fill(layer)
    with torch.no_grad():
        layer.candidate.weight.fill_(1.0)
        layer.tape.weight.copy_(torch.tensor([1.0, -2.0, 0.5]).view(3, 1, 1, 1))
    update, reset, state = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(2)), 0.7
    wanted = update * state + (1 - update) * math.tanh(reset * state + 0.5)
    found = layer(torch.full((1, 1, 1, 1), state), torch.ones(1, 1, 1, 1))
    assert found.item() == pytest.approx(wanted, rel=1e-6)


def test_the_tape_is_written_in_its_first_row() -> None:
    tape = written(torch.zeros(1, 2, 3, 4), torch.tensor([[5.0, 6.0]]), column=1)
    assert tape[0, :, 1, 0].tolist() == [5.0, 6.0]
    assert tape.sum() == 11.0


def test_the_encoder_makes_a_step_for_each_source_piece() -> None:
    """With layers that add to nothing but halve the state, as many halvings are left of a word as there are pieces."""
    model: ExtendedNeuralGPU = build_model(ExtendedNeuralGPUConfig(20, d_model=2, num_layers=1, dropout=0.0)).eval()
    for layer in model.encoder_layers:
        fill(layer)  # u = 1/2, and tanh(0) = 0
    src = torch.cat((nn.functional.pad(pieces(3), (0, 2)), pieces(5, seed=1)))
    state = model.encode(src)
    assert_close(state[0, :, 0, 0], model.embedding(src[0, 0]) / 2**3)
    assert_close(state[1, :, 4, 0], model.embedding(src[1, 4]) / 2**5)
    assert not state[0, :, 4:].any()  # ceil(1.2 * 3) = 4 columns
    assert not state[:, :, :, 1:].any()
