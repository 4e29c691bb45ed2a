"""Section 5, training: data, hardware and schedule, optimiser, regularisation.

Settings are held against what would be run at the paper's scale. Sizes of corpora and seconds an update wait for trials
that this version has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from core.schedule import learning_rate
from studies import wmt14
from studies.claim import Claim
from studies.computed import computed, setting
from studies.scales import PAPER
from studies.study import Study
from studies.table2 import STUDY as TABLE2
from studies.table2 import TIMES

WARMUP_STEPS = 4_000


def _rate(step: int, d_model: int = 512) -> float:
    return learning_rate(step, d_model, WARMUP_STEPS)


def rate_growth(first: int, last: int) -> float:
    """With what power the learning rate grows from one update to another."""
    import numpy as np

    steps = np.unique(np.geomspace(first, last, 20).astype(int))
    slope, _ = np.polyfit(np.log(steps), np.log([_rate(int(step)) for step in steps]), 1)
    return float(slope)


def _setting_claims() -> Iterator[Claim]:
    base, big, french = (partial(TABLE2.trial(name).config, PAPER) for name in ("base.ende", "big.ende", "base.enfr"))
    for id_, section, what, expected, config, path in (
        ("ende.vocabulary", "5.1", "EN-DE: shared vocabulary of about", 37_000, base, "data.vocab_size"),
        ("enfr.vocabulary", "5.1", "EN-FR: vocabulary", 32_000, french, "data.vocab_size"),
        ("source_tokens", "5.1", "source pieces an update, about", 25_000, base, "train.source_tokens"),
        ("target_tokens", "5.1", "target pieces an update, about", 25_000, base, "train.target_tokens"),
        ("gpus", "5.2", "GPUs of one training", 8, lambda: PAPER, "gpus_per_trial"),
        ("base.steps", "5.2", "base: updates", wmt14.BASE_STEPS, base, "train.train_steps"),
        ("big.steps", "5.2", "big: updates", wmt14.BIG_STEPS, big, "train.train_steps"),
        ("beta1", "5.3", "Adam: beta1", 0.9, base, "optim.beta1"),
        ("beta2", "5.3", "Adam: beta2", 0.98, base, "optim.beta2"),
        ("eps", "5.3", "Adam: epsilon", 1e-9, base, "optim.eps"),
        ("warmup_steps", "5.3", "warm-up: updates", WARMUP_STEPS, base, "optim.warmup_steps"),
        ("dropout", "5.4", "base: P_drop", 0.1, base, "model.dropout"),
        ("label_smoothing", "5.4", "label smoothing", 0.1, base, "optim.label_smoothing"),
    ):
        yield setting(f"section5.{id_}", section, what, expected, config, path)


def _schedule_claims() -> Iterator[Claim]:
    """Equation 3, at updates worked out by hand and in how it grows."""
    says = partial(computed, cell="Section 5.3, Eq. 3", source="section 5.3")
    for step, d_model, expected in (
        (1, 512, 1.7469e-7),
        (4_000, 512, 6.9877e-4),
        (100_000, 512, 1.3975e-4),
        (4_000, 1_024, 4.9411e-4),
    ):
        yield says(
            f"section5.rate.d{d_model}.step_{step}",
            statement=f"The learning rate of update {step:,} is {expected:g} at d_model = {d_model}.",
            metric="learning_rate",
            expected=expected,
            tolerance=5e-5 * expected,
            compute=partial(_rate, step, d_model),
        )
    yield says(
        "section5.rate.peak",
        statement="The rate is highest at the end of the warm-up.",
        metric="number",
        expected=WARMUP_STEPS,
        tolerance=0.0,
        compute=lambda: max(range(1, 3 * WARMUP_STEPS), key=_rate),
    )
    for id_, statement, expected, compute in (
        ("rise", "The rate rises linearly over the warm-up.", 1.0, partial(rate_growth, 1, WARMUP_STEPS)),
        (
            "decay",
            "After the warm-up the rate falls with the inverse square root of the update's number.",
            -0.5,
            partial(rate_growth, WARMUP_STEPS, wmt14.BASE_STEPS),
        ),
    ):
        yield says(
            f"section5.rate.{id_}",
            statement=statement,
            metric="exponent",
            kind="exponent",
            expected=expected,
            tolerance=1e-3,
            compute=compute,
        )


def _time_claims() -> Iterator[Claim]:
    for model, _, hours, step_seconds, steps in TIMES:
        unit, divisor, half_digit = ("training_hours", 1, 0.5) if model == "base" else ("training_days", 24, 0.05)
        yield computed(
            f"section5.{model}.{unit.removeprefix('training_')}",
            "Section 5.2",
            f"{steps:,} updates of the {model} model at {step_seconds} s each take {hours / divisor:g} "
            f"{unit.removeprefix('training_')}.",
            unit,
            hours / divisor,
            lambda steps=steps, seconds=step_seconds, divisor=divisor: steps * seconds / 3600 / divisor,
            tolerance=half_digit,  # as printed
            source="section 5.2",
        )
        yield Claim(
            id=f"section5.{model}.step_seconds",
            cell="Section 5.2",
            statement=f"An update of the {model} model takes {step_seconds} s on 8 P100 GPUs.",
            kind="value",
            metric="step_seconds",
            trials=(f"{model}_on_8_p100",),
            source="section 5.2",
            expected=step_seconds,
            tolerance=0.05,  # printed to a tenth
        )


def _corpus_claims() -> Iterator[Claim]:
    for trial, statement, expected, tolerance in (
        ("ende_corpus", "WMT14 English-German has about 4.5M sentence pairs.", 4.5e6, 0.05e6),
        ("enfr_corpus", "WMT14 English-French has 36M sentence pairs.", 36e6, 0.5e6),
    ):
        yield Claim(
            id=f"section5.{trial}",
            cell="Section 5.1",
            statement=statement,
            kind="value",
            metric="num_items",
            trials=(trial,),
            source="section 5.1",
            expected=expected,
            tolerance=tolerance,
        )


STUDY = Study(
    name="section5",
    title="Statements about training",
    cells="Section 5",
    trials=(),
    claims=(*_setting_claims(), *_schedule_claims(), *_time_claims(), *_corpus_claims()),
    awaited=("base_on_8_p100", "big_on_8_p100", "ende_corpus", "enfr_corpus"),
)
