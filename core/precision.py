"""The types in which products are made: float32, or fewer bits by a switch. All else stays float32.

Master weights, optimiser, residual sums, norms, softmax and loss are float32 at every precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from core.config import Precision


def forward_types(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """What a forward pass runs in. Its backward pass comes after the context, and follows the types of the forward."""
    if precision == "bfloat16":
        # DEPARTURE(5.2): precision="bfloat16" makes products of numbers with 8 significant bits, summed in float32;
        # the paper's GPUs made them in float32. It is several times faster where the processor has such products.
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


@contextmanager
def float32_products(precision: Precision, device: torch.device) -> Iterator[None]:
    """How a GPU makes float32 products, in forward and backward passes; elsewhere nothing changes."""
    if precision != "tf32" or device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    # DEPARTURE(5.2): precision="tf32" makes a GPU's float32 products of numbers with 11 significant bits; the paper's
    # GPUs had none of that kind.
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
