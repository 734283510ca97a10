"""A timer of the kernel's strikes inside native code, to the microsecond, or not at all."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Callable

import pytest

from killpoint.points.timers import SignalTimer


def _ended(act: Callable[[], None]) -> int:
    """How a fork of this process ends that does this: the status of waitpid."""
    child = os.fork()
    if not child:
        try:
            act()
        finally:
            os._exit(0)
    return os.waitpid(child, os.WUNTRACED)[1]


def test_it_kills_inside_one_call_of_native_code() -> None:
    """A call that keeps the interpreter's lock, and would last for a second."""
    data = bytes(1 << 20)

    def busy() -> None:
        with SignalTimer(signal.SIGKILL).running(0.001):
            for _ in range(2000):
                zlib.compress(data, 9)

    assert os.WTERMSIG(_ended(busy)) == signal.SIGKILL


def test_it_stops_a_process_that_then_goes_on() -> None:
    def waits() -> None:
        with SignalTimer(signal.SIGSTOP).running(0.001):
            end = time.monotonic() + 20.0
            while time.monotonic() < end:
                pass

    child = os.fork()
    if not child:
        waits()
        os._exit(0)
    try:
        assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_block_that_ends_before_is_not_struck() -> None:
    def brief() -> None:
        timer = SignalTimer(signal.SIGKILL)
        for _ in range(1000):
            with timer.running(0.05):
                pass
            assert not timer.fired
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass

    assert _ended(brief) == 0


@pytest.mark.parametrize("after", [0.0, 1e-9])
def test_no_time_at_all_is_at_once_and_not_never(after: float) -> None:
    def waits() -> None:
        with SignalTimer(signal.SIGKILL).running(after):
            end = time.monotonic() + 20.0
            while time.monotonic() < end:
                pass

    assert os.WTERMSIG(_ended(waits)) == signal.SIGKILL


def test_it_tells_that_it_has_fired() -> None:
    """Who was stopped and goes on is not to be stopped in the next call again."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    timer = SignalTimer(signal.SIGUSR1)
    try:
        with timer.running(0.001):
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                pass
        assert timer.fired
    finally:
        timer.close()
        signal.signal(signal.SIGUSR1, before)


def test_a_fork_has_no_timer_of_its_parents() -> None:
    """Or a child that a target starts would be killed as well."""
    timer = SignalTimer(signal.SIGUSR1)  # whose default is death
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with timer.running(0.05):

            def sleeps() -> None:
                signal.signal(signal.SIGUSR1, signal.SIG_DFL)
                end = time.monotonic() + 0.3
                while time.monotonic() < end:
                    pass

            assert _ended(sleeps) == 0
    finally:
        timer.close()
        signal.signal(signal.SIGUSR1, before)
