"""From counts to scores, on arrays: what the bootstrap does thousands of times. The tests hold it equal to sacreBLEU's.

Counts are laid out as sacreBLEU lays them out, and add up over sentences.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Smoothing = Literal["exp", "none"]

BLEU_ORDER = 4
CHRF_ORDER = 6
CHRF_BETA = 2


def bleu(counts: NDArray[np.float64], smoothing: Smoothing, effective_order: bool = False) -> NDArray[np.float64]:
    """BLEU, 0 to 100.

    Args:
        counts: (..., 10): output length, reference length, matched n-grams of 1 to 4 tokens, all of the output's.
        smoothing: see `core.scoring.protocol.BleuProtocol`.
        effective_order: leave out the orders that are longer than the output; for single sentences.
    Returns:
        (...).
    """
    length, reference_length = counts[..., 0], counts[..., 1]
    matched, total = counts[..., 2 : 2 + BLEU_ORDER], counts[..., 2 + BLEU_ORDER :]
    missed = (matched == 0) & (total > 0)
    credit = 0.5 ** np.cumsum(missed, axis=-1) if smoothing == "exp" else 0.0  # half a match, then a quarter, ...
    with np.errstate(divide="ignore", invalid="ignore"):
        # An order without n-grams has precision 0, as it has in multi-bleu.
        logs = np.log(np.where(total > 0, np.where(missed, credit, matched) / total, 0.0))
        brevity = np.where(length < reference_length, np.exp(1 - reference_length / length), 1.0)
        if effective_order:
            mean = np.where(total > 0, logs, 0.0).sum(axis=-1) / (total > 0).sum(axis=-1)
        else:
            mean = logs.mean(axis=-1)
        return np.where(matched.any(axis=-1), 100 * brevity * np.exp(mean), 0.0)


def chrf(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """chrF2, 0 to 100: F of precision and recall averaged over the orders that both texts have.

    Args:
        counts: (..., 18): for n-grams of 1 to 6 characters, how many the output has, the reference has, both have.
    Returns:
        (...).
    """
    of_output, of_reference, matched = (counts[..., position::3] for position in range(3))
    present = (of_output > 0) & (of_reference > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (
            np.where(present, matched / of_side, 0.0).sum(axis=-1) / present.sum(axis=-1)
            for of_side in (of_output, of_reference)
        )
        score = 100 * (1 + CHRF_BETA**2) * precision * recall / (CHRF_BETA**2 * precision + recall)
    return np.nan_to_num(score, nan=0.0)  # no character in common
