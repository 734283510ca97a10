"""The parent's parts without processes: calls and replies, futures, the monitor's decisions."""

import os
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.cancel import OneShotEvent
from refengine.base.fds import Fd, own
from refengine.base.serialization import Encoder, Limits
from refengine.errors import DeadlinePassed, Undecodable
from refengine.executor.errors import CallFailed, PoolClosed, StartFailed, WorkerDied
from refengine.executor.monitor import Lifecycle, PoolMonitor, PoolState
from refengine.executor.parent_monitor import LEAVE
from refengine.executor.process import Outcome, link_pair
from refengine.executor.rpc import OrderedReplies, PendingCall, RpcChannel, new_future
from refengine.executor.settings import PoolSettings
from refengine.executor.worker import FAILED, LEAVING, READY

from ..roles import Role, until


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


def test_requests_are_numbered_and_say_who_answers(lines):
    assert [ask(lines), ask(lines, 1)] == [1, 2]
    assert lines.requests.asked == [(1, "m", (1,), {"k": 2}, None), (2, "m", (1,), {"k": 2}, 1)]


def test_replies_come_in_the_order_asked_for(lines):
    number = ask(lines)
    lines.replies[0].there, lines.replies[1].there = [(1, True, "a")], [(1, True, "b")]
    assert lines.channel.collect(number, "m", [1, 0], forever) == ["b", "a"]


def test_replies_of_given_up_calls_are_dropped(lines):
    ask(lines)
    ask(lines)
    number = ask(lines)
    lines.replies[0].there = [(1, True, "old"), (2, False, ("x", "")), (3, True, "new")]
    assert lines.channel.collect(number, "m", [0], forever) == ["new"]
    assert lines.channel.unanswered(number) == [1]


def test_a_failure_is_raised_with_its_facts(lines):
    number = ask(lines)
    lines.replies[0].there = [(1, False, ("ValueError: v", "trace"))]
    with pytest.raises(CallFailed) as failed:
        lines.channel.collect(number, "m", [0, 1], forever)
    assert failed.value.facts == (0, "m", "ValueError: v", "trace")


def test_replies_left_over_are_dropped_before_the_next_call_is_asked(lines):
    ask(lines)
    lines.replies[0].there = [(1, True, "old")]
    ask(lines)
    assert lines.replies[0].there == []


def test_and_while_there_is_no_room_for_it(lines):
    ask(lines)
    lines.requests.full = 2
    lines.replies[1].there = [(1, True, "old")]
    assert ask(lines) == 2
    assert lines.requests.asked[-1][0] == 2


def test_but_not_by_a_caller_who_may_not_read(lines):
    ask(lines)
    lines.replies[0].there = [(1, True, "another's")]
    lines.channel.send("m", (), {}, None, None, in_turn=False)
    assert lines.replies[0].there == [(1, True, "another's")]


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


def pending(number: int, future: "Future[Any]") -> PendingCall:
    return PendingCall(number, "m", [0], forever, None, lambda found: found[0], future)


def test_futures_are_resolved_in_order_with_what_was_collected():
    go, order = threading.Event(), []

    def collect(number: int, *_: Any) -> list[Any]:
        go.wait(5)
        if number == 2:
            raise CallFailed(0, "m", "no")
        return [number * 10]

    in_order = OrderedReplies(collect, lambda _: None)
    futures = [new_future() for _ in range(3)]
    for n, future in enumerate(futures, 1):
        future.add_done_callback(lambda _, n=n: order.append((n, len(in_order.pending))))
        in_order.add(pending(n, future))
    assert in_order.oldest() is futures[0]
    go.set()
    assert futures[0].result(5) == 10
    with pytest.raises(CallFailed):
        futures[1].result(5)
    assert futures[2].result(5) == 30
    assert order == [(1, 2), (2, 1), (3, 0)]  # each is forgotten before its waiter wakes
    assert in_order.oldest() is None
    in_order.end(PoolClosed)


def test_at_the_end_whoever_is_left_gets_the_error():
    stuck = threading.Event()
    in_order = OrderedReplies(lambda *_: [stuck.wait(5)], lambda _: None)
    futures = [new_future() for _ in range(2)]
    for n, future in enumerate(futures):
        in_order.add(pending(n, future))
    in_order.end(PoolClosed)
    for future in futures:
        with pytest.raises(PoolClosed, match="m"):
            future.result(0)
    stuck.set()


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


def test_all_are_ready_when_each_has_said_so(watched):
    watched.monitor.start()
    watched.handles[0].worker.send((READY, "h0"))
    assert not watched.monitor.await_ready(0.05)
    watched.handles[1].worker.send((READY, "h1"))
    assert watched.monitor.await_ready(5)
    assert [m.replies_handle for m in watched.handles] == ["h0", "h1"]
    assert watched.monitor.error_for("x") is None


def test_a_complaint_fails_the_start(watched):
    watched.monitor.start()
    watched.handles[1].worker.send((FAILED, "no weights"))
    assert watched.monitor.await_ready(5)
    error = watched.monitor.error_for("the start")
    assert isinstance(error, StartFailed)
    assert error.facts == (1, 101, "no weights")


def test_a_death_while_starting_fails_the_start(watched):
    watched.monitor.start()
    watched.handles[0].process.dies()
    assert watched.monitor.await_ready(5)
    error = watched.monitor.error_for("the start")
    assert isinstance(error, StartFailed)
    assert "was killed by SIGKILL before it was READY" in error.reason


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


def test_a_farewell_is_a_failure_at_once(watched):
    ready(watched)
    watched.handles[0].worker.send((LEAVING, "SIGTERM"))
    assert watched.monitor.outcome_known.wait(5)
    error = watched.monitor.error_for("a call")
    assert isinstance(error, WorkerDied)
    assert (error.exit_reason, error.signal) == ("SIGTERM", None)
    assert "left because of SIGTERM" in str(error)


def test_a_farewell_during_a_shutdown_is_none(watched):
    ready(watched)
    stopper = threading.Thread(target=watched.monitor.stop)
    stopper.start()
    for handle in watched.handles:
        assert handle.worker.has_message(5)
        handle.worker.send((LEAVING, "the pool shuts down"))
        handle.process.dies()
    stopper.join(5)
    assert watched.monitor.failure is None
    assert isinstance(watched.monitor.error_for("x"), PoolClosed)
    assert not [act for act in watched.acts if act[0] == "send"]
    assert watched.life.state is PoolState.STOPPED


def test_who_does_not_leave_is_told_by_signals_and_then_killed(watched):
    ready(watched)
    watched.handles[0].process.dies()  # after the order to stop, or it would be a failure
    watched.life.advance(PoolState.STOPPING)
    stopper = threading.Thread(target=watched.monitor.stop)
    stopper.start()
    until(lambda: ("kill", 101) in watched.acts)
    watched.handles[1].process.dies()
    stopper.join(5)
    assert watched.acts.index(("send", 101, 15)) < watched.acts.index(("kill", 101))
    assert ("send", 100, 15) not in watched.acts


def test_a_callback_that_comes_late_is_called_at_once_and_errors_are_its_own(watched):
    def fail():
        raise ValueError("its own")

    told: list[int] = []
    watched.monitor.call_on_failure(fail)
    watched.monitor.call_on_failure(lambda: told.append(1))
    ready(watched)
    watched.handles[0].process.dies()
    assert watched.monitor.outcome_known.wait(5)
    until(lambda: told == [1])
    watched.monitor.call_on_failure(lambda: told.append(2))
    assert told == [1, 2]


def test_a_worker_about_to_end_is_seen_by_its_link(watched):
    ready(watched)
    assert not watched.monitor.any_worker_exiting()
    watched.handles[1].worker.close()
    assert watched.monitor.any_worker_exiting()


# -- small things -------------------------------------------------------------------------------


def test_a_flag_wakes_whoever_waits():
    flag = OneShotEvent()
    assert not flag.wait(0.01)
    threading.Timer(0.02, flag.set).start()
    assert flag.wait(5)
    assert flag.wait(0)


def test_a_link_carries_whole_messages_and_descriptors_until_its_end():
    ours, theirs = link_pair()
    read, write = os.pipe()
    assert ours.send({"a": 1}, write)
    assert theirs.has_message(1)
    message, (passed,) = theirs.receive()
    os.write(passed, b"through")
    assert (message, os.read(read, 9)) == ({"a": 1}, b"through")
    assert not os.get_inheritable(passed)
    assert not theirs.has_message(0)
    theirs.send("unheard")
    ours.send("last words")
    ours.close()
    assert theirs.receive()[0] == "last words"  # though the other side left something unheard
    with pytest.raises(EOFError):
        theirs.receive()
    assert not theirs.send("too late")
    theirs.close()
    for fd in (read, write, passed):
        os.close(fd)


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


@pytest.mark.parametrize(
    ("status", "found"),
    [(9, Outcome(signal=9)), (0, Outcome(status=0)), (5 << 8, Outcome(status=5))],
)
def test_how_a_process_ended(status, found):
    assert Outcome.of(status) == found
