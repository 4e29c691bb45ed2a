"""Labellers: their own papers' parts worked by hand, what each can do, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from core.architecture_config import (
    FeedForwardConfig,
    LabellerConfig,
    MemoryNetworkConfig,
    RecurrentLabellerConfig,
)
from core.architectures import build_decoder, build_model
from core.baselines.labellers import FeedForwardLabeller, MemoryNetwork, RecurrentLabeller
from core.complexity import num_parameters, training_flops
from core.config import DecodeConfig, TrainConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.search import beam_search
from core.sequence_model import num_parameters as counted_parameters

V = 23
CONFIGS: dict[str, LabellerConfig] = {
    "pooled": FeedForwardConfig(V, "pooled", d_model=8, d_ff=16),
    "concatenated": FeedForwardConfig(V, "concatenated", d_model=8, d_ff=16, num_layers=2, max_pieces=9),
    "recurrent": RecurrentLabellerConfig(V, d_model=8, num_layers=2),
    "memory": MemoryNetworkConfig(V, d_model=8, num_hops=3, memory_size=4),
}
CAUSAL = ("recurrent", "memory")
TIGHT = {"rtol": 0.0, "atol": 1e-12}


def pieces(*lengths: int, seed: int = 0) -> Tensor:
    """(B, longest) random ids, none of them special, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, V, (length,), generator=generator) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)


# Truth from outside ---------------------------------------------------------------------------------------------------


def test_a_hop_by_hand() -> None:
    """Two pieces and one hop; u = (1, 0) of the second piece.

    Memories m = A + T_A: (0, 1) one step back, (ln 3, 0) at distance 0, so u . m = 0 and ln 3, and the weights are 1/4
    and 3/4. Outputs C + T_C: (4, 0) and (0, -4), so o = (1, -3). With H = 2 I: H u + o = (3, -3), relu on the second
    half: (3, 0).
    """
    model = MemoryNetwork(MemoryNetworkConfig(6, d_model=2, num_hops=1, memory_size=5)).double()
    log3 = torch.log(torch.tensor(3.0, dtype=torch.float64))
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.embedding.weight[4] = torch.tensor([1.0, 0.0]) / 2**0.5  # the embedding is scaled by sqrt(d)
        model.input_memory[3] = torch.tensor([0.0, 0.5])
        model.input_times[1] = torch.tensor([0.0, 0.5])
        model.input_memory[4] = torch.stack((log3, torch.zeros_like(log3)))
        model.output_memory[3] = torch.tensor([3.0, 0.0])
        model.output_times[1] = torch.tensor([1.0, 0.0])
        model.output_memory[4] = torch.tensor([0.0, -4.0])
        model.between_hops.weight.copy_(2 * torch.eye(2))
    src = torch.tensor([[3, 4]])
    assert_close(model.label(src)[0, 1], torch.tensor([3.0, 0.0], dtype=torch.float64))
    (weights,) = model.source_attention(src, src)
    assert_close(weights[0, 0], torch.tensor([[1.0, 0.0], [0.25, 0.75]], dtype=torch.float64))


def test_a_memory_forgets_what_is_older_than_its_size() -> None:
    model = build("memory")
    src = pieces(9)
    for hop in model.source_attention(src, src):
        seen = hop[0, 0] > 0
        expected = torch.ones(9, 9).tril().triu(-3).bool()
        assert torch.equal(seen, expected)
    changed = src.clone()
    changed[0, 2] = src[0, 2] % (V - 3) + 3
    one_hop = MemoryNetwork(MemoryNetworkConfig(V, d_model=8, num_hops=1, memory_size=4)).double()
    assert torch.equal(one_hop.label(src)[:, 6:], one_hop.label(changed)[:, 6:])


def test_the_pooled_state_is_torchs_mean_through_torchs_layers() -> None:
    model = build("pooled")
    src = torch.tensor([[5, 6, 9, EOS_ID]])
    vectors = model.embedding(src)
    joined = torch.cat((vectors[0, 3], vectors[0].mean(0)))
    expected = model.output(torch.relu(model.hidden_layers[0](joined)))
    assert_close(model.label(src)[0, 3], expected, **TIGHT)


def test_pooled_vectors_do_not_know_the_order_and_the_others_do() -> None:
    src = torch.tensor([[5, 6, 7, EOS_ID], [7, 5, 6, EOS_ID]])
    for name in CONFIGS:
        first, second = build(name)(src, torch.full((2, 1), BOS_ID))
        assert torch.allclose(first, second, atol=1e-12) == (name == "pooled")


def test_the_recurrent_labeller_is_torchs_rnn() -> None:
    model, theirs = build("recurrent"), nn.RNN(8, 8, num_layers=2, batch_first=True).double()
    for number, layer in enumerate(model.layers):
        for name, weight in layer.kernel.named_parameters():
            getattr(theirs, name.replace("l0", f"l{number}")).data.copy_(weight)
    src = pieces(6)
    assert_close(model.label(src), theirs(model.embedding(src))[0], **TIGHT)


# What holds for all ---------------------------------------------------------------------------------------------------


def build(name: str) -> FeedForwardLabeller | RecurrentLabeller | MemoryNetwork:
    """In float64 and eval mode."""
    return build_model(CONFIGS[name]).double().eval()


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_changes_nothing(name: str) -> None:
    model, src = build(name), pieces(4, 9, 1)
    for tgt_in in (src, torch.full((3, 1), BOS_ID)):
        together = model(src, tgt_in)
        for row, length in enumerate((4, 9, 1)):
            targets = min(length, tgt_in.size(1))
            alone = model(src[row : row + 1, :length], tgt_in[row : row + 1, :targets])[0]
            assert_close(together[row, :targets], alone, **TIGHT)


@pytest.mark.parametrize("name", CAUSAL)
def test_what_reads_in_order_knows_nothing_of_later_pieces(name: str) -> None:
    model, src = build(name), pieces(8)
    changed = src.clone()
    changed[0, 5] = src[0, 5] % (V - 3) + 3
    before, after = model.label(src), model.label(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5], after[:, 5])


@pytest.mark.parametrize("name", CONFIGS)
def test_an_output_of_another_length_is_refused(name: str) -> None:
    model, kind = build(name), type(build(name)).__name__
    with pytest.raises(ValueError, match=f"{kind} gives one output for each input piece, .* 3 were asked of 4"):
        model(pieces(4, 4), pieces(4, 3))


def test_concatenated_vectors_have_a_longest_sentence_and_the_others_none() -> None:
    src = pieces(10)
    with pytest.raises(ValueError, match="10 pieces does not fit into the 9 places"):
        build("concatenated").label(src)
    for name in ("pooled", *CAUSAL):
        assert build(name).label(src).shape == (1, 10, 8)


@pytest.mark.parametrize("name", CONFIGS)
def test_closed_forms_count_the_built_model(name: str) -> None:
    config, length = CONFIGS[name], 9
    model = build_model(config).double()  # float32 has a kernel whose products the counter does not see
    assert num_parameters(config) == counted_parameters(model)
    src = pieces(length)
    with FlopCounterMode(display=False) as counter:
        model.logits(model(src, src))
    train = TrainConfig(train_steps=1, source_tokens=length, target_tokens=length)
    assert training_flops(config, train, sentence_pieces=length) == 3 * counter.get_total_flops()


@pytest.mark.parametrize("name", CONFIGS)
def test_fifty_labelled_sentences_are_learned_and_read_off_by_search(name: str) -> None:
    """A label for each piece, by the piece itself: as many outputs as inputs, whatever the beam."""
    torch.manual_seed(1)
    model = build_model(CONFIGS[name])
    src = torch.cat((torch.randint(3, V, (50, 6)), torch.full((50, 1), EOS_ID)), dim=1)
    src[::2, 4:] = torch.tensor([EOS_ID, PAD_ID, PAD_ID])  # every other one is shorter
    tgt = torch.where(src > EOS_ID, (src - 3) % 5 + 3, src)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model.logits(model(src, tgt)).flatten(0, 1), tgt.flatten(), ignore_index=0)
        if loss < 0.02:
            break
        loss.backward()
        optimizer.step()
    found = beam_search(build_decoder(model.eval()), src, DecodeConfig(beam_size=2))
    assert [list(each.pieces) for each in found] == [[piece for piece in row if piece > EOS_ID] for row in tgt.tolist()]
    assert all(each.finished for each in found)


@pytest.mark.parametrize(
    ("kind", "sizes", "complaint"),
    [
        (FeedForwardConfig, {"word_vectors": "averaged", "d_model": 4, "d_ff": 4}, "pooled, concatenated"),
        (FeedForwardConfig, {"word_vectors": "pooled", "d_model": 4, "d_ff": 0}, "d_ff=0 must be"),
        (RecurrentLabellerConfig, {"d_model": 4, "cell": "jordan"}, "cell='jordan'"),
        (MemoryNetworkConfig, {"d_model": 4, "num_hops": 0}, "num_hops=0"),
    ],
)
def test_sizes_that_cannot_be_meant_are_refused(kind: type, sizes: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        kind(V, **sizes)
