"""What a workspace could do without: checkpoints that nobody needs, and what killed commands left behind.

Nothing of a finished run that its layout or its result names is ever in question, nor anything of a run that is under
way, nor a checkpoint that an unfinished run would go on from. What belongs to whom the run folders tell
(`results.run_folder`); which checkpoints are needed `core.checkpoint` says.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from results.ingest import find_runs
from results.run_folder import Attempt, RunFolder
from studies.runs import Workspace, code_version
from studies.scheduling.in_use import is_left_over, left_over_sessions

# Names under which files and folders are made before they are renamed; whoever finds one cannot know whose it is.
_UNFINISHED = re.compile(r"\.write-test-\d+|results\.duckdb\.building(\.wal)?|\..+\.(tmp|\d+|[0-9a-f]{8})")
# So long nobody writes one file, or renders one page.
_ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Waste:
    """One file or folder that can go: what it is, in words, and how much room it takes."""

    kind: str
    path: Path
    bytes: int


def find_waste(workspace: Workspace, other_code: bool = False, set_aside: bool = False) -> list[Waste]:
    """All that can go, by kind and place.

    Args:
        other_code: also the checkpoints of unfinished runs that other code began, which this code will not go on from.
        set_aside: also the runs that `--rerun` has put aside.
    """
    found = [waste for folder in find_runs(workspace.runs) for waste in _of_run(folder, other_code)]
    found += _sized("left by Ray", (*left_over_sessions(), *_experiments(workspace)))
    found += _sized("left by a report", _abandoned(Path(tempfile.gettempdir()).glob("aiayn-report-*")))
    places = (workspace.home, workspace.runs, workspace.site)
    begun = (path for place in places for path in _entries(place) if _UNFINISHED.fullmatch(path.name))
    found += _sized("never finished", _abandoned(begun))
    if set_aside:
        found += _sized("set aside by --rerun", _entries(workspace.runs / ".set-aside"))
    return sorted(found, key=lambda waste: (waste.kind, waste.path))


def remove(waste: Sequence[Waste]) -> int:
    """Delete these; returns how many bytes are free now. What another process removed first is no error.

    Raises:
        OSError: one cannot be removed.
    """
    freed = 0
    for each in waste:
        try:
            if each.path.is_dir() and not each.path.is_symlink():
                shutil.rmtree(each.path)
            else:
                each.path.unlink()
        except FileNotFoundError:
            continue
        freed += each.bytes
    return freed


def _of_run(folder: RunFolder, other_code: bool) -> Iterator[Waste]:
    status = folder.status()
    if status.status == "running" or status.damaged:  # who cannot be told what it is looks into it first
        return
    attempts = folder.attempts()
    if status.status == "done":
        yield from _unnamed_files(folder, attempts)
        return
    code = folder.record().code_version
    if status.status == "diverged":
        yield from _sized("checkpoint of a diverged run", _stale(attempts, keep=0))
    elif code != code_version():
        if other_code:
            yield from _sized("checkpoint that other code wrote", _glob(attempts, "checkpoints/*.pt"))
    else:
        yield from _sized("stale checkpoint", _stale(attempts))
        yield from _sized("checkpoint of an attempt that was overtaken", _repeated_members(attempts))
    yield from _sized("damaged checkpoint", _glob(attempts, "checkpoints/*.damaged"))
    yield from _sized("never finished", _glob(attempts, "**/.*.tmp"))


def _unnamed_files(folder: RunFolder, attempts: Sequence[Attempt]) -> Iterator[Waste]:
    """What a finished run's attempts hold that neither their layout nor the result names; of the last one, what only a
    restart would need.
    """
    named = {folder.path / artifact.path for artifact in folder.result().artifacts}
    for attempt in attempts:
        own = {path for path in vars(attempt).values() if isinstance(path, Path)} - {attempt.checkpoints}
        present = _entries(attempt.path) if attempt.number < attempts[-1].number else [attempt.checkpoints]
        paths = [path for path in present if path.exists() and path not in named | own]
        yield from _sized("left in an attempt of a finished run", paths)


def _stale(attempts: Sequence[Attempt], keep: int | None = None) -> list[Path]:
    from core.checkpoint import NEWEST_KEPT, stale_checkpoints

    scores = {step: nll for attempt in attempts for step, nll in attempt.logged("dev", "nll").items()}
    return stale_checkpoints([each.checkpoints for each in attempts], scores, NEWEST_KEPT if keep is None else keep)


def _repeated_members(attempts: Sequence[Attempt]) -> list[Path]:
    """Weights to be averaged that a later attempt has written again: of those its own are taken."""
    newest = {path.name: path for path in _glob(attempts, "checkpoints/member-*.pt")}
    return [path for path in _glob(attempts, "checkpoints/member-*.pt") if newest[path.name] != path]


def _glob(attempts: Sequence[Attempt], pattern: str) -> list[Path]:
    return [path for attempt in attempts for path in sorted(attempt.path.glob(pattern))]


def _experiments(workspace: Workspace) -> list[Path]:
    return [path for path in _entries(workspace.ray) if path.is_dir() and is_left_over(path)]


def _abandoned(paths: Iterable[Path]) -> list[Path]:
    """Those of this person's that nobody has touched for long."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            state = path.lstat()
            if state.st_uid == os.getuid() and state.st_mtime < time.time() - _ABANDONED_SECONDS:
                found.append(path)
    return found


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _sized(kind: str, paths: Iterable[Path]) -> list[Waste]:
    return [Waste(kind, path, _size(path)) for path in paths]


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else (path,)
    return sum(file.lstat().st_size for file in files if not file.is_dir())
