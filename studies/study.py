"""What a study is: one table or figure of the paper, its trials and its claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.config import RunConfig
from studies.claim import Claim
from studies.scales import Scale


@dataclass(frozen=True)
class Trial:
    """One configuration that must be run: a change relative to the scale's base, so that it exists at every scale."""

    name: str
    group: str
    label: str
    change: Callable[[RunConfig], RunConfig]

    def config(self, scale: Scale) -> RunConfig:
        """The complete configuration at a scale."""
        return self.change(scale.base)


@dataclass(frozen=True)
class Study:
    """One table or figure.

    `computed` holds, by claim id, the numbers of exact claims: functions of the paper's own sizes, which need no run.
    """

    name: str
    title: str
    cells: str
    trials: tuple[Trial, ...]
    claims: tuple[Claim, ...]
    computed: Mapping[str, Callable[[], float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [trial.name for trial in self.trials]
        ids = [claim.id for claim in self.claims]
        for kind, values in (("trial", names), ("claim", ids)):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"study {self.name} has {kind} {twice[0]!r} twice")
        for claim in self.claims:
            unknown = [name for name in claim.trials if name not in names]
            if unknown:
                raise ValueError(f"claim {claim.id} names trial {unknown[0]!r}, which study {self.name} does not have")
            if (claim.kind == "exact") != (claim.id in self.computed):
                raise ValueError(f"claim {claim.id}: exact claims, and only they, need a computed number")

    def trial(self, name: str) -> Trial:
        """The trial of that name.

        Raises:
            ValueError: no such trial; the message has near names.
        """
        from studies.registry import no_such

        for trial in self.trials:
            if trial.name == name:
                return trial
        raise no_such(
            "trial", name, [trial.name for trial in self.trials], f"aiayn list {self.name}", within=f"study {self.name}"
        )
