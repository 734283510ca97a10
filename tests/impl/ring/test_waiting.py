"""The strategies and the vigil: deadlines, wake-ups, idleness (Q8, Q9)."""

import os
import resource
import threading
import time
from typing import Any

import pytest

from refengine.base.cancel import CancelToken
from refengine.base.event_waiter import EpollWaiter
from refengine.errors import Cancelled, QueueClosed
from refengine.ring.memory import lock_fence, raw_words
from refengine.ring.waiting import Adaptive, SlotWaiter, SpinThenSleep, Yielding

from ..roles import Role

STRATEGIES = [Adaptive(1), Adaptive(64), Yielding(), Yielding(0.1), SpinThenSleep()]
names = [type(s).__name__ + str(i) for i, s in enumerate(STRATEGIES)]


@pytest.fixture
def waiter():
    waiter = EpollWaiter()
    yield waiter
    waiter.close()


def post_of(waiter: Any, memory: Any = None) -> SlotWaiter:
    memory = memory or memoryview(bytearray(8))
    return SlotWaiter(raw_words(memory), 0, lock_fence(), waiter, "a message")


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("timeout", [0.0005, 0.03, 0.1])
def test_a_deadline_is_never_early_and_soon(strategy: Any, timeout: float, waiter: Any):
    start = time.monotonic()
    assert not strategy.wait(lambda: False, post_of(waiter), timeout)
    assert timeout <= time.monotonic() - start < timeout + 8


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("timeout", [0, -1, -1e9])
def test_zero_and_negative_mean_one_look(strategy: Any, timeout: float, waiter: Any):
    looks: list[int] = []
    assert not strategy.wait(lambda: bool(looks.append(1)), post_of(waiter), timeout)
    assert len(looks) == 1
    assert strategy.wait(lambda: True, post_of(waiter), timeout)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("timeout", [0, 0.01, None])
def test_what_came_before_the_fault_is_seen_before_it(strategy: Any, timeout: Any, waiter: Any):
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return waiter.permanent_error is not None

    def block(_: float | None) -> None:
        waiter.set_error(lambda _: QueueClosed("the writer"))

    point = post_of(waiter)
    point.block = block  # the news and the message come while it sleeps
    assert strategy.wait(look, point, timeout)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
def test_a_fault_is_raised_only_after_a_later_look(strategy: Any, waiter: Any):
    waiter.set_error(lambda _: QueueClosed("the writer"))
    assert strategy.wait(lambda: True, post_of(waiter), None)
    with pytest.raises(QueueClosed):
        strategy.wait(lambda: False, post_of(waiter), None)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=names)
@pytest.mark.parametrize("how", ["stop", "token", "event"])
def test_every_wait_wakes_when_cancelled(strategy: Any, how: str, waiter: Any):
    token = {"token": CancelToken(), "event": threading.Event()}.get(how)
    waiter.begin_call(token)
    waiting = threading.Event()
    fired: list[float] = []

    def fire() -> None:
        waiting.wait(10)
        fired.append(time.monotonic())
        token.set() if token else waiter.stop()

    thread = threading.Thread(target=fire)
    thread.start()

    def look() -> bool:
        waiting.set()
        return False

    with pytest.raises(Cancelled):
        strategy.wait(look, post_of(waiter), 10)
    took = time.monotonic() - fired[0]
    thread.join()
    waiter.end_call()
    assert took < 8  # 0.1 s, and a busy machine; unheard it is 10


def test_a_ring_between_the_look_and_the_sleep_is_not_lost(waiter: Any):
    bell = os.eventfd(0)
    waiter.watch_wakeup(bell)
    memory = memoryview(bytearray(8))
    there: list[int] = []

    class RungWhileArming(SlotWaiter):
        def announce_sleep(self) -> None:
            super().announce_sleep()
            if memory[0] and not there:
                os.eventfd_write(bell, 1)

        blocks = 0

    point = RungWhileArming(raw_words(memory), 0, lock_fence(), waiter, "a message")
    block = point.block

    def counted(seconds: float | None) -> None:
        block(seconds)
        there.append(1)

    point.block = counted
    start = time.monotonic()
    assert Adaptive(64).wait(lambda: bool(there), point, 10)
    assert time.monotonic() - start < 8
    os.close(bell)


def test_the_sleeper_looks_again_after_it_raised_its_flag(waiter: Any):
    memory = memoryview(bytearray(8))
    point = post_of(waiter, memory)
    start = time.monotonic()
    assert Adaptive(64).wait(
        lambda: bool(memory[0]), point, 10
    )  # true from `announce_sleep` on, no bell
    assert time.monotonic() - start < 8


def test_no_wake_up_is_lost_between_processes():
    """Ping-pong through one shared byte each way with flags and bells: 3 000 rounds, no net."""
    import mmap

    memory = memoryview(mmap.mmap(-1, 256))
    bells = [os.eventfd(0), os.eventfd(0)]

    def play(say: Any, me: int) -> None:
        waiter, fence, cells = EpollWaiter(), lock_fence(), raw_words(memory)
        waiter.watch_wakeup(bells[me])
        point = SlotWaiter(cells, 64 * me, fence, waiter, "the ball")
        strategy = Sleepy()
        for n in range(3000):
            if n or me:
                wanted = (n if me else n - 1) % 250 + 1
                assert strategy.wait(lambda w=wanted: memory[128 + me] == w, point, 20), n
            memory[128 + 1 - me] = n % 250 + 1
            fence.acquire(False)
            fence.release()
            if memory[64 * (1 - me)]:
                memory[64 * (1 - me)] = 0
                os.eventfd_write(bells[1 - me], 1)
        say("done")

    with Role(play, 0) as a, Role(play, 1) as b:
        assert a.finish(30) == ["done"]
        assert b.finish(30) == ["done"]
    for bell in bells:
        os.close(bell)


class Sleepy:
    """Adaptive without its spinning: goes to sleep at every miss."""

    def wait(self, look: Any, point: Any, timeout: float | None) -> bool:
        return Adaptive(64, clock=Jumping()).wait(look, point, timeout)


class Jumping:
    """A clock on which the yielding phase is over at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-4
        return self.now


def test_a_blocked_wait_costs_no_processor(waiter: Any):
    def cpu() -> float:
        use = resource.getrusage(resource.RUSAGE_THREAD)
        return use.ru_utime + use.ru_stime

    before = cpu()
    assert not Adaptive(1).wait(lambda: False, post_of(waiter), 0.5)
    assert cpu() - before < 0.05


def test_a_cancel_token_wakes_a_sleeper_through_its_descriptor(waiter: Any):
    token = CancelToken()
    waiter.begin_call(token)
    token.set()
    waiter.block(10)
    assert waiter.fault() is not None
    waiter.end_call()
    assert waiter.fault() is None
