"""One recurrent layer over sentences of any lengths, by torch's own kernels: Elman's, gated, or LSTM.

Shapes: B sentences of L pieces, N rows of one position, C inputs, d cells.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from core.architecture_config import Cell
from core.data.vocabulary import PAD_ID

State = tuple[Tensor, ...]
"""What a layer carries from one piece to the next: the hidden state (N, d), and the LSTM's cell beside it."""

_KERNELS: dict[Cell, type[nn.RNNBase]] = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentLayer(nn.Module):
    """One layer of one direction. Its weights are those of torch's `nn.RNN` (tanh), `nn.GRU` or `nn.LSTM`.

    Torch's gated unit resets the past after its product, and has a bias there; that of Cho et al. resets it before.
    """

    def __init__(self, cell: Cell, inputs: int, d_model: int) -> None:
        super().__init__()
        self.cell, self.d_model = cell, d_model
        self.kernel = _KERNELS[cell](inputs, d_model, batch_first=True)

    def forward(self, x: Tensor, state: State | None = None) -> Tensor:
        """x (B, L, C), padding on the right -> outputs (B, L, d) from this state on, at first zero.

        What stands at padding means nothing; nothing real comes after it.
        """
        return self._run(x, None if state is None else self._for_kernel(state))[0]

    def read(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """x (B, L, C), padding on the right, and lengths (B,) int64 -> outputs (B, L, d), and the state after the last
        real piece of each sentence.
        """
        if self.cell != "lstm" or bool((lengths == x.size(1)).all()):
            outputs, state = self._run(x)
            return outputs, (last_real(outputs, lengths),) if self.cell != "lstm" else (state[0][0], state[1][0])
        # The cell after the last piece is only to be had by packing, for which a CPU has a slower kernel.
        packed, state = self._run(pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False))
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.size(1))
        return outputs, (state[0][0], state[1][0])

    def _run(self, x: Tensor | PackedSequence, state: Tensor | State | None = None) -> tuple:
        """The kernel. A CPU's has no form for bfloat16 everywhere, so that there it keeps to float32 under autocast."""
        weight = self.kernel.weight_ih_l0
        if weight.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return self.kernel(x, state)
        with torch.autocast("cpu", enabled=False):
            return self.kernel(x.to(weight.dtype), state)

    def step(self, x: Tensor, state: State) -> State:
        """x (N, C): one piece more."""
        weights = (
            self.kernel.weight_ih_l0,
            self.kernel.weight_hh_l0,
            self.kernel.bias_ih_l0,
            self.kernel.bias_hh_l0,
        )
        if self.cell == "lstm":
            return torch.lstm_cell(x, state, *weights)
        one_step = torch.gru_cell if self.cell == "gru" else torch.rnn_tanh_cell
        return (one_step(x, state[0], *weights),)

    def state_of(self, hidden: Tensor) -> State:
        """The state whose hidden part is (N, d); an LSTM's cell starts at zero."""
        return (hidden, torch.zeros_like(hidden)) if self.cell == "lstm" else (hidden,)

    def _for_kernel(self, state: State) -> Tensor | State:
        batched = tuple(part.unsqueeze(0).to(self.kernel.weight_ih_l0.dtype).contiguous() for part in state)
        return batched if self.cell == "lstm" else batched[0]


def lengths_of(pieces: Tensor) -> Tensor:
    """(B, L) ids, padding on the right -> (B,) int64 real pieces of each."""
    return (pieces != PAD_ID).sum(dim=1)


def last_real(x: Tensor, lengths: Tensor) -> Tensor:
    """x (B, L, d) -> (B, d): what stands at each sentence's last real piece."""
    return x[torch.arange(x.size(0), device=x.device), lengths - 1]


def reverse_within(x: Tensor, lengths: Tensor) -> Tensor:
    """x (B, L, ...), each sentence's real positions in the opposite order; padding stays where it is."""
    places = torch.arange(x.size(1), device=x.device)
    ends = lengths.unsqueeze(1)
    order = torch.where(places < ends, ends - 1 - places, places)  # (B, L)
    return x.gather(1, order.view(*order.shape, *[1] * (x.dim() - 2)).expand_as(x))
