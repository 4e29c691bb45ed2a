"""One file from the web to its place: whole and checked, or not at all."""

from __future__ import annotations

import errno
import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from core.data.corpus import DataError
from core.data.lock import one_at_a_time

_logger = logging.getLogger(__name__)
_CHUNK_BYTES = 1 << 16


def download(url: str, path: Path, check: Callable[[Path], None], advice: str, num_bytes: int | None = None) -> None:
    """Fetch `url` to `path`, unless it is there; processes that want it at the same time fetch it once.

    The file is written beside its place, under a name that no reader looks for, and renamed when `check` has passed.

    Args:
        check: raises DataError unless the file that it is given is the one expected.
        advice: what else a person can do where the download fails.
        num_bytes: its size, where that is known, to refuse at once what the disk cannot hold.

    Raises:
        DataError: the address does not answer, the connection breaks, the disk is full, or the check fails.
    """
    import pooch  # not needed where the files are there

    partial = path.with_name(f".partial.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(path.with_name(".lock"), path.name, f"downloads to {path.parent}"):
            if path.is_file():
                return
            _require_space(path.parent, num_bytes)
            _logger.info("fetching %s%s", url, f" ({in_bytes(num_bytes)})" if num_bytes else "")
            fetch = pooch.HTTPDownloader(
                progressbar=sys.stderr.isatty(), chunk_size=_CHUNK_BYTES, hooks={"response": _as_it_is_stored}
            )
            try:
                fetch(url, str(partial), None)
                check(partial)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
    except OSError as error:  # requests' exceptions are OSErrors too
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "free some space, or choose another --home"
        raise DataError(f"cannot fetch {url} into {path.parent}: {_innermost(error)}; {advice}") from error


def in_bytes(number: int) -> str:
    """A number of bytes for a person: 2.6 GB."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"


def _require_space(folder: Path, num_bytes: int | None) -> None:
    free = shutil.disk_usage(folder).free
    if num_bytes is not None and free < num_bytes:
        raise OSError(errno.ENOSPC, f"{in_bytes(num_bytes)} are needed, {in_bytes(free)} are free")


def _as_it_is_stored(response, **_) -> None:
    """Some servers call a .tgz a compressed .tar, and the library would then write the decompressed bytes."""
    response.raw.headers.discard("Content-Encoding")


def _innermost(error: BaseException) -> BaseException:
    """What went wrong first: a library's own wrapping of it fills a screen."""
    while error.__context__ is not None:
        error = error.__context__
    return error
