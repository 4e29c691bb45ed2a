"""Ours: the systems of Table 2 under one budget. Same data, word pieces, search and scorer, as many parameters, and as
many counted operations of training.

Table 2 sets numbers side by side that were got with other data, other vocabularies and other machines. Here all but
what lies between embedding and softmax is the same, and a cheaper update buys more updates. Each architecture may
have a learning rate of its own, and a bound on its gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

from core.architecture_config import (
    ArchitectureConfig,
    ByteNetConfig,
    ConvS2SConfig,
    ModelConfig,
    RecurrentConfig,
)
from core.complexity import num_parameters, training_flops
from core.config import RunConfig
from studies.claim import METRICS, Claim
from studies.computed import computed
from studies.scales import PAPER, Scale
from studies.study import Study, Trial

BLEU, PPL = "test_bleu_paper", "dev_ppl"
# Parameters may differ by so much of base's.
PARAMETERS_MARGIN = 0.03
# Counted operations may differ by so much: updates are whole.
COST_MARGIN = 0.01


@dataclass(frozen=True)
class Rival:
    """One architecture, and how it is trained.

    Attributes:
        kind: what takes a position's place among the others.
        sizes: models that it may be, from which the one is taken whose parameters are nearest to the Transformer's.
        rate: times Eq. 3; `tests/benchmarks/budget_rates.py` compares some by dev perplexity at smoke.
        max_grad_norm: of an update's gradient; None where its paper has none.
        source: its paper.
    """

    name: str
    label: str
    kind: str
    source: str
    sizes: Callable[[ModelConfig], Iterable[ArchitectureConfig]]
    rate: float = 1.0
    max_grad_norm: float | None = None

    def change(self, base: RunConfig) -> RunConfig:
        """Base with this architecture."""
        return replace(
            base,
            model=nearest(self.sizes, base.model),
            optim=replace(base.optim, learning_rate_scale=self.rate, max_grad_norm=self.max_grad_norm),
        )


@cache
def nearest(
    sizes: Callable[[ModelConfig], Iterable[ArchitectureConfig]], transformer: ModelConfig
) -> ArchitectureConfig:
    """Of these models the one whose parameters are nearest in number to the Transformer's; the first of equals."""
    wanted = num_parameters(transformer)
    return min(sizes(transformer), key=lambda config: abs(num_parameters(config) - wanted))


def _itself(transformer: ModelConfig) -> Iterator[ModelConfig]:
    yield transformer


def _widths(transformer: ModelConfig, most: float) -> range:
    """Widths from the Transformer's up to so many times that."""
    d = transformer.d_model
    return range(d, int(most * d) + 1, 4)


def _lstm_attention(transformer: ModelConfig) -> Iterator[RecurrentConfig]:
    """Two layers with Bahdanau et al.'s attention; dropout as the Transformer has it."""
    for width in _widths(transformer, most=2):
        yield RecurrentConfig.bahdanau(
            transformer.vocab_size, num_layers=2, d_model=width, cell="lstm", dropout=transformer.dropout
        )


def _lstm(transformer: ModelConfig) -> Iterator[RecurrentConfig]:
    """Sutskever et al.'s form, without attention and with the source read backwards; two layers."""
    for width in _widths(transformer, most=2):
        yield RecurrentConfig.sutskever(
            transformer.vocab_size, num_layers=2, d_model=width, dropout=transformer.dropout
        )


def _convs2s(transformer: ModelConfig) -> Iterator[ConvS2SConfig]:
    """Equal layers of kernel 3, as wide as the words or somewhat wider."""
    for depth in range(2, 13):
        for units in _widths(transformer, most=1.5):
            yield ConvS2SConfig(
                transformer.vocab_size,
                d_model=transformer.d_model,
                blocks=((units, 3),) * depth,
                dropout=transformer.dropout,
                max_learned_positions=transformer.max_learned_positions,
            )


def _bytenet(transformer: ModelConfig) -> Iterator[ByteNetConfig]:
    """Sets of dilations 1 to 16, as theirs."""
    for num_sets in range(1, 7):
        for width in _widths(transformer, most=1.25):
            yield ByteNetConfig(transformer.vocab_size, d_model=width, num_sets=num_sets, dropout=transformer.dropout)


RIVALS = (
    Rival("transformer", "Transformer", "attention", "Vaswani et al. 2017", _itself),
    Rival(
        "lstm_attention",
        "LSTM + attention",
        "recurrence",
        "Bahdanau et al. 2014",
        _lstm_attention,
        rate=2.0,
        max_grad_norm=1.0,
    ),
    Rival("lstm", "LSTM", "recurrence", "Sutskever et al. 2014", _lstm, rate=2.0, max_grad_norm=1.0),
    Rival("convs2s", "ConvS2S", "convolution", "Gehring et al. 2017", _convs2s, rate=2.0),
    Rival("bytenet", "ByteNet", "convolution", "Kalchbrenner et al. 2016", _bytenet, rate=2.0),
)
TRIALS = {rival.name: Trial(rival.name, rival.kind, rival.label, rival.change, to_budget=True) for rival in RIVALS}

# (better, worse, where the paper has this order)
ORDERS = (
    ("transformer", "convs2s", "section 6.1, Table 2"),
    ("transformer", "lstm_attention", "section 6.1, Table 2"),
    ("transformer", "bytenet", "section 6.1, Table 2"),
    ("transformer", "lstm", "section 6.1"),
    ("convs2s", "lstm_attention", "Table 2, ConvS2S and GNMT"),
    ("lstm_attention", "bytenet", "Table 2, GNMT and ByteNet"),
    ("lstm_attention", "lstm", "section 1"),
)
# By so much is the Transformer said to be better than every earlier model (6.1).
BLEU_GAP = 2.0


def _labels(*names: str) -> tuple[str, ...]:
    return tuple(TRIALS[name].label for name in names)


def _order_claims() -> Iterator[Claim]:
    for better, worse, source in ORDERS:
        first, second = _labels(better, worse)
        for metric in (BLEU, PPL):
            yield Claim(
                id=f"budget.{better}_over_{worse}.{METRICS[metric].label}",
                cell=f"{first} against {second}",
                statement=f"At the same counted operations of training, {first} is better than {second}.",
                kind="order",
                metric=metric,
                trials=(better, worse),
                source=source,
            )


def _gap_claims() -> Iterator[Claim]:
    for rival in ("convs2s", "lstm_attention", "bytenet"):
        first, second = _labels("transformer", rival)
        yield Claim(
            id=f"budget.transformer_far_over_{rival}.bleu",
            cell=f"{first} against {second}",
            statement=f"At the same counted operations, {first} is more than {BLEU_GAP} BLEU above {second}.",
            kind="threshold",
            metric=BLEU,
            trials=("transformer", rival),
            source="section 6.1",
            expected=BLEU_GAP,
            bound=">",
        )


def _time_claims() -> Iterator[Claim]:
    """At equal operations, less of the paper's cost is less time: what recurrence keeps from running in parallel."""
    for rival in ("lstm_attention", "lstm"):
        first, second = _labels("transformer", rival)
        yield Claim(
            id=f"budget.transformer_under_{rival}.timed",
            cell=f"{first} against {second}, training time",
            statement=f"For the same counted operations, {first} takes less time than {second}.",
            kind="order",
            metric="timed_flops",
            trials=("transformer", rival),
            source="sections 1 and 2",
        )


def parameters_ratio(name: str, scale: Scale) -> float:
    """Parameters of an architecture over the Transformer's."""
    return num_parameters(TRIALS[name].config(scale).model) / num_parameters(scale.base.model)


def cost_ratio(name: str, scale: Scale) -> float:
    """Counted operations of an architecture's training over the budget."""
    config = TRIALS[name].config(scale)
    return training_flops(config.model, config.train, scale.sentence_pieces) / scale.budget_flops


def _fairness_claims() -> Iterator[Claim]:
    """That the budget is one, at the paper's sizes; tests hold it at the others."""
    for name, trial in TRIALS.items():
        if name == "transformer":
            continue
        for label, what, compute, margin in (
            ("parameters", "parameters", parameters_ratio, PARAMETERS_MARGIN),
            ("cost", "counted operations", cost_ratio, COST_MARGIN),
        ):
            yield computed(
                f"budget.{name}.same_{label}",
                f"{trial.label}, {what}",
                f"{trial.label} has the Transformer's {what}, up to {margin:.0%}.",
                "ratio",
                1.0,
                partial(compute, name, PAPER),
                tolerance=margin,
                source="ours",
                trials=(name,),
            )


STUDY = Study(
    name="budget",
    title="Every architecture under one budget",
    cells="section 6.1; Table 2",
    trials=tuple(TRIALS.values()),
    claims=(*_order_claims(), *_gap_claims(), *_time_claims(), *_fairness_claims()),
)
