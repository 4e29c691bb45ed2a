"""Extended Neural GPU: gated convolutions again and again over a state as long as the sentence (active memory).

Kaiser and Bengio 2016, arXiv 1610.08613; equations below are of that paper's sections 2 to 4. The encoder makes as many
steps as the source has pieces. The decoder makes one for each output, and writes what was put out on a tape that all
its gates read.

Shapes: B sentences, k beams; a state is an image (N, d_model, columns, w), N = B or B * k, whose column i stands for
place i of the sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.architecture_config import ExtendedNeuralGPUConfig, unfold
from core.data.vocabulary import PAD_ID
from core.layers import Dropout
from core.sequence_model import SequenceModel


class GatedConvolution(nn.Module):
    """CGRU(s) = u * s + (1 - u) * tanh(U (r * s) + B), u = sigmoid(U' s + B'), r = sigmoid(U'' s + B'').

    With a tape p, W p, W' p and W'' p are added inside the three functions.
    """

    def __init__(self, config: ExtendedNeuralGPUConfig, with_tape: bool) -> None:
        super().__init__()
        maps, size, same = config.d_model, config.kernel_size, config.kernel_size // 2
        self.gates = nn.Conv2d(maps, 2 * maps, size, padding=same)
        self.candidate = nn.Conv2d(maps, maps, size, padding=same)
        self.tape = nn.Conv2d(maps, 3 * maps, size, padding=same, bias=False) if with_tape else None
        self.dropout = Dropout(config.dropout)

    def forward(self, state: Tensor, tape: Tensor | None = None) -> Tensor:
        """Images (N, d_model, columns, w) -> the next state, the same shape."""
        from_tape = 0.0, 0.0
        if self.tape is not None:
            maps = state.size(1)
            from_tape = self.tape(tape).split((2 * maps, maps), dim=1)
        update, reset = torch.sigmoid(self.gates(state) + from_tape[0]).chunk(2, dim=1)
        candidate = torch.tanh(self.candidate(reset * state) + from_tape[1])
        return update * state + (1.0 - update) * self.dropout(candidate)


class ExtendedNeuralGPU(SequenceModel):
    """Encoder, decoder and tape.

    The paper pads all sentences of a bucket to one length, which is then their image's; here a sentence's image has a
    length of its own, so that no number depends on which sentences share a batch. What lies beyond is zero.
    """

    config: ExtendedNeuralGPUConfig

    def __init__(self, config: ExtendedNeuralGPUConfig) -> None:
        super().__init__(config)
        self.encoder_layers, self.decoder_layers = (
            nn.ModuleList(GatedConvolution(config, with_tape) for _ in range(config.num_layers))
            for with_tape in (False, True)
        )
        self.dropout = Dropout(config.dropout)
        nn.init.normal_(self.embedding.weight, std=1.0 / math.sqrt(config.d_model))

    def columns(self, src: Tensor) -> Tensor:
        """src (B, S) ids -> (B,) int64, the columns of each sentence's image."""
        lengths = (src != PAD_ID).sum(dim=1)
        return torch.tensor([unfold(self.config.length_ratio, n) for n in lengths.tolist()], device=src.device)

    def encode(self, src: Tensor) -> Tensor:
        """src (B, S) ids -> the state after as many steps as each sentence has pieces, (B, d_model, columns, w)."""
        lengths, columns = (src != PAD_ID).sum(dim=1), self.columns(src)
        words = self.dropout(self.embedding(src)) * (src != PAD_ID).unsqueeze(-1)
        state = words.new_zeros(src.size(0), self.config.d_model, int(columns.max()), self.config.image_width)
        longest = min(src.size(1), state.size(2))
        state[:, :, :longest, 0] = words[:, :longest].transpose(1, 2)
        inside = _inside(columns, state.size(2)).to(state.dtype)
        for step in range(int(lengths.max())):
            after = state
            for layer in self.encoder_layers:
                after = layer(after) * inside
            state = torch.where((step < lengths)[:, None, None, None], after, state)
        return state

    def decode_step(self, state: Tensor, tape: Tensor, columns: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """One step of the decoder, which puts out place `position`.

        Returns:
            The next state, and the hidden states (N, d_model) in the first row of that column.
        """
        inside = _inside(columns.clamp(min=position + 1), state.size(2)).to(state.dtype)
        for layer in self.decoder_layers:
            state = layer(state, tape) * inside
        return state, state[:, :, position, 0]

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (B, S), tgt_in (B, T) ids -> (B, T, d_model)."""
        state, columns = self.encode(src), self.columns(src)
        missing = max(0, tgt_in.size(1) - state.size(2))
        state = nn.functional.pad(state, (0, 0, 0, missing))
        words = self.dropout(self.embedding(tgt_in)).transpose(1, 2)  # (B, d_model, T)
        tape = torch.zeros_like(state)
        outputs = []
        for position in range(tgt_in.size(1)):
            if position > 0:
                tape = written(tape, words[:, :, position], position - 1)
            state, hidden = self.decode_step(state, tape, columns, position)
            outputs.append(hidden)
        return self.dropout(torch.stack(outputs, dim=1))


def _inside(columns: Tensor, most: int) -> Tensor:
    """(N, 1, most, 1) bool: which columns are of a sentence's image."""
    return (torch.arange(most, device=columns.device) < columns.unsqueeze(1))[:, None, :, None]


def written(tape: Tensor, words: Tensor, column: int) -> Tensor:
    """The tape (N, d_model, columns, w) with `words` (N, d_model) in the first row of a column."""
    addition = torch.zeros_like(tape)
    addition[:, :, column, 0] = words
    return tape + addition


@dataclass
class ImageState:
    """The decoder between two steps: `images` and `tapes` (B, k, d_model, columns, w), and `columns` (B,)."""

    position: int
    images: Tensor
    tapes: Tensor
    columns: Tensor

    def select_beams(self, parents: Tensor) -> None:
        """Let each beam go on from the past of beam `parents` (B, k) int64 of its sentence."""
        sentence = torch.arange(parents.size(0), device=parents.device).unsqueeze(1)
        self.images, self.tapes = self.images[sentence, parents], self.tapes[sentence, parents]

    def select_sentences(self, rows: Tensor) -> None:
        """Keep the sentences at `rows` (B',) int64."""
        self.images, self.tapes, self.columns = self.images[rows], self.tapes[rows], self.columns[rows]


class NeuralGPUDecoder:
    """An Extended Neural GPU, in eval mode, that decodes step by step: its state is all that there is to keep."""

    def __init__(self, model: ExtendedNeuralGPU) -> None:
        self._model = model
        self.device = model.embedding.weight.device

    @torch.no_grad()
    def start(self, src: Tensor, beam_size: int) -> ImageState:
        """Encode src (B, S); the state before the first step, for `beam_size` beams a sentence."""
        images = self._model.encode(src).unsqueeze(1).repeat(1, beam_size, 1, 1, 1)
        return ImageState(0, images, torch.zeros_like(images), self._model.columns(src))

    @torch.no_grad()
    def step(self, pieces: Tensor, state: ImageState) -> Tensor:
        """Feed every beam's newest piece, (B, k) ids, and extend `state`; (B, k, V) logits of the next piece."""
        if state.position >= state.images.size(3):  # the output is longer than the image: it grows, by some at a time
            state.images, state.tapes = (nn.functional.pad(each, (0, 0, 0, 16)) for each in (state.images, state.tapes))
        images, tapes = state.images.flatten(0, 1), state.tapes.flatten(0, 1)
        if state.position > 0:
            tapes = written(tapes, self._model.embedding(pieces).flatten(0, 1), state.position - 1)
        columns = state.columns.repeat_interleave(pieces.size(1))
        images, hidden = self._model.decode_step(images, tapes, columns, state.position)
        state.images, state.tapes = images.view_as(state.images), tapes.view_as(state.tapes)
        state.position += 1
        return self._model.logits(hidden).view(*pieces.shape, -1)
