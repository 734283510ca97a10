"""An exception before any line of an operation leaves a pool that works, or none at all (R9)."""

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import refengine
from refengine.executor import Zygote

from ..roles import leftovers
from .test_deaths import gone
from .workers import pool

HOME = str(Path(refengine.__file__).parent)


class Struck(BaseException):
    pass


class Striker:
    """Raises once, before the n-th line that this thread runs in the package."""

    def __init__(self, at: int) -> None:
        self.at, self.lines, self.where = at, 0, ""

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                self.where = f"{frame.f_code.co_filename[len(HOME) :]}:{frame.f_lineno}"
                raise Struck
        return self.trace

    def during(self, act: Callable[[], Any]) -> list[Any]:
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            return [act()]
        except Struck:
            return []
        finally:
            sys.settrace(before)


def strikes(stride: int = 1) -> Iterator[Striker]:
    """One after the other, until the operation is over before it is struck."""
    for at in range(1, 20_000, stride):
        striker = Striker(at)
        yield striker
        if striker.lines < at:
            assert at > 15 * stride
            return
    raise AssertionError("the operation never ends")


@pytest.fixture(scope="module")
def two():
    with pool(in_flight=4) as made:
        yield made


def test_a_struck_call_harms_no_later_one(two):
    for n, striker in enumerate(strikes()):
        striker.during(lambda n=n: two.collective_rpc("echo", 5.0, (n,)))
        answer = two.collective_rpc("echo", 5.0, ("after", n))
        assert answer == [(rank, ("after", n), {}) for rank in (0, 1)], striker.where


def test_a_struck_call_after_late_replies_harms_no_later_one(two):
    for n, striker in enumerate(strikes(3)):
        with contextlib.suppress(TimeoutError):
            two.collective_rpc("deaf_to_exit", 0.0, (0.001,))
        striker.during(lambda n=n: two.collective_rpc("echo", 5.0, (n,)))
        answer = two.collective_rpc("echo", 5.0, ("after", n))
        assert answer == [(rank, ("after", n), {}) for rank in (0, 1)], striker.where


def test_a_struck_call_that_does_not_wait_harms_no_later_one(two):
    def submitted(n):
        return two.collective_rpc("echo", 5.0, (n,), non_block=True)

    for n, striker in enumerate(strikes()):
        made = striker.during(lambda n=n: submitted(n))
        after = submitted(("after", n)).result(5.0)
        assert after == [(rank, (("after", n),), {}) for rank in (0, 1)], striker.where
        for future in made:
            assert future.result(5.0) == [(rank, (n,), {}) for rank in (0, 1)], striker.where


def test_a_struck_shutdown_can_be_called_again():
    for striker in strikes():
        made = pool(1)
        pids = made.pids
        striker.during(made.shutdown)
        made.shutdown()
        assert made.state == "STOPPED", striker.where
        gone(pids, 0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a destructor
def test_a_struck_start_leaves_nobody_and_nothing():
    Zygote.shared(()).warm(20.0)
    with pool(1, start="zygote"):
        pass
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  names are all there is
    zygote = Zygote.shared(()).pid
    for striker in strikes(173):
        for made in striker.during(lambda: pool(1, start="zygote")):
            made.shutdown()
        gc.collect()
        children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
        gone(map(int, children), 3.0)
        assert leftovers(os.getpid()) == [], striker.where
        after = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        assert after <= before, striker.where
