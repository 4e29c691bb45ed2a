"""A training step beside its peers: tokens a second, share of its matrix products' rate, memory, and where time goes.

    pip install -e '.[bench]'
    python tests/benchmarks/train_step.py [--sizes S M B] [--batches bucketed unsorted] [--rounds 5] [--threads 2]
    python tests/benchmarks/train_step.py --memory            peak memory, each contestant in a process of its own
    python tests/benchmarks/train_step.py --profile           a step of ours by operation

A step is forward, smoothed loss, backward and Adam. All contestants get the same token ids in one process, take turns,
and are compared by the median over rounds of their ratio to MarianMT in the same round. Tokens are real target pieces.
"Products" are the step's matrix products alone, without attention's: the wall that no step can pass. The peers do as
their tutorials do: padded batches, all logits, torch's loss, Adam as it comes.

On a machine that others use too, `--threads 1 --clock process` counts the process's own seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from core import cpu
from core.config import ModelConfig
from core.data.batching import Batch, collate
from core.data.split import ParallelSplit, Sentences
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.layers import Embedding, SinusoidPositions
from core.packing import pack
from core.trainer import batch_loss
from core.transformer import Transformer, causal_mask
from studies.scheduling.ray_session import MEMORY_ENVIRONMENT

CPU = torch.device("cpu")
LABEL_SMOOTHING = 0.1


@dataclass(frozen=True)
class Size:
    model: ModelConfig
    target_tokens: int


SIZES = {
    "S": Size(ModelConfig(4_000, num_layers=3, d_model=128, d_ff=512, num_heads=4, d_k=32, d_v=32), 4_096),
    "M": Size(ModelConfig(8_000, num_layers=6, d_model=256, d_ff=1_024, num_heads=8, d_k=32, d_v=32), 4_096),
    "B": Size(ModelConfig(37_000), 2_048),
}
NUM_BATCHES = 3

Step = Callable[[int], None]
"""Carries out the training step on one of the batches."""


def make_batches(size: Size, kind: str) -> tuple[ParallelSplit, list[np.ndarray]]:
    """Pairs of log-normal lengths (median 17 pieces, as news text has), in batches of one length or as they come."""
    rng = np.random.default_rng(1)
    tgt = np.clip(rng.lognormal(np.log(17.0), 0.5, 4_000).round(), 1, 118).astype(int)
    src = np.clip((tgt * rng.normal(1.0, 0.12, len(tgt))).round(), 1, 118).astype(int)
    sides = (
        Sentences.from_lists(
            [rng.integers(3, size.model.vocab_size, n).tolist() for n in lengths], size.model.vocab_size
        )
        for lengths in (src, tgt)
    )
    split = ParallelSplit(*sides, read_lines=lambda: ([], []))
    order = np.lexsort((src, tgt)) if kind == "bucketed" else np.arange(len(tgt))
    ends = np.cumsum(split.tgt_lengths[order])
    cuts = np.searchsorted(ends, np.arange(size.target_tokens, ends[-1], size.target_tokens))
    batches = np.split(order, cuts)[:-1]
    return split, [batches[i] for i in rng.choice(len(batches), NUM_BATCHES, replace=False)]


def training_step(model: nn.Module, loss: Callable[[int], Tensor], **adam: bool) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, **adam)

    def step(batch: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(batch).backward()
        optimizer.step()

    return step


def ours(size: Size, split: ParallelSplit, batches: list[np.ndarray], half: bool = False) -> Step:
    model = Transformer(size.model).train()

    def loss(batch: int) -> Tensor:
        packed = pack(split, batches[batch], CPU)
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            return batch_loss(model, packed, LABEL_SMOOTHING).smoothed / packed.tgt_out.numel()

    return training_step(model, loss, fused=True)


def ours_half(size: Size, split: ParallelSplit, batches: list[np.ndarray]) -> Step:
    return ours(size, split, batches, half=True)


def _torch_loss(logits: Tensor, batch: Batch) -> Tensor:
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD_ID, label_smoothing=LABEL_SMOOTHING
    )


def marian(size: Size, split: ParallelSplit, batches: list[np.ndarray]) -> Step:
    """Hugging Face's MarianMTModel of the same shape: relu, no dropout on attention, one shared embedding."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import MarianConfig, MarianMTModel

    config = size.model
    model = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            decoder_vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.num_layers,
            decoder_layers=config.num_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            dropout=config.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            max_position_embeddings=512,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            use_cache=False,
            pad_token_id=PAD_ID,
            eos_token_id=EOS_ID,
            decoder_start_token_id=BOS_ID,
        )
    ).train()

    def loss(number: int) -> Tensor:
        batch = collate(split, batches[number])
        mask = (batch.src != PAD_ID).long()
        output = model(input_ids=batch.src, attention_mask=mask, decoder_input_ids=batch.tgt_in)
        return _torch_loss(output.logits, batch)

    return training_step(model, loss)


class TorchTransformer(nn.Module):
    """torch.nn.Transformer between our embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = SinusoidPositions(config.d_model)
        self.body = nn.Transformer(
            config.d_model, config.num_heads, config.num_layers, config.num_layers, config.d_ff, config.dropout,
            batch_first=True,
        )  # fmt: skip

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        hidden = self.body(
            self.positions(self.embedding(src)),
            self.positions(self.embedding(tgt_in)),
            tgt_mask=~causal_mask(tgt_in.size(1), tgt_in.device),
            src_key_padding_mask=src == PAD_ID,
            memory_key_padding_mask=src == PAD_ID,
        )
        return self.embedding.logits(hidden)


def torch_transformer(size: Size, split: ParallelSplit, batches: list[np.ndarray]) -> Step:
    model = TorchTransformer(size.model).train()

    def loss(number: int) -> Tensor:
        batch = collate(split, batches[number])
        return _torch_loss(model(batch.src, batch.tgt_in), batch)

    return training_step(model, loss)


def _product_shapes(config: ModelConfig, num_src: int, num_tgt: int) -> Iterator[tuple[int, int, int]]:
    """(rows, inputs, outputs) of every linear layer and of the projection, for real pieces."""
    heads, d = config.num_heads, config.d_model
    own = [(d, heads * (2 * config.d_k + config.d_v)), (heads * config.d_v, d)]
    feed_forward = [(d, config.d_ff), (config.d_ff, d)]
    for _ in range(config.num_layers):
        yield from ((num_src, *shape) for shape in own + feed_forward)
        yield from (
            (num_tgt, *shape) for shape in [*own, (d, heads * config.d_k), (heads * config.d_v, d), *feed_forward]
        )
        yield num_src, d, heads * (config.d_k + config.d_v)
    yield num_tgt, d, config.vocab_size


def _products(multiply: Callable[[Tensor, Tensor, Tensor], object], kind: torch.dtype):
    def contestant(size: Size, split: ParallelSplit, batches: list[np.ndarray]) -> Step:
        def step(batch: int) -> None:
            num_src, num_tgt = (int(x[batches[batch]].sum()) for x in (split.src_lengths, split.tgt_lengths))
            for n, i, o in _product_shapes(size.model, num_src, num_tgt):
                multiply(*(operand(shape, kind) for shape in ((n, i), (o, i), (n, o))))

        return step

    memory: dict[tuple[tuple[int, int], torch.dtype], Tensor] = {}

    def operand(shape: tuple[int, int], kind: torch.dtype) -> Tensor:
        if (shape, kind) not in memory:
            memory[shape, kind] = torch.randn(shape).to(kind)
        return memory[shape, kind]

    return contestant


def _by_torch(x: Tensor, weight: Tensor, grad: Tensor) -> None:
    """A layer's product and those of its two gradients."""
    torch.mm(x, weight.t()), torch.mm(grad, weight), torch.mm(grad.t(), x)


def _by_onednn(x: Tensor, weight: Tensor, grad: Tensor) -> None:
    cpu._onednn(x, weight), cpu._onednn(grad, weight.t())
    cpu._onednn(grad, weight.t())  # as many operations as the weight's gradient has, without that one's copies


CONTESTANTS = {
    "marian": marian,
    "torch.nn": torch_transformer,
    "ours": ours,
    "ours bf16": ours_half,
    "products torch": _products(_by_torch, torch.float32),
    "products oneDNN": _products(_by_onednn, torch.float32),
    "products bf16": _products(_by_torch, torch.bfloat16),
}


def padding(split: ParallelSplit, batches: Iterable[np.ndarray]) -> float:
    """Share of the padded target batches that is padding."""
    real = cells = 0
    for batch in batches:
        lengths = split.tgt_lengths[batch]
        real, cells = real + int(lengths.sum()), cells + int(lengths.max()) * len(lengths)
    return 1 - real / cells


def measure(size_name: str, kind: str, names: list[str], rounds: int, clock: Callable[[], float]) -> None:
    size = SIZES[size_name]
    split, batches = make_batches(size, kind)
    num_tokens = sum(int(split.tgt_lengths[batch].sum()) for batch in batches)
    torch.manual_seed(1)
    steps = {name: CONTESTANTS[name](size, split, batches) for name in names}
    rates: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds + 1):
        for name, step in steps.items():
            started = clock()
            for batch in range(len(batches)) if round_number else [0]:
                step(batch)
            if round_number:  # the first round warms up
                rates[name].append(num_tokens / (clock() - started))
    print(
        f"{size_name} {kind} ({padding(split, batches):.0%} padding where padded), {len(batches)} batches", flush=True
    )
    reference = rates[names[0]]
    products = rates.get("products oneDNN")
    for name, rate in rates.items():
        ratios = sorted(a / b for a, b in zip(rate, reference, strict=True))
        line = f"  {name:16} {statistics.median(rate):8,.0f} tokens/s, {statistics.median(ratios):5.2f} of {names[0]}"
        line += f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        if products and not name.startswith("products"):
            shares = [a / b for a, b in zip(rate, products, strict=True)]
            line += f", {statistics.median(shares):.2f} of the rate of its products"
        print(line, flush=True)


def measure_memory(size_name: str, kind: str, names: list[str], threads: int) -> None:
    peaks = {}
    for name in names:
        arguments = ["--sizes", size_name, "--batches", kind, "--contestants", name, "--threads", str(threads)]
        command = [sys.executable, __file__, *arguments, "--peak"]
        peaks[name] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for name, peak in peaks.items():
        print(
            f"{size_name} {kind} {name:10} peak {peak:,.0f} MiB, {peak / peaks[names[0]]:.2f} of {names[0]}", flush=True
        )


def print_peak(size_name: str, kind: str, name: str) -> None:
    """Most memory that this process had, in MiB, after three steps; the interpreter and torch are in it."""
    split, batches = make_batches(SIZES[size_name], kind)
    step = CONTESTANTS[name](SIZES[size_name], split, batches)
    for batch in range(len(batches)):
        step(batch)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def print_profile(size_name: str, kind: str) -> None:
    from torch.profiler import ProfilerActivity, profile

    split, batches = make_batches(SIZES[size_name], kind)
    step = ours(SIZES[size_name], split, batches)
    step(0)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step(0)
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    print(f"{size_name} {kind}: {total / 1e3:,.0f} ms")
    for event in events[:20]:
        print(f"  {event.self_cpu_time_total / total:6.1%} {event.count:5} calls  {event.key}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--batches", nargs="+", choices=["bucketed", "unsorted"], default=["bucketed", "unsorted"])
    able = [name for name in CONTESTANTS if "bf16" not in name or torch.ops.mkldnn._is_mkldnn_bf16_supported()]
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=able, help="those the processor can")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=["wall", "process"], default="wall")
    parser.add_argument("--through-onednn", action="store_true", help="our float32 products as on a processor of AMD")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not set(MEMORY_ENVIRONMENT) <= set(os.environ) and not arguments.peak:
        # glibc reads these when a process starts: begin again as a run's process does, for all contestants alike.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MEMORY_ENVIRONMENT)
    torch.set_num_threads(arguments.threads)
    if arguments.through_onednn:
        cpu.mkl_is_slow = lambda: True
    clock = time.perf_counter if arguments.clock == "wall" else time.process_time
    for size_name in arguments.sizes:
        for kind in arguments.batches:
            if arguments.peak:
                print_peak(size_name, kind, arguments.contestants[0])
            elif arguments.memory:
                peers = [name for name in arguments.contestants if not name.startswith("products")]
                measure_memory(size_name, kind, peers, arguments.threads)
            elif arguments.profile:
                print_profile(size_name, kind)
            else:
                measure(size_name, kind, arguments.contestants, arguments.rounds, clock)


if __name__ == "__main__":
    main()
