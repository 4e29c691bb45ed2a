"""Checkpoints: written whole or not at all, loaded safely, only by the run that wrote them, and removed by rule.

A run keeps the newest ones, so that a damaged one has another before it, and the one that did best on the development
set, which is what is left to look into when the run diverges. The weights that are to be averaged are files of their
own (`core.averaging`), all of which are needed to the end.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# What torch says after it is about its own internals, or how to load code.
_FIRST_SENTENCE = re.compile(r"[^\n]+?(?=\.\s|\.?$)", re.MULTILINE)
_PREFIX, _SUFFIX = "step-", ".pt"
# What a damaged checkpoint's name ends in once it was passed over.
DAMAGED_SUFFIX = ".damaged"
NEWEST_KEPT = 2


class CheckpointError(Exception):
    """A checkpoint that cannot be used; the message names the file and the reason."""


class DamagedCheckpointError(CheckpointError):
    """The file itself is at fault, so that an older one may do."""


@dataclass(frozen=True)
class Checkpoint:
    """All that is needed to go on as if nothing had happened.

    `progress` holds plain numbers, nested: the place in the data, training seconds, sums of the open logging window.
    `random` holds generator states as byte tensors, by device.
    """

    run: str
    step: int
    config: Mapping[str, Any]
    model: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, Any]
    progress: Mapping[str, Any]
    random: Mapping[str, torch.Tensor]


def write_atomically(path: Path, payload: Mapping[str, Any]) -> None:
    """torch.save to a temporary name, flushed to disk, then renamed: a reader sees all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save(dict(payload), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save_checkpoint(
    folder: Path,
    checkpoint: Checkpoint,
    keep: int = NEWEST_KEPT,
    earlier: Sequence[Path] = (),
    scores: Mapping[int, float] | None = None,
) -> Path:
    """Write `folder/step-<number>.pt` and delete the stale ones of `folder` and `earlier`; returns the path.

    Args:
        earlier: the folders of the attempts before this one, oldest first.
        scores: see `stale_checkpoints`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_PREFIX}{checkpoint.step:08d}{_SUFFIX}"
    payload = {name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(checkpoint).items()}
    write_atomically(path, payload)
    for old in stale_checkpoints([*earlier, folder], scores or {}, keep):
        old.unlink(missing_ok=True)
    return path


def stale_checkpoints(folders: Sequence[Path], scores: Mapping[int, float], keep: int = NEWEST_KEPT) -> list[Path]:
    """What nobody needs of a run's checkpoints: all but the newest `keep` and the best.

    Args:
        folders: those of the run's attempts, oldest first.
        scores: the development set's cross-entropy after updates where it was evaluated; less is better, and the best
            is that of the checkpoints that are still there. Empty: none is best.
    """
    found = newest_first(folders)
    finite = [(scores[step_of(path)], path) for path in found if math.isfinite(scores.get(step_of(path), math.nan))]
    best = min(finite, key=lambda scored: scored[0], default=(None, None))[1]
    return [path for path in found[keep:] if path != best]


def newest_first(folders: Iterable[Path]) -> list[Path]:
    """All checkpoints of these folders, the highest step first; of the same step that of the later folder."""
    found = [(step_of(path), place, path) for place, folder in enumerate(folders) for path in list_checkpoints(folder)]
    return [path for *_, path in sorted(found, reverse=True)]


def pass_over(path: Path) -> None:
    """Take a damaged checkpoint out of the way of the older ones; the file stays, under another name."""
    path.replace(path.with_name(path.name + DAMAGED_SUFFIX))


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of one folder by step number, the newest last (by number: 99 comes before 100)."""
    return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"), key=step_of)


def step_of(path: Path, prefix: str = _PREFIX) -> int:
    """The number in a file's name."""
    return int(path.name.removeprefix(prefix).removesuffix(_SUFFIX))


def load_payload(
    path: Path, device: torch.device | str = "cpu", remedy: str = "go on from an older one"
) -> dict[str, Any]:
    """Load a file written by `write_atomically`; only tensors and plain values, never code.

    `remedy` is what to do where it is missing or damaged.

    Raises:
        CheckpointError: the file is missing.
        DamagedCheckpointError: it is torn, or holds something else.
    """
    try:
        payload = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; {remedy}") from None
    except Exception as error:  # torch promises no kind: a damaged file shows as any of a dozen
        said = _FIRST_SENTENCE.match(str(error))
        # A lone number or name is of the unpickler's inside, and tells a person nothing.
        reason = said[0] if said and " " in said[0] else "it is empty, cut, or something else"
        raise _unusable(path, reason, remedy) from error
    if not isinstance(payload, dict):
        raise _unusable(path, f"it holds a {type(payload).__name__}", remedy)
    return payload


def _unusable(path: Path, reason: str, remedy: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(f"{path} is not a checkpoint that can be loaded safely ({reason}); {remedy}")


def load_checkpoint(path: Path, run: str) -> Checkpoint:
    """Load a checkpoint of this run.

    Raises:
        DamagedCheckpointError: unreadable or incomplete.
        CheckpointError: missing, or written by another run.
    """
    payload = load_payload(path)
    missing = {field for field in Checkpoint.__dataclass_fields__} - set(payload)
    if missing:
        lacking = ", ".join(sorted(missing))
        raise DamagedCheckpointError(f"{path} lacks {lacking}; go on from an older one")
    if payload["run"] != run:
        raise CheckpointError(f"{path} belongs to run {payload['run']}, not to {run}; it is not loaded")
    return Checkpoint(**payload)
