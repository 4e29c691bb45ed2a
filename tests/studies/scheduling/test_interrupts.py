"""Signals that come while something is half done, sent to this very process."""

from __future__ import annotations

import os
import signal

import pytest

from studies.scheduling.interrupts import interrupts_held, sigterm_in_order


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def send_in_turn(*numbers: int) -> list[str]:
    """Work that signals reach; what was done after each."""
    done = []
    for number in numbers:
        send(number)
        done.append(f"the rest after {number}")
    return done


@pytest.fixture(autouse=True)
def handlers_are_as_before():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    ("number", "end", "code"), [(signal.SIGINT, KeyboardInterrupt, ()), (signal.SIGTERM, SystemExit, (143,))]
)
def test_signal_is_held_to_the_end_of_the_block_and_not_lost(number: int, end: type, code: tuple) -> None:
    done: list[str] = []
    with pytest.raises(end) as caught, interrupts_held():
        done += send_in_turn(number)
    assert done == [f"the rest after {number}"]
    assert caught.value.args == code


def test_second_signal_is_not_held() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        done += send_in_turn(signal.SIGTERM, signal.SIGINT)
    assert done == []


def test_signal_comes_before_the_failure_that_it_may_have_caused() -> None:
    def fail() -> None:
        send(signal.SIGINT)
        raise ValueError("Ray did not start")

    with pytest.raises(KeyboardInterrupt), interrupts_held():
        fail()


def test_block_that_nobody_stops_ends_as_always() -> None:
    with interrupts_held():
        pass
    with pytest.raises(ValueError, match="its own"), interrupts_held():
        raise ValueError("its own")


def test_sigterm_leaves_blocks_in_order() -> None:
    left = []

    def work() -> None:
        try:
            send(signal.SIGTERM)
        finally:
            left.append("in order")

    with pytest.raises(SystemExit) as caught, sigterm_in_order():
        work()
    assert caught.value.code == 143
    assert left == ["in order"]
