"""What a pool's operations do with calls, futures and the guard: no worker, no process."""

import sys
import threading
import time
from concurrent.futures import Future
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
    asking,
)
from refengine.executor.asking import Asking, Order
from refengine.executor.crew import Shape
from refengine.executor.lifecycle import State
from refengine.executor.pool import Pool
from refengine.executor.settings import WorkerSpec

Left = Any


class Watch:
    """The monitor, as far as a caller sees it."""

    def __init__(self) -> None:
        self.no: Any = None
        self.waits: list[float | None] = []
        self.decided = SimpleNamespace(wait=self.waits.append)
        self.stops = 0
        self.going = False

    def somebody_goes(self) -> bool:
        return self.going

    def refusal(self, operation: str) -> Any:
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

    def ask(self, *what: Any, in_turn: bool = True) -> int:
        self.asked.append((*what[:4], in_turn))
        self.lefts.append(what[4])
        if self.error is not None:
            raise self.error
        return len(self.asked)

    def replies(self, number: int, method: str, ranks: Any, left: Left) -> list[Any]:
        self.lefts.append(left())
        if self.go is not None:
            assert self.go.wait(5)
        if self.error is not None:
            raise self.error
        return [(rank, number) for rank in ranks]

    def missing(self, number: int) -> list[int]:
        return self.ranks[1:]


@pytest.fixture
def made():
    pools: list[Any] = []

    def make(workers: int = 2, in_flight: int = 1) -> Any:
        settings = PoolSettings(in_flight=in_flight, start_timeout=0.5)
        p: Any = Pool(Shape(workers, 1, "cpu"), WorkerSpec("x:Y", {}), settings)
        p.watch = Watch()
        p.asking = Asking(p.lifecycle, p.watch, in_flight)
        p.asking.calls = Scripted(workers)
        p.lifecycle.advance(State.READY)
        pools.append(p)
        return p

    yield make
    for p in pools:
        if p.asking.calls and getattr(p.asking.calls, "go", None):
            p.asking.calls.go.set()
        p.asking._in_order.end(PoolClosed)
        p.crew.close()


def call(p: Any, method: Any = "work", timeout: float | None = 2.0, only: int | None = None) -> Any:
    return p.asking.call(Order.given(method, timeout, ("a",), {"k": 1}, only))


def submit(p: Any, timeout: float | None = 2.0, only: int | None = None, shape: Any = list) -> Any:
    return p.asking.submit(Order.given("work", timeout, ("a",), {"k": 1}, only), shape)


class TestCall:
    def test_it_asks_and_takes_the_replies_within_its_time(self, made):
        p = made()
        assert call(p) == [(0, 1), (1, 1)]
        assert call(p, only=1) == [(1, 2)]
        assert p.asking.calls.asked == [
            ("work", ("a",), {"k": 1}, only, True) for only in (None, 1)
        ]
        assert all(1.5 < left <= 2.0 for left in p.asking.calls.lefts)
        assert p.lifecycle.state is State.RUNNING
        assert not p.asking._guard.inside
        p.lifecycle.advance(State.STOPPING)
        call(p)
        assert p.lifecycle.state is State.STOPPING

    def test_without_a_deadline_it_has_no_end(self, made):
        p = made()
        call(p, timeout=None)
        assert p.asking.calls.lefts == [None, None]

    def test_a_function_is_sent_by_value(self, made, monkeypatch):
        p = made()
        monkeypatch.setattr(asking, "_pickled", lambda function: b"by value")
        call(p, lambda worker: worker)
        assert p.asking.calls.asked[0][0] == b"by value"

    def test_it_is_refused_before_the_start_and_after_the_end(self, made):
        p = made()
        p.asking.calls = None
        with pytest.raises(NotReady, match="work"):
            call(p)
        p.watch.no = PoolClosed
        for operation in (call, submit):
            with pytest.raises(PoolClosed, match="work"):
                operation(p)
            assert not p.asking._guard.inside
            assert p.asking._guard.enter_within(0.0)
            p.asking._guard.leave()

    @pytest.mark.parametrize("known", [True, False])
    def test_a_queues_end_is_told_as_what_the_monitor_knows(self, made, known):
        p = made()
        p.asking.calls.error = Cancelled("a reply", "shutdown")
        if known:

            def wait(seconds: float) -> None:
                assert 1.0 <= seconds <= 2.0
                p.watch.no = PoolClosed

            p.watch.decided.wait = wait
        with pytest.raises(PoolClosed if known else Cancelled):
            call(p)
        assert not p.asking._guard.inside

    def test_a_request_that_nobody_takes_is_told_with_its_time(self, made):
        p = made()
        p.asking.calls.error = DeadlinePassed("something else", 9.0)
        with pytest.raises(DeadlinePassed, match=r"2 s for a worker to take a request"):
            call(p)
        with pytest.raises(DeadlinePassed, match=r"waited 0 s for a worker to take a request"):
            call(p, timeout=None)

    def test_replies_that_do_not_come_are_told_with_who_is_missing(self, made):
        p = made()
        p.asking.calls.replies = _late
        with pytest.raises(CallTimedOut, match=r"waited 2 s for worker 1 to answer work") as late:
            call(p)
        assert late.value.ranks == [1]

    @pytest.mark.parametrize("going", [False, True])
    def test_a_failure_while_another_worker_dies_is_told_as_the_death(self, made, going):
        p = made()
        p.watch.going = going
        p.watch.decided.wait = lambda _: setattr(p.watch, "no", PoolClosed)
        p.asking.calls.error = None

        def fail(*_: Any) -> Any:
            raise CallFailed(0, "work", "a collective broke")

        p.asking.calls.replies = fail
        with pytest.raises(PoolClosed if going else CallFailed):
            call(p)

    def test_behind_calls_that_do_not_wait_it_takes_its_turn(self, made):
        p = made(in_flight=4)
        p.asking.calls.go = threading.Event()
        first = submit(p)
        threading.Timer(0.05, p.asking.calls.go.set).start()
        assert call(p) == [(0, 2), (1, 2)]
        assert first.result(0.0) == [(0, 1), (1, 1)]
        assert [asked[4] for asked in p.asking.calls.asked] == [True, False]
        until_idle(p)
        call(p)
        assert p.asking.calls.asked[-1][4]

    @pytest.mark.parametrize(("only", "ranks"), [(None, [0, 1]), (1, [1])])
    def test_behind_others_it_ends_at_its_own_deadline(self, made, only, ranks):
        p = made(in_flight=4)
        p.asking.calls.go = threading.Event()
        submit(p)
        with pytest.raises(CallTimedOut, match=r"waited 0\.02 s") as late:
            call(p, timeout=0.02, only=only)
        assert late.value.ranks == ranks
        assert not p.asking._guard.inside

    def test_behind_others_its_own_late_replies_are_told_as_they_are(self, made):
        p = made(in_flight=4)
        p.asking.calls.go = threading.Event()
        submit(p)
        p.asking.calls.replies = _late
        threading.Timer(0.02, p.asking.calls.go.set).start()
        with pytest.raises(CallTimedOut, match=r"waited 2 s for worker 1 ") as late:
            call(p)
        assert late.value.ranks == [1]


def until_idle(p: Any) -> None:
    end = time.monotonic() + 5
    while p.asking._in_order.pending:
        assert time.monotonic() < end


def _late(*_: Any) -> Any:
    raise DeadlinePassed("a message", 1.0)


class TestTurns:
    @pytest.mark.parametrize("operation", [call, submit])
    @pytest.mark.parametrize("seconds", [0.0, -1.0, 0.02])
    def test_another_threads_call_is_waited_for_as_long_as_there_is_time(
        self, made, operation, seconds
    ):
        p = made()
        holds, go = threading.Event(), threading.Event()

        def hold() -> None:
            p.asking._guard.acquire()
            holds.set()
            go.wait(5)
            p.asking._guard.release()

        thread = threading.Thread(target=hold)
        thread.start()
        assert holds.wait(5)
        for inside in (False, True):
            p.asking._guard.inside = inside
            with pytest.raises(Busy, match="work"):
                operation(p, timeout=seconds)
        p.asking._guard.inside = False
        threading.Timer(0.03, go.set).start()
        found = operation(p, timeout=None)
        assert (found.result(5) if operation is submit else found) == [(0, 1), (1, 1)]
        thread.join(5)

    def test_a_call_from_a_signal_handler_inside_one_is_busy(self, made):
        p = made()
        seen: list[str] = []

        def inside(*_: Any, **__: Any) -> int:
            guard = p.asking._guard  # as a frame of an operation has it
            assert guard.inside
            for operation in (call, submit):
                try:
                    operation(p, timeout=0.01)
                except Busy as error:
                    seen.append(str(error))
            return 1

        p.asking.calls.ask = inside
        call(p)
        assert len(seen) == 2


class TestSubmit:
    def test_its_future_has_what_the_shape_makes_of_the_replies(self, made):
        p = made()
        future = submit(p, shape=lambda found: found[0])
        assert future.result(5) == (0, 1)
        assert not future.cancel()
        until_idle(p)
        assert submit(p, only=1).result(5) == [(1, 2)]
        assert p.lifecycle.state is State.RUNNING
        assert not p.asking._guard.inside

    def test_its_errors_are_its_futures(self, made):
        p = made(in_flight=2)

        def broken(found: Any) -> Any:
            raise ValueError("cannot be shaped")

        with pytest.raises(ValueError, match="shaped"):
            submit(p, shape=broken).result(5)
        assert submit(p).result(5) == [(0, 2), (1, 2)]

    def test_no_more_than_so_many_are_in_flight(self, made):
        p = made(in_flight=2)
        p.asking.calls.go = threading.Event()
        first, second = submit(p), submit(p)
        with pytest.raises(DeadlinePassed, match=r"0\.02 s for a place for work in flight"):
            submit(p, timeout=0.02)
        assert len(p.asking.calls.asked) == 2
        threading.Timer(0.02, p.asking.calls.go.set).start()
        assert submit(p).result(5) == [(0, 3), (1, 3)]
        assert first.done()
        assert second.done()

    def test_a_pool_that_fails_meanwhile_ends_it_too(self, made):
        p = made()
        p.asking.calls.go = threading.Event()
        refusals = iter([None, PoolClosed("work"), PoolClosed("work")])
        p.watch.refusal = lambda _: next(refusals, PoolClosed("work"))
        p.asking.calls.replies = lambda *_: pytest.fail("nobody would answer")
        p.asking._in_order._rung = SimpleNamespace(put=lambda _: None, get=lambda: False)
        with pytest.raises(PoolClosed):
            submit(p).result(0.0)

    def test_the_place_of_one_that_just_ended_is_free(self, made):
        p = made()
        p.asking._in_order.oldest = lambda: None
        p.asking._in_order.pending.append(SimpleNamespace(future=Future()))
        p.asking._await_a_place(Order.given("work", 0.0))
        p.asking._in_order.pending.clear()


class TestHealth:
    def test_only_one_that_stood_still_all_the_time_is_told(self, made):
        p = made(3)
        p.crew.members = [SimpleNamespace(rank=rank, pid=11 * rank, close=int) for rank in range(3)]
        page = p.crew.page
        for rank in (0, 2):
            page.begin(rank)

        def late(*_: Any) -> Any:
            page.end(0)
            raise CallTimedOut([0, 1, 2], "check_health", 0.1)

        p.asking.call = late
        with pytest.raises(NotProgressing) as stuck:
            p.check_health(0.1)
        assert (stuck.value.rank, stuck.value.busy_for) == (1, 0.0)
        page.begin(1)
        page.end(1)

        def others(*_: Any) -> Any:
            page.end(0)
            page.end(1)
            raise CallTimedOut([2], "check_health", 0.1)

        p.asking.call = others
        with pytest.raises(NotProgressing) as stuck:
            p.check_health(0.1)
        assert (stuck.value.rank, stuck.value.pid, stuck.value.facts[3]) == (2, 22, 0.1)
        assert 0 < stuck.value.busy_for < 5
        with pytest.raises(NotProgressing) as stuck:
            p.check_health(None)
        assert stuck.value.facts[3] == 0.0
        p.crew.members = []

    def test_it_asks_every_worker(self, made):
        p = made()
        p.crew.members = []
        p.check_health(1.0)
        assert p.asking.calls.asked == [("check_health", (), {}, None, True)]


class TestStartAndEnd:
    def test_a_start_tells_who_is_not_ready(self, made):
        p = made(3)
        p.watch.ready = threading.Event()
        p.crew.members = [SimpleNamespace(rank=r, handle="h" if r == 1 else None) for r in range(3)]
        with pytest.raises(DeadlinePassed, match=r"waited 0\.5 s for worker 0, 2 to be READY"):
            p._check_start()
        p.watch.ready.set()
        p._check_start()
        p.watch.no = PoolClosed
        with pytest.raises(PoolClosed, match="the start"):
            p._check_start()
        p.crew.members = []

    @pytest.mark.parametrize(
        ("error", "waits"), [(DeadlinePassed("all", 0.5), [0.0]), (Cancelled("all", "x"), [1.5])]
    )
    def test_a_meeting_that_fails_is_told_as_what_the_monitor_knows(self, made, error, waits):
        p = made(1)
        p.crew.start = lambda *_: None
        p.watch.start = lambda: None
        p.watch.await_ready = lambda left: p.watch.waits.append(0.0 < left <= 0.5)
        p.watch.ready = threading.Event()
        p.watch.ready.set()

        def meet(left: Any) -> None:
            raise error

        p._meet = meet
        with pytest.raises(type(error)):
            p.start()
        assert p.watch.waits == [True, *waits]

        def wait(_: float) -> None:
            p.watch.no = lambda _: StartFailed(0, 1, "it died")

        p.watch.decided.wait = wait
        with pytest.raises(StartFailed):
            p.start()

    def test_only_its_own_process_stops_it(self, made):
        p = made()
        p.stop()
        p._pid += 1
        p.stop()
        assert p.watch.stops == 1

    def test_waking_ends_queues_and_futures(self, made):
        p = made(in_flight=3)
        did: list[Any] = []

        def close(seconds: float) -> None:
            did.append(seconds)
            raise OSError("cannot be closed")

        p._queues += [
            SimpleNamespace(shutdown=lambda: did.append("shutdown"), close=close) for _ in "ab"
        ]
        p._wake()
        assert did == ["shutdown"] * 2
        futures = []
        for refusal in (None, lambda _: StartFailed(0, 1, "x")):
            futures.append(Future())
            p.asking._in_order.pending.append(SimpleNamespace(future=futures[-1], method="work"))
            p.watch.no = refusal
            p._wake()
        kinds = [type(future.exception(0.0)) for future in futures]
        assert kinds == [PoolClosed, StartFailed]
        futures.append(Future())
        p.asking._in_order.pending.append(SimpleNamespace(future=futures[-1], method="work"))
        did.clear()
        p._give_back()
        assert len(did) == 2
        assert all(0 < seconds < 1 for seconds in did)
        assert isinstance(futures[-1].exception(0.0), StartFailed)
        p.asking.end()

    def test_an_order_has_a_name_and_patience(self, monkeypatch):
        assert Order.given("by name", None).name == "by name"
        assert Order.given(until_idle, None).name == "until_idle"
        assert Order.given(Nameless(), None).name == "nameless"
        assert Order.given("x", None)[2:5] == ((), {}, None)
        now = [100.0]
        monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: now[0]))
        order = Order.given("x", 3.0)
        now[0] = 101.0
        assert (order.left(), order.patience) == (2.0, 2.0)
        now[0] = 104.0
        assert (order.left(), order.patience) == (-1.0, 0.0)
        assert Order.given("x", None).patience == -1

    def test_a_function_is_pickled_by_value(self, monkeypatch):
        library = SimpleNamespace(dumps=lambda function: (function, "by value"))
        monkeypatch.setitem(sys.modules, "cloudpickle", library)
        assert asking._pickled(repr) == (repr, "by value")


class Nameless:
    def __call__(self) -> None:
        pass

    def __repr__(self) -> str:
        return "nameless"
