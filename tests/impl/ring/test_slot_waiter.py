"""Where one side of a ring waits: its flag comes before its second look; alone, it naps (Q8)."""

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.ring.waiting import PollingWaiter, SlotWaiter


def test_the_flag_is_out_then_fenced_before_the_next_look():
    did: list[Any] = []

    class Cells:
        def __setitem__(self, at: int, value: int) -> None:
            did.append((at, value))

    fence: Any = SimpleNamespace(
        acquire=lambda blocking: did.append(("in", blocking)), release=lambda: did.append("out")
    )
    waiter: Any = SimpleNamespace(block="block", fault="fault")
    point: Any = SlotWaiter(Cells(), 3, fence, waiter, "a message")
    assert (point.block, point.fault, point.waiting_for) == ("block", "fault", "a message")
    point.announce_sleep()
    assert did == [(3, 1), ("in", False), "out"]


@pytest.mark.parametrize(
    ("seconds", "did"),
    [
        (0, "yield"),
        (0.0, "yield"),
        (None, 0.001),
        (0.0004, 0.0004),
        (5.0, 0.001),
        (-1.0, 0.0),
        (1.0, 0.001),
    ],
)
def test_alone_it_naps_for_a_millisecond_at_most(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, did: Any
):
    done: list[Any] = []
    monkeypatch.setattr(os, "sched_yield", lambda: done.append("yield"))
    monkeypatch.setattr(time, "sleep", done.append)
    point = PollingWaiter(lambda: None)
    point.block(seconds)
    assert done == [did]
    assert point.fault() is None
