"""What a pool's operations do with calls, futures and the guard: no worker, no process."""

import threading
import time
from concurrent.futures import Future
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.errors import Busy, Cancelled, DeadlinePassed, NotReady
from refengine.executor import (
    CallFailed,
    CallTimedOut,
    NotProgressing,
    PoolClosed,
    PoolSettings,
    StartFailed,
    rpc,
)
from refengine.executor.executor import Pool
from refengine.executor.monitor import PoolState
from refengine.executor.rpc import Call, RpcClient
from refengine.executor.settings import WorkerSpec
from refengine.executor.workers import PoolShape

Remaining = Any


class PoolMonitor:
    """The monitor, as far as a caller sees it."""

    def __init__(self) -> None:
        self.no: Any = None
        self.waits: list[float | None] = []
        self.outcome_known = SimpleNamespace(wait=self.waits.append)
        self.stops = 0
        self.going = False

    def any_worker_exiting(self) -> bool:
        return self.going

    def error_for(self, operation: str) -> Any:
        return self.no(operation) if self.no else None

    def stop(self) -> None:
        self.stops += 1


class Scripted:
    """Calls whose replies are `worker` and the call's number, or an error that is raised."""

    def __init__(self, ranks: int) -> None:
        self.ranks = list(range(ranks))
        self.asked: list[Any] = []
        self.error: BaseException | None = None
        self.lefts: list[float | None] = []
        self.go: threading.Event | None = None

    def send(self, *what: Any, in_turn: bool = True, observe: Any = None) -> int:
        self.asked.append((*what[:4], in_turn))
        self.lefts.append(what[4])
        if self.error is not None:
            raise self.error
        return len(self.asked)

    def collect(self, number: int, method: str, ranks: Any, left: Remaining) -> list[Any]:
        self.lefts.append(left())
        if self.go is not None:
            assert self.go.wait(5)
        if self.error is not None:
            raise self.error
        return [(rank, number) for rank in ranks]

    def unanswered(self, number: int, ranks: Any) -> list[int]:
        return ranks[1:]


@pytest.fixture
def made():
    pools: list[Any] = []

    def make(workers: int = 2, in_flight: int = 1) -> Any:
        settings = PoolSettings(in_flight=in_flight, start_timeout=0.5)
        p: Any = Pool(PoolShape(workers, 1, "cpu"), WorkerSpec("x:Y", {}), settings)
        p.monitor = PoolMonitor()
        p.rpc = RpcClient(p.lifecycle, p.monitor, in_flight)
        p.rpc.channel = Scripted(workers)
        p.lifecycle.advance(PoolState.READY)
        pools.append(p)
        return p

    yield make
    for p in pools:
        if p.rpc.channel and getattr(p.rpc.channel, "go", None):
            p.rpc.channel.go.set()
        p.rpc._ordered.end(PoolClosed)
        p.workers.close()


def call(p: Any, method: Any = "work", timeout: float | None = 2.0, only: int | None = None) -> Any:
    return p.rpc.call(Call.begin(method, timeout, ("a",), {"k": 1}, only))


def submit(
    p: Any, timeout: float | None = 2.0, only: int | None = None, combine: Any = list
) -> Any:
    return p.rpc.submit(Call.begin("work", timeout, ("a",), {"k": 1}, only), combine)


class TestCall:
    def test_it_asks_and_takes_the_replies_within_its_time(self, made):
        p = made()
        assert call(p) == [(0, 1), (1, 1)]
        assert call(p, only=1) == [(1, 2)]
        assert p.rpc.channel.asked == [("work", ("a",), {"k": 1}, only, True) for only in (None, 1)]
        assert all(1.5 < left <= 2.0 for left in p.rpc.channel.lefts)
        assert p.lifecycle.state is PoolState.RUNNING
        assert not p.rpc._guard.held
        p.lifecycle.advance(PoolState.STOPPING)
        call(p)
        assert p.lifecycle.state is PoolState.STOPPING

    def test_it_is_refused_before_the_start_and_after_the_end(self, made):
        p = made()
        p.rpc.channel = None
        with pytest.raises(NotReady, match="work"):
            call(p)
        p.monitor.no = PoolClosed
        for operation in (call, submit):
            with pytest.raises(PoolClosed, match="work"):
                operation(p)
            assert not p.rpc._guard.held
            assert p.rpc._guard.enter_within(0.0)
            p.rpc._guard.exit()

    @pytest.mark.parametrize("known", [True, False])
    def test_a_queues_end_is_told_as_what_the_monitor_knows(self, made, known):
        p = made()
        p.rpc.channel.error = Cancelled("a reply", "shutdown")
        if known:

            def wait(seconds: float) -> None:
                assert 1.0 <= seconds <= 2.0
                p.monitor.no = PoolClosed

            p.monitor.outcome_known.wait = wait
        with pytest.raises(PoolClosed if known else Cancelled):
            call(p)
        assert not p.rpc._guard.held

    def test_a_request_that_nobody_takes_is_told_with_its_time(self, made):
        p = made()
        p.rpc.channel.error = DeadlinePassed("something else", 9.0)
        with pytest.raises(DeadlinePassed, match=r"2 s for a worker to take a request"):
            call(p)
        with pytest.raises(DeadlinePassed, match=r"waited 0 s for a worker to take a request"):
            call(p, timeout=None)

    @pytest.mark.parametrize("going", [False, True])
    def test_a_failure_while_another_worker_dies_is_told_as_the_death(self, made, going):
        p = made()
        p.monitor.going = going
        p.monitor.outcome_known.wait = lambda _: setattr(p.monitor, "no", PoolClosed)
        p.rpc.channel.error = None

        def fail(*_: Any) -> Any:
            raise CallFailed(0, "work", "a collective broke")

        p.rpc.channel.collect = fail
        with pytest.raises(PoolClosed if going else CallFailed):
            call(p)

    def test_behind_calls_that_do_not_wait_it_takes_its_turn(self, made):
        p = made(in_flight=4)
        p.rpc.channel.go = threading.Event()
        first = submit(p)
        threading.Timer(0.05, p.rpc.channel.go.set).start()
        assert call(p) == [(0, 2), (1, 2)]
        assert first.result(0.0) == [(0, 1), (1, 1)]
        assert [asked[4] for asked in p.rpc.channel.asked] == [True, False]
        until_idle(p)
        call(p)
        assert p.rpc.channel.asked[-1][4]

    @pytest.mark.parametrize("only", [None, 1])
    def test_behind_others_it_ends_at_its_own_deadline_and_blames_nobody(self, made, only):
        p = made(in_flight=4)
        p.rpc.channel.go = threading.Event()
        submit(p)
        with pytest.raises(CallTimedOut, match=r"waited 0\.02 s for workers to answer") as late:
            call(p, timeout=0.02, only=only)
        assert late.value.ranks == []
        assert not p.rpc._guard.held

    def test_when_it_is_its_turn_at_the_deadline_who_is_late_is_known(self, made):
        p = made(in_flight=4)
        channel = p.rpc.channel

        def collect(number: int, _: str, ranks: Any, left: Remaining) -> list[Any]:
            while len(channel.asked) < 2:
                assert left() > 0
            if number == 2:
                threading.Event().wait(left() + 0.01)
                raise DeadlinePassed("a message", 0.02)
            return ranks

        channel.collect = collect
        submit(p)
        with pytest.raises(CallTimedOut, match=r"waited 0\.02 s for worker 1 ") as late:
            call(p, timeout=0.02)
        assert late.value.ranks == [1]

    def test_behind_others_its_own_late_replies_are_told_as_they_are(self, made):
        p = made(in_flight=4)
        p.rpc.channel.go = threading.Event()
        submit(p)
        p.rpc.channel.collect = _late
        threading.Timer(0.02, p.rpc.channel.go.set).start()
        with pytest.raises(CallTimedOut, match=r"waited 2 s for worker 1 ") as late:
            call(p)
        assert late.value.ranks == [1]


def until_idle(p: Any) -> None:
    end = time.monotonic() + 5
    while p.rpc._ordered.pending:
        assert time.monotonic() < end


def _late(*_: Any) -> Any:
    raise DeadlinePassed("a message", 1.0)


class TestTurns:
    @pytest.mark.parametrize("operation", [call, submit])
    def test_another_threads_call_is_waited_for_as_long_as_there_is_time(self, made, operation):
        p = made()
        holds, go = threading.Event(), threading.Event()

        def hold() -> None:
            p.rpc._guard.acquire()
            holds.set()
            go.wait(5)
            p.rpc._guard.release()

        thread = threading.Thread(target=hold)
        thread.start()
        assert holds.wait(5)
        for inside in (False, True):
            p.rpc._guard.held = inside
            with pytest.raises(Busy, match="work"):
                operation(p, timeout=-1.0)
        p.rpc._guard.held = False
        threading.Timer(0.03, go.set).start()
        found = operation(p, timeout=None)
        assert (found.result(5) if operation is submit else found) == [(0, 1), (1, 1)]
        thread.join(5)

    def test_a_call_from_a_signal_handler_inside_one_is_busy(self, made):
        p = made()
        seen: list[str] = []

        def inside(*_: Any, **__: Any) -> int:
            guard = p.rpc._guard  # as a frame of an operation has it
            assert guard.held
            for operation in (call, submit):
                try:
                    operation(p, timeout=0.01)
                except Busy as error:
                    seen.append(str(error))
            return 1

        p.rpc.channel.send = inside
        call(p)
        assert len(seen) == 2


class TestSubmit:
    def test_its_future_has_what_the_shape_makes_of_the_replies(self, made):
        p = made()
        future = submit(p, combine=lambda found: found[0])
        assert future.result(5) == (0, 1)
        assert not future.cancel()
        until_idle(p)
        assert submit(p, only=1).result(5) == [(1, 2)]
        assert p.lifecycle.state is PoolState.RUNNING
        assert not p.rpc._guard.held

    def test_no_more_than_so_many_are_in_flight(self, made):
        p = made(in_flight=2)
        p.rpc.channel.go = threading.Event()
        first, second = submit(p), submit(p)
        with pytest.raises(DeadlinePassed, match=r"0\.02 s for a place for work in flight"):
            submit(p, timeout=0.02)
        assert len(p.rpc.channel.asked) == 2
        threading.Timer(0.02, p.rpc.channel.go.set).start()
        assert submit(p).result(5) == [(0, 3), (1, 3)]
        assert first.done()
        assert second.done()

    @pytest.mark.parametrize("operation", [call, submit])
    def test_a_callback_that_would_wait_for_its_own_thread_is_told_so(self, made, operation):
        p = made(in_flight=2)
        p.rpc.channel.go = threading.Event()
        first, second = submit(p), submit(p)
        seen: list[BaseException] = []

        def callback(_: Any) -> None:
            try:
                submit(p)  # there is room for one
                operation(p, timeout=0.05)
            except BaseException as error:
                seen.append(error)

        first.add_done_callback(callback)
        p.rpc.channel.go.set()
        assert second.result(5) == [(0, 2), (1, 2)]
        assert [type(error) for error in seen] == [RuntimeError]
        assert "work: a future's callback cannot wait" in str(seen[0])
        assert not p.rpc._guard.held
        assert call(p) == [(0, 4), (1, 4)]

    def test_a_callback_may_call_when_nothing_else_is_pending(self, made):
        p = made()
        p.rpc.channel.go = threading.Event()
        first, seen = submit(p), SimpleQueue[Any]()
        first.add_done_callback(lambda _: seen.put(call(p)))
        p.rpc.channel.go.set()
        assert seen.get(timeout=5) == [(0, 2), (1, 2)]

    def test_a_pool_that_fails_meanwhile_ends_it_too(self, made):
        p = made()
        p.rpc.channel.go = threading.Event()
        refusals = iter([None, PoolClosed("work"), PoolClosed("work")])
        p.monitor.error_for = lambda _: next(refusals, PoolClosed("work"))
        p.rpc.channel.collect = lambda *_: pytest.fail("nobody would answer")
        p.rpc._ordered._wakeups = SimpleNamespace(put=lambda _: None, get=lambda: False)
        with pytest.raises(PoolClosed):
            submit(p).result(0.0)


class TestHealth:
    def test_only_one_that_stood_still_all_the_time_is_told(self, made):
        p = made(3)
        p.workers.handles = [
            SimpleNamespace(rank=rank, pid=11 * rank, close=int) for rank in range(3)
        ]
        progress = p.workers.progress
        for rank in (0, 2):
            progress.begin(rank)

        def late(*_: Any) -> Any:
            progress.end(0)
            raise CallTimedOut([0, 1, 2], "check_health", 0.1)

        p.rpc.call = late
        with pytest.raises(NotProgressing) as stuck:
            p.check_health(0.1)
        assert (stuck.value.rank, stuck.value.busy_for) == (1, 0.0)
        progress.begin(1)
        progress.end(1)

        def others(*_: Any) -> Any:
            progress.end(0)
            progress.end(1)
            raise CallTimedOut([2], "check_health", 0.1)

        p.rpc.call = others
        with pytest.raises(NotProgressing) as stuck:
            p.check_health(0.1)
        assert (stuck.value.rank, stuck.value.pid, stuck.value.facts[3]) == (2, 22, 0.1)
        assert 0 < stuck.value.busy_for < 5
        with pytest.raises(NotProgressing) as stuck:
            p.check_health(None)
        assert stuck.value.facts[3] == 0.0
        p.workers.handles = []

    @pytest.mark.parametrize(
        "error",
        [
            CallTimedOut([1], "check_health", 0.1),
            CallTimedOut([], "check_health", 0.1),
            DeadlinePassed("a slot", 0.1),
        ],
        ids=["known", "unknown", "not sent"],
    )
    def test_one_that_has_done_all_there_was_is_not_the_one_that_is_stuck(self, made, error):
        p = made(2)
        p.workers.handles = [SimpleNamespace(rank=r, pid=11 * r, close=int) for r in range(2)]
        progress = p.workers.progress
        for rank in (0, 1):
            progress.begin(rank)
        progress.end(0)

        def call(*_: Any) -> Any:
            raise error

        p.rpc.call = call
        with pytest.raises(NotProgressing) as stuck:
            p.check_health(0.1)
        assert (stuck.value.rank, stuck.value.pid) == (1, 11)
        assert stuck.value.busy_for > 0
        p.workers.handles = []

    def test_of_idle_workers_none_is_stuck_while_the_other_node_is_asked(self, made):
        p = made(2)
        p.node = SimpleNamespace(ranks=range(1, 2))
        p.workers.handles = [SimpleNamespace(rank=0, pid=11, close=int)]

        def full(*_: Any) -> Any:
            raise DeadlinePassed("a place for check_health in flight", 0.1)

        p.rpc.call = full
        with pytest.raises(DeadlinePassed, match="in flight") as late:
            p.check_health(0.1)
        assert not isinstance(late.value, NotProgressing)
        p.node, p.workers.handles = None, []


class TestStartAndEnd:
    def test_a_start_tells_who_is_not_ready(self, made):
        p = made(3)
        p.monitor.ready = threading.Event()
        p.workers.handles = [
            SimpleNamespace(rank=r, replies_handle="h" if r == 1 else None) for r in range(3)
        ]
        with pytest.raises(DeadlinePassed, match=r"waited 0\.5 s for worker 0, 2 to be READY"):
            p._check_start()
        p.monitor.ready.set()
        p._check_start()
        p.monitor.no = PoolClosed
        with pytest.raises(PoolClosed, match="the start"):
            p._check_start()
        p.workers.handles = []

    @pytest.mark.parametrize(
        ("error", "waits"), [(DeadlinePassed("all", 0.5), [0.0]), (Cancelled("all", "x"), [1.5])]
    )
    def test_a_meeting_that_fails_is_told_as_what_the_monitor_knows(self, made, error, waits):
        p = made(1)
        p.workers.start = lambda *_: None
        p.monitor.start = lambda: None
        p.monitor.await_ready = lambda left: p.monitor.waits.append(0.0 < left <= 0.5)
        p.monitor.ready = threading.Event()
        p.monitor.ready.set()

        def meet(left: Any) -> None:
            raise error

        p._handshake = meet
        with pytest.raises(type(error)):
            p.start()
        assert p.monitor.waits == [True, *waits]

        def wait(_: float) -> None:
            p.monitor.no = lambda _: StartFailed(0, 1, "it died")

        p.monitor.outcome_known.wait = wait
        with pytest.raises(StartFailed):
            p.start()

    def test_only_its_own_process_stops_it(self, made):
        p = made()
        p.stop()
        p._pid += 1
        p.stop()
        assert p.monitor.stops == 1

    def test_waking_ends_queues_and_futures(self, made):
        p = made(in_flight=3)
        did: list[Any] = []

        def close(seconds: float) -> None:
            did.append(seconds)
            raise OSError("cannot be closed")

        p._queues += [
            SimpleNamespace(shutdown=lambda: did.append("shutdown"), close=close) for _ in "ab"
        ]
        p._wake_callers()
        assert did == ["shutdown"] * 2
        futures = []
        for error in (None, lambda _: StartFailed(0, 1, "x")):
            futures.append(Future())
            p.rpc._ordered.pending.append(SimpleNamespace(future=futures[-1], method="work"))
            p.monitor.no = error
            p._wake_callers()
        kinds = [type(future.exception(0.0)) for future in futures]
        assert kinds == [PoolClosed, StartFailed]
        futures.append(Future())
        p.rpc._ordered.pending.append(SimpleNamespace(future=futures[-1], method="work"))
        did.clear()
        p._release()
        assert len(did) == 2
        assert all(0 < seconds < 1 for seconds in did)
        assert isinstance(futures[-1].exception(0.0), StartFailed)
        p.rpc.end()

    def test_an_order_has_a_name_and_patience(self, monkeypatch):
        assert Call.begin("by name", None).name == "by name"
        assert Call.begin(until_idle, None).name == "until_idle"
        assert Call.begin(Nameless(), None).name == "nameless"
        assert Call.begin("x", None)[2:5] == ((), {}, None)
        now = [100.0]
        monkeypatch.setattr(rpc, "time", SimpleNamespace(monotonic=lambda: now[0]))
        call = Call.begin("x", 3.0)
        now[0] = 101.0
        assert (call.left(), call.lock_timeout) == (2.0, 2.0)
        now[0] = 104.0
        assert (call.left(), call.lock_timeout) == (-1.0, 0.0)
        assert Call.begin("x", None).lock_timeout == -1


class Nameless:
    def __call__(self) -> None:
        pass

    def __repr__(self) -> str:
        return "nameless"
