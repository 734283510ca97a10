"""Opening an object: a bad one is raised once; an error from outside leaves it where it is."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from refengine.errors import Undecodable
from refengine.group.inbox import decode_body
from refengine.group.protocol import Kind, pack_object, unpack


class Interrupted(BaseException):
    pass


class Raises:
    """Unpickled, it runs what a test has set."""

    now: Callable[[], Any] = staticmethod(lambda: None)

    def __reduce__(self) -> Any:
        return _run, ()


def _run() -> Any:
    return Raises.now()


BODY = unpack(pack_object(Kind.LETTER, 0, 0, 0, Raises())).body


def attempt(*errors: BaseException | None) -> tuple[Any, int, int]:
    """(what came of it, how often it was consumed, how often it was unpickled)."""
    left, consumed = list(errors), []

    def now() -> Any:
        error = left.pop(0)
        if error is not None:
            raise error
        return "it"

    Raises.now = staticmethod(now)
    try:
        outcome: Any = decode_body(BODY, 5, lambda: consumed.append(1))
    except BaseException as error:
        outcome = error
    return outcome, len(consumed), len(errors) - len(left)


def test_a_good_object_is_opened_once_and_not_consumed_here():
    assert attempt(None) == ("it", 0, 1)


def test_a_bad_one_is_consumed_and_names_its_number():
    first = ValueError("first")
    outcome, consumed, tries = attempt(first, ValueError("second"))
    assert isinstance(outcome, Undecodable)
    assert outcome.number == 5
    assert outcome.__cause__ is first
    assert (consumed, tries) == (1, 2)


def test_one_that_fails_differently_each_time_raises_its_first_and_stays():
    first = ValueError()
    assert attempt(first, KeyError()) == (first, 0, 2)


def test_what_strikes_the_callers_thread_at_every_try_is_no_error_of_the_object():
    struck = ValueError("a signal handler's")

    def now() -> str:
        if threading.current_thread() is threading.main_thread():
            raise struck
        return "it"

    Raises.now = staticmethod(now)
    consumed = list[int]()
    for _ in range(2):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  which one is what counts
            decode_body(BODY, 5, lambda: consumed.append(1))
        assert caught.value is struck
    assert consumed == []


@pytest.mark.parametrize("error", [Interrupted(), ValueError("from outside")])
def test_an_error_that_does_not_come_again_came_from_outside(error: BaseException):
    assert attempt(error, None) == (error, 0, 2)


def test_an_object_that_raises_no_ordinary_error_is_consumed_and_raises_it():
    first = Interrupted()
    outcome, consumed, _ = attempt(first, Interrupted())
    assert outcome is first
    assert consumed == 1
