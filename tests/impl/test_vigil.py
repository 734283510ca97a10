"""What a blocked party hears, and for how long it sleeps at most (Q8, Q9)."""

import logging
import os
import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from refengine.cancel import CancelToken
from refengine.errors import Cancelled, QueueClosed
from refengine.vigil import EpollVigil


class Epoll:
    """Notes for how long one would sleep; nothing happens meanwhile."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        self.slept.append(seconds)
        return []

    def close(self) -> None:
        pass


class Timed(EpollVigil):
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
    vigil = Timed()
    yield vigil
    vigil.close()


@pytest.fixture
def vigil() -> Iterator[EpollVigil]:
    vigil = EpollVigil()
    yield vigil
    vigil.close()


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
    timed.begin(None, True)
    timed.block(None)
    timed.now += 60.0
    assert timed.sleeps(None) == [60.0]
    assert not caplog.records
    timed.end()
    timed.now += 60.0
    timed.block(None)
    assert caplog.records


def test_each_call_has_a_minute_of_its_own(timed: Timed, caplog: pytest.LogCaptureFixture):
    timed.block(None)
    timed.now += 60.0
    timed.begin(None)
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
def test_only_a_plain_event_must_be_looked_at_often(vigil: Any, cancel: Any, sleeps: list[Any]):
    vigil.begin(cancel)
    assert [vigil.slice(seconds) for seconds in (2.0, None, 0.01)] == sleeps
    vigil.end()
    assert vigil.slice(2.0) == 2.0


def test_a_slice_bounds_a_sleep(timed: Timed):
    timed.begin(threading.Event())
    assert timed.sleeps(None, 0.01, 3.0) == [0.05, 0.01, 0.05]


def test_news_call_their_handler_until_they_are_ignored(vigil: EpollVigil, bell: int):
    heard: list[int] = []
    vigil.watch(bell, lambda: heard.append(1))
    vigil.block(0)
    assert heard == []
    os.eventfd_write(bell, 1)
    vigil.block(0)
    vigil.block(None)
    assert heard == [1, 1]
    vigil.ignore(bell)
    vigil.ignore(bell)  # nothing, the second time
    vigil.block(0)
    assert heard == [1, 1]
    vigil.watch(bell, lambda: heard.append(2))
    vigil.block(0)
    assert heard == [1, 1, 2]


def test_a_handler_can_ask_for_other_events(vigil: EpollVigil, bell: int):
    heard: list[int] = []
    vigil.watch(bell, lambda: heard.append(1), select.EPOLLOUT)
    vigil.block(0)
    assert heard == [1]


def test_a_ring_is_one_edge(vigil: EpollVigil, bell: int):
    vigil.watch_bell(bell)

    def readable() -> bool:
        return bool(select.select([vigil.fileno()], [], [], 0)[0])

    assert not readable()
    os.eventfd_write(bell, 1)
    assert readable()
    vigil.block(0)
    assert not readable()


def test_faults_are_told_in_their_order(vigil: EpollVigil):
    assert (vigil.fault(), vigil.alarmed, vigil.stopped, vigil.lasting) == (None,) + (
        False,
    ) * 2 + (None,)
    vigil.alarm(lambda _: QueueClosed("the writer"))
    assert vigil.alarmed
    token = CancelToken()
    vigil.begin(token)
    assert vigil.watched

    def error() -> str:
        fault = vigil.fault()
        assert fault is not None
        return str(fault("x"))

    assert "the writer closed" in error()
    token.set()
    assert error() == "the call was cancelled while waiting for x"
    vigil.stop()
    assert vigil.stopped
    fault = vigil.fault()
    assert fault is not None
    assert isinstance(fault("x"), Cancelled)
    assert error() == "shutdown() was called while waiting for x"


def test_a_stop_alone_is_worth_a_look(vigil: EpollVigil):
    vigil.stop()
    assert vigil.alarmed
    vigil.block(None)  # returns: it is readable for good
    vigil.block(None)


def test_a_token_is_heard_during_its_call_alone(vigil: EpollVigil):
    token = CancelToken()
    vigil.begin(token)
    vigil.begin(token)  # what an exception left behind is forgotten
    token.set()
    assert select.select([vigil.fileno()], [], [], 0)[0]
    vigil.end()
    assert not vigil.watched
    assert vigil.fault() is None
    assert not select.select([vigil.fileno()], [], [], 0)[0]


def test_a_close_gives_its_descriptors_back_once():
    vigil = EpollVigil()
    stop = vigil._stop
    for _ in range(2):
        vigil.close()
    assert vigil.stopped
    assert vigil.alarmed
    assert vigil._epoll.closed
    assert vigil._stop == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(stop)


def test_descriptor_zero_is_given_back_too(monkeypatch: pytest.MonkeyPatch):
    vigil, closed = EpollVigil(), []
    real = vigil._own._held.pop()
    vigil._own._held.append(0)
    monkeypatch.setattr(os, "close", closed.append)
    vigil.close()
    monkeypatch.undo()
    os.close(real)
    assert closed == [0]
    assert vigil._stop == -1
