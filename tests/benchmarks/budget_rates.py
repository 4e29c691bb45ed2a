"""Which learning rate each architecture of the study `budget` is given: development perplexity at smoke, by hand.

Trains every one of them with Eq. 3 times each rate, on seed 1, without decoding anything, and prints a line a training;
the best of a row is what `studies.budget.Rival.rate` should say. About 20 s a training on a quiet core.

    python tests/benchmarks/budget_rates.py --rates 0.5 1 2 --trial convs2s
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from core.config import RunConfig
from core.data.prepare import PreparedData, prepare
from core.trainer import DivergedError, Trainer
from studies.budget import TRIALS
from studies.scales import SMOKE


def final_perplexity(config: RunConfig, data: PreparedData) -> float | None:
    """Development perplexity after the whole training; None where it diverged."""
    found: list[float] = []

    def listen(_: int, split: str, values: Mapping[str, float], __: float) -> None:
        if split == "dev" and "ppl" in values:
            found.append(values["ppl"])

    trainer = Trainer("rate", config, data.split("train"), data.split("dev"), seed=1, device=torch.device("cpu"))
    try:
        trainer.train(listen, save=lambda _: None)
    except DivergedError:
        return None
    return found[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--trial", choices=list(TRIALS), nargs="+", default=list(TRIALS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        data = prepare(SMOKE.base.data, Path(folder))
        for name in arguments.trial:
            config = TRIALS[name].config(SMOKE)
            for rate in arguments.rates:
                changed = replace(config, optim=replace(config.optim, learning_rate_scale=rate))
                perplexity = final_perplexity(changed, data)
                chosen = " (as in the study)" if rate == config.optim.learning_rate_scale else ""
                print(
                    f"{name} x {rate:g}: {'diverged' if perplexity is None else f'{perplexity:.3f}'}{chosen}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
