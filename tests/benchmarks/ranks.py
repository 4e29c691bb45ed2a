"""One rank against several on this machine's cores: how much faster, and what they send each other.

    python tests/benchmarks/ranks.py [--ranks 2] [--updates 20] [--rounds 3] [--d-model 128]

Trains the small scale's shape on made-up sentences with gloo, without Ray, one thread a rank; the contestants take
turns. Efficiency is the speed-up over the number of ranks: on cores that other work uses too it says little, so the
share of an update that ranks spend in exchanging stands beside it. Bytes an update are those that gloo's ring sends:
2 (R - 1) / R of all gradients from each rank, once an update whatever its micro-batches; they are also counted on the
loopback device, which nothing else should use meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from torch import multiprocessing

from core.complexity import num_parameters
from core.config import RunConfig
from core.data.split import ParallelSplit, Sentences
from core.parallel import Ranks, find_meeting, open_meeting, process_group
from core.trainer import Trainer
from studies.scales import SMALL

PATIENCE = timedelta(minutes=5)
WARM_UP = 2


def sentences(config: RunConfig, num_pairs: int) -> ParallelSplit:
    """Pairs of 5 to 30 random pieces."""
    rng = np.random.default_rng(0)
    vocab = config.model.vocab_size
    sides = [[rng.integers(3, vocab, rng.integers(5, 31)).tolist() for _ in range(num_pairs)] for _ in range(2)]
    return ParallelSplit(*(Sentences.from_lists(side, vocab) for side in sides), read_lines=lambda: ([], []))


def loopback_bytes() -> int:
    """Sent so far by the loopback device."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[8])
    raise OSError("no loopback device in /proc/net/dev")


def train(ranks: Ranks, config: RunConfig, updates: int) -> tuple[float, int]:
    """Seconds and bytes on the loopback device of one update."""
    torch.set_num_threads(1)
    split = sentences(config, 4_000)
    trainer = Trainer("0" * 12, config, split, split, 1, torch.device("cpu"), ranks)
    for _ in range(WARM_UP):
        trainer.update()
    started, sent = time.perf_counter(), loopback_bytes()
    for _ in range(updates):
        trainer.update()
    return (time.perf_counter() - started) / updates, (loopback_bytes() - sent) // updates


def _rank(rank: int, num_ranks: int, port: int, config: RunConfig, updates: int, answers) -> None:
    ranks = Ranks(rank, num_ranks)
    with process_group(ranks, find_meeting("127.0.0.1", port, PATIENCE), torch.device("cpu"), PATIENCE):
        taken = train(ranks, config, updates)
    if ranks.is_first:
        answers.put(taken)


def measure(num_ranks: int, config: RunConfig, updates: int) -> tuple[float, int]:
    """`train` in processes of their own."""
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    meeting = open_meeting("127.0.0.1", num_ranks, PATIENCE)
    multiprocessing.spawn(_rank, (num_ranks, meeting.port, config, updates, answers), nprocs=num_ranks)
    return answers.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--d-model", type=int, default=128)
    chosen = parser.parse_args()
    base = SMALL.base
    model = replace(base.model, d_model=chosen.d_model, d_ff=4 * chosen.d_model, d_k=chosen.d_model // 8,
                    d_v=chosen.d_model // 8)  # fmt: skip
    config = replace(base, model=model)
    seconds: dict[int, list[float]] = {1: [], chosen.ranks: []}
    sent = {}
    for _ in range(chosen.rounds):
        for number, times in seconds.items():
            taken, sent[number] = measure(number, config, chosen.updates)
            times.append(taken)
    alone, together = (statistics.median(times) for times in seconds.values())
    gradients = 4 * num_parameters(model)
    ring = 2 * (chosen.ranks - 1) * gradients  # over all ranks
    print(f"model {num_parameters(model):,} parameters, gradients {gradients / 2**20:.1f} MiB")
    print(f"1 rank {alone:.3f} s an update, {chosen.ranks} ranks {together:.3f} s: "
          f"speed-up {alone / together:.2f}, efficiency {alone / together / chosen.ranks:.0%}")  # fmt: skip
    print(f"sent by all ranks: {ring / 2**20:.1f} MiB an update by the ring's count, "
          f"{sent[chosen.ranks] / 2**20:.1f} MiB on the loopback device ({sent[chosen.ranks] / gradients:.2f} x the gradients)")  # fmt: skip  # noqa: E501


if __name__ == "__main__":
    main()
