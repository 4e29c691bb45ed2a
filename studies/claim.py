"""What a claim is: one checkable statement of the paper, tied to its cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["value", "order", "difference", "exact", "exponent", "threshold"]
Bound = Literal["<", "<=", ">", ">="]


@dataclass(frozen=True)
class Metric:
    """A number that claims are about; `lower_is_better` is None where neither direction is better.

    `counted`: a whole number that is the same for every seed, so that one run decides, unless runs differ in it after
    all.
    """

    label: str
    unit: str
    lower_is_better: bool | None
    counted: bool = False


METRICS = {
    # Scores of a run, by the name under which its result holds them.
    "dev_bleu": Metric("bleu", "BLEU", lower_is_better=False),
    "test_bleu": Metric("bleu", "BLEU", lower_is_better=False),
    "dev_bleu_paper": Metric("bleu", "BLEU", lower_is_better=False),
    "test_bleu_paper": Metric("bleu", "BLEU", lower_is_better=False),
    "dev_ppl": Metric("ppl", "perplexity", lower_is_better=True),
    "counted_flops": Metric("counted", "FLOPs", lower_is_better=True, counted=True),
    "timed_flops": Metric("timed", "FLOPs", lower_is_better=True),
    "test_f1": Metric("f1", "F1", lower_is_better=False),
    # Scores of probes: a layer's growth, a head's attention, a machine's time, a corpus's size.
    "flops_exponent": Metric("flops", "power", lower_is_better=True, counted=True),
    "flops_difference": Metric("flops", "of the closed form", lower_is_better=True, counted=True),
    "flops_ratio": Metric("flops", "times", lower_is_better=True, counted=True),
    "time_exponent": Metric("time", "power", lower_is_better=True),
    "steps_exponent": Metric("steps", "power", lower_is_better=True, counted=True),
    "path_exponent": Metric("path", "power", lower_is_better=True, counted=True),
    "path_length": Metric("path", "layers", lower_is_better=True, counted=True),
    "time_ratio": Metric("time", "times", lower_is_better=True),
    "memory_ratio": Metric("memory", "times", lower_is_better=True, counted=True),
    "variance_exponent": Metric("variance", "power", lower_is_better=None),
    "gradient_exponent": Metric("gradient", "power", lower_is_better=None),
    "output_difference": Metric("difference", "", lower_is_better=True, counted=True),
    "recall_accuracy": Metric("accuracy", "%", lower_is_better=False),
    "longer_accuracy": Metric("accuracy", "%", lower_is_better=False),
    "embedding_scale": Metric("scale", "times", lower_is_better=None, counted=True),
    "step_seconds": Metric("seconds", "s an update", lower_is_better=True),
    "num_heads_attending": Metric("heads", "heads", lower_is_better=None),
    "attention_share": Metric("share", "of the weight", lower_is_better=None),
    "head_distance": Metric("distance", "total variation", lower_is_better=None),
    "far_heads": Metric("heads", "heads", lower_is_better=None),
    "far_heads_over_shuffled": Metric("heads", "heads", lower_is_better=None),
    "far_head_over_offset": Metric("hits", "of the verbs", lower_is_better=None),
    "antecedent_share": Metric("share", "of the weight", lower_is_better=None),
    "antecedent_over_shuffled": Metric("share", "of the weight", lower_is_better=None),
    "antecedent_over_offset": Metric("hits", "of the pronouns", lower_is_better=None),
    "antecedent_sharpness": Metric("sharpness", "bits", lower_is_better=None),
    "mean_head_distance": Metric("distance", "total variation", lower_is_better=None),
    "relations_covered": Metric("relations", "relations", lower_is_better=None),
    "relation_heads": Metric("heads", "heads", lower_is_better=None),
    "relation_heads_over_shuffled": Metric("heads", "heads", lower_is_better=None),
    "num_items": Metric("items", "items", lower_is_better=None, counted=True),
    # Scores of capability probes: whether a model has a property.
    **{
        f"has_{name}": Metric("cell", "(1 = has it)", lower_is_better=None, counted=True)
        for name in ("order", "context", "length", "output", "recall", "marked", "parallel")
    },
    # Numbers that are computed from the paper's sizes alone.
    "params_millions": Metric("params", "million", lower_is_better=None),
    "training_flops": Metric("flops", "FLOPs", lower_is_better=True),
    "training_hours": Metric("hours", "h", lower_is_better=True),
    "training_days": Metric("days", "days", lower_is_better=True),
    "exponent": Metric("exponent", "power", lower_is_better=None),
    "ratio": Metric("ratio", "times", lower_is_better=None),
    "number": Metric("number", "", lower_is_better=None),
    "printed_bleu": Metric("bleu", "BLEU", lower_is_better=None),
    "printed_ppl": Metric("ppl", "perplexity", lower_is_better=None),
    "printed_f1": Metric("f1", "F1", lower_is_better=None),
    "learning_rate": Metric("rate", "", lower_is_better=None),
    "variance": Metric("variance", "", lower_is_better=None),
    "wavelength": Metric("wavelength", "positions", lower_is_better=None),
    "residual": Metric("residual", "", lower_is_better=None),
}
"""By the name under which a run's scores hold a measured number, or a claim its computed one."""


@dataclass(frozen=True)
class Budget:
    """What a training may use: about this many word pieces an update on either side, and this many updates (5.1, 5.2).

    One GPU with 4,096 tokens an update is another budget, and the paper's numbers are not about it.
    """

    source_tokens: int
    target_tokens: int
    train_steps: int


@dataclass(frozen=True)
class Identity:
    """What a measurement must be for the printed number to be about it.

    Attributes:
        dataset: `corpus/split/src-tgt`, as scores have it.
        num_items: its lines or sentences.
        protocol: the fields that the score's signature must have, `name:value|name:value`; it may have more.
        budgets: of the training behind the number, one for each of the claim's trials.
        scale: the scale whose sizes the number is about.
    """

    dataset: str
    num_items: int
    protocol: str
    budgets: tuple[Budget, ...]
    scale: str = "paper"

    def missing_fields(self, signature: str) -> tuple[str, ...]:
        """The fields of the protocol that a score's signature does not have; none if it was scored by this protocol."""
        return tuple(entry for entry in self.protocol.split("|") if entry not in signature.split("|"))


@dataclass(frozen=True)
class Claim:
    """One statement, decided by `studies.verdict`.

    Attributes:
        id: names the cell, `table3.a.h1.bleu`.
        cell: where it stands, in words.
        statement: what is claimed, in one sentence of ours.
        kind: `value`: the metric of one trial lies within `tolerance` of `expected`. `order`: the first trial is better
            than the second. `difference`: first minus second lies within `tolerance` of `expected`. `threshold`: the
            metric of one trial, or first minus second of two, lies on the side of `expected` that `bound` names.
            `exponent`: with what power the metric of one trial grows lies within `tolerance` of `expected`.
            `exact`: a number that follows from the paper's sizes alone lies within `tolerance` of `expected`.
        metric: name of the score that is compared, or of the computed number.
        trials: what it is about: the trial or the two trials whose runs are measured, or none.
        source: section or table, and the version of the paper where versions differ.
        identity: what a measurement must be to be compared with `expected`: one trial's value, or the threshold that it
            crosses, means nothing elsewhere. What compares two trials is decided at a smaller scale too, on its data;
            at `identity.scale` it needs this identity.
        compute: gives the number that follows from the paper's sizes, at once and without a run. An exact claim has
            it always, a threshold or an exponent instead of trials that are measured.
        reading: where the paper contradicts itself, which of its readings this is.
        misquote: often said of the paper and not what it says: the claim should fail.
        quoted: another system's published number, which no run of ours measures.
        own_sizes: its trials have sizes of their own (`Work.full_size`), so that it means the same at every scale.
    """

    id: str
    cell: str
    statement: str
    kind: Kind
    metric: str
    trials: tuple[str, ...]
    source: str
    expected: float | None = None
    tolerance: float | None = None
    bound: Bound | None = None
    identity: Identity | None = None
    compute: Callable[[], float] | None = field(default=None, compare=False, repr=False)
    reading: str = ""
    misquote: bool = False
    quoted: bool = False
    own_sizes: bool = False

    def __post_init__(self) -> None:
        wrong = self._fault()
        if wrong:
            raise ValueError(f"claim {self.id}: {wrong}")

    def _fault(self) -> str | None:
        """What makes this claim impossible to decide; None if nothing."""
        if self.metric not in METRICS:
            return f"no metric {self.metric!r}; known: {', '.join(METRICS)}"
        if self.quoted:
            if self.kind != "value" or self.trials or self.compute or self.expected is None:
                return "a quoted number is a value with no trial, no tolerance and nothing computed"
            return None
        wanted = _NUM_TRIALS[self.kind]
        if self.compute is not None:
            if self.kind not in ("exact", "exponent", "threshold"):
                return f"kind {self.kind} is measured, not computed"
            wanted = (0, 1)
        elif self.kind == "exact":
            return "kind exact needs a computed number"
        if len(self.trials) not in wanted:
            return f"kind {self.kind} is about {' or '.join(map(str, wanted))} trial(s), not {len(self.trials)}"
        if self.kind == "order" and METRICS[self.metric].lower_is_better is None:
            return f"neither direction of {self.metric} is better, so there is no order"
        if (self.kind == "threshold") != (self.bound is not None):
            return "a threshold, and only a threshold, has a bound"
        if self.kind == "threshold" and self.expected is None:
            return "kind threshold needs an expected value, the one that is not crossed"
        if self.kind in ("value", "difference", "exact", "exponent"):
            if self.expected is None or self.tolerance is None:
                return f"kind {self.kind} needs an expected value and a tolerance"
        elif self.tolerance is not None:
            return f"kind {self.kind} has no tolerance"
        if self.identity is not None and len(self.identity.budgets) != len(self.trials):
            return f"{len(self.identity.budgets)} budget(s) for {len(self.trials)} trial(s)"
        return None

    @property
    def unit(self) -> str:
        """What `expected`, `tolerance` and the measured value are in."""
        return METRICS[self.metric].unit

    @property
    def full_size(self) -> bool:
        """Whether it is about the paper's own sizes alone, so that no smaller scale has anything to say about it."""
        return self.quoted or self.own_sizes or self.compute is not None


_NUM_TRIALS: dict[str, tuple[int, ...]] = {
    "value": (1,),
    "order": (2,),
    "difference": (2,),
    "exact": (0, 1),
    "exponent": (1,),
    "threshold": (1, 2),
}
