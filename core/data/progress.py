"""What a person sees while data is read or prepared: a bar on a terminal, otherwise a line in the log now and then."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

LOG_LINE_EVERY_SECONDS = 30.0
_SHOW_EVERY_ITEMS = 1_024

Item = TypeVar("Item")

_logger = logging.getLogger(__name__)


@contextmanager
def progress(what: str, total: int | None, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show how far the work inside has come.

    Yields a function to be called with the number of items done since its last call. `total` is None where nobody
    knows it; `done` items were done by an earlier process.
    """
    if not sys.stderr.isatty():
        yield _LogLines(what, total, done)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=total, completed=done)
        yield lambda items: bars.advance(task, items)


def watched(items: Iterable[Item], what: str, total: int | None) -> Iterator[Item]:
    """The same items, shown as they go by."""
    with progress(what, total) as on_items:
        for number, item in enumerate(items, 1):
            yield item
            if number % _SHOW_EVERY_ITEMS == 0:
                on_items(_SHOW_EVERY_ITEMS)


class _LogLines:
    def __init__(self, what: str, total: int | None, done: int) -> None:
        self._what, self._total, self._done, self._done_before = what, total, done, done
        self._began = self._last_line = time.monotonic()

    def __call__(self, items: int) -> None:
        self._done += items
        now = time.monotonic()
        if now - self._last_line < LOG_LINE_EVERY_SECONDS:
            return
        self._last_line = now
        rate = (self._done - self._done_before) / (now - self._began)
        if self._total is None or not rate:
            _logger.info("%s: %s, %s a second", self._what, f"{self._done:,}", f"{rate:,.0f}")
        else:
            left = (self._total - self._done) / rate
            _logger.info(
                "%s: %s of %s, %s a second, %.0f s left",
                self._what, f"{self._done:,}", f"{self._total:,}", f"{rate:,.0f}", left,
            )  # fmt: skip
