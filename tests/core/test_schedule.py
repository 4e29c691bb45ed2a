from __future__ import annotations

import pytest

from core.schedule import learning_rate


@pytest.mark.parametrize(
    ("step", "d_model", "expected"),
    [
        (1, 512, 1.7469e-7),
        (4_000, 512, 6.9877e-4),
        (8_000, 512, 4.9411e-4),  # the peak divided by sqrt(2)
        (100_000, 512, 1.3975e-4),
        (4_000, 1024, 4.9411e-4),
    ],
)
def test_eq_3_by_hand(step: int, d_model: int, expected: float):
    """Pitfall C5."""
    assert learning_rate(step, d_model, warmup_steps=4_000) == pytest.approx(expected, rel=5e-5)


def test_rate_rises_linearly_to_the_end_of_the_warm_up_and_falls_after_it():
    rates = [learning_rate(step, 64, warmup_steps=10) for step in range(1, 41)]
    assert rates[:10] == pytest.approx([rates[0] * step for step in range(1, 11)], rel=1e-12)
    assert rates.index(max(rates)) == 9
    assert rates[9] == pytest.approx(64**-0.5 * 10**-0.5, rel=1e-12)
    assert rates[39] == pytest.approx(rates[9] / 2, rel=1e-12)  # four times as late, half as large


def test_both_branches_meet_without_a_jump():
    before, at, after = (learning_rate(step, 512, 4_000) for step in (3_999, 4_000, 4_001))
    assert before < at > after
    assert at / before == pytest.approx(1.0, abs=3e-4)


@pytest.mark.parametrize("step", [0, -1])
def test_there_is_no_rate_before_the_first_update(step: int):
    """Pitfall C6."""
    with pytest.raises(ValueError, match=f"step={step}"):
        learning_rate(step, 512, 4_000)
