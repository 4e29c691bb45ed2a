"""What a layer takes, measured on the layer itself: operations, steps that wait for each other, hops, seconds, memory.

Nothing here knows a formula: whoever has one holds it against these numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from core.layer_types import LayerType


def count_flops(layer: nn.Module, n: int, d: int) -> int:
    """Operations of one sequence's products by torch's own counter, a multiplication and its addition being two.

    The layer is moved to the `meta` device, where nothing is computed, and left there. Sums of a softmax and the like
    are no products and do not count, as in Table 1.
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer.to("meta")(torch.empty(1, n, d, device="meta"))
    return counter.get_total_flops()


def longest_chain(layer: nn.Module, n: int, d: int) -> int:
    """The number of operations on the longest way through the autograd graph of one sequence: each waits for the last.

    An operation is one of torch's, whatever it works on: the product of two matrices is one, as in Table 1.
    """
    return operations_in_turn(layer(torch.ones(1, n, d, requires_grad=True)))


def operations_in_turn(output: Tensor) -> int:
    """`longest_chain` of whatever `output` was computed from, as far as gradients lead back."""
    length: dict[Node, int] = {}
    stack = [output.grad_fn]
    while stack:  # a recursion would be as deep as the chain
        node = stack[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        open_ = [parent for parent in before if parent not in length]
        if open_:
            stack += open_
            continue
        length[node] = 1 + max((length[parent] for parent in before), default=0)
        stack.pop()
    return length[output.grad_fn]


def hops_between(layer: LayerType, n: int, d: int, most: int, seed: int = 0) -> NDArray[np.int64]:
    """How many hops a signal needs from each position to each, by which outputs an input can change at all.

    Each position's input is given a direction of its own, at random, and the derivative of every output along it is
    carried forward in double precision: it is exactly zero where no path leads, and not zero elsewhere.

    Args:
        layer: with random weights; it is made double precision.
        most: where to stop if the first position has not reached the last.
        seed: of the input and the directions.

    Returns:
        (n, n) int64, [i, j] from position i to position j; 0 where none of these hops lead there, as none leads back in
        a recurrence.
    """
    random = torch.Generator().manual_seed(seed)
    layer = layer.double()
    x = torch.randn(1, n, d, generator=random, dtype=torch.float64).expand(n, n, d).contiguous()
    directions = torch.zeros_like(x)
    directions[torch.arange(n), torch.arange(n)] = torch.randn(n, d, generator=random, dtype=torch.float64)
    hops = torch.zeros(n, n, dtype=torch.int64)
    with torch.no_grad(), forward_ad.dual_level():
        states = layer.hops(forward_ad.make_dual(x, directions))
        for hop, state in zip(range(1, most + 1), states, strict=False):
            tangent = forward_ad.unpack_dual(state).tangent
            hops[(tangent != 0).any(dim=-1) & (hops == 0)] = hop
            if hops[0, -1]:  # the first has reached the last: no pair is further apart
                break
    return hops.numpy()


def seconds_of(calls: Sequence[Callable[[], object]], rounds: int) -> NDArray[np.float64]:
    """Processor seconds of each call in each round, (rounds, calls).

    Rounds go through all calls in turn, so that a slow spell of the machine falls on all alike; each is made once
    before it is timed, so that none finds the memory as another left it. What counts is this thread's time on its core,
    not the clock's: others that run at the same time do not lengthen it. Torch must work with this thread alone, else
    the others' part is missing.

    Raises:
        RuntimeError: torch uses more than one thread.
    """
    if torch.get_num_threads() != 1:
        raise RuntimeError(f"torch uses {torch.get_num_threads()} threads; a thread's time tells of one")
    seconds = np.empty((rounds, len(calls)))
    for row in seconds:
        for place, call in enumerate(calls):
            call()
            started = time.thread_time()
            call()
            row[place] = time.thread_time() - started
    return seconds


def bytes_kept(call: Callable[[], Tensor]) -> int:
    """Bytes that autograd keeps of a computation until its backward pass, each stretch of memory counted once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        output = call()
    del output
    return sum(kept.values())
