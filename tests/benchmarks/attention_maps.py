"""What all weights of one sentence cost beside a plain forward pass: base size, 60 tokens a side, on a CPU.

Run by hand: python tests/benchmarks/attention_maps.py [--rounds N] [--threads N]. In turns in one process, medians.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from core.attention_maps import attention_maps
from core.config import paper_base
from core.transformer import Transformer

TOKENS = 60


def main() -> None:
    """Print seconds of both and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = Transformer(paper_base()).eval()
    src, tgt = torch.randint(3, 37_000, (2, 1, TOKENS))

    @torch.inference_mode()
    def forward() -> None:
        model(src, tgt)

    def extract() -> None:
        weights = attention_maps(model, src, tgt).weights
        for kind in weights.values():
            for layer in kind.values():
                layer.numpy()

    seconds: dict[str, list[float]] = {"forward": [], "extract": []}
    for turn in range(arguments.rounds + 3):
        for name, work in (("forward", forward), ("extract", extract)):
            started = time.perf_counter()
            work()
            if turn >= 3:  # the first rounds warm up
                seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = [extract / forward for forward, extract in zip(*seconds.values(), strict=True)]
    print(f"plain forward {1e3 * medians['forward']:.1f} ms, all weights {1e3 * medians['extract']:.1f} ms")
    print(f"ratio: median {statistics.median(ratios):.2f}, lowest {min(ratios):.2f}, highest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
