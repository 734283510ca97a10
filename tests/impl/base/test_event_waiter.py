"""What a blocked party hears, and for how long it sleeps at most (Q8, Q9)."""

import logging
import os
import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from refengine.base.cancel import CancelToken
from refengine.base.event_waiter import EpollWaiter
from refengine.errors import Cancelled, QueueClosed


class Epoll:
    """Notes for how long one would sleep; nothing happens meanwhile."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        self.slept.append(seconds)
        return []

    def close(self) -> None:
        pass


class Timed(EpollWaiter):
    def __init__(self) -> None:
        self.now = 100.0
        super().__init__(lambda: self.now)
        self._epoll.close()
        self._epoll: Any = Epoll()

    def sleeps(self, *asked: float | None) -> list[float]:
        self._epoll.slept.clear()
        for seconds in asked:
            self.block(seconds)
        return self._epoll.slept


@pytest.fixture
def timed() -> Iterator[Timed]:
    waiter = Timed()
    yield waiter
    waiter.close()


@pytest.fixture
def waiter() -> Iterator[EpollWaiter]:
    waiter = EpollWaiter()
    yield waiter
    waiter.close()


@pytest.fixture
def bell() -> Iterator[int]:
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    yield fd
    os.close(fd)


def test_a_sleep_lasts_as_long_as_asked_and_a_minute_at_most(timed: Timed):
    assert timed.sleeps(0, 2.5, None, 100.0, -3.0) == [0, 2.5, 60.0, 60.0, 0.0]


def test_after_a_minute_a_warning_is_logged_and_the_next_minute_begins(
    timed: Timed, caplog: pytest.LogCaptureFixture
):
    timed.block(None)
    timed.now += 59.0
    assert timed.sleeps(None, 0.5) == [1.0, 0.5]
    assert not caplog.records
    timed.now += 1.0
    with caplog.at_level(logging.WARNING):
        assert timed.sleeps(None) == [60.0]
    assert "still waiting after 60 s" in caplog.text
    caplog.clear()
    timed.now += 1.0
    assert timed.sleeps(None) == [59.0]
    assert not caplog.records


def test_a_call_that_may_wait_for_ever_is_not_warned_of(
    timed: Timed, caplog: pytest.LogCaptureFixture
):
    timed.begin_call(None, True)
    timed.block(None)
    timed.now += 60.0
    assert timed.sleeps(None) == [60.0]
    assert not caplog.records
    timed.end_call()
    timed.now += 60.0
    timed.block(None)
    assert caplog.records


def test_each_call_has_a_minute_of_its_own(timed: Timed, caplog: pytest.LogCaptureFixture):
    timed.block(None)
    timed.now += 60.0
    timed.begin_call(None)
    assert timed.sleeps(None) == [60.0]
    assert not caplog.records


@pytest.mark.parametrize(
    ("cancel", "sleeps"),
    [
        (None, [2.0, None, 0.01]),
        (CancelToken(), [2.0, None, 0.01]),
        (threading.Event(), [0.05, 0.05, 0.01]),
    ],
)
def test_only_a_plain_event_must_be_looked_at_often(waiter: Any, cancel: Any, sleeps: list[Any]):
    waiter.begin_call(cancel)
    assert [waiter.poll_interval(seconds) for seconds in (2.0, None, 0.01)] == sleeps
    waiter.end_call()
    assert waiter.poll_interval(2.0) == 2.0


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_what_an_exception_leaves_of_a_call_s_end_the_next_call_ends(
    waiter: EpollWaiter, monkeypatch: pytest.MonkeyPatch, before: bool
):
    epoll, token = waiter._epoll, CancelToken()

    class Struck:
        def __getattr__(self, name: str) -> Any:
            return getattr(epoll, name)

        def unregister(self, fd: int) -> None:
            if not before:
                epoll.unregister(fd)
            raise KeyboardInterrupt

    waiter.begin_call(token)
    monkeypatch.setattr(waiter, "_epoll", Struck())
    with pytest.raises(KeyboardInterrupt):
        waiter.end_call()
    monkeypatch.undo()
    waiter.begin_call(None)
    token.set()
    assert epoll.poll(0) == []


def test_a_slice_bounds_a_sleep(timed: Timed):
    timed.begin_call(threading.Event())
    assert timed.sleeps(None, 0.01, 3.0) == [0.05, 0.01, 0.05]


def test_news_call_their_handler_until_they_are_ignored(waiter: EpollWaiter, bell: int):
    heard: list[int] = []
    waiter.watch(bell, lambda: heard.append(1))
    waiter.block(0)
    assert heard == []
    os.eventfd_write(bell, 1)
    waiter.block(0)
    waiter.block(None)
    assert heard == [1, 1]
    waiter.unwatch(bell)
    waiter.unwatch(bell)  # nothing, the second time
    waiter.block(0)
    assert heard == [1, 1]
    waiter.watch(bell, lambda: heard.append(2))
    waiter.block(0)
    assert heard == [1, 1, 2]


def test_a_handler_can_ask_for_other_events(waiter: EpollWaiter, bell: int):
    heard: list[int] = []
    waiter.watch(bell, lambda: heard.append(1), select.EPOLLOUT)
    waiter.block(0)
    assert heard == [1]


def test_a_ring_is_one_edge(waiter: EpollWaiter, bell: int):
    waiter.watch_wakeup(bell)

    def readable() -> bool:
        return bool(select.select([waiter.fileno()], [], [], 0)[0])

    assert not readable()
    os.eventfd_write(bell, 1)
    assert readable()
    waiter.block(0)
    assert not readable()


def test_faults_are_told_in_their_order(waiter: EpollWaiter):
    assert (waiter.fault(), waiter.has_error, waiter.stopped, waiter.permanent_error) == (None,) + (
        False,
    ) * 2 + (None,)
    waiter.set_error(lambda _: QueueClosed("the writer"))
    assert waiter.has_error
    token = CancelToken()
    waiter.begin_call(token)
    assert waiter.in_call

    def error() -> str:
        fault = waiter.fault()
        assert fault is not None
        return str(fault("x"))

    assert "the writer closed" in error()
    token.set()
    assert error() == "the call was cancelled while waiting for x"
    waiter.stop()
    assert waiter.stopped
    fault = waiter.fault()
    assert fault is not None
    assert isinstance(fault("x"), Cancelled)
    assert error() == "shutdown() was called while waiting for x"


def test_a_stop_alone_is_worth_a_look(waiter: EpollWaiter):
    waiter.stop()
    assert waiter.has_error
    waiter.block(None)  # returns: it is readable for good
    waiter.block(None)


def test_a_token_is_heard_during_its_call_alone(waiter: EpollWaiter):
    token = CancelToken()
    waiter.begin_call(token)
    waiter.begin_call(token)  # what an exception left behind is forgotten
    token.set()
    assert select.select([waiter.fileno()], [], [], 0)[0]
    waiter.end_call()
    assert not waiter.in_call
    assert waiter.fault() is None
    assert not select.select([waiter.fileno()], [], [], 0)[0]


def test_a_close_gives_its_descriptors_back_once():
    waiter = EpollWaiter()
    stop = waiter._stop
    for _ in range(2):
        waiter.close()
    assert waiter.stopped
    assert waiter.has_error
    assert waiter._epoll.closed
    assert waiter._stop == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(stop)


def test_descriptor_zero_is_given_back_too(monkeypatch: pytest.MonkeyPatch):
    waiter, closed = EpollWaiter(), []
    real = waiter._own._held.pop()
    waiter._own._held.append(0)
    monkeypatch.setattr(os, "close", closed.append)
    waiter.close()
    monkeypatch.undo()
    os.close(real)
    assert closed == [0]
    assert waiter._stop == -1
