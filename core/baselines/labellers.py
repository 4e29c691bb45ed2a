"""Networks with one output for each input piece, or one for the whole sentence: feed-forward, recurrent, and memory.

None of them is an encoder-decoder, and an output of another length is refused. As a `SequenceModel` each takes a target
of as many pieces as the source, whose end symbols meet, or of one piece, which is read off at the source's last.

Shapes: B sentences of S source pieces, d = d_model, N places of a memory.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from core.architecture_config import FeedForwardConfig, LabellerConfig, MemoryNetworkConfig, RecurrentLabellerConfig
from core.baselines.recurrence import RecurrentLayer, last_real, lengths_of
from core.data.vocabulary import EOS_ID, PAD_ID
from core.layers import Dropout
from core.sequence_model import SequenceModel


class UnsuitableError(ValueError):
    """What was asked is beyond the form of an architecture, however it is trained."""


class Labeller(SequenceModel):
    """One state for each source piece, whatever the target so far."""

    def __init__(self, config: LabellerConfig) -> None:
        super().__init__(config)
        self.dropout = Dropout(config.dropout)
        nn.init.normal_(self.embedding.weight, std=1.0 / math.sqrt(config.d_model))

    @abstractmethod
    def label(self, src: Tensor) -> Tensor:
        """src (B, S) ids, padding on the right -> a state for each piece (B, S, d); those at padding mean nothing."""

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (B, S), tgt_in (B, T) ids, of which the number alone counts -> states (B, T, d).

        Raises:
            UnsuitableError: a target has neither one piece nor as many as its source.
        """
        sources, targets = lengths_of(src), lengths_of(tgt_in)
        if bool((targets == 1).all()):
            return last_real(self.label(src), sources).unsqueeze(1)
        wrong = (targets != sources).nonzero().flatten().tolist()
        if wrong:
            raise UnsuitableError(
                f"{type(self).__name__} gives one output for each input piece, or one for the sentence: "
                f"{int(targets[wrong[0]])} were asked of {int(sources[wrong[0]])}; use an encoder-decoder"
            )
        return self.label(src)


class FeedForwardLabeller(Labeller):
    """Hidden layers with relu over word vectors: pooled for the sentence, or of its places side by side.

    Pooled, a piece's state is made of its own vector and the mean of the sentence's, in which order has no part.
    Concatenated, every place has weights of its own, so that there is a longest sentence.
    """

    def __init__(self, config: FeedForwardConfig) -> None:
        super().__init__(config)
        self._concatenates = config.word_vectors == "concatenated"
        inputs, outputs = feed_forward_widths(config)
        widths = [inputs, *[config.d_ff] * config.num_layers]
        self.hidden_layers = nn.ModuleList(nn.Linear(below, above) for below, above in pairwise(widths))
        self.output = nn.Linear(config.d_ff, outputs)

    def label(self, src: Tensor) -> Tensor:
        """See `Labeller.label`.

        Raises:
            UnsuitableError: a sentence is longer than the places that are concatenated.
        """
        places, is_real = self.config.max_pieces, (src != PAD_ID).unsqueeze(-1)
        if self._concatenates and src.size(1) > places:
            raise UnsuitableError(
                f"a sentence of {src.size(1)} pieces does not fit into the {places} places whose vectors are "
                "concatenated; train with a larger max_pieces"
            )
        x = self.embedding(src) * is_real
        if self._concatenates:
            x = nn.functional.pad(x, (0, 0, 0, places - src.size(1))).flatten(1)  # (B, places * d)
        else:
            mean = x.sum(dim=1) / is_real.sum(dim=1)
            x = torch.cat((x, mean.unsqueeze(1).expand_as(x)), dim=-1)  # (B, S, 2d)
        for layer in self.hidden_layers:
            x = torch.relu(layer(self.dropout(x)))
        x = self.output(self.dropout(x))
        return x.unflatten(1, (places, -1))[:, : src.size(1)] if self._concatenates else x


def feed_forward_widths(config: FeedForwardConfig) -> tuple[int, int]:
    """Numbers that go into the first hidden layer, and that come out of the last."""
    if config.word_vectors == "pooled":
        return 2 * config.d_model, config.d_model
    return config.max_pieces * config.d_model, config.max_pieces * config.d_model


class RecurrentLabeller(Labeller):
    """A recurrent network whose state after each piece is its output for that piece (Elman 1990): nothing of later."""

    def __init__(self, config: RecurrentLabellerConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(
            RecurrentLayer(config.cell, config.d_model, config.d_model) for _ in range(config.num_layers)
        )

    def label(self, src: Tensor) -> Tensor:
        """See `Labeller.label`."""
        x = self.embedding(src)
        for layer in self.layers:
            x = layer(self.dropout(x))
        return self.dropout(x)


class MemoryNetwork(Labeller):
    """Attention in hops over what has been read (Sukhbaatar et al. 2015), in the form of its language models (5).

    A memory holds one piece. The query of a position is the vector of its piece, at first; the memory is this piece and
    those before it, by their distance (temporal encoding, 4.1). Between hops u becomes H u + o, with relu on half of
    its numbers, and the weights are the same in every hop ("layer-wise", 2.2). Query and answer share the embedding.
    """

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__(config)
        shape = (config.vocab_size, config.d_model)
        self.input_memory, self.output_memory = (nn.Parameter(torch.empty(shape)) for _ in range(2))  # A, C
        times = (config.memory_size, config.d_model)
        self.input_times, self.output_times = (nn.Parameter(torch.empty(times)) for _ in range(2))  # T_A, T_C
        self.between_hops = nn.Linear(config.d_model, config.d_model, bias=False)  # H
        for weight in (self.input_memory, self.output_memory, self.input_times, self.output_times):
            nn.init.normal_(weight, std=0.1)
        nn.init.normal_(self.between_hops.weight, std=0.1)

    def label(self, src: Tensor) -> Tensor:
        """See `Labeller.label`."""
        return self._hop(src)[0]

    def source_attention(self, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, ...]:
        """Of each hop the weights (B, 1, T, S): those of every piece, or of the last alone where T is 1."""
        weights = self._hop(src)[1]
        if tgt_in.size(1) == 1:
            weights = [last_real(each, lengths_of(src)).unsqueeze(1) for each in weights]
        return tuple(each.unsqueeze(1) for each in weights)

    def _hop(self, src: Tensor) -> tuple[Tensor, list[Tensor]]:
        places = torch.arange(src.size(1), device=src.device)
        distance = places.unsqueeze(1) - places  # (S, S), of the column's piece before the row's
        num_times = min(src.size(1), self.config.memory_size)
        seen = (distance >= 0) & (distance < num_times) & (src != PAD_ID).unsqueeze(1)  # (B, S, S)
        seen = seen | (distance == 0)  # padding looks at itself: a row without any key has no softmax
        time_of = distance.clamp(0, num_times - 1).expand(src.size(0), -1, -1)
        place_of = (places.unsqueeze(1) - places[:num_times]).expand(src.size(0), -1, -1)  # (B, S, times)
        inputs, outputs = (
            self.dropout(nn.functional.embedding(src, matrix)) for matrix in (self.input_memory, self.output_memory)
        )
        u, found = self.dropout(self.embedding(src)), []
        for _ in range(self.config.num_hops):
            times = u @ self.input_times[:num_times].t()  # (B, S, times)
            scores = u @ inputs.transpose(1, 2) + times.gather(2, time_of)
            weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=-1)
            by_time = weights.gather(2, place_of.clamp(min=0)).masked_fill(place_of < 0, 0.0)
            o = weights @ outputs + by_time @ self.output_times[:num_times]
            linear, rectified = (self.between_hops(u) + o).chunk(2, dim=-1)
            u = torch.cat((linear, torch.relu(rectified)), dim=-1)
            found.append(weights)
        return self.dropout(u), found


@dataclass
class LabelState:
    """`states` (B, S, d) of all pieces and `lengths` (B,) of the sources; beams of one sentence share them."""

    position: int
    states: Tensor
    lengths: Tensor

    def select_beams(self, parents: Tensor) -> None:
        """Nothing: no output depends on the ones before."""

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences at `rows` (B',) int64."""
        self.states, self.lengths = self.states[rows], self.lengths[rows]


class LabelDecoder:
    """A `Labeller`, in eval mode, read off piece by piece: as many outputs as there are inputs, then the end symbol."""

    def __init__(self, model: Labeller) -> None:
        self._model = model
        self.device = model.embedding.weight.device

    @torch.no_grad()
    def start(self, src: Tensor, beam_size: int) -> LabelState:
        """Label src (B, S); the state before the first step."""
        return LabelState(0, self._model.label(src), lengths_of(src))

    @torch.no_grad()
    def step(self, pieces: Tensor, state: LabelState) -> Tensor:
        """(B, k) ids, which decide nothing -> (B, k, V) logits; the end symbol alone where the source has it."""
        states = state.states[:, min(state.position, state.states.size(1) - 1)]
        logits = self._model.logits(states)  # (B, V)
        is_end = (state.position >= state.lengths - 1).unsqueeze(1)
        is_end_symbol = torch.arange(logits.size(1), device=logits.device) == EOS_ID
        logits.masked_fill_(is_end != is_end_symbol, -torch.inf)
        state.position += 1
        return logits.unsqueeze(1).repeat(1, pieces.size(1), 1)
