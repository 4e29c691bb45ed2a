"""Where a number came from: machine, versions, commit; and the hashes that name a run."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "ray", "duckdb", "sacrebleu", "sacremoses", "tokenizers", "numpy")
SOURCE_ROOT = Path(__file__).resolve().parent.parent
COMMAND_SECONDS = 20.0
# In the environment of a copy without a repository: `git_state` of the original, as JSON.
GIT_STATE_VARIABLE = "AIAYN_GIT_STATE"


def collect() -> dict[str, Any]:
    """The machine and software of this process, ready for JSON. Imports none of the packages it asks about.

    Keys: those of `machine`; gpus [name, ...], all that there are; git_commit and dirty (None where unknown).
    """
    return {**machine(), "gpus": list(_gpus()), **git_state()}


@functools.cache
def machine() -> Mapping[str, Any]:
    """What this process runs on, without its GPUs: host, platform, hardware {cpu, cores, memory_gib}, versions {python,
    torch, ...; None where not installed}.
    """
    return {
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "hardware": {"cpu": cpu_model(), "cores": os.cpu_count(), "memory_gib": _memory_gib()},
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_model() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _output(command: Sequence[str]) -> str | None:
    """What a command printed, or None where it is absent, fails or hangs."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@functools.cache
def _gpus() -> tuple[str, ...]:
    # The driver's own tool, since asking torch would import it.
    names = _output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return tuple(names.splitlines()) if names else ()


def git_state() -> dict[str, Any]:
    """The checkout's git_commit, and whether it is dirty; of a copy that was shipped elsewhere, the original's."""
    # Only a checkout of this very tree counts: an installed copy may lie inside somebody else's repository.
    if not (SOURCE_ROOT / ".git").exists():
        return {"git_commit": None, "dirty": None} | json.loads(os.environ.get(GIT_STATE_VARIABLE, "{}"))
    git = ["git", "-C", str(SOURCE_ROOT)]
    commit = _output([*git, "rev-parse", "--verify", "HEAD"])
    changes = _output([*git, "status", "--porcelain"])
    return {"git_commit": commit, "dirty": None if changes is None else bool(changes)}


def code_version(roots: Sequence[Path]) -> str:
    """12 hex characters that change with any *.py under the given files and folders, and with nothing else.

    Paths are taken relative to each root's parent, so two checkouts of one commit agree.

    Raises:
        ValueError: a root does not exist, or none holds any Python source.
    """
    sources: dict[str, Path] = {}
    for root in map(Path, roots):
        if not root.exists():
            raise ValueError(f"no source at {root}; code_version needs existing files or folders")
        for path in [root] if root.is_file() else root.rglob("*.py"):
            sources[path.relative_to(root.parent).as_posix()] = path
    if not sources:
        raise ValueError(f"no Python source under {', '.join(map(str, roots))}")
    digest = hashlib.sha256()
    for name in sorted(sources):
        content = sources[name].read_bytes()
        # The lengths keep a byte from moving between name and content unnoticed.
        digest.update(f"{len(name)} {name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def run_id(
    study: str,
    trial: str,
    seed: int,
    scale: str,
    config: Mapping[str, Any],
    data_fingerprint: str,
    code_version: str,
) -> str:
    """12 hex characters that name a run: the same inputs always give the same id, other inputs another.

    `config` is the resolved configuration as plain JSON values; NaN in it raises ValueError.
    """
    identity = {
        "study": study,
        "trial": trial,
        "seed": seed,
        "scale": scale,
        "config": config,
        "data_fingerprint": data_fingerprint,
        "code_version": code_version,
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]
