"""What a trial is given: how many processes train it together, and with how many cores and GPUs each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from studies.runs import PlannedRun
from studies.scales import Scale


@dataclass(frozen=True)
class Resources:
    """What one trial is given, all of it on one machine: `ranks` processes that train together.

    Attributes:
        cpus: cores, and torch threads, of each rank.
        gpus: of the trial; each rank has one.
        cpu_ranks: ranks of a trial without GPUs.
    """

    cpus: int
    gpus: int
    cpu_ranks: int = 1

    def __post_init__(self) -> None:
        if self.gpus and self.cpu_ranks > 1:
            raise ValueError(
                f"a trial on {self.gpus} GPUs has as many ranks, not {self.cpu_ranks} on cores; use one of the two"
            )

    @property
    def ranks(self) -> int:
        """Processes that train the trial together."""
        return self.gpus or self.cpu_ranks

    @property
    def bundle(self) -> dict[str, int]:
        """What one rank takes, as Ray counts it."""
        return {"CPU": self.cpus} | ({"GPU": 1} if self.gpus else {})


@dataclass(frozen=True)
class Sizes:
    """The resources of trials, where they are not to be the scale's.

    Attributes:
        gpus: of every trial.
        gpus_of: of single trials, by name, so that small and large ones share a machine.
        cpu_ranks: ranks of every trial on cores. It is a number of its own, since 8 GPUs are 8 ranks already, while
            cores are shared out by hand: a rank keeps the scale's cores, on which the last digit of a sum depends.
    """

    gpus: int | None = None
    gpus_of: Mapping[str, int] = field(default_factory=dict)
    cpu_ranks: int = 1

    @classmethod
    def parse(cls, gpus_per_trial: Sequence[str], cpu_ranks: int = 1) -> Sizes:
        """From texts such as `4` for all trials and `big=8` for one.

        Raises:
            ValueError: another text, or two numbers for the same.
        """
        gpus: dict[str, int] = {}
        for text in gpus_per_trial:
            trial, _, number = text.rpartition("=")
            if not number.isdecimal():
                raise ValueError(f"--gpus-per-trial {text!r}: give a number for all trials, or TRIAL=NUMBER")
            if trial in gpus:
                raise ValueError(f"--gpus-per-trial has two numbers for {trial or 'all trials'}; give one")
            gpus[trial] = int(number)
        return cls(gpus.pop("", None), gpus, cpu_ranks)

    def require_asked(self, trials: Collection[str]) -> None:
        """Raise ValueError where a single trial's number is of none of these, which are asked for."""
        unknown = sorted(set(self.gpus_of).difference(trials))
        if unknown:
            raise ValueError(
                f"--gpus-per-trial names {unknown[0]!r}, which is none of the trials asked for; see: aiayn list"
            )

    def of(self, run: PlannedRun, scale: Scale) -> Resources:
        """A run's. One that trains nothing looks at a model, for which a rank on cores does."""
        if not run.trains:
            return Resources(scale.cpus_per_trial, 0)
        everywhere = scale.gpus_per_trial if self.gpus is None else self.gpus
        gpus = self.gpus_of.get(run.record.trial, everywhere)
        return Resources(scale.cpus_per_trial, gpus, self.cpu_ranks)


Job = tuple[PlannedRun, Resources]
"""A run and what it is given."""
