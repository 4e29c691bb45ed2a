"""What this machine sustains in float32 matrix products: the rate of footnote 5's method, measured and not assumed."""

from __future__ import annotations

import time

import torch

from core import cpu

# Rows and columns of the matrices: large enough that a processor, or a GPU, is kept busy by a product.
_SIZES = {"cpu": 1_024, "cuda": 8_192}
_LEAST_SECONDS = 0.3


def benchmark(device: torch.device) -> str:
    """What is measured, in words."""
    size = _SIZES.get(device.type, _SIZES["cpu"])
    threads = torch.get_num_threads()
    on = f"{threads} thread{'s' * (threads != 1)}" if device.type == "cpu" else "one device"
    return f"float32 products of {size:,} x {size:,} matrices for {_LEAST_SECONDS} s after one to warm up, on {on}"


@torch.inference_mode()
def sustained_flops(device: torch.device) -> float:
    """Operations a second, 2 for each multiply-add, of `benchmark` on a device, by the library that training uses."""
    size = _SIZES.get(device.type, _SIZES["cpu"])
    left, right = (torch.rand(size, size, device=device) for _ in range(2))
    wait = torch.cuda.synchronize if device.type == "cuda" else _nothing
    cpu.times_transposed(left, right)
    wait()
    num_products, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < _LEAST_SECONDS:
        cpu.times_transposed(left, right)
        wait()
        num_products += 1
    return num_products * 2.0 * size**3 / seconds


def _nothing() -> None:
    pass
