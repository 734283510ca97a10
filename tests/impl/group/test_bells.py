"""How a call sleeps until something was heard: no wake-up is lost, none comes twice."""

import threading

import pytest

from refengine.group.bells import Bell, Bells


class Lock:
    """Notes for how long one would sleep."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def acquire(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return True


def rung(bell: Bell) -> bool:
    """Whether a sleep would end at once; takes the ring."""
    return bell._lock.acquire(timeout=0)


def test_a_new_bell_has_not_rung():
    assert not rung(Bell())


def test_a_ring_before_the_sleep_is_not_lost():
    bell = Bell()
    bell.ring()
    bell.sleep(None)  # would never return
    assert not rung(bell)


@pytest.mark.parametrize(("asked", "slept"), [(None, 3600), (5.0, 5.0), (1e9, 3600), (0.0, 0.0)])
def test_a_sleep_lasts_as_long_as_asked_within_what_a_lock_can(asked: float | None, slept: float):
    bell, lock = Bell(), Lock()
    bell._lock = lock
    bell.sleep(asked)
    assert lock.waits == [slept]


def test_a_ring_wakes_everybody_once():
    bells = Bells()
    hanging = [bells.hang() for _ in range(3)]
    assert len({id(bell) for bell in hanging}) == 3
    bells.ring()
    assert [rung(bell) for bell in hanging] == [True] * 3
    bells.ring()
    assert [rung(bell) for bell in hanging] == [False] * 3


def test_a_bell_that_was_taken_down_does_not_ring():
    bells = Bells()
    down, up = bells.hang(), bells.hang()
    bells.take_down(down)
    bells.take_down(down)  # nothing, the second time
    bells.ring()
    assert not rung(down)
    assert rung(up)


def test_a_sleeper_in_another_thread_wakes():
    bells = Bells()
    bell = bells.hang()
    sleeper = threading.Thread(target=bell.sleep, args=(None,), daemon=True)
    sleeper.start()
    bells.ring()
    sleeper.join(10)
    assert not sleeper.is_alive()
