"""One local Ray, quiet and private, for the time of a command; or a connection to a cluster.

The environment is set before ray is imported, which is here and nowhere else.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from results import provenance
from studies.scheduling.in_use import SESSION_PREFIX, folder_for_sessions, in_use
from studies.scheduling.interrupts import interrupts_held, sigterm_in_order
from studies.scheduling.source import copy_source

# The memory that a training step frees is kept for the next one; glibc would give it back and fault it in again, which
# costs a third of the time at small sizes.
MEMORY_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(2**26),
}


class ClusterError(ValueError):
    """The cluster that was named cannot be reached."""


_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # with it verbose=0 prints nothing
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # metrics are in the run folders
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # with it Ctrl-C looks like an end, and what is done is in the run folders
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # without it a trial that asked for no GPU sees all of them
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    # On a busy machine Ray's own processes take longer to start than Ray waits for them.
    "RAY_agent_register_timeout_ms": "300000",
    **MEMORY_ENVIRONMENT,
}
# Set where the command runs, and meant for whoever does its work; a path in it is of the nodes.
_FORWARDED = (
    *("AIAYN_DATA", "GLOO_SOCKET_IFNAME"),
    *("NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"),
)


# What Ray sets for the processes of a submitted job: the source is shipped already.
_JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
LISTEN_SECONDS = 5.0


def set_environment() -> None:
    """What Ray reads from the environment when it is imported, here and in all processes that it starts."""
    os.environ.update(_ENVIRONMENT)


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Start a local Ray, or connect to the cluster at `address`; leave it, and its temporary files, as they were.

    A cluster's workers get this source tree, and what of the environment decides where data is. Ctrl-C
    (KeyboardInterrupt) and SIGTERM (SystemExit of 143) leave the block in order.

    Raises:
        ClusterError: no cluster answers there, or it is of another version.
    """
    set_environment()
    import ray

    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix=SESSION_PREFIX, dir=folder_for_sessions()))
    try:
        with sigterm_in_order(), in_use(folder):
            try:
                with interrupts_held():  # a Ray that is half started or half ended would leave processes behind
                    if address is None:
                        # Loopback sockets live below this folder, and their paths must stay short.
                        ray.init(address="local", include_dashboard=False, _temp_dir=str(folder), **_QUIET)
                    else:
                        _connect(address, folder / "source")
                yield
            finally:
                with interrupts_held():
                    ray.shutdown()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_QUIET = {"log_to_driver": False, "logging_level": "ERROR"}


def _connect(address: str, folder: Path) -> None:
    import ray

    if address.startswith("ray://"):
        raise ClusterError(
            f"{address!r} is of Ray's client, which is not used here; "
            "use --address auto on a node of the cluster, or aiayn submit from elsewhere"
        )
    require_listener(address, "Ray cluster", "give HOST:PORT of its head node", _HTTP2_HELLO)
    environment = {} if _JOB_VARIABLE in os.environ else {"runtime_env": worker_environment(folder)}
    try:
        ray.init(address=address, **environment, **_QUIET)
    except (ValueError, ConnectionError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ClusterError(f"no Ray cluster at {address!r} ({reason}); give HOST:PORT of its head node") from error


def worker_environment(folder: Path) -> dict[str, Any]:
    """Ray's runtime environment for a cluster's workers: the source, copied to the empty `folder`, and variables.

    Packages are those of the nodes, which are checked to be of the same versions (`studies.scheduling.preflight`).
    """
    variables = {name: os.environ[name] for name in _FORWARDED if name in os.environ}
    variables[provenance.GIT_STATE_VARIABLE] = json.dumps(provenance.git_state())
    return {"working_dir": str(copy_source(folder)), "env_vars": _ENVIRONMENT | variables}


# How a client of HTTP/2, which Ray's control service speaks, begins: the preface of RFC 9113, 3.4, and empty settings.
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_SETTINGS = 4


def require_listener(address: str, what: str, advice: str, hello: bytes = b"") -> None:
    """Refuse HOST:PORT where nobody listens, for which Ray would wait for minutes; other forms Ray judges.

    Args:
        hello: where given, the beginning of a talk in HTTP/2, which must be answered.

    Raises:
        ClusterError: with what was looked for and what to do.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=LISTEN_SECONDS) as connection:
            if hello and os.environ.get("RAY_USE_TLS", "0") == "0":
                connection.sendall(hello)
                answer = connection.recv(9)
                if len(answer) < 4 or answer[3] != _HTTP2_SETTINGS:
                    raise OSError("what listens there is no Ray")
    except (OSError, OverflowError) as error:
        raise ClusterError(f"no {what} at {address!r} ({error}); {advice}") from error
