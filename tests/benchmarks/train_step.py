"""Training step against torch.nn.Transformer of the same size, as a ratio in one run.

    python tests/benchmarks/train_step.py [--rounds 5] [--threads 1]

Both get the same batches of one length, take turns, and are compared by the median over rounds. A step is forward,
smoothed loss, backward and Adam; the contestant from torch computes all logits and torch's loss, as its tutorials do.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from core.config import ModelConfig
from core.layers import Embedding, SinusoidPositions
from core.loss import projected_cross_entropy
from core.transformer import Transformer, causal_mask

SIZES = {
    "smoke": ModelConfig(vocab_size=1_500, num_layers=3, d_model=64, d_ff=128, num_heads=8, d_k=8, d_v=8),
    "small": ModelConfig(vocab_size=4_000, num_layers=3, d_model=128, d_ff=512, num_heads=8, d_k=16, d_v=16),
}
SENTENCES, LENGTH = 60, 15


class TorchTransformer(nn.Module):
    """torch.nn.Transformer between the same embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = SinusoidPositions(config.d_model)
        self.body = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.num_layers,
            config.num_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
        )

    def forward(self, src: torch.Tensor, tgt_in: torch.Tensor) -> torch.Tensor:
        blocked = ~causal_mask(tgt_in.size(1), tgt_in.device)
        hidden = self.body(
            self.positions(self.embedding(src)), self.positions(self.embedding(tgt_in)), tgt_mask=blocked
        )
        return self.embedding.logits(hidden)


def _our_loss(hidden: torch.Tensor, model: Transformer, targets: torch.Tensor) -> torch.Tensor:
    sums = projected_cross_entropy(hidden.flatten(0, 1), model.embedding.weight, targets, label_smoothing=0.1)
    return sums.smoothed / targets.numel()


def _step(model: nn.Module, loss: Callable[[torch.Tensor], torch.Tensor], src: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(model(src, src)).backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name, config in SIZES.items():
        torch.manual_seed(1)
        src = torch.randint(3, config.vocab_size, (SENTENCES, LENGTH))
        our_model, torch_model = Transformer(config), TorchTransformer(config)
        flat = src.flatten()
        steps = {
            "ours": _step(
                our_model,
                lambda h, m=our_model, t=flat: (
                    projected_cross_entropy(h.flatten(0, 1), m.embedding.weight, t, 0.1).smoothed / t.numel()
                ),
                src,
            ),
            "torch": _step(
                torch_model,
                lambda logits, t=flat: nn.functional.cross_entropy(logits.flatten(0, 1), t, label_smoothing=0.1),
                src,
            ),
        }
        seconds: dict[str, list[float]] = {contestant: [] for contestant in steps}
        for round_number in range(arguments.rounds + 1):
            for contestant, step in steps.items():
                started = time.perf_counter()
                for _ in range(5):
                    step()
                if round_number:  # the first round warms up
                    seconds[contestant].append((time.perf_counter() - started) / 5)
        ours, theirs = (flat.numel() / statistics.median(seconds[contestant]) for contestant in steps)
        print(
            f"{name}: ours {ours:,.0f} target tokens/s, torch.nn.Transformer {theirs:,.0f}, ratio {ours / theirs:.2f}"
        )


if __name__ == "__main__":
    main()
