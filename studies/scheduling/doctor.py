"""Checks of the machine and the workspace, each with what to do where it fails."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from core.data import corpora
from core.data.corpus import DataError
from results.errors import ResultsError
from results.query import query
from results.store import Store
from studies.runs import Workspace

LEAST_FREE_GIB = 2.0


@dataclass(frozen=True)
class Finding:
    """One check: whether it passed, what was found, and what to do if it did not."""

    check: str
    ok: bool
    found: str
    advice: str = ""


def examine(workspace: Workspace) -> list[Finding]:
    """All checks, in the order in which a failure would stop a run. A check that breaks is itself a finding."""
    checks: dict[str, Callable[[], Finding]] = {
        "python": _python,
        "torch": _torch,
        "gpu": _gpu,
        "ray": _ray,
        "home": lambda: _home(workspace),
        "disk": lambda: _disk(workspace),
        "database": lambda: _database(workspace),
        "data": lambda: _data(workspace),
        "notebook kernel": _kernel,
    }
    return [_run(name, check) for name, check in checks.items()]


def _run(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        finding = check()
        return replace(finding, advice="") if finding.ok else finding
    except Exception as error:  # noqa: BLE001 - whatever breaks here is what the person asked to be told
        return Finding(
            name, False, f"{type(error).__name__}: {error}", "install the project anew: make clean reproduce"
        )


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), version, "use Python 3.11 or newer")


def _torch() -> Finding:
    import torch

    product = torch.ones(2, 2) @ torch.ones(2, 2)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding(
        "torch", bool((product == 2).all()), f"{torch.__version__}, {cores} cores, {torch.get_num_threads()} threads"
    )


def _gpu() -> Finding:
    import torch

    if not torch.cuda.is_available():
        return Finding("gpu", True, "none; scales smoke and small run on the CPU")
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return Finding("gpu", True, ", ".join(names))


def _ray() -> Finding:
    from studies.scheduling.ray_session import ray_session

    with ray_session(None):
        import ray

        resources = ray.cluster_resources()
    cpus, gpus = resources.get("CPU", 0), resources.get("GPU", 0)
    return Finding("ray", True, f"{metadata.version('ray')}, starts here with {cpus:g} CPUs and {gpus:g} GPUs")


def _home(workspace: Workspace) -> Finding:
    try:
        # By trying: the superuser is told yes by the permissions of places that take nothing.
        with tempfile.TemporaryDirectory(prefix=".aiayn-", dir=_nearest(workspace.home)):
            pass
    except OSError as error:
        advice = "choose a folder that you may write with --home"
        return Finding("home", False, f"{workspace.home} cannot be written ({error.strerror})", advice)
    return Finding("home", True, str(workspace.home))


def _nearest(folder: Path) -> Path:
    """The folder, or what is there of the path to it."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _disk(workspace: Workspace) -> Finding:
    free = shutil.disk_usage(_nearest(workspace.home)).free / 2**30
    return Finding("disk", free >= LEAST_FREE_GIB, f"{free:.1f} GiB free", "free some space, or choose another --home")


def _database(workspace: Workspace) -> Finding:
    if not workspace.database.exists():
        return Finding("database", True, "none yet; the first run makes it")
    try:
        runs = query(Store(workspace.home), "SELECT count(*) AS runs FROM runs").to_pylist()[0]["runs"]
    except ResultsError as error:
        return Finding("database", False, str(error), "aiayn query --rebuild")
    return Finding("database", True, f"{runs} runs")


def _data(workspace: Workspace) -> Finding:
    damaged: list[DataError] = []
    states = [f"{corpus.name}: {state}" for corpus, state in corpora.known(workspace.data, damaged.append)]
    return Finding("data", not damaged, "; ".join(states), "; ".join(map(str, damaged)))


def _kernel() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager

    spec = KernelSpecManager().get_kernel_spec("python3")
    ok = shutil.which(spec.argv[0]) is not None
    return Finding("notebook kernel", ok, f"python3 ({spec.argv[0]})", "install ipykernel into this environment")
