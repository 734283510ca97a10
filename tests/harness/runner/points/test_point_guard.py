"""The role's half of a rendezvous: it stands at its point until it is told what to do."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.points.interruption import InjectedError, Interrupted
from killpoint.runner.points.point_guard import EXIT_FAULT, PointGuard
from killpoint.runner.protocol import Arm, Channel, Order, Reached, Release
from killpoint.scenario import Close, Point

_OWN: dict[str, Any] = {}
exec(
    compile("def work(n):\n    for i in range(n):\n        n = n\n    return n\n", "<own>", "exec"),
    _OWN,
)
_LOCKED = """
def locked():
    with lock:
        seen.append("in")
    seen.append("out")
"""


class Target:
    """A target with points, and slots whose state a test sets."""

    def __init__(self) -> None:
        self.written = [0]
        self.overflow = False

    def is_own_code(self, code: CodeType) -> bool:
        return code.co_filename == "<own>"

    def position(self, _end: object) -> int:
        return 0

    def flags(self, _end: object, _slot: int) -> bytes:
        return bytes([self.written.pop(0) if len(self.written) > 1 else self.written[0], 0])

    def overflowed(self, _end: object, _slot: int) -> bool:
        return self.overflow

    def observe(self, _sink: object) -> None:
        """Nothing to observe."""


class Stand:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.director, self.role = (Channel(end) for end in pair)
        self.director.sock.settimeout(10)
        self.role.sock.settimeout(10)
        self.log = Log(folder / "writer.jsonl", "writer")
        self.target: Any = Target()
        self.guard = PointGuard(self.target, self.role, self.log)

    def works(self, verb: str = "send", count: int = 5) -> None:
        with self.guard.during(verb, object()):
            _OWN["work"](count)

    def counted(self) -> list[int]:
        return [event.number("count") for event in History.read(self.folder).of("lines")]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path)
    yield made
    made.director.close()
    made.role.close()
    made.log.close()


def test_an_armed_operation_counts_its_lines_and_others_none(stand: Stand) -> None:
    stand.guard.arm(Arm(1, Point("send", nth=1)))
    stand.works("receive")
    stand.works("send")
    assert stand.counted() == []
    stand.works("send")
    (count,) = stand.counted()
    assert count > 5
    stand.works("send")
    assert stand.counted() == [count]


def test_a_role_stands_at_its_line_until_it_is_released(stand: Stand) -> None:
    stand.guard.arm(Arm(1, Point("send", line=2)))
    thread = threading.Thread(target=stand.works)
    thread.start()
    reached = stand.director.get()
    assert isinstance(reached, Reached)
    assert "<own>:" in reached.where
    assert thread.is_alive()
    stand.director.put(Release("go"))
    thread.join(10)
    assert not thread.is_alive()
    assert stand.counted() == []


def test_a_release_may_raise_inside_the_targets_code(stand: Stand) -> None:
    stand.guard.arm(Arm(1, Point("send", line=2)))
    stand.director.put(Release("raise"))
    with pytest.raises(InjectedError, match="<own>"):
        stand.works()


@pytest.mark.parametrize("throws", [True, False])
def test_no_exception_strikes_where_a_with_block_is_left(stand: Stand, throws: bool) -> None:
    own: dict[str, Any] = {"lock": threading.Lock(), "seen": []}
    exec(compile(_LOCKED, "<own>", "exec"), own)
    stand.guard.arm(Arm(1, Point("send", line=2), throws=throws))
    stand.director.put(Release("raise"))
    where = f"<own>:{5 if throws else 3} "
    with pytest.raises(InjectedError, match=where), stand.guard.during("send", object()):
        own["locked"]()
    assert own["seen"] == ["in"]
    assert own["lock"].locked() == (not throws)


def test_a_release_may_end_the_process(stand: Stand) -> None:
    stand.guard.arm(Arm(1, Point("send", line=2)))
    stand.director.put(Release("exit"))
    pid = os.fork()
    if pid == 0:
        stand.works()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == EXIT_FAULT


def test_a_line_that_is_not_executed_is_not_reached_and_the_lines_are_told(stand: Stand) -> None:
    stand.guard.arm(Arm(1, Point("send", line=9999)))
    stand.works()
    assert len(stand.counted()) == 1


def test_an_order_that_comes_while_standing_is_neither_a_release_nor_lost(stand: Stand) -> None:
    stand.guard.arm(Arm(1, Point("send", line=2)))
    stand.director.put(Order(7, Close(("writer",))))
    stand.director.put(Release("raise"))
    with pytest.raises(InjectedError):
        stand.works()


def test_the_marker_is_a_slot_cleared_and_then_written_with_a_promise(stand: Stand) -> None:
    stand.target.written = [1, 1, 0, 0, 1]
    stand.target.overflow = True
    stand.guard.arm(Arm(1, Point("send", name="overflow-marker")))
    stand.director.put(Release("raise"))
    with pytest.raises(InjectedError):
        stand.works(count=9)


@pytest.mark.parametrize(("written", "overflow"), [([1], True), ([0, 1], False), ([0], True)])
def test_an_older_slot_an_inline_one_or_none_is_no_marker(
    stand: Stand, written: list[int], overflow: bool
) -> None:
    stand.target.written, stand.target.overflow = written, overflow
    stand.guard.arm(Arm(1, Point("send", name="overflow-marker")))
    stand.works(count=9)
    assert len(stand.counted()) == 1


def test_a_release_may_have_a_signal_handler_raise_there(stand: Stand) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    stand.guard.accept_interrupts()
    stand.guard.arm(Arm(1, Point("send", line=2)))
    stand.director.put(Release("interrupt"))
    try:
        with pytest.raises(Interrupted, match="<own>"):
            stand.works()
    finally:
        signal.signal(signal.SIGUSR1, before)
    (raised,) = History.read(stand.folder).of("raised")
    assert raised.text("how") == "signal"


def test_points_may_be_as_fine_as_instructions(stand: Stand) -> None:
    stand.guard.arm(Arm(1, Point("send", nth=0)))
    stand.works()
    stand.guard.arm(Arm(2, Point("send", nth=0, depth="opcode")))
    stand.works()
    by_line, by_opcode = stand.counted()
    assert by_opcode > 2 * by_line
    stand.guard.arm(Arm(3, Point("send", line=by_opcode - 1, depth="opcode")))
    stand.director.put(Release("raise"))
    with pytest.raises(InjectedError, match="<own>:4"):
        stand.works()
