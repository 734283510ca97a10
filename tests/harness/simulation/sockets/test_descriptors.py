"""Bells, against the system's own where one thread is enough to compare them."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import Any

import pytest

from killpoint.search.schedules.replay import FixedSchedule
from killpoint.simulation.scheduler import Scheduler
from killpoint.simulation.sockets.socket_library import Sockets

EDGE = select.EPOLLIN | select.EPOLLET


class System:
    """The calls, of either kind."""

    def __init__(self, module: Any, selecting: Any) -> None:
        self.eventfd, self.eventfd_write = module.eventfd, module.eventfd_write
        self.epoll = selecting.epoll
        self.close = module.close


@pytest.fixture(params=["system", "simulated"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    if request.param == "system":
        yield System(os, select)
    else:
        made = Sockets(Scheduler(FixedSchedule([])), lambda: None).descriptors
        yield System(made, made)


@pytest.fixture
def bell(system: System) -> Iterator[int]:
    fd = system.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    yield fd
    system.close(fd)


def test_a_level_stays_and_an_edge_is_heard_once(system: System, bell: int) -> None:
    level, edge = system.epoll(), system.epoll()
    level.register(bell, select.EPOLLIN)
    edge.register(bell, EDGE)
    assert level.poll(0) == edge.poll(0) == []
    system.eventfd_write(bell, 1)
    for _ in range(2):
        assert level.poll(0) == [(bell, select.EPOLLIN)]
    assert edge.poll(0) == [(bell, select.EPOLLIN)]
    assert edge.poll(0) == []
    level.close()
    edge.close()


def test_each_ring_is_an_edge_and_several_before_a_look_are_one(system: System, bell: int) -> None:
    edge = system.epoll()
    edge.register(bell, EDGE)
    for rings in (1, 3):
        for _ in range(rings):
            system.eventfd_write(bell, 1)
        assert edge.poll(0) == [(bell, select.EPOLLIN)]
        assert edge.poll(0) == []
    edge.close()


def test_a_ring_before_the_registration_is_heard(system: System, bell: int) -> None:
    system.eventfd_write(bell, 1)
    edge = system.epoll()
    edge.register(bell, EDGE)
    assert edge.poll(0) == [(bell, select.EPOLLIN)]
    edge.close()


def test_two_sleepers_both_hear_one_ring(system: System, bell: int) -> None:
    sleepers = [system.epoll(), system.epoll()]
    for sleeper in sleepers:
        sleeper.register(bell, EDGE)
    system.eventfd_write(bell, 1)
    assert [sleeper.poll(0) for sleeper in sleepers] == [[(bell, select.EPOLLIN)]] * 2
    for sleeper in sleepers:
        sleeper.close()


def test_what_is_watched_no_more_is_not_heard(system: System, bell: int) -> None:
    level = system.epoll()
    level.register(bell, select.EPOLLIN)
    system.eventfd_write(bell, 1)
    level.unregister(bell)
    assert level.poll(0) == []
    with pytest.raises(OSError, match="No such file"):
        level.unregister(bell)
    level.close()


def test_an_epoll_is_readable_by_another_when_it_has_news(system: System, bell: int) -> None:
    inner, outer = system.epoll(), system.epoll()
    inner.register(bell, EDGE)
    outer.register(inner.fileno(), select.EPOLLIN)
    assert outer.poll(0) == []
    system.eventfd_write(bell, 1)
    assert outer.poll(0) == [(inner.fileno(), select.EPOLLIN)]
    inner.close()
    outer.close()


def test_a_ring_wakes_a_sleeper_and_carries_what_was_stored_before() -> None:
    world = Scheduler(FixedSchedule([]))
    fences: list[str] = []
    made = Sockets(world, lambda: fences.append(world.current)).descriptors
    fd, sleeper = made.eventfd(), made.epoll()
    sleeper.register(fd, EDGE)
    woke: list[float] = []

    def sleep() -> None:
        assert sleeper.poll(60.0)
        woke.append(world.now)

    def ring() -> None:
        world.wait(lambda: False, 2.0, "its pause")
        made.eventfd_write(fd, 1)

    world.task("sleeper", sleep)
    world.task("ringer", ring)
    assert world.run().how == "done"
    assert (woke, fences) == ([2.0], ["ringer", "sleeper"])
