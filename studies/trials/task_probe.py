"""Two small tasks that stand in for trainings that section 3 speaks of: which attention function learns, and which kind
of positions holds beyond the lengths seen in training.

What is fixed beforehand is here: the task, the model around what is compared, the paper's Adam with Eq. 3, and the
number of trainings. A score is the mean over trainings from other seeds, with the error of that mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from core.attention import MultiHeadAttention
from core.attention_functions import ATTENTION_FUNCTIONS
from core.layers import Embedding, LearnedPositions, SinusoidPositions
from core.schedule import learning_rate
from results.records import RunResult, Score
from studies.inference import error_of_mean
from studies.trials.phases import Phases
from studies.work import TaskProbe

NUM_TRAININGS = 5
D_MODEL = 64
BATCH = 32
TEST = 2_000
WARMUP_STEPS = 100


def measure(probe: TaskProbe, seed: int) -> RunResult:
    """Train and test the probe's model NUM_TRAININGS times, from seeds that no other run's seed shares.

    A task gives accuracies in percent by size.
    """
    phase = Phases()
    found = []
    with phase("train"):
        for training in range(NUM_TRAININGS):
            generator = torch.Generator().manual_seed(1_000 * seed + training)
            torch.manual_seed(1_000 * seed + training)
            found.append(TASKS[probe.task](probe, generator))
    sizes = sorted(found[0])
    accuracies = [each[probe.size] for each in found]
    details = {
        "variant": probe.variant,
        "size": probe.size,
        "repeats": error_of_mean(accuracies).to_details(),
        "sizes": sizes,
        "accuracies": [[each[size] for size in sizes] for each in found],
    }
    score = Score(
        f"{probe.task}_accuracy",
        math.fsum(accuracies) / NUM_TRAININGS,
        f"accuracy:percent|task:{probe.task}|trainings:{NUM_TRAININGS}",
        f"made-up/{probe.task}",
        TEST,
        details,
    )
    return RunResult(seconds=phase.seconds["train"], params=0, phases=phase.seconds, scores=(score,))


def _train(model: nn.Module, steps: int, batch: Callable[[], tuple[Tensor, Tensor]]) -> None:
    """Adam as in section 5.3, with Eq. 3; a batch is what the model takes and the classes that it should give."""
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    for step in range(1, steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, D_MODEL, WARMUP_STEPS)
        given, wanted = batch()
        loss = nn.functional.cross_entropy(model(given).flatten(0, -2), wanted.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()


@torch.no_grad()
def _accuracy(model: nn.Module, given: Tensor, wanted: Tensor, first: int = 0) -> float:
    """Percent of the classes that are right, from place `first` on."""
    return 100.0 * (model(given).argmax(dim=-1) == wanted)[:, first:].float().mean().item()


# Recall: the value that was written beside a key ----------------------------------------------------------------------

NUM_PAIRS = 16
NUM_KEYS = NUM_VALUES = 32
RECALL_STEPS = 200


class Recall(nn.Module):
    """One head of attention over pairs: the query, a key, looks for the pair that holds it, and names its value."""

    def __init__(self, variant: str, d_k: int) -> None:
        super().__init__()
        self.keys, self.values = Embedding(NUM_KEYS, D_MODEL), Embedding(NUM_VALUES, D_MODEL)
        for embedding in (self.keys, self.values):
            nn.init.normal_(embedding.weight, std=D_MODEL**-0.5)
        self.norm = nn.LayerNorm(D_MODEL)
        self.query, self.key = (nn.Linear(D_MODEL, d_k, bias=False) for _ in range(2))
        self.value, self.output = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(2))
        # Footnote 4's assumption: components of q and k with variance 1.
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, std=D_MODEL**-0.5)
        self.attention = ATTENTION_FUNCTIONS[variant](d_k)

    def forward(self, given: Tensor) -> Tensor:
        """(B, 2 NUM_PAIRS + 1) int64: keys, their values, the key that is asked for -> logits (B, 1, NUM_VALUES)."""
        keys, values, asked = given.split((NUM_PAIRS, NUM_PAIRS, 1), dim=1)
        pairs = self.norm(self.keys(keys) + self.values(values)).unsqueeze(1)  # (B, 1, pairs, d_model)
        query = self.query(self.norm(self.keys(asked))).unsqueeze(1)
        attended, _ = self.attention(query, self.key(pairs), self.value(pairs))
        return self.values.logits(self.output(attended.squeeze(1)))


def recall_batch(generator: torch.Generator, size: int) -> tuple[Tensor, Tensor]:
    """Examples of the task, (size, 2 NUM_PAIRS + 1) as `Recall` takes them, and the values asked for, (size, 1)."""
    keys = torch.rand(size, NUM_KEYS, generator=generator).argsort(dim=1)[:, :NUM_PAIRS]  # no key twice
    values = torch.randint(NUM_VALUES, (size, NUM_PAIRS), generator=generator)
    asked = torch.randint(NUM_PAIRS, (size, 1), generator=generator)
    return torch.cat([keys, values, keys.gather(1, asked)], dim=1), values.gather(1, asked)


def _recall(probe: TaskProbe, generator: torch.Generator) -> dict[int, float]:
    model = Recall(probe.variant, probe.size)
    _train(model, RECALL_STEPS, lambda: recall_batch(generator, BATCH))
    return {probe.size: _accuracy(model, *recall_batch(generator, TEST))}


# Longer: the symbol before each, at positions beyond any in training -------------------------------------------------

NUM_SYMBOLS = 16
LONGEST_TRAINED = 24
LONGER_STEPS = 300
# The lengths that are tested, over the longest in training.
TIMES = (1, 2, 3, 4)
_POSITIONS = {
    "sinusoid": lambda: SinusoidPositions(D_MODEL),
    "learned": lambda: LearnedPositions(8 * LONGEST_TRAINED, D_MODEL),
}


class Before(nn.Module):
    """One head of attention that names, at each position, the symbol before it: by positions alone can it be found."""

    def __init__(self, positions: str) -> None:
        super().__init__()
        self.embedding = Embedding(NUM_SYMBOLS, D_MODEL)
        self.positions = _POSITIONS[positions]()
        for module in (self.embedding, self.positions):
            for weight in module.parameters():
                nn.init.normal_(weight, std=D_MODEL**-0.5)
        self.attention = MultiHeadAttention(D_MODEL, 1, D_MODEL, D_MODEL)

    def forward(self, symbols: Tensor) -> Tensor:
        """(B, n) int64 -> logits (B, n, NUM_SYMBOLS)."""
        x = self.positions(self.embedding(symbols))
        return self.embedding.logits(self.attention(x, x, None))


def _longer(probe: TaskProbe, generator: torch.Generator) -> dict[int, float]:
    def batch(length: int, size: int = BATCH) -> tuple[Tensor, Tensor]:
        symbols = torch.randint(NUM_SYMBOLS, (size, length), generator=generator)
        return symbols, symbols.roll(1, dims=1)

    def short() -> tuple[Tensor, Tensor]:
        shortest = LONGEST_TRAINED // 2
        return batch(int(torch.randint(shortest, LONGEST_TRAINED + 1, (1,), generator=generator)))

    model = Before(probe.variant)
    _train(model, LONGER_STEPS, short)
    return {times: _accuracy(model, *batch(times * LONGEST_TRAINED, TEST // 10), _first(times)) for times in TIMES}


def _first(times: int) -> int:
    """From which position on answers count: beyond the longest that was trained, where there are such."""
    return LONGEST_TRAINED if times > 1 else 0


TASKS: dict[str, Callable[[TaskProbe, torch.Generator], dict[int, float]]] = {"recall": _recall, "longer": _longer}
