"""How a call sleeps until something was heard: no wake-up is lost, none comes twice."""

import threading

import pytest

from refengine.group.wakers import Waker, Wakers


class Lock:
    """Notes for how long one would sleep."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def acquire(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return True


def rung(waker: Waker) -> bool:
    """Whether a sleep would end at once; takes the ring."""
    return waker._lock.acquire(timeout=0)


def test_a_new_bell_has_not_rung():
    assert not rung(Waker())


def test_a_wake_before_the_sleep_is_not_lost():
    waker = Waker()
    waker.wake()
    waker.sleep(None)  # would never return
    assert not rung(waker)


@pytest.mark.parametrize(("asked", "slept"), [(None, 3600), (5.0, 5.0), (1e9, 3600), (0.0, 0.0)])
def test_a_sleep_lasts_as_long_as_asked_within_what_a_lock_can(asked: float | None, slept: float):
    waker, lock = Waker(), Lock()
    waker._lock = lock
    waker.sleep(asked)
    assert lock.waits == [slept]


def test_a_wake_wakes_everybody_once():
    wakers = Wakers()
    waiting = [wakers.add() for _ in range(3)]
    assert len({id(waker) for waker in waiting}) == 3
    wakers.wake_all()
    assert [rung(waker) for waker in waiting] == [True] * 3
    wakers.wake_all()
    assert [rung(waker) for waker in waiting] == [False] * 3


def test_a_bell_that_was_taken_down_does_not_ring():
    wakers = Wakers()
    down, up = wakers.add(), wakers.add()
    wakers.remove(down)
    wakers.remove(down)  # nothing, the second time
    wakers.wake_all()
    assert not rung(down)
    assert rung(up)


def test_a_sleeper_in_another_thread_wakes():
    wakers = Wakers()
    waker = wakers.add()
    sleeper = threading.Thread(target=waker.sleep, args=(None,), daemon=True)
    sleeper.start()
    wakers.wake_all()
    sleeper.join(10)
    assert not sleeper.is_alive()
