"""Recurrent encoder-decoders: Sutskever et al. 2014, Bahdanau et al. 2014 (attention), Wu et al. 2016 (GNMT).

Shapes: B sentences, S source and T target pieces, d = d_model, a numbers in the encoder's output for a piece, k beams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.architecture_config import RecurrentConfig
from core.baselines.recurrence import RecurrentLayer, State, last_real, lengths_of, reverse_within
from core.data.vocabulary import PAD_ID
from core.layers import Dropout
from core.sequence_model import SequenceModel


@dataclass(frozen=True)
class Memory:
    """What the decoder knows of the source.

    Attributes:
        annotations: (B, S, a) the encoder's output.
        keys: (B, S, d) what of it queries are held against; None without attention.
        is_real: (B, S) bool, False at padding.
        states: what each decoder layer starts from.
    """

    annotations: Tensor
    keys: Tensor | None
    is_real: Tensor
    states: tuple[State, ...]


class AdditiveAttention(nn.Module):
    """Weights from v . tanh(W query + U annotation) (Bahdanau et al. 2014, appendix A.1.2)."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(width, d_model, bias=False)
        self.score = nn.Linear(d_model, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor, annotations: Tensor, is_real: Tensor) -> tuple[Tensor, Tensor]:
        """queries (B, T, d), keys (B, S, d), annotations (B, S, a) -> contexts (B, T, a), weights (B, T, S)."""
        inner = torch.tanh(self.query(queries).unsqueeze(2) + keys.unsqueeze(1))  # (B, T, S, d)
        scores = self.score(inner).squeeze(-1).masked_fill(~is_real.unsqueeze(1), -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights, annotations), weights


class RecurrentModel(SequenceModel):
    """A recurrent encoder whose output or last states a recurrent decoder starts from.

    An encoder of one direction hands each decoder layer the last state of its own layer at that height (Sutskever et
    al.). One whose first layer reads both ways hands tanh(W h) to each, h being what the backward reading ends with
    (Bahdanau et al.).

    Dropout is on what a layer reads from below and on what is read out, never between two steps. Layers keep torch's
    own start, uniform within 1 / sqrt(d); the embedding is N(0, 1 / d).
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        d, width = config.d_model, config.memory_width
        self.dropout = Dropout(config.dropout)
        below = 2 * d if config.bidirectional else d  # what the second encoder layer reads
        self.encoder_layers = nn.ModuleList(
            RecurrentLayer(config.cell, below if number == 1 else d, d) for number in range(config.num_layers)
        )
        self.backward_layer = RecurrentLayer(config.cell, d, d) if config.bidirectional else None
        self.bridge = nn.Linear(d, config.num_layers * d) if config.bidirectional else None
        attends = config.attention != "none"
        self.attention = AdditiveAttention(d, width) if attends else None
        context = [config.attention == "bahdanau", *[attends] * (config.num_layers - 1)]  # which layers read it
        self.decoder_layers = nn.ModuleList(RecurrentLayer(config.cell, d + width * reads, d) for reads in context)
        self.readout = nn.Linear(2 * d + width, 2 * d) if config.attention == "bahdanau" else None
        nn.init.normal_(self.embedding.weight, std=1.0 / math.sqrt(d))

    # The encoder

    def encode(self, src: Tensor) -> Memory:
        """src (B, S) ids, padding on the right."""
        config, lengths = self.config, lengths_of(src)
        x = self.embedding(src)
        if config.reversed_source:
            x = reverse_within(x, lengths)
        states: list[State] = []
        for number, layer in enumerate(self.encoder_layers, start=1):
            below = self.dropout(x)
            if self.backward_layer is None:
                outputs, state = layer.read(below, lengths)
                states.append(state)
            else:
                outputs = layer(below)
            if number == 1 and self.backward_layer is not None:
                other = self.backward_layer(reverse_within(below, lengths))
                outputs = torch.cat((outputs, reverse_within(other, lengths)), dim=-1)
                openings = torch.tanh(self.bridge(last_real(other, lengths))).chunk(config.num_layers, dim=-1)
                states = [layer.state_of(hidden) for hidden in openings]
            x = self._with_residual(number, outputs, x)
        if config.reversed_source:
            x = reverse_within(x, lengths)
        keys = None if self.attention is None else self.attention.key(x)
        return Memory(x, keys, src != PAD_ID, tuple(states))

    def _with_residual(self, number: int, outputs: Tensor, below: Tensor) -> Tensor:
        first = self.config.residual_from
        return outputs + below if first is not None and number >= first else outputs

    # The decoder

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (B, S), tgt_in (B, T) ids -> the last hidden states (B, T, d); see `logits`."""
        return self._decode(tgt_in, self.encode(src))[0]

    def source_attention(self, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, ...]:
        """((B, 1, T, S),): the one attention's weights."""
        if self.attention is None:
            return super().source_attention(src, tgt_in)
        return (self._decode(tgt_in, self.encode(src))[1].unsqueeze(1),)

    def _decode(self, tgt_in: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The last hidden states (B, T, d), and the weights (B, T, S) where there is attention."""
        embedded = self.dropout(self.embedding(tgt_in))
        context = weights = None
        if self.config.attention == "bahdanau":
            x, context, weights = self._first_layer_step_by_step(embedded, memory)
        else:
            x = self.decoder_layers[0](embedded, memory.states[0])
            if self.attention is not None:
                context, weights = self._attend(x, memory)
        for number, (layer, state) in enumerate(zip(self.decoder_layers[1:], memory.states[1:], strict=True), start=2):
            x = self._with_residual(number, layer(self._reads(x, context), state), x)
        return self._read_out(x, embedded, context), weights

    def _first_layer_step_by_step(self, embedded: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """What the layer reads depends on its own last state by way of attention, so no kernel does it at once.

        Returns:
            outputs (B, T, d), contexts (B, T, a), weights (B, T, S).
        """
        state, found = memory.states[0], []
        for piece in embedded.unbind(dim=1):
            context, weights = self._attend(state[0].unsqueeze(1), memory)
            state = self.decoder_layers[0].step(torch.cat((piece, self.dropout(context[:, 0])), dim=-1), state)
            found.append((state[0], context[:, 0], weights[:, 0]))
        outputs, contexts, weights = (torch.stack(parts, dim=1) for parts in zip(*found, strict=True))
        return outputs, contexts, weights

    def _attend(self, queries: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        return self.attention(queries, memory.keys, memory.annotations, memory.is_real)

    def _reads(self, below: Tensor, context: Tensor | None) -> Tensor:
        """What a layer above the first reads: the layer below, and the attention's context (Wu et al.)."""
        return self.dropout(below if context is None else torch.cat((below, context), dim=-1))

    def _read_out(self, top: Tensor, embedded: Tensor, context: Tensor | None) -> Tensor:
        """The top layer's state as it is, or Bahdanau et al.'s maxout over it, the last piece and the context."""
        if self.readout is None:
            return self.dropout(top)
        pairs = self.readout(torch.cat((self.dropout(top), embedded, context), dim=-1))
        return self.dropout(pairs.unflatten(-1, (-1, 2)).amax(dim=-1))

    def step(self, pieces: Tensor, memory: Memory, states: Sequence[State]) -> tuple[Tensor, list[State]]:
        """One position of `forward` for k beams of each sentence, who share the sentence's memory.

        Args:
            pieces: (B, k) ids.
            states: of each layer, (B * k, d) parts.

        Returns:
            the last hidden states (B, k, d) and the next states.
        """
        num_sentences, num_beams = pieces.shape
        embedded = self.embedding(pieces.flatten())  # (B * k, d)

        def attend(hidden: Tensor) -> Tensor:
            return self._attend(hidden.view(num_sentences, num_beams, -1), memory)[0].flatten(0, 1)

        first, context = self.decoder_layers[0], None
        if self.config.attention == "bahdanau":
            context = attend(states[0][0])
            following = [first.step(torch.cat((embedded, context), dim=-1), states[0])]
        else:
            following = [first.step(embedded, states[0])]
            if self.attention is not None:
                context = attend(following[0][0])
        x = following[0][0]
        for number, (layer, state) in enumerate(zip(self.decoder_layers[1:], states[1:], strict=True), start=2):
            following.append(layer.step(self._reads(x, context), state))
            x = self._with_residual(number, following[-1][0], x)
        return self._read_out(x, embedded, context).view(num_sentences, num_beams, -1), following


@dataclass
class RecurrentState:
    """The decoder between two steps: `states` of each layer hold (B, k, d) parts; the source's memory is shared."""

    position: int
    memory: Memory
    states: list[State]

    def select_beams(self, parents: Tensor) -> None:
        """Let each beam go on from the state of beam `parents` (B, k) int64 of its sentence."""
        rows = parents.unsqueeze(-1)
        self.states = [tuple(part.gather(1, rows.expand_as(part)) for part in state) for state in self.states]

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences at `rows` (B',) int64."""
        memory = self.memory
        keys = None if memory.keys is None else memory.keys[rows]
        self.memory = Memory(memory.annotations[rows], keys, memory.is_real[rows], ())
        self.states = [tuple(part[rows] for part in state) for state in self.states]


class RecurrentDecoder:
    """A `RecurrentModel`, in eval mode, that decodes step by step with the weights that it has now."""

    def __init__(self, model: RecurrentModel) -> None:
        self._model = model
        self.device = model.embedding.weight.device

    @torch.no_grad()
    def start(self, src: Tensor, beam_size: int) -> RecurrentState:
        """Encode src (B, S); the state before the first step, for `beam_size` beams a sentence."""
        memory = self._model.encode(src)
        states = [tuple(part.unsqueeze(1).expand(-1, beam_size, -1) for part in state) for state in memory.states]
        return RecurrentState(0, memory, states)

    @torch.no_grad()
    def step(self, pieces: Tensor, state: RecurrentState) -> Tensor:
        """Feed every beam's newest piece, (B, k) ids, and extend `state`; (B, k, V) logits of the next piece."""
        rows = [tuple(part.flatten(0, 1) for part in parts) for parts in state.states]
        hidden, following = self._model.step(pieces, state.memory, rows)
        state.states = [tuple(part.unflatten(0, pieces.shape) for part in parts) for parts in following]
        state.position += 1
        return self._model.logits(hidden)
