"""The source that a cluster's workers run: a copy of this project's own files and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("core", "results", "studies", "reports")
_MODULE = "aiayn.py"


def copy_source(folder: Path) -> Path:
    """Put the project's modules and packages, with the files that lie in them, into an empty `folder`.

    What is beside them, such as a workspace, data or an environment, is never looked at, so no list of what to leave
    out can be incomplete. The same source gives the same files, which Ray then ships to a node once.
    """
    for package in _PACKAGES:
        shutil.copytree(_ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(_ROOT / _MODULE, folder)
    return folder
