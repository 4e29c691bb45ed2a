"""Ctrl-C and SIGTERM: the command ends at once, and never where half of something would be left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back to the end of the block; a second one is not held."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, _: object) -> None:
        held.append(number)
        if len(held) > 1:
            _stop(number)

    before = {number: signal.signal(number, hold) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:  # also where the block failed: it may have done so because others got the signal as well
            _stop(held[-1])


def _stop(number: int) -> None:
    """End the command as the signal asks for, all blocks left in order."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextmanager
def sigterm_in_order() -> Iterator[None]:
    """SIGTERM, as a batch system sends it, leaves the block like Ctrl-C and then ends the process with 143.

    Within the block it is a KeyboardInterrupt, the one exception of a signal that passes through Ray unchanged.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if received:
            _stop(received[0])
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
