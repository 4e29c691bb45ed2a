"""Table 2: BLEU on newstest2014 and the training cost of the base and the big model, beside earlier systems (6.1).

Checkpoints are averaged here, unlike in Table 3. Costs are by the paper's own method: training time, times the number
of GPUs, times a rate that each kind of GPU is taken to sustain (footnote 5). Earlier systems' rows are quotations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from core.config import RunConfig
from studies import wmt14
from studies.claim import METRICS, Claim, Identity
from studies.computed import computed, setting
from studies.scales import PAPER
from studies.study import Study, Trial
from studies.table3 import big as big_model

LANGUAGES = {"ende": "de", "enfr": "fr"}
DIRECTIONS = {"ende": "EN-DE", "enfr": "EN-FR"}
BLEU = "test_bleu_paper"
BLEU_MARGIN = 0.5  # as in Table 3

# The paper's footnote 5: single-precision FLOPs a second that one GPU sustains.
SUSTAINED_FLOPS = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}
NUM_GPUS = 8  # P100s (5.2)


@dataclass(frozen=True)
class Row:
    """One printed row: BLEU and cost in FLOPs by direction, None where the cell is empty."""

    id: str
    model: str
    bleu_ende: float | None
    bleu_enfr: float | None
    flops_ende: float | None
    flops_enfr: float | None
    ours: bool = False
    ensemble: bool = False

    def bleu(self, direction: str) -> float | None:
        """BLEU of a direction, `ende` or `enfr`."""
        return getattr(self, f"bleu_{direction}")

    def flops(self, direction: str) -> float | None:
        """Cost of a direction, `ende` or `enfr`."""
        return getattr(self, f"flops_{direction}")


ROWS = (
    Row("bytenet", "ByteNet", 23.75, None, None, None),
    Row("deep_att", "Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    Row("gnmt", "GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    Row("convs2s", "ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    Row("moe", "MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    Row("deep_att_ensemble", "Deep-Att + PosUnk Ensemble", None, 40.4, None, 8.0e20, ensemble=True),
    Row("gnmt_ensemble", "GNMT + RL Ensemble", 26.30, 41.16, 1.8e20, 1.1e21, ensemble=True),
    Row("convs2s_ensemble", "ConvS2S Ensemble", 26.36, 41.29, 7.7e19, 1.2e21, ensemble=True),
    Row("base", "Transformer (base model)", 27.3, 38.1, 3.3e18, 3.3e18, ours=True),
    Row("big", "Transformer (big)", 28.4, 41.8, 2.3e19, 2.3e19, ours=True),
)
OURS = {row.id: row for row in ROWS if row.ours}
EARLIER = tuple(row for row in ROWS if not row.ours)


# The trials ----------------------------------------------------------------------------------------------------------


def base_model(base: RunConfig) -> RunConfig:
    """The base model, averaged over its last 5 checkpoints, written every 10 minutes: 1,500 of 100K updates apart."""
    return _averaged(base, last=5, every_steps=base.train.train_steps * 3 // 200)


def big_ende(base: RunConfig) -> RunConfig:
    """The big model, averaged over its last 20; their spacing is not printed: 10 minutes are 600 of 300K updates."""
    changed = big_model(base)
    return _averaged(changed, last=20, every_steps=changed.train.train_steps // 500)


def big_enfr(base: RunConfig) -> RunConfig:
    """The big model for French was trained with dropout 0.1 in place of 0.3 (6.1)."""
    changed = big_ende(base)
    return replace(changed, model=replace(changed.model, dropout=0.1))


def _averaged(config: RunConfig, last: int, every_steps: int) -> RunConfig:
    return replace(config, train=replace(config.train, average_last=last, average_every_steps=max(1, every_steps)))


def into_french(base: RunConfig) -> RunConfig:
    """English-French: 32,000 word pieces where English-German has 37,000 (5.1), and so in proportion."""
    vocab_size = base.data.vocab_size * 32 // 37
    return replace(
        base,
        data=replace(
            base.data,
            tgt="fr",
            vocab_size=vocab_size,
            vocab_kind="wordpiece",
            # Learning takes about 1.2 kB for each different word: the words of all 36M pairs would fill a machine.
            vocab_sample_pairs=5_000_000,
        ),
        model=replace(base.model, vocab_size=vocab_size),
    )


TRIALS = (
    Trial("base.ende", "base", "base, EN-DE", base_model),
    Trial("big.ende", "big", "big, EN-DE", big_ende),
    Trial("base.enfr", "base", "base, EN-FR", lambda base: base_model(into_french(base))),
    Trial("big.enfr", "big", "big, EN-FR", lambda base: big_enfr(into_french(base))),
)


# The claims ----------------------------------------------------------------------------------------------------------


def _identity(model: str, direction: str) -> Identity:
    language = LANGUAGES[direction]
    steps = wmt14.BIG_STEPS if model == "big" else wmt14.BASE_STEPS
    return wmt14.identity("newstest2014", language, wmt14.BLEU[language], steps)


def _value(id_: str, model: str, direction: str, bleu: float, cell: str, source: str, reading: str = "") -> Claim:
    return Claim(
        id=id_,
        cell=cell,
        statement=f"The {model} model reaches {bleu} BLEU on newstest2014 {DIRECTIONS[direction]}.",
        kind="value",
        metric=BLEU,
        trials=(f"{model}.{direction}",),
        source=source,
        expected=bleu,
        tolerance=BLEU_MARGIN,
        identity=_identity(model, direction),
        reading=reading,
    )


def _value_claims() -> Iterator[Claim]:
    for row in OURS.values():
        for direction, name in DIRECTIONS.items():
            reading = "Table 2 and the abstract, version 5 and later" if (row.id, direction) == ("big", "enfr") else ""
            cell = f"Table 2, {row.model}, BLEU {name}"
            yield _value(
                f"table2.{row.id}.{direction}.bleu", row.id, direction, row.bleu(direction), cell, "Table 2", reading
            )
    yield _value(
        "table2.big.enfr.bleu_in_text",
        "big",
        "enfr",
        41.0,
        "Section 6.1, big, BLEU EN-FR",
        "section 6.1",
        "section 6.1, and the abstract and Table 2 of earlier versions",
    )


def training_flops(hours: float) -> float:
    """The paper's cost of a training: time, times its 8 P100s, times the rate of footnote 5."""
    return hours * 3600 * NUM_GPUS * SUSTAINED_FLOPS["P100"]


# (model, printed FLOPs' last digit, hours that the text prints, seconds an update, updates); section 5.2.
TIMES = (
    ("base", 0.1e18, 12.0, 0.4, wmt14.BASE_STEPS),
    ("big", 0.1e19, 3.5 * 24, 1.0, wmt14.BIG_STEPS),
)


def _cost_claims() -> Iterator[Claim]:
    """Every printed cost by both of the times that section 5.2 gives: they are not the same."""
    for model, digit, hours, step_seconds, steps in TIMES:
        by_steps = steps * step_seconds / 3600
        for label, taken, reading in (
            ("flops", hours, f"the printed time, {hours:g} h"),
            ("flops_by_steps", by_steps, f"{steps:,} updates of {step_seconds} s, {by_steps:.1f} h"),
        ):
            for direction, name in DIRECTIONS.items():
                printed = OURS[model].flops(direction)
                yield computed(
                    f"table2.{model}.{direction}.{label}",
                    f"Table 2, {OURS[model].model}, training cost {name}",
                    f"Training the {model} model for {name} costs {printed:.1e} FLOPs.",
                    "training_flops",
                    printed,
                    partial(training_flops, taken),
                    trials=(f"{model}.{direction}",),
                    tolerance=digit / 2,  # printed to two digits
                    source="Table 2, footnote 5, section 5.2",
                    reading=reading,
                )


def _measured_cost_claims() -> Iterator[Claim]:
    """Costs of our own runs, by either count, never by both: of one language pair, and of one kind of machine."""
    for direction, name in DIRECTIONS.items():
        for metric, how in (
            ("counted_flops", "counted operations"),
            ("timed_flops", "the paper's method, time x devices x the rate that was measured"),
        ):
            yield Claim(
                id=f"table2.base_under_big.{direction}.{METRICS[metric].label}",
                cell=f"Table 2, base against big, training cost {name}",
                statement=f"On {name}, training the base model costs less than training the big one, by {how}.",
                kind="order",
                metric=metric,
                trials=(f"base.{direction}", f"big.{direction}"),
                source="Table 2",
            )


def best_earlier(direction: str, ensembles: bool) -> Row:
    """The earlier system with the highest printed BLEU, among single models or among all."""
    known = [row for row in EARLIER if row.bleu(direction) is not None and (ensembles or not row.ensemble)]
    return max(known, key=lambda row: row.bleu(direction))


def _over_earlier(id_: str, model: str, direction: str, statement: str, ensembles: bool, by: float = 0.0) -> Claim:
    best = best_earlier(direction, ensembles)
    return Claim(
        id=id_,
        cell=f"Table 2, {OURS[model].model} against {best.model}, {DIRECTIONS[direction]}",
        statement=statement,
        kind="threshold",
        metric=BLEU,
        trials=(f"{model}.{direction}",),
        source="section 6.1",
        expected=round(best.bleu(direction) + by, 2),
        bound=">",
        identity=_identity(model, direction),
    )


def _text_claims() -> Iterator[Claim]:
    """The sentences of section 6.1: of measured numbers where runs can decide them, and of the printed ones."""
    yield _over_earlier(
        "table2.big_over_earlier.ende",
        "big",
        "ende",
        "The big model beats every earlier model on EN-DE, ensembles included, by more than 2.0 BLEU.",
        ensembles=True,
        by=2.0,
    )
    yield _over_earlier(
        "table2.base_over_earlier.ende",
        "base",
        "ende",
        "The base model too beats every earlier model on EN-DE, ensembles included.",
        ensembles=True,
    )
    yield _over_earlier(
        "table2.big_over_single.enfr",
        "big",
        "enfr",
        "The big model beats every earlier single model on EN-FR.",
        ensembles=False,
    )
    for direction, name in DIRECTIONS.items():
        steps = [wmt14.BIG_STEPS, wmt14.BASE_STEPS]
        yield Claim(
            id=f"table2.big_over_base.{direction}",
            cell=f"Table 2, big against base, {name}",
            statement=f"The big model is better than the base model on {name}.",
            kind="order",
            metric=BLEU,
            trials=(f"big.{direction}", f"base.{direction}"),
            source="Table 2",
            identity=wmt14.identity("newstest2014", LANGUAGES[direction], wmt14.BLEU[LANGUAGES[direction]], *steps),
        )
    # The same sentences of the table's own numbers.
    cheapest = min((row for row in EARLIER if row.flops_ende), key=lambda row: row.flops_ende)
    best_single = best_earlier("enfr", ensembles=False)
    for id_, statement, metric, bound, expected, compute in (
        (
            "big_over_earlier.ende",
            "big is more than 2.0 BLEU above the best earlier EN-DE result, ensembles included",
            "printed_bleu",
            ">",
            2.0,
            partial(_gap, "big", "ende", best_earlier("ende", ensembles=True)),
        ),
        (
            "base_over_earlier.ende",
            "base is above the best earlier EN-DE result, ensembles included",
            "printed_bleu",
            ">",
            0.0,
            partial(_gap, "base", "ende", best_earlier("ende", ensembles=True)),
        ),
        (
            "base_cost.ende",
            "base costs a fraction of the cheapest earlier EN-DE model",
            "ratio",
            "<",
            1.0,
            partial(_cost_ratio, "base", "ende", cheapest),
        ),
        (
            "big_over_single.enfr",
            "big is above the best earlier single model on EN-FR",
            "printed_bleu",
            ">",
            0.0,
            partial(_gap, "big", "enfr", best_single),
        ),
        (
            "big_cost.enfr",
            "big costs less than 1/4 of the best earlier single model's training on EN-FR",
            "ratio",
            "<",
            0.25,
            partial(_cost_ratio, "big", "enfr", best_single),
        ),
    ):
        yield computed(
            f"table2.printed.{id_}",
            "Table 2, as printed",
            f"By the printed numbers, {statement}.",
            metric,
            expected,
            compute,
            bound=bound,
            source="section 6.1",
        )


def _gap(model: str, direction: str, other: Row) -> float:
    return round(OURS[model].bleu(direction) - other.bleu(direction), 2)


def _cost_ratio(model: str, direction: str, other: Row) -> float:
    return OURS[model].flops(direction) / other.flops(direction)


def _ratio_claims() -> Iterator[Claim]:
    """What the GNMT ensemble cost over what big did, from the printed costs: another number for each language pair."""
    ensemble = next(row for row in EARLIER if row.id == "gnmt_ensemble")
    for direction, ratio in (("ende", 7.8), ("enfr", 47.8)):
        yield computed(
            f"table2.gnmt_ensemble_cost.{direction}",
            f"Table 2, {ensemble.model} against {OURS['big'].model}, training cost {DIRECTIONS[direction]}",
            f"By the printed costs of {DIRECTIONS[direction]}, the GNMT ensemble took {ratio} times big's training.",
            "ratio",
            ratio,
            partial(_ratio_to_big, ensemble, direction),
            tolerance=0.05,
            source="Table 2",
        )


def _ratio_to_big(row: Row, direction: str) -> float:
    return 1 / _cost_ratio("big", direction, row)


def _quoted_claims() -> Iterator[Claim]:
    for row in EARLIER:
        for direction, name in DIRECTIONS.items():
            for label, metric, what, value in (
                ("bleu", BLEU, "BLEU", row.bleu(direction)),
                ("flops", "training_flops", "training cost", row.flops(direction)),
            ):
                if value is not None:
                    yield Claim(
                        id=f"table2.{row.id}.{direction}.{label}",
                        cell=f"Table 2, {row.model}, {what} {name}",
                        statement=f"{row.model}: {what} {value:g}, {name}.",
                        kind="value",
                        metric=metric,
                        trials=(),
                        source="Table 2, from that system's own paper",
                        expected=value,
                        quoted=True,
                    )


def _misquotes() -> Iterator[Claim]:
    ensemble = next(row for row in EARLIER if row.id == "gnmt_ensemble")
    yield computed(
        "table2.quoted_50_times_cheaper.ende",
        "Table 2, GNMT + RL Ensemble against Transformer (big), training cost EN-DE",
        "The big model is nearly 50 times cheaper than the GNMT ensemble on EN-DE (it is so on EN-FR).",
        "ratio",
        50,
        partial(_ratio_to_big, ensemble, "ende"),
        tolerance=5,
        source="often quoted",
        misquote=True,
    )


def _setting_claims() -> Iterator[Claim]:
    """The numbers of 6.1 that are settings, as the trials have them at the paper's scale."""
    base, big, _, big_french = (partial(trial.config, PAPER) for trial in TRIALS)
    for id_, section, what, expected, config, path in (
        ("base.average_last", "6.1", "base: checkpoints averaged", 5, base, "train.average_last"),
        (
            "base.average_every_steps",
            "6.1",
            "base: 10 minutes of 0.4 s an update between checkpoints, in updates",
            1_500,
            base,
            "train.average_every_steps",
        ),
        ("big.average_last", "6.1", "big: checkpoints averaged", 20, big, "train.average_last"),
        ("beam_size", "6.1", "beam size", 4, base, "decode.beam_size"),
        ("length_penalty", "6.1", "length penalty alpha", 0.6, base, "decode.length_penalty"),
        (
            "max_extra_pieces",
            "6.1",
            "longest output, in pieces more than the input",
            50,
            base,
            "decode.max_extra_pieces",
        ),
        ("big.ende.dropout", "6.2", "big EN-DE: P_drop", 0.3, big, "model.dropout"),
        ("big.enfr.dropout", "6.1", "big EN-FR: P_drop", 0.1, big_french, "model.dropout"),
    ):
        yield setting(f"table2.{id_}", section, what, expected, config, path)


STUDY = Study(
    name="table2",
    title="Translation quality and training cost",
    cells="Table 2; section 6.1",
    trials=TRIALS,
    claims=(
        *_value_claims(),
        *_cost_claims(),
        *_measured_cost_claims(),
        *_ratio_claims(),
        *_text_claims(),
        *_setting_claims(),
        *_misquotes(),
        *_quoted_claims(),
    ),
)
