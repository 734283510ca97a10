"""The monitor's steps, without processes: time is a number, and nothing is waited for."""

import logging
import os
import select
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.fds import Fd
from refengine.executor import PoolSettings, StartFailed, WorkerDied, monitor
from refengine.executor.monitor import Lifecycle, PoolMonitor, PoolState
from refengine.executor.parent_monitor import LEAVE
from refengine.executor.process import Outcome
from refengine.executor.worker import FAILED, LEAVING, READY
from refengine.executor.workers import PoolShape, WorkerHandle, WorkerSet

SOON = 1.5


class Body:
    """A process that ends when it is told so; `asked`: for how long its outcome was waited for."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        reading, self._writing = os.pipe()
        self.pidfd = Fd(reading)
        self.end: Outcome | None = None
        self.asked: list[float] = []

    def die(self, end: Outcome | None = None) -> None:
        self.end = end
        os.close(self._writing)
        self._writing = -1
        # A hang-up is no POLLIN: a regular file is always readable, as an ended pidfd is.
        os.dup2(os.open(os.devnull, os.O_RDONLY), self.pidfd.fileno())

    def outcome(self, seconds: float) -> Outcome | None:
        self.asked.append(seconds)
        return self.end

    def close(self) -> None:
        self.pidfd.close()
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


class Poll:
    """Nothing is ever ready but what the bench says; time passes as it was asked to."""

    def __init__(self, bench: "Bench") -> None:
        self.bench, self.fds = bench, dict[int, int]()

    def register(self, fd: int, events: int) -> None:
        self.fds[fd] = events

    def unregister(self, fd: int) -> None:
        del self.fds[fd]

    def poll(self, milliseconds: float | None) -> list[tuple[int, int]]:
        bench = self.bench
        bench.slept.append(milliseconds)
        assert len(bench.slept) < 50, "it goes round and round"
        if bench.script:
            return [(fd, select.POLLIN) for fd in bench.script.pop(0)() if fd in self.fds]
        assert milliseconds is not None, "it would sleep for ever"
        bench.now += milliseconds / 1000
        return []


class Bench:
    def __init__(self, workers: int = 2, **settings: Any) -> None:
        self.now = 100.0
        self.did: list[Any] = []
        self.slept: list[float | None] = []
        self.script: list[Any] = []
        self.workers = WorkerSet(PoolShape(workers, workers, "cpu"))
        self.bodies = [Body(1000 + rank) for rank in range(workers)]
        for rank, body in enumerate(self.bodies):
            self.workers.handles.append(WorkerHandle(rank))
            self.workers.handles[rank].started.append(body)
        self.life = Lifecycle()
        given: dict[str, Any] = {"grace": 2.0, "term_grace": 3.0} | settings
        self.monitor = PoolMonitor(
            self.workers, self.life, PoolSettings(**given), lambda: self.did.append("wake"),
            lambda: self.did.append("give back"), lambda: self.now,
        )  # fmt: skip

    def says(self, rank: int, *what: Any) -> bool:
        handle = self.workers.handles[rank]
        assert handle.child_link.send(what)
        return self.monitor._handle_event(handle.link.fileno())

    def hears(self, rank: int) -> Any:
        theirs = self.workers.handles[rank].child_link
        return theirs.receive()[0] if theirs.has_message() else None

    def all_ready(self) -> None:
        for rank in range(len(self.bodies)):
            self.says(rank, READY, f"handle {rank}")
        self.life.advance(PoolState.READY)


@pytest.fixture
def bench(monkeypatch):
    made: list[Bench] = []

    def make(workers: int = 2, **settings: Any) -> Bench:
        bench = Bench(workers, **settings)
        made.append(bench)
        monkeypatch.setattr(
            monitor, "send_signal", lambda process, number: bench.did.append((process.pid, number))
        )
        monkeypatch.setattr(
            monitor, "kill_group", lambda process: bench.did.append((process.pid, "kill"))
        )
        monkeypatch.setattr(monitor, "remove_stale_names", lambda: bench.did.append("sweep"))
        fake = SimpleNamespace(poll=lambda: Poll(bench), POLLIN=select.POLLIN)
        monkeypatch.setattr(monitor, "select", fake)
        return bench

    yield make
    for bench in made:
        bench.workers.close()


def test_the_crew_is_ready_when_the_last_has_said_so(bench):
    b = bench()
    assert not b.monitor.await_ready(0.0)
    assert b.says(1, READY, "second")
    assert not b.monitor.ready.is_set()
    assert not b.monitor.await_ready(0.0)
    assert b.says(0, READY, "first")
    assert b.monitor.ready.is_set()
    assert b.monitor.await_ready(0.0)
    assert [m.replies_handle for m in b.workers.handles] == ["first", "second"]
    assert b.life.state is PoolState.STARTING
    assert b.did == []
    assert b.monitor.error_for("a call") is None


def test_a_complaint_fails_the_start_with_its_words(bench):
    b = bench(failure_callbacks=[lambda: b.did.append("told")])
    assert b.says(1, FAILED, "no weights")
    assert b.workers.handles[1].start_error == "no weights"
    assert b.life.state is PoolState.FAILED
    assert b.did == ["wake", "told"]
    assert b.monitor.outcome_known.is_set()
    assert b.monitor.await_ready(0.0)
    assert not b.monitor.ready.is_set()
    error = b.monitor.error_for("the start")
    assert isinstance(error, StartFailed)
    assert (error.rank, error.pid, error.reason) == (1, 1001, "no weights")


def test_a_complaint_that_comes_after_the_start_is_no_failure_of_it(bench):
    """It failed to meet its parent, which had met it already."""
    b = bench()
    b.all_ready()
    assert b.says(1, FAILED, "a time-out of its own")
    error = b.monitor.error_for("a call")
    assert isinstance(error, WorkerDied)
    assert (error.rank, error.pid, error.exit_reason, error.waiting_for) == (
        1, 1001, "a time-out of its own", "a call",
    )  # fmt: skip


@pytest.mark.parametrize("by", ["pidfd", "link"])
@pytest.mark.parametrize(
    ("ready", "end", "words"),
    [
        (False, None, "it ended before it was READY"),
        (True, Outcome(signal=9), "was killed by SIGKILL"),
    ],
)
def test_an_end_is_told_in_words(bench, by, ready, end, words):
    b = bench()
    if ready:
        b.all_ready()
    b.bodies[0].die(end)
    if by == "pidfd":
        fd = b.bodies[0].pidfd.fileno()
    else:
        b.workers.handles[0].child_link.close()
        fd = b.workers.handles[0].link.fileno()
    assert not b.monitor._handle_event(fd)
    error = b.monitor.error_for("a call")
    assert isinstance(error, WorkerDied if ready else StartFailed)
    assert words in str(error)
    assert [0 < seconds < SOON for seconds in b.bodies[0].asked] == [True]


def test_one_that_was_ready_and_died_before_the_others_were_is_a_death(bench):
    b = bench()
    b.says(0, READY, "handle")
    b.bodies[0].die(Outcome(status=0))
    b.monitor._handle_event(b.bodies[0].pidfd.fileno())
    assert isinstance(b.monitor.error_for("the start"), WorkerDied)


def test_the_stop_flag_is_heard_once_and_a_stranger_changes_nothing(bench):
    b = bench()
    assert not b.monitor._handle_event(b.monitor._stop.fileno())
    assert b.monitor._handle_event(99_999)


def test_a_callback_is_called_once_now_or_later_and_its_errors_are_logged(bench, caplog):
    def broken() -> None:
        b.did.append("broken")
        raise ValueError("a callback's own")

    b = bench(failure_callbacks=[broken])
    b.monitor.call_on_failure(lambda: b.did.append("before"))
    assert b.did == []
    with caplog.at_level(logging.ERROR):
        b.says(0, FAILED, "why")
    assert b.did == ["wake", "broken", "before"]
    assert ["the pool has failed" in r.getMessage() for r in caplog.records] == [True, False]
    assert "why" in caplog.text
    assert "a callback's own" in caplog.text
    b.monitor.call_on_failure(lambda: b.did.append("after"))
    assert b.did == ["wake", "broken", "before", "after"]
    for once in b.monitor.callbacks:
        once()
    assert b.did == ["wake", "broken", "before", "after"]


class TestEscalation:
    @pytest.mark.parametrize("failed", [False, True])
    def test_workers_are_asked_then_told_then_killed(self, bench, failed):
        b = bench()
        b.all_ready()
        if failed:
            b.says(0, LEAVING, "why")
            assert b.did == ["wake"]
            b.did.clear()
        else:
            b.monitor._stop.set()
        b.monitor._escalate(100.0)
        assert b.life.state is PoolState.STOPPING
        assert b.monitor.outcome_known.is_set()
        assert b.monitor._start_settled.is_set()
        assert b.did == ["wake"]
        assert [b.hears(0), b.hears(1), b.hears(0)] == [LEAVE, LEAVE, None]
        b.monitor._escalate(101.9)
        assert b.did == ["wake"]
        b.bodies[0].die()
        b.monitor._escalate(102.0)
        assert b.did == ["wake", (1001, 15)]
        b.monitor._escalate(105.0)
        assert b.did == ["wake", (1001, 15), (1001, "kill")]
        assert not b.monitor._all_exited()
        b.bodies[1].die()
        assert b.monitor._all_exited()

    def test_the_last_step_tells_that_a_worker_does_not_die(self, bench, caplog):
        b = bench()
        b.all_ready()
        b.monitor._stop.set()
        with caplog.at_level(logging.WARNING):
            for now in (100.0, 102.0, 105.0):
                b.monitor._escalate(now)
            b.bodies[0].die()
            b.monitor._escalate(107.9)
            assert "does not die" not in caplog.text
            b.monitor._escalate(108.0)
        assert [r.getMessage() for r in caplog.records] == [
            "worker 0 (pid 1000) has not left; SIGTERM",
            "worker 1 (pid 1001) has not left; SIGTERM",
            "worker 0 (pid 1000) is still there; SIGKILL",
            "worker 1 (pid 1001) is still there; SIGKILL",
            "worker 1 (pid 1001) does not die",
        ]

    def test_one_that_was_never_started_is_gone(self, bench):
        b = bench()
        b.workers.handles[0].started.clear()
        b.monitor._stop.set()
        b.monitor._escalate(100.0)
        assert b.did == ["wake", (1001, 15)]
        assert not b.monitor._all_exited()
        b.bodies[1].die()
        assert b.monitor._all_exited()
        b.bodies[0].close()


END = ["give back", "sweep"]


class TestTheThread:
    def test_it_sleeps_until_each_step_is_due_and_gives_up(self, bench):
        b = bench()
        b.all_ready()
        b.monitor._stop.set()
        b.monitor._run()
        # A millisecond more each time: a poll may come back early by its rounding.
        assert b.slept == pytest.approx([2001, 3000, 3000], abs=3)
        assert b.did == [
            "wake", (1000, 15), (1001, 15), (1000, "kill"), (1001, "kill"),
            (1000, "kill"), (1001, "kill"), *END,
        ]  # fmt: skip
        assert b.life.state is PoolState.STOPPED
        assert b.monitor.finished.is_set()
        for body in b.bodies:
            assert len(body.asked) == 1
            assert 0.5 <= body.asked[0] <= 1.5
            assert body.pidfd.fileno() == -1

    def test_what_has_no_more_news_is_not_listened_to_any_more(self, bench):
        b = bench()
        b.all_ready()
        b.workers.handles[0].child_link.close()
        fd = b.workers.handles[0].link.fileno()
        stop = b.monitor._stop.fileno()
        seen: list[bool] = []
        poll: list[Any] = []

        def look() -> list[int]:
            seen.extend([fd in poll[0].fds, stop in poll[0].fds])
            return [stop]

        made = b.monitor._poller
        b.monitor._poller = lambda: poll.append(made()) or poll[0]
        b.script = [lambda: [fd], look]
        b.monitor._stop.set()
        b.monitor._run()
        assert seen == [False, True]
        assert stop not in poll[0].fds

    def test_it_listens_to_links_processes_and_the_flag(self, bench):
        b = bench(3)
        b.workers.handles[2].started.clear()
        b.bodies[1].close()
        registered = b.monitor._poller().fds
        links = [m.link.fileno() for m in b.workers.handles]
        wanted = {b.monitor._stop.fileno(), *links, b.bodies[0].pidfd.fileno()}
        assert set(registered) == wanted
        assert set(registered.values()) == {select.POLLIN}

    def test_a_process_may_have_descriptor_zero(self, bench):
        b = bench(1)
        body = b.bodies[0]
        real, body.pidfd = body.pidfd, SimpleNamespace(fileno=lambda: 0, close=int)
        assert 0 in b.monitor._poller().fds
        body.pidfd = real

    def test_it_ends_in_good_order_whatever_fails(self, bench, caplog):
        b = bench(1)

        def broken() -> None:
            raise ValueError("cannot be given back")

        b.monitor._release = broken
        b.monitor._finish()
        assert "cannot be given back" in caplog.text
        assert b.life.state is PoolState.STOPPED
        for flag in (b.monitor.outcome_known, b.monitor.finished, b.monitor._start_settled):
            assert flag.is_set()

    def test_it_is_not_started_after_the_end(self, bench):
        b = bench()
        b.monitor.finished.set()
        b.monitor.start()
        assert b.monitor._thread._attempts == []

    def test_a_stop_waits_a_moment_for_the_thread_itself(self, bench):
        b = bench()
        joined: list[float] = []
        b.monitor._thread._runner["thread"] = SimpleNamespace(join=joined.append)
        b.monitor.finished.set()
        b.monitor.stop()
        assert [0 < seconds < 2 for seconds in joined] == [True]

    def test_a_callback_may_stop_the_pool(self, bench):
        """It runs in the monitor's thread, which would wait for itself."""
        b = bench(failure_callbacks=[lambda: b.monitor.stop() or b.did.append("told")])
        b.monitor._thread._runner["thread"] = threading.current_thread()
        b.says(0, FAILED, "why")
        assert b.did == ["wake", "told"]
        assert b.life.history[-2:] == [PoolState.FAILED, PoolState.STOPPING]
        assert b.monitor._stop.is_set()
