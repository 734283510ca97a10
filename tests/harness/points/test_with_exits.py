"""Where no exception can strike: between a with block's last instruction and its exit."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from killpoint.points.with_exits import leaves_with

LOCK = threading.Lock()


def nothing() -> None:
    with LOCK:
        pass


def returns() -> int:
    with LOCK:
        return len("abc")


def two() -> None:
    with LOCK, threading.Lock():
        len("abc")


def calls() -> None:
    print(  # three times nothing is no exit
        None, None, None, sep="", end=""
    )
    max(1, 2, 3)


def raises() -> None:
    with LOCK:
        raise ValueError


class Struck(Exception):
    pass


def _struck_at(nth: int, function: Callable[[], object]) -> tuple[bool, bool]:
    """Whether there was such a line, and whether it was passed over; an exception strikes there."""
    seen: list[bool] = []

    def step(frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            seen.append(leaves_with(frame.f_code, frame.f_lasti))
            if len(seen) == nth + 1 and not seen[-1]:
                raise Struck
        return step

    def call(frame: FrameType, _event: str, _arg: object) -> Any:
        return step if frame.f_code is function.__code__ else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        function()
    except (Struck, ValueError):
        pass
    finally:
        sys.settrace(before)
    return len(seen) > nth, len(seen) > nth and seen[nth]


@pytest.mark.parametrize("function", [nothing, returns, two, calls, raises])
def test_what_strikes_elsewhere_leaves_no_lock_held(
    function: Callable[[], object], capsys: pytest.CaptureFixture[str]
) -> None:
    nth, passed = 0, 0
    while True:
        there, over = _struck_at(nth, function)
        assert LOCK.acquire(blocking=False), f"struck at line {nth}"
        LOCK.release()
        if not there:
            break
        nth, passed = nth + 1, passed + over
    assert nth >= 2
    assert bool(passed) == (function is not calls)
