"""What a study is: one table or figure of the paper, its trials and its claims."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from core.config import RunConfig
from studies.claim import Claim
from studies.scales import Scale
from studies.work import TRAINING, TRAINS, SelfTraining, Work


def no_such(kind: str, name: str, known: Sequence[str], listing: str, within: str = "") -> ValueError:
    """The error for a name that does not exist: near names first, then where all of them are listed."""
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    close = f"; close: {', '.join(near)}" if near else ""
    where = f" in {within}" if within else ""
    return ValueError(f"no {kind} {name!r}{where}{close}; all: {listing}")


@dataclass(frozen=True)
class Trial:
    """One configuration that must be run: a change relative to the scale's base, so that it exists at every scale.

    `work` says what is done with it; what measures another trial's run has that trial's change. `base` is the
    configuration of a scale that is changed: of its translations, if nothing else is said. `to_budget`: it makes as
    many updates as the scale's budget of operations allows, whatever one costs, instead of base's.
    """

    name: str
    group: str
    label: str
    change: Callable[[RunConfig], RunConfig]
    work: Work = TRAINING
    base: Callable[[Scale], RunConfig] = attrgetter("base")
    to_budget: bool = False

    @property
    def trains(self) -> bool:
        """Whether it costs a training."""
        return isinstance(self.work, TRAINS)

    def config(self, scale: Scale) -> RunConfig:
        """The complete configuration at a scale."""
        config = self.change(self.base(scale))
        return scale.within_budget(config) if self.to_budget else config

    def work_at(self, scale: Scale) -> Work:
        """What is done at a scale: where a corpus of automatic trees is named, no first parser need make any."""
        if isinstance(self.work, SelfTraining) and self.config(scale).data.more_trees is not None:
            return TRAINING
        return self.work


@dataclass(frozen=True)
class Study:
    """One table, figure or section.

    `awaited` names trials that its claims are about and that this version cannot run yet: such a claim is `not run`.
    """

    name: str
    title: str
    cells: str
    trials: tuple[Trial, ...]
    claims: tuple[Claim, ...]
    awaited: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [trial.name for trial in self.trials]
        ids = [claim.id for claim in self.claims]
        for kind, values in (("trial", [*names, *self.awaited]), ("claim", ids)):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"study {self.name} has {kind} {twice[0]!r} twice")
        wanted = {name for claim in self.claims for name in claim.trials}
        for claim in self.claims:
            unknown = [name for name in claim.trials if name not in names and name not in self.awaited]
            if unknown:
                raise ValueError(f"claim {claim.id} names trial {unknown[0]!r}, which study {self.name} does not have")
            works = [trial.work for trial in self.trials if trial.name in claim.trials]
            if claim.compute is None and works and claim.own_sizes != all(work.full_size for work in works):
                raise ValueError(f"claim {claim.id}: own_sizes={claim.own_sizes}, and its trials are otherwise")
        idle = [name for name in self.awaited if name not in wanted]
        if idle:
            raise ValueError(f"study {self.name} awaits trial {idle[0]!r}, which no claim is about")

    def awaited_by(self, claim: Claim) -> tuple[str, ...]:
        """The trials that a claim is about and that this version cannot run yet."""
        return tuple(name for name in claim.trials if name in self.awaited)

    def trial(self, name: str) -> Trial:
        """The trial of that name.

        Raises:
            ValueError: no such trial; the message has near names.
        """
        for trial in self.trials:
            if trial.name == name:
                return trial
        raise no_such(
            "trial", name, [trial.name for trial in self.trials], f"aiayn list {self.name}", within=f"study {self.name}"
        )
