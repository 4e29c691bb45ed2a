"""What each baseline costs, in closed form from its sizes alone: parameters, and multiply-adds a piece.

Needs no torch, so that planning answers at once; tests hold every form against the built model and torch's counter.
`core.complexity` adds the Transformer and makes whole trainings of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What one architecture of one size costs.

    Attributes:
        parameters: trainable numbers, each shared matrix counted once.
        per_source, per_target: multiply-adds of the matrix products of a forward pass, for each source and each target
            piece; the vocabulary's product is part of the latter.
    """

    parameters: int
    per_source: float
    per_target: float


COSTS: dict[type, Callable[[Any, float], Cost]] = {}
"""By the type of a configuration, its cost.

The second argument, `sentence_pieces`, is how many pieces the sentence of a piece has, on the average over pieces:
products whose number grows with the sentence grow with it. 0 leaves those out.
"""
