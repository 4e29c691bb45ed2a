"""Checkpoints: written whole or not at all, loaded safely, and only by the run that wrote them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# What torch says after it is about its own internals, or how to load code.
_FIRST_SENTENCE = re.compile(r"[^\n]+?(?=\.\s|\.?$)", re.MULTILINE)
_PREFIX, _SUFFIX = "step-", ".pt"


class CheckpointError(Exception):
    """A checkpoint that cannot be used; the message names the file and the reason."""


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


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write `folder/step-<number>.pt` and delete all but the newest `keep`; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_PREFIX}{checkpoint.step:08d}{_SUFFIX}"
    payload = {name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(checkpoint).items()}
    write_atomically(path, payload)
    for old in list_checkpoints(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of one folder by step number, the newest last (by number: 99 comes before 100)."""
    return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"), key=step_of)


def newest_checkpoint(folders: list[Path]) -> Path | None:
    """The checkpoint with the highest step in any of these folders; the later folder wins a tie."""
    found = [path for folder in folders for path in list_checkpoints(folder)]
    return max(enumerate(found), key=lambda item: (step_of(item[1]), item[0]))[1] if found else None


def step_of(path: Path, prefix: str = _PREFIX) -> int:
    """The number in a file's name."""
    return int(path.name.removeprefix(prefix).removesuffix(_SUFFIX))


def load_payload(
    path: Path, device: torch.device | str = "cpu", remedy: str = "delete it to go on from an older one"
) -> dict[str, Any]:
    """Load a file written by `write_atomically`; only tensors and plain values, never code.

    `remedy` is what to do about a damaged one.

    Raises:
        CheckpointError: the file is missing, torn, or holds something else.
    """
    try:
        payload = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist; run the trial first") from None
    except Exception as error:  # torch promises no kind: a damaged file shows as any of a dozen
        reason = _FIRST_SENTENCE.match(str(error))
        raise _unusable(path, reason[0] if reason else type(error).__name__, remedy) from error
    if not isinstance(payload, dict):
        raise _unusable(path, f"it holds a {type(payload).__name__}", remedy)
    return payload


def _unusable(path: Path, reason: str, remedy: str) -> CheckpointError:
    return CheckpointError(f"{path} is not a checkpoint that can be loaded safely ({reason}); {remedy}")


def load_checkpoint(path: Path, run: str) -> Checkpoint:
    """Load a checkpoint of this run.

    Raises:
        CheckpointError: unreadable, incomplete, or written by another run.
    """
    payload = load_payload(path)
    missing = {field for field in Checkpoint.__dataclass_fields__} - set(payload)
    if missing:
        raise CheckpointError(f"{path} lacks {', '.join(sorted(missing))}; delete it to go on from an older one")
    if payload["run"] != run:
        raise CheckpointError(f"{path} belongs to run {payload['run']}, not to {run}; it is not loaded")
    return Checkpoint(**payload)
