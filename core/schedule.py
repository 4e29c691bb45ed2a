"""The learning rate of section 5.3 (Eq. 3)."""

from __future__ import annotations


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), for update number `step`, counted from 1 (Eq. 3).

    Raises:
        ValueError: step < 1; the formula has no value there.
    """
    if step < 1:
        raise ValueError(f"step={step}: Eq. 3 counts updates from 1")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
