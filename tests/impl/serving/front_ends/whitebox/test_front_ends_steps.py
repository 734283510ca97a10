"""The engine's side of its front ends, by turns: processes that do nothing, time on paper."""

from __future__ import annotations

import functools
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any

import pytest

from refengine.base.fds import Fd
from refengine.engine import Delta, RequestFailed
from refengine.engine.settings import EngineSettings
from refengine.serving.front_ends import front_ends
from refengine.serving.front_ends.front_ends import FrontEnds
from refengine.serving.front_ends.handle import FrontEndHandle
from refengine.serving.front_ends.link import Link
from refengine.serving.front_ends.protocol import (
    Cancel,
    Failed,
    Heartbeat,
    Outputs,
    Ready,
    State,
    Submit,
    ToEngine,
    decode_to_front_end,
    encode,
)
from refengine.serving.http_side import ServeOptions

from ...fake_engine import FakeEngine
from ...process import ENVIRONMENT, line_of

_MOST = 1 << 20  # bytes that a front end may leave untaken
_SETTINGS = EngineSettings(step_timeout=10.0, start_timeout=20.0)


class Idle:
    """The process of a front end that does nothing; the test speaks in its place."""

    made: dict[tuple[str, int], Idle]

    def __init__(self, target: object, args: tuple[Any, ...], name: str) -> None:
        init, end, *_ = args
        self.link = Link(socket.socket(fileno=os.dup(end.fileno())))
        self.made[init.name, init.life] = self

    def start(self) -> None:
        self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.pid = self._process.pid
        self.sentinel = os.pidfd_open(self.pid)

    def join(self, seconds: float) -> None:
        select.select([self.sentinel], [], [], seconds)

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def says(self, *messages: ToEngine) -> None:
        for message in messages:
            assert self.link.send(encode(message))

    def hears(self) -> list[Any]:
        """What has come that is no state."""
        frames = list[bytes]()
        while came := self.link.take():
            frames += came
        heard = [decode_to_front_end(frame) for frame in frames]
        return [message for message in heard if not isinstance(message, State)]

    def end(self) -> None:
        self.link.close()
        self._process.kill()
        with self._process:
            os.close(self.sentinel)


class Server:
    """Front ends around an engine that says what it is told to."""

    def __init__(self, count: int = 2) -> None:
        self.now = 0.0
        self.told: list[str] = []
        self.engine: Any = FakeEngine()
        asked = ServeOptions("127.0.0.1", 0, "model", b"", 1.0, count)
        idle, ended = (functools.partial(self.told.append, each) for each in ("idle", "ended"))
        self.side = FrontEnds(asked, _SETTINGS, idle, ended, lambda: self.now)
        self.side.attach(self.engine)

    def turn(self, *, after: float = 0.0) -> None:
        self.now += after
        self.side._wake()
        self.side._turn()

    def submitted(self, process: Idle, name: str) -> None:
        process.says(Submit(len(self.engine.prompts) + 1, name, (1,), 1000))
        self.turn()
        assert name in self.engine.streams

    def state(self, name: str) -> tuple[str, int]:
        """As the others are told."""
        (found,) = [each for each in self.side._state(self.now).front_ends if each.name == name]
        return found.state, found.pid


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Generator[dict[tuple[str, int], Idle]]:
    Idle.made = {}
    monkeypatch.setattr(
        front_ends, "FrontEndHandle", functools.partial(FrontEndHandle, process=Idle)
    )
    yield Idle.made
    for process in Idle.made.values():
        process.end()


@pytest.fixture
def server(processes: dict[tuple[str, int], Idle]) -> Generator[Server]:
    """Both are ready."""
    server = Server()
    server.turn()
    for process in processes.values():
        process.says(Ready())
    server.turn()
    yield server
    for handle in server.side._handles.values():
        handle.end()
    server.side.close(0.0)


@pytest.fixture
def one(server: Server, processes: dict[tuple[str, int], Idle]) -> Idle:
    return processes["front-end-0", 1]


@pytest.fixture
def other(server: Server, processes: dict[tuple[str, int], Idle]) -> Idle:
    return processes["front-end-1", 1]


def test_an_end_cancels_what_that_one_asked_for_and_nothing_else(
    server: Server, one: Idle, other: Idle
) -> None:
    server.submitted(one, "a")
    server.submitted(other, "b")
    os.kill(one.pid, signal.SIGKILL)
    one.join(60)
    server.turn()
    assert server.engine.cancelled == ["a"]
    server.engine.streams["b"].put(Delta((7,), "stop"))
    server.turn()
    assert other.hears() == [Outputs(((2, (7,), "stop"),))]


OWNER = """
import os, signal, socket, subprocess
from refengine.engine.settings import EngineSettings
from refengine.serving.front_ends.handle import FrontEndHandle
from refengine.serving.front_ends.process import FrontEndInit

class Stopped:
    def __init__(self, target, args, name):
        self.hears = args[2].fileno()

    def start(self):
        self.pid = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[self.hears]).pid
        os.kill(self.pid, signal.SIGSTOP)

init = FrontEndInit("front-end-0", 1, os.getpid(), EngineSettings(), "model", b"", 1.0)
handle = FrontEndHandle(init, socket.socket(), 0.0, Stopped)
print(handle.pid, flush=True)
signal.pause()
"""


def test_the_kernel_ends_a_stopped_one_with_the_process_that_started_it() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, env=ENVIRONMENT, text=True
    )
    with owner:
        pidfd = os.pidfd_open(int(line_of(owner)))
        owner.kill()
    with closing(Fd(pidfd)):
        ended, _, _ = select.select([pidfd], [], [], 10.0)
        if not ended:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    assert ended


def test_a_link_that_ends_is_an_end(server: Server, one: Idle) -> None:
    server.submitted(one, "a")
    one.link.close()
    server.turn()
    assert server.engine.cancelled == ["a"]
    assert one.exitcode == -signal.SIGKILL


def test_one_that_has_ended_is_started_again_and_its_restart_is_counted(
    server: Server, one: Idle, processes: dict[tuple[str, int], Idle]
) -> None:
    assert server.state("front-end-0") == ("ready", one.pid)
    one.link.close()
    server.turn()
    assert server.state("front-end-0") == ("starting", 0)
    server.turn()
    anew = processes["front-end-0", 2]
    assert server.state("front-end-0") == ("starting", anew.pid)
    anew.says(Ready())
    server.turn()
    assert server.state("front-end-0") == ("ready", anew.pid)
    counts = server.side._state(0.0).counts
    assert counts is not None
    assert counts.restarts["front-end-0"] == 1
    assert counts.restarts["front-end-1"] == 0


def test_its_metrics_do_not_fall_by_its_end(server: Server, one: Idle) -> None:
    measured = (("refengine_http_requests", (), 5.0),)
    one.says(Heartbeat(0, False, measured))
    server.turn()
    one.link.close()
    server.turn()
    assert server.side._state(0.0).samples == measured
    server.turn()
    Idle.made["front-end-0", 2].says(
        Ready(), Heartbeat(0, False, (("refengine_http_requests", (), 2.0),))
    )
    server.turn()
    assert server.side._state(0.0).samples == (("refengine_http_requests", (), 7.0),)


def test_a_client_that_hung_up_is_cancelled(server: Server, one: Idle) -> None:
    server.submitted(one, "a")
    one.says(Cancel(1), Cancel(99))
    server.turn()
    assert server.engine.cancelled == ["a"]


def test_what_is_no_message_is_dropped(server: Server, one: Idle) -> None:
    one.link.send(b"\xff no message")
    server.submitted(one, "a")
    assert server.state("front-end-0") == ("ready", one.pid)


def test_one_without_signs_of_life_is_stuck_then_replaced(
    server: Server, one: Idle, other: Idle, processes: dict[tuple[str, int], Idle]
) -> None:
    server.submitted(one, "a")
    other.says(Heartbeat(0, False))
    server.turn(after=2.1)
    assert (server.state("front-end-0")[0], server.state("front-end-1")[0]) == ("stuck", "ready")
    assert not server.engine.cancelled
    for _ in range(2):
        other.says(Heartbeat(0, False))
        server.turn(after=5.0)
    assert server.engine.cancelled == ["a"]
    assert one.exitcode == -signal.SIGKILL
    assert other.exitcode is None
    server.turn()
    assert ("front-end-0", 2) in processes
    assert ("front-end-1", 2) not in processes


def test_while_this_process_was_stopped_itself_nobody_was_silent(
    server: Server, one: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = server.side._wait

    def stopped(seconds: float) -> dict[int, int]:
        server.now += 100.0
        return wait(seconds)

    monkeypatch.setattr(server.side, "_wait", stopped)
    server.turn()
    assert one.exitcode is None


def test_one_that_does_not_come_to_answer_is_ended_and_five_in_a_row_are_the_last(
    processes: dict[tuple[str, int], Idle],
) -> None:
    server = Server(1)
    server.turn()
    for life in range(1, 6):
        assert len(processes) == life
        server.turn(after=19.9)
        assert processes["front-end-0", life].exitcode is None
        server.turn(after=0.2)
        assert processes["front-end-0", life].exitcode == -signal.SIGKILL
        assert server.told == ["ended"] * (life == 5)
        server.turn(after=5.0)
    assert server.state("front-end-0") == ("dead", 0)
    server.side.close(0.0)


def _flooded(server: Server, name: str) -> list[int]:
    """How much was left untaken after each of its answers, until it is cancelled."""
    link = server.side._handles["front-end-0"].link
    untaken: list[int] = []
    while name not in server.engine.cancelled:
        assert len(untaken) < 1000, "nothing bounds it"
        server.engine.streams[name].put(Delta((79,) * 10_000))
        server.turn()
        untaken.append(link.waiting)
    return untaken


def _taken(server: Server, process: Idle) -> list[Any]:
    """All that the front end was sent."""
    taken = process.hears()
    while server.side._handles["front-end-0"].link.waiting:
        server.turn()
        taken += process.hears()
    return taken


def test_what_a_front_end_leaves_untaken_is_bounded(server: Server, one: Idle, other: Idle) -> None:
    server.submitted(one, "a")
    server.submitted(other, "b")
    *before, after = _flooded(server, "a")
    assert _MOST - 20_000 < before[-1] <= _MOST
    assert after < 20_000
    assert server.engine.cancelled == ["a"]
    *made, failed = _taken(server, one)
    assert all(isinstance(each, Outputs) for each in made)
    assert isinstance(failed, Failed)
    assert (failed.number, failed.kind) == (1, "failed")
    assert failed.cause == "front-end-0 did not take the tokens that had come for it"


def test_what_ended_in_answers_that_are_dropped_has_its_end_all_the_same(
    server: Server, one: Idle
) -> None:
    for name in ("a", "b", "c"):
        server.submitted(one, name)
    link = server.side._handles["front-end-0"].link
    while not link.waiting:
        server.engine.streams["a"].put(Delta((79,) * 10_000))
        server.turn()
    server.engine.streams["b"].put(Delta((7,), "stop"))
    server.turn()
    server.engine.streams["c"].put(RequestFailed("c", "core-0 was killed", (8,)))
    server.turn()
    server.engine.closed = True  # so the fourth is refused
    one.says(Submit(4, "d", (1,), 1000))
    server.turn()
    _flooded(server, "a")
    ends = [each for each in _taken(server, one) if isinstance(each, Failed)]
    untaken = "front-end-0 did not take the tokens that had come for it"
    assert {each.number: (each.kind, each.cause) for each in ends} == {
        1: ("failed", untaken),
        2: ("failed", untaken),
        3: ("failed", "core-0 was killed"),
        4: ("closed", ""),
    }
    assert len(ends) == 4


def test_one_that_takes_again_may_ask_again(server: Server, one: Idle) -> None:
    for number, name in enumerate(("a", "b"), 1):
        server.submitted(one, name)
        _flooded(server, name)
        failed = _taken(server, one)[-1]
        assert isinstance(failed, Failed)
        assert failed.number == number
    assert one.exitcode is None


def test_one_that_still_does_not_take_is_ended(server: Server, one: Idle) -> None:
    server.submitted(one, "a")
    _flooded(server, "a")
    server.submitted(one, "b")
    _flooded(server, "b")
    assert one.exitcode == -signal.SIGKILL


def test_a_state_is_told_four_times_a_second_to_those_that_take_it(
    server: Server, one: Idle
) -> None:
    def states() -> list[State]:
        heard = [decode_to_front_end(frame) for frame in one.link.take()]
        return [each for each in heard if isinstance(each, State)]

    server.turn()
    states()
    server.turn()
    assert states() == []
    server.turn(after=0.25)
    assert [each.phase for each in states()] == ["serving"]
    server.side.drain()
    server.turn()
    assert [each.phase for each in states()] == ["draining"]


def test_idle_is_told_once_all_drain_and_nothing_is_open(
    server: Server, one: Idle, other: Idle
) -> None:
    server.submitted(one, "a")
    server.side.drain()
    one.says(Heartbeat(0, True))
    server.turn()
    assert server.told == []
    other.says(Heartbeat(0, True))
    server.turn()
    assert server.told == []  # its client has hung up, and the engine works on
    server.engine.streams["a"].put(Delta((7,), "stop"))
    other.says(Heartbeat(1, True))
    server.turn()
    assert server.told == []
    other.says(Heartbeat(0, True))
    server.turn()
    server.turn()
    assert server.told == ["idle"]
    server.side.cut("it is over")
    server.turn()
    assert server.told == ["idle", "idle"]
