"""One process at a time: locks that a killed process does not hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.data.corpus import DataError

_SAY_AGAIN_EVERY_SECONDS = 60.0

_logger = logging.getLogger(__name__)


@contextmanager
def one_at_a_time(path: Path, what: str, doing: str) -> Iterator[None]:
    """Hold the lock file `path`; wait, and say so, while another process holds it.

    Args:
        what: the matter, as messages name it.
        doing: what the other process does with it: "prepares it".

    Raises:
        DataError: the file system has no locks.
    """
    from filelock import FileLock, Timeout

    lock, timeout, began = FileLock(path), 0.0, time.monotonic()
    while not lock.is_locked:
        try:
            lock.acquire(timeout)
        except Timeout:
            _logger.info("%s: another process %s; waiting (%.0f s so far)", what, doing, time.monotonic() - began)
            timeout = _SAY_AGAIN_EVERY_SECONDS
        except NotImplementedError as error:
            raise DataError(
                f"the file system of {path.parent} has no locks; give a --home on one that has them"
            ) from error
    try:
        yield
    finally:
        lock.release()
