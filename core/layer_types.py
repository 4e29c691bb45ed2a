"""The layer types of Table 1 at work: (B, n, d) -> (B, n, d), each doing what section 4 prices and nothing more.

Self-attention is Eq. 1 with its input as queries, keys and values; the projections of multi-head attention come on top
(4 n d^2 multiplications, which the table leaves out). Biases cost no product and are left out too.

A layer also tells how a signal moves: `hops(x)` yields what the positions hold after one hop, two, and so on. A hop is
a layer of a stack, or of a recurrence one step of all positions at once, each reading the one before as it was.

Shapes: B sequences, n positions, d dimensions, k kernel width, r neighbourhood.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from core.attention import scaled_dot_product_attention
from core.layers import FeedForward


class LayerType(nn.Module):
    """One layer that maps a sequence to another of the same length and width."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) float -> (B, n, d)."""

    def hops(self, x: Tensor) -> Iterator[Tensor]:
        """What positions hold after 1, 2, ... hops, each (B, n, d), without end: here a stack of this layer."""
        while True:
            x = self(x)
            yield x


class SelfAttention(LayerType):
    """Every position attends to all: Eq. 1 with one head, of width d."""

    def forward(self, x: Tensor) -> Tensor:
        """See `LayerType`."""
        heads = x.unsqueeze(1)  # (B, 1, n, d)
        return scaled_dot_product_attention(heads, heads, heads)[0].squeeze(1)


class RestrictedSelfAttention(LayerType):
    """Every position attends to the r positions around it (section 4); at the ends to those that there are.

    Raises:
        ValueError: r is even, so that no neighbourhood of r positions is centred.
    """

    def __init__(self, r: int) -> None:
        super().__init__()
        if r % 2 == 0:
            raise ValueError(f"r={r} positions have no middle; the neighbourhood is centred, so r must be odd")
        self.radius = r // 2

    def forward(self, x: Tensor) -> Tensor:
        """See `LayerType`."""
        size = 2 * self.radius + 1
        windows = nn.functional.pad(x, (0, 0, self.radius, self.radius)).unfold(1, size, 1)  # (B, n, d, r)
        position = torch.arange(x.size(1), device=x.device)
        neighbour = position[:, None] + torch.arange(-self.radius, self.radius + 1, device=x.device)  # (n, r)
        outside = (neighbour < 0) | (neighbour >= x.size(1))
        scores = (x / math.sqrt(x.size(-1))).unsqueeze(2) @ windows  # (B, n, 1, r)
        weights = torch.softmax(scores.masked_fill(outside[:, None], -torch.inf), dim=-1)
        return (weights @ windows.transpose(2, 3)).squeeze(2)


class Recurrent(LayerType):
    """h_t = tanh(x_t W + h_{t-1} U), h_0 = 0 (Elman 1990): the inputs' products together, the states' one by one."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.input, self.state = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """See `LayerType`."""
        state, states = torch.zeros_like(x[:, 0]), []
        for given in self.input(x).unbind(1):
            state = torch.tanh(given + self.state(state))
            states.append(state)
        return torch.stack(states, dim=1)

    def hops(self, x: Tensor) -> Iterator[Tensor]:
        """Steps of all positions at once. After n of them a state is what `forward` gives: no sooner for the last."""
        given, states = self.input(x), torch.zeros_like(x)
        while True:
            before = nn.functional.pad(states[:, :-1], (0, 0, 1, 0))
            states = torch.tanh(given + self.state(before))
            yield states


class Convolutional(LayerType):
    """A kernel over a position and the k - 1 before it, those in a decoder; from outside come zeros."""

    def __init__(self, d: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.convolution = nn.Conv1d(d, d, k, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """See `LayerType`."""
        return self._convolve(x, 1)

    def _convolve(self, x: Tensor, dilation: int) -> Tensor:
        padded = nn.functional.pad(x.transpose(1, 2), ((self.k - 1) * dilation, 0))  # (B, d, n')
        return nn.functional.conv1d(padded, self.convolution.weight, dilation=dilation).transpose(1, 2)


class DilatedConvolutional(Convolutional):
    """The same, stacked as in ByteNet (Kalchbrenner et al. 2016): from layer to layer the gaps grow by k."""

    def hops(self, x: Tensor) -> Iterator[Tensor]:
        """See `LayerType`."""
        dilation = 1
        while True:
            # Kernels that reach beyond the sequence read nothing more from it.
            x = self._convolve(x, min(dilation, x.size(1)))
            yield x
            dilation *= self.k


class SeparableConvolutional(LayerType):
    """A kernel for each dimension by itself, then one product at each position (Chollet 2016)."""

    def __init__(self, d: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.each = nn.Conv1d(d, d, k, groups=d, bias=False)
        self.across = nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """See `LayerType`."""
        padded = nn.functional.pad(x.transpose(1, 2), (self.k - 1, 0))
        return self.across(self.each(padded).transpose(1, 2))


class PositionWise(LayerType):
    """The feed-forward network of section 3.3 with d_ff = 4 d, at each position by itself."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.network = FeedForward(d, 4 * d)

    def forward(self, x: Tensor) -> Tensor:
        """See `LayerType`."""
        return self.network(x)
