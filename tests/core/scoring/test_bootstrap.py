"""Bootstrap resampling, held to sacreBLEU's own significance test and to what must follow from the definition."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from core.scoring import bootstrap
from core.scoring.bootstrap import Interval, compare_paired, resample, resampled_scores
from core.scoring.protocol import CHRF, PAPER_ENDE, SACREBLEU_13A, Protocol

NOUNS = ["Hund", "Katze", "Frau", "Mann", "Kind", "E-Mail", "Haus", "Garten", "Film", "Buch"]
Text = list[str]


@pytest.fixture(scope="module")
def texts() -> tuple[Text, Text, Text]:
    """References, and two outputs of them of which the second has more words wrong."""
    generator = random.Random(7)
    references = [
        f"Der {generator.choice(NOUNS)} sieht {generator.randint(2, 99)} mal den {generator.choice(NOUNS)} und geht."
        for _ in range(120)
    ]

    def spoil(line: str, share: float) -> str:
        return " ".join(generator.choice(NOUNS) if generator.random() < share else word for word in line.split())

    return references, [spoil(line, 0.2) for line in references], [spoil(line, 0.25) for line in references]


@pytest.mark.parametrize("protocol", [SACREBLEU_13A, PAPER_ENDE, CHRF], ids=lambda protocol: protocol.name)
def test_numbers_are_sacrebleus(
    protocol: Protocol, texts: tuple[Text, Text, Text], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    references, first, second = (protocol.prepare(side) for side in texts)
    test = PairedTest([("a", first), ("b", second)], {"m": protocol.metric()}, [references], "bs", n_samples=300)
    _, found = test()
    expected = found[next(name for name in found if name != "System")]

    statistics = [protocol.statistics(side, texts[0]) for side in texts[1:]]
    mine = compare_paired(*statistics, protocol, samples=300, seed=77)
    assert mine.scores == pytest.approx([result.score for result in expected], abs=1e-6)
    assert mine.p_value == pytest.approx(expected[1].p_value, abs=1e-12)
    for interval, result in zip(mine.intervals, expected, strict=True):
        assert (interval.high - interval.low) / 2 == pytest.approx(result.ci, abs=1e-3)  # there in float32
    assert mine.intervals[0] == Interval.of(resampled_scores(statistics[0], protocol, samples=300, seed=77))


def test_a_draw_counts_every_sentence_as_often_as_it_was_drawn() -> None:
    # Each sentence counts itself: a sum is a number of draws.
    totals = resample(np.eye(12), samples=50, seed=3)
    drawn = np.random.default_rng(3).choice(12, size=(50, 12), replace=True)
    assert totals.tolist() == [[np.count_nonzero(row == sentence) for sentence in range(12)] for row in drawn]


@pytest.mark.parametrize("draws", [1, 13, 25, 10**6])
def test_draws_do_not_depend_on_how_many_are_held_at_a_time(draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = np.random.default_rng(1).integers(0, 9, (13, 10)).astype(float)
    expected = resample(statistics, samples=40)
    monkeypatch.setattr(bootstrap, "_DRAWS", draws)
    assert (resample(statistics, samples=40) == expected).all()


def test_same_seed_same_numbers_and_another_seed_others(texts: tuple[Text, Text, Text]) -> None:
    statistics = SACREBLEU_13A.statistics(texts[1], texts[0])
    assert Interval.of(resampled_scores(statistics, SACREBLEU_13A)) == Interval.of(
        resampled_scores(statistics, SACREBLEU_13A)
    )
    assert Interval.of(resampled_scores(statistics, SACREBLEU_13A)) != Interval.of(
        resampled_scores(statistics, SACREBLEU_13A, seed=2)
    )


def test_interval_cuts_off_a_fortieth_at_either_end() -> None:
    assert Interval.of(np.arange(1_000)[::-1]) == Interval(25.0, 974.0)
    assert Interval.of(np.arange(30.0)) == Interval(0.0, 29.0)


def test_interval_lies_about_the_score_and_shrinks_with_the_test_set(texts: tuple[Text, Text, Text]) -> None:
    statistics = PAPER_ENDE.statistics(texts[1], texts[0])
    score = PAPER_ENDE.score(texts[1], texts[0]).score
    interval = Interval.of(resampled_scores(statistics, PAPER_ENDE))
    assert interval.low < score < interval.high
    larger = Interval.of(resampled_scores(np.tile(statistics, (16, 1)), PAPER_ENDE))
    assert (larger.high - larger.low) / (interval.high - interval.low) == pytest.approx(1 / 4, rel=0.15)


def test_a_text_does_not_differ_from_itself(texts: tuple[Text, Text, Text]) -> None:
    statistics = CHRF.statistics(texts[1], texts[0])
    same = compare_paired(statistics, statistics, CHRF)
    assert (same.difference, same.interval, same.p_value) == (0.0, Interval(0.0, 0.0), 1.0)


def test_difference_turns_with_the_order(texts: tuple[Text, Text, Text]) -> None:
    statistics = [SACREBLEU_13A.statistics(side, texts[0]) for side in texts[1:]]
    one, other = (compare_paired(*pair, SACREBLEU_13A) for pair in (statistics, statistics[::-1]))
    assert one.difference == pytest.approx(-other.difference)
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low))
    assert one.p_value == other.p_value
    assert one.interval.low < one.difference < one.interval.high


def test_two_scores_of_0_do_not_differ() -> None:
    statistics = [PAPER_ENDE.statistics(outputs, ["Ja, das ist gut."] * 20) for outputs in (["x"] * 20, ["y z"] * 20)]
    found = compare_paired(*statistics, PAPER_ENDE)
    assert (found.scores, found.p_value) == ((0.0, 0.0), 1.0)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: resample(np.ones((9, 10))), "9 sentences are too few"),
        (lambda: resample(np.ones((0, 10))), "0 sentences are too few"),
        (lambda: resample(np.ones((20, 10)), samples=0), "0 bootstrap samples"),
        (lambda: compare_paired(np.ones((20, 10)), np.ones((21, 10)), SACREBLEU_13A), "20 sentences against 21"),
    ],
)
def test_what_cannot_be_resampled_is_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refused()
