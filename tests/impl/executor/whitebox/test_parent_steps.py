"""The parent's parts without processes: calls and replies, futures, the monitor's decisions."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.fds import Fd, own
from refengine.base.serialization import Encoder, Limits
from refengine.errors import DeadlinePassed, Undecodable
from refengine.executor.errors import CallFailed, WorkerDied
from refengine.executor.monitor import Lifecycle, PoolMonitor, PoolState
from refengine.executor.parent_monitor import LEAVE
from refengine.executor.process import Outcome, link_pair
from refengine.executor.rpc import RpcChannel, new_future
from refengine.executor.settings import PoolSettings
from refengine.executor.worker import READY

from ...roles import Role


class Line:
    """A queue of one process: what was asked, and what is there to read."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.there: list[Any] = []
        self.full = 0

    def enqueue(self, message: Any, timeout: float | None) -> None:
        if self.full:
            self.full -= 1
            raise DeadlinePassed("a free slot", timeout or 0)
        self.asked.append(message)

    def dequeue(self, timeout: float | None) -> Any:
        if not self.there:
            raise DeadlinePassed("a message", timeout or 0)
        item = self.there.pop(0)
        if isinstance(item, BaseException):
            raise item
        return item


def forever() -> None:
    return None


@pytest.fixture
def lines():
    made: Any = [Line() for _ in range(3)]
    return SimpleNamespace(
        requests=made[0], replies=made[1:], channel=RpcChannel(made[0], made[1:])
    )


def ask(lines: Any, only: int | None = None, timeout: float | None = None) -> int:
    return lines.channel.send("m", (1,), {"k": 2}, only, timeout)


def test_replies_of_given_up_calls_are_dropped(lines):
    ask(lines)
    ask(lines)
    number = ask(lines)
    lines.replies[0].there = [(1, True, "old"), (2, False, ("x", "")), (3, True, "new")]
    assert lines.channel.collect(number, "m", [0], forever) == ["new"]
    assert lines.channel.unanswered(number, [0, 1]) == [1]


def test_no_room_by_the_deadline_is_an_error_and_nothing_was_asked(lines):
    ask(lines)
    lines.requests.full = 1000
    with pytest.raises(DeadlinePassed, match="a worker to take a request"):
        ask(lines, timeout=0.01)
    assert len(lines.requests.asked) == 1


def test_a_reply_that_cannot_be_decoded_belongs_to_its_call(lines):
    ask(lines)
    number = ask(lines)
    old, new = Undecodable(0), Undecodable(1)
    for error, of in ((old, 1), (new, 2)):
        vars(error)["undecoded"] = Encoder(Limits()).encode((of, True, "x"))[0]
        error.__cause__ = ValueError("odd")
    lines.replies[0].there = [old, new]
    with pytest.raises(CallFailed, match="odd"):
        lines.channel.collect(number, "m", [0], forever)
    assert lines.replies[0].there == []


def test_one_without_a_number_is_raised(lines):
    number = ask(lines)
    lines.replies[0].there = [Undecodable(0)]
    with pytest.raises(Undecodable):
        lines.channel.collect(number, "m", [0], forever)


# -- futures ------------------------------------------------------------------------------------


def test_a_future_cannot_be_cancelled():
    assert not new_future().cancel()


# -- the monitor --------------------------------------------------------------------------------


class Body:
    """A process that ends when the test says so; its pidfd is a pipe."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        hears, self._end = os.pipe()
        self.pidfd = Fd(hears)
        self.end = Outcome(signal=9)
        self.reaped = False

    def dies(self) -> None:
        os.write(self._end, b"x")  # readable, as a pidfd

    def outcome(self, seconds: float) -> Outcome | None:
        self.reaped = True
        return self.end

    def close(self) -> None:
        self.pidfd.close()
        os.close(self._end)


class WorkerHandle:
    def __init__(self, rank: int) -> None:
        self.rank, self.pid = rank, 100 + rank
        self.process = Body(self.pid)
        self.link, self.worker = link_pair()
        self.replies_handle: Any = None
        self.start_error = self.exit_reason = ""


@pytest.fixture
def watched(monkeypatch):
    from refengine.executor import monitor

    acts: list[Any] = []
    monkeypatch.setattr(monitor, "kill_group", lambda p: acts.append(("kill", p.pid)))
    monkeypatch.setattr(monitor, "send_signal", lambda p, n: acts.append(("send", p.pid, n)))
    monkeypatch.setattr(monitor, "remove_stale_names", lambda: acts.append("sweep"))
    handles = [WorkerHandle(0), WorkerHandle(1)]
    closed: list[int] = []
    workers: Any = SimpleNamespace(handles=handles, close=lambda: closed.append(1))
    life = Lifecycle()
    settings = PoolSettings(grace=0.05, term_grace=0.05)
    made = PoolMonitor(
        workers, life, settings, lambda: acts.append("wake"), lambda: acts.append("give")
    )
    yield SimpleNamespace(monitor=made, life=life, handles=handles, acts=acts, closed=closed)
    for handle in handles:
        handle.process.dies()
    made.stop()
    for handle in handles:
        handle.process.close()
        handle.worker.close()
        handle.link.close()


def ready(watched: Any) -> None:
    watched.monitor.start()
    for handle in watched.handles:
        handle.worker.send((READY, f"handle {handle.rank}"))
    assert watched.monitor.await_ready(5)
    assert watched.monitor.ready.is_set()
    watched.life.advance(PoolState.READY)


def test_a_death_is_told_wakes_everybody_and_ends_the_pool(watched):
    told: list[Any] = []
    watched.monitor.call_on_failure(lambda: told.append(watched.life.state))
    ready(watched)
    watched.handles[1].process.dies()
    assert watched.monitor.outcome_known.wait(5)
    error = watched.monitor.error_for("a call")
    assert isinstance(error, WorkerDied)
    assert error.facts == (1, 101, "a call", 9, None, "")
    assert watched.handles[0].worker.has_message(5)
    assert watched.handles[0].worker.receive()[0] == LEAVE
    watched.handles[0].process.dies()
    assert watched.monitor.finished.wait(5)
    assert told == [PoolState.FAILED]
    assert watched.life.history[2:] == [PoolState.FAILED, PoolState.STOPPING, PoolState.STOPPED]
    assert watched.acts == ["wake", "wake", ("kill", 100), ("kill", 101), "give", "sweep"]
    assert all(m.process.reaped for m in watched.handles)
    assert watched.closed == [1]


def test_a_worker_about_to_end_is_seen_by_its_link(watched):
    ready(watched)
    assert not watched.monitor.any_worker_exiting()
    watched.handles[1].worker.close()
    assert watched.monitor.any_worker_exiting()


# -- small things -------------------------------------------------------------------------------


def test_a_fork_holds_nothing_that_is_held():
    read, write = os.pipe()
    end = Fd(write)
    own(end)

    def child(say: Any) -> None:
        say(str(Path(f"/proc/self/fd/{write}").readlink()))

    with Role(child) as role:
        assert role.hear() == "/dev/null"
        end.close()
        assert os.read(read, 1) == b""  # nobody else has it
    assert end.fileno() == -1
    os.close(read)
