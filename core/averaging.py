"""The mean of the last checkpoints' weights, which is what the paper scores (section 6.1).

Members are the weights alone, written at updates that the configuration fixes beforehand, so that they do not depend
on how fast a machine is: the paper's ten minutes are 1,500 updates of base at its 0.4 s, 600 of big at 1.0 s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from core.checkpoint import CheckpointError, load_payload, step_of, write_atomically
from core.config import TrainConfig

_PREFIX = "member-"


@dataclass(frozen=True)
class Member:
    """One set of weights that is averaged: the update after which it was taken, and its file's sha256."""

    step: int
    sha256: str


@dataclass(frozen=True)
class Average:
    """Averaged weights by name, in the dtypes of the members, and what went into them, oldest first."""

    weights: Mapping[str, Tensor]
    members: tuple[Member, ...]


def member_steps(plan: TrainConfig) -> tuple[int, ...]:
    """The updates after which a member is written, in order; none where nothing is averaged."""
    if plan.average_last == 1:
        return ()
    return tuple(plan.train_steps - back * plan.average_every_steps for back in reversed(range(plan.average_last)))


def save_member(folder: Path, run: str, step: int, weights: Mapping[str, Tensor]) -> Path:
    """Write `folder/member-<step>.pt`, whole or not at all; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_PREFIX}{step:08d}.pt"
    write_atomically(path, {"run": run, "step": step, "model": dict(weights)})
    return path


def find_members(folders: Sequence[Path], steps: Sequence[int]) -> list[Path]:
    """The members of these updates, in their order, from a run's attempts, oldest attempt first.

    An update that was done again after a restart has a member in both attempts; the later attempt's is taken, since it
    is the one that the run went on from.

    Raises:
        CheckpointError: a member is missing; an average of fewer is another number, and is not made.
    """
    found = {step_of(path, _PREFIX): path for folder in folders for path in folder.glob(f"{_PREFIX}*.pt")}
    missing = [step for step in steps if step not in found]
    if missing:
        raise CheckpointError(
            f"the weights after update {', '.join(f'{step:,}' for step in missing)} are missing, so the last "
            f"{len(steps)} checkpoints cannot be averaged; run it again from the beginning with --rerun"
        )
    return [found[step] for step in steps]


def average_members(paths: Sequence[Path], run: str) -> Average:
    """The mean of each weight over these files, summed in float64; what is no floating number is the last one's.

    Raises:
        CheckpointError: a file is damaged, of another run, or has other weights than the first.
    """
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    members = []
    for path in paths:
        payload = load_payload(path, remedy="run it again from the beginning with --rerun")
        if payload.get("run") != run:
            raise CheckpointError(f"{path} belongs to run {payload.get('run')}, not to {run}; it is not averaged")
        weights = payload["model"]
        if last and _kinds(weights) != _kinds(last):
            raise CheckpointError(f"{path} has other weights than {paths[0]}; they are not averaged")
        last = weights
        for name, value in weights.items():
            if value.is_floating_point():
                sums[name] = sums[name] + value.double() if name in sums else value.double()
        members.append(Member(payload["step"], _sha256(path)))
    averaged = {name: (sums[name] / len(paths)).to(value.dtype) if name in sums else value
                for name, value in last.items()}  # fmt: skip
    return Average(averaged, tuple(members))


def _kinds(weights: Mapping[str, Tensor]) -> dict[str, tuple]:
    return {name: (tuple(value.shape), value.dtype) for name, value in weights.items()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
