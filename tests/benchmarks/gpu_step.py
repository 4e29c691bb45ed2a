"""Seconds an update of the paper's batch takes on one GPU, and its share of the card's matrix rate.

    python tests/benchmarks/gpu_step.py [--models base big] [--precision bfloat16] [--compiled] [--updates 10]
    python tests/benchmarks/gpu_step.py --models tiny --device cpu     the same code where no GPU is at hand

An update is 25,000 source and 25,000 target pieces in micro-batches, forward, smoothed loss, backward and fused Adam,
as `Trainer.update` makes it. The card's rate is measured, not quoted: square products of 8,192 in the same type. The
update's operations are the closed form of `core.complexity`, attention's products included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from core.complexity import training_flops
from core.config import DataConfig, ModelConfig, RunConfig, TrainConfig, paper_base, paper_big
from core.data.split import ParallelSplit, Sentences
from core.precision import float32_products
from core.trainer import Trainer

MODELS = {
    "base": paper_base(),
    "big": paper_big(),
    "tiny": ModelConfig(1_000, num_layers=2, d_model=64, d_ff=128, num_heads=4, d_k=16, d_v=16),
}
SENTENCE_PIECES = 28.0


def make_split(vocab_size: int, num_pairs: int = 20_000) -> ParallelSplit:
    """Random pieces in sentences of log-normal lengths, 28 pieces on average, as WMT14's are."""
    rng = np.random.default_rng(1)
    tgt = np.clip(rng.lognormal(np.log(SENTENCE_PIECES) - 0.15, 0.55, num_pairs).round(), 1, 200).astype(int)
    src = np.clip((tgt * rng.normal(1.0, 0.12, num_pairs)).round(), 1, 200).astype(int)
    sides = (
        Sentences.from_lists([rng.integers(3, vocab_size, n).tolist() for n in lengths], vocab_size)
        for lengths in (src, tgt)
    )
    return ParallelSplit(*sides, read_lines=lambda: ([], []))


def seconds_of(function: Callable[[], object], device: torch.device, times: int) -> float:
    """The median over `times` calls, each waited for; two calls before warm up."""
    found = []
    for number in range(times + 2):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if number >= 2:
            found.append(time.perf_counter() - started)
    return statistics.median(found)


def matrix_rate(train: TrainConfig, device: torch.device) -> float:
    """Operations a second of a large product in the type of the run's products."""
    size = 8_192 if device.type == "cuda" else 512
    kind = torch.bfloat16 if train.precision == "bfloat16" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    with float32_products(train.precision, device):
        return 2 * size**3 / seconds_of(lambda: a @ b, device, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["base", "big"])
    parser.add_argument("--precision", choices=["float32", "tf32", "bfloat16"], default="bfloat16")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--tokens", type=int, default=25_000, help="of an update, on each side")
    parser.add_argument("--micro-batch-tokens", type=int, default=13_000)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    train = TrainConfig(
        source_tokens=arguments.tokens,
        target_tokens=arguments.tokens,
        micro_batch_tokens=arguments.micro_batch_tokens,
        precision=arguments.precision,
        compiled=arguments.compiled,
    )
    rate = matrix_rate(train, device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}: {rate / 1e12:.2f} TFLOP/s in {train.precision} products")
    for model_name in arguments.models:
        model = MODELS[model_name]
        split = make_split(model.vocab_size)
        data = DataConfig("random", "en", "de", vocab_size=model.vocab_size, dev_split="dev", test_split="test")
        trainer = Trainer("0" * 12, RunConfig(model, data, train=train), split, split, seed=1, device=device)
        trainer.model.train()
        seconds = seconds_of(trainer.update, device, arguments.updates)
        window = trainer.checkpoint().progress["window"]
        tokens = window["target_pieces"] / window["updates"]
        flops = training_flops(model, train, SENTENCE_PIECES) / train.train_steps
        line = f"{model_name}: {seconds:.3f} s an update, {tokens / seconds:,.0f} target tokens/s, "
        line += f"{flops / seconds / rate:.0%} of the matrix rate"
        if device.type == "cuda":
            line += f", peak {torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB"
            torch.cuda.reset_peak_memory_stats(device)
        print(line, flush=True)


if __name__ == "__main__":
    main()
