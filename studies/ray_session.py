"""One local Ray, quiet and private, for the time of a command; or a connection to a cluster.

The environment is set before ray is imported, which is here and nowhere else.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

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
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # without it a trial that asked for no GPU sees all of them
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    **MEMORY_ENVIRONMENT,
}


# The path of a socket may have about 100 characters, and the system's temporary folder is sometimes a long one.
_SHORT_FOLDER = "/tmp"


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Start a local Ray, or connect to the cluster at `address`; leave it, and its temporary files, as they were."""
    os.environ.update(_ENVIRONMENT)
    import ray

    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    if address is not None:
        _require_listener(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ValueError, ConnectionError, RuntimeError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ClusterError(f"no Ray cluster at {address!r} ({reason}); give HOST:PORT of its head node") from error
        try:
            yield
        finally:
            ray.shutdown()
        return
    # Loopback sockets live below this folder, and their paths must stay short.
    folder = tempfile.mkdtemp(prefix="aiayn-", dir=_SHORT_FOLDER if os.access(_SHORT_FOLDER, os.W_OK) else None)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=folder)
    try:
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _require_listener(address: str) -> None:
    """Refuse HOST:PORT where nobody listens, for which Ray would wait for minutes; the rest Ray judges."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise ClusterError(f"no Ray cluster at {address!r} ({error}); give HOST:PORT of its head node") from error
