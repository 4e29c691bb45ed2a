"""Folders that a command needs while it lives, and which of them were left over by one that was killed."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The path of a socket may have about 100 characters, and the system's temporary folder is sometimes a long one.
_SHORT_FOLDER = "/tmp"
SESSION_PREFIX = "aiayn-ray-"

_MARK = ".in-use"
# Between making a folder and marking it.
_UNMARKED_SECONDS = 60.0


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Mark a folder as one that a command needs; the kernel takes the mark from a process that dies."""
    with (folder / _MARK).open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield


def is_left_over(folder: Path) -> bool:
    """Whether no living command needs a folder that was marked by `in_use`."""
    try:
        with (folder / _MARK).open() as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _UNMARKED_SECONDS
    except BlockingIOError:
        return False
    return True


def left_over_sessions() -> list[Path]:
    """Temporary folders of this person's local Rays whose command has died."""
    place = Path(folder_for_sessions() or tempfile.gettempdir())
    found = (path for path in place.glob(f"{SESSION_PREFIX}*") if path.is_dir() and path.stat().st_uid == os.getuid())
    return sorted(path for path in found if is_left_over(path))


def folder_for_sessions() -> str | None:
    """Where the temporary folders of local Rays lie; None is the system's usual place."""
    return _SHORT_FOLDER if os.access(_SHORT_FOLDER, os.W_OK) else None
