"""Is an error the message's own? Seen where no signal handler runs."""

import contextvars
import signal
import threading
from typing import Any

import pytest

from refengine.base import cleanup
from refengine.base.cleanup import reproduce_error

PLACE = contextvars.ContextVar("PLACE", default="nowhere")


class Alarm(Exception):
    pass


def test_what_is_raised_again_is_told():
    def decode() -> None:
        raise KeyError("as before")

    assert reproduce_error(decode) is KeyError


def test_nothing_is_told_of_what_decodes():
    assert reproduce_error(lambda: "it") is None


def test_a_handler_that_raises_at_every_try_is_no_error_of_the_message():
    """It raises between any two lines of the main thread; the second try is none of its lines."""

    def ring(_: int, frame: Any) -> None:
        if frame.f_code is decode.__code__:
            raise Alarm

    def decode() -> None:
        signal.raise_signal(signal.SIGALRM)

    old = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(2):
            with pytest.raises(Alarm):
                decode()
        assert reproduce_error(decode) is None
    finally:
        signal.signal(signal.SIGALRM, old)


def test_it_is_tried_with_the_callers_context():
    seen = list[str]()
    PLACE.set("here")
    assert reproduce_error(lambda: seen.append(PLACE.get())) is None
    assert seen == ["here"]


def test_where_no_thread_can_start_it_is_tried_in_the_callers(monkeypatch: Any):
    def none_left(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    def decode() -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyError

    monkeypatch.setattr(threading.Thread, "start", none_left)
    assert reproduce_error(decode) is KeyError


def test_what_waits_for_the_callers_thread_is_given_up(monkeypatch: Any):
    monkeypatch.setattr(cleanup, "_REPRODUCE_WITHIN", 0.05)
    lock = threading.Lock()

    def decode() -> None:
        with lock:
            raise KeyError

    with lock:
        assert reproduce_error(decode) is None
