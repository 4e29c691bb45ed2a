"""How much a score, or a difference of scores, depends on which sentences the test set has: bootstrap resampling.

The sentences are drawn anew, with replacement, as many as there are; the score of each such test set is computed; the
middle 95% of these scores are the interval (Koehn 2004). Two systems are compared on the same draws. Numbers equal
those of `sacrebleu --paired-bs` with the same seed.

This is the uncertainty of the test set for outputs that are given. What another seed of training would change is not
in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.scoring.protocol import Protocol

SAMPLES = 1_000
SEED = 12_345
LEVEL = 0.95
# Fewer sentences do not stand for the text that they come from, however often they are drawn.
LEAST_SENTENCES = 10
# Draws held in memory at a time.
_DRAWS = 4_000_000


@dataclass(frozen=True)
class Interval:
    """The middle 95% of the scores, or differences, of resampled test sets; from `low` to `high`, both included."""

    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Interval:
        """The values with a fortieth of them cut off at either end."""
        ordered = np.sort(values)
        cut = len(ordered) // 40
        return cls(float(ordered[cut]), float(ordered[-1 - cut]))


@dataclass(frozen=True)
class PairedBootstrap:
    """Two outputs of one test set, compared: `difference` is the first score minus the second.

    `p_value`: how often so large a difference, either way, would be seen if the two were equally good.
    """

    scores: tuple[float, float]
    intervals: tuple[Interval, Interval]
    difference: float
    interval: Interval
    p_value: float


def resample(statistics: NDArray[np.float64], samples: int = SAMPLES, seed: int = SEED) -> NDArray[np.float64]:
    """(samples, counts): summed counts of resampled test sets.

    Args:
        statistics: (sentences, counts).

    Raises:
        ValueError: fewer than `LEAST_SENTENCES` sentences, or not one sample.
    """
    num_sentences = len(statistics)
    if num_sentences < LEAST_SENTENCES:
        raise ValueError(
            f"{num_sentences} sentences are too few to resample a test set from; at least {LEAST_SENTENCES} are needed"
        )
    if samples < 1:
        raise ValueError(f"{samples} bootstrap samples: at least 1 is needed")
    generator = np.random.default_rng(seed)
    totals = np.empty((samples, statistics.shape[1]))
    step = max(1, _DRAWS // num_sentences)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        drawn = generator.choice(num_sentences, size=(rows, num_sentences), replace=True)
        drawn += num_sentences * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * num_sentences).reshape(rows, num_sentences)
        totals[start : start + rows] = times @ statistics
    return totals


def resampled_scores(
    statistics: NDArray[np.float64], protocol: Protocol, samples: int = SAMPLES, seed: int = SEED
) -> NDArray[np.float64]:
    """(samples,): the score of each resampled test set. The draws depend on the number of sentences and the seed alone,
    so two outputs of one test set are compared draw by draw.

    Raises:
        ValueError: as `resample`.
    """
    return protocol.from_statistics(resample(statistics, samples, seed))


def compare_paired(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    protocol: Protocol,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> PairedBootstrap:
    """Compare two outputs by their sentences' counts, each (sentences, counts), on the same draws.

    Raises:
        ValueError: the outputs differ in their number of sentences, or as `resample` does.
    """
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} sentences against {len(second)}: only outputs of one test set are compared")
    resampled = [resampled_scores(side, protocol, samples, seed) for side in (first, second)]
    scores = [float(protocol.from_statistics(side.sum(axis=0))) for side in (first, second)]
    difference = scores[0] - scores[1]
    # Resampled differences scatter about the measured one; shifted to scatter about 0 they are what chance does.
    # sacreBLEU counts those beyond the measured one alone, and so finds a text to differ from itself, p = 1 / 1001.
    sizes = np.abs(resampled[0] - resampled[1])
    by_chance = np.count_nonzero(sizes - sizes.mean() >= abs(difference))
    return PairedBootstrap(
        scores=(scores[0], scores[1]),
        intervals=(Interval.of(resampled[0]), Interval.of(resampled[1])),
        difference=difference,
        interval=Interval.of(resampled[0] - resampled[1]),
        p_value=(by_chance + 1) / (samples + 1),
    )
