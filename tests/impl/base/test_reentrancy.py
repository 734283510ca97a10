"""One call at a time: who is inside, who is refused, and what an interruption leaves."""

import threading
from typing import Any

import pytest

from refengine.base.reentrancy import ReentrancyGuard
from refengine.errors import Busy


def elsewhere(act: Any) -> Any:
    """What `act` gives, or raises, in another thread that then ends."""
    out: list[Any] = []

    def work() -> None:
        try:
            out.append(act())
        except Exception as error:
            out.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert out, "the thread did not come back"
    return out[0]


def test_a_guard_is_entered_once_and_again_after_it_was_left():
    guard = ReentrancyGuard()
    for _ in range(2):
        guard.enter("close")
        assert guard.held
        assert isinstance(elsewhere(lambda: guard.enter("dequeue")), Busy)
        guard.exit()
        assert not guard.held
    assert elsewhere(lambda: guard.enter("dequeue")) is None


def test_one_that_is_just_taken_elsewhere_is_busy_though_nobody_is_inside_yet():
    taken = ReentrancyGuard()
    inside, over = threading.Event(), threading.Event()

    def hold() -> None:
        taken.acquire(False)
        inside.set()
        over.wait(10)
        taken.release()

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(Busy, match="enqueue"):
        taken.enter("enqueue")
    assert not taken.enter_within(0.01)
    over.set()
    thread.join(10)
    assert taken.enter_within(0)
    assert taken.held


def test_a_call_within_a_call_is_refused_and_the_outer_one_goes_on():
    guard = ReentrancyGuard()
    guard.enter("dequeue")
    with pytest.raises(Busy):
        inner(guard)
    assert not within(guard)
    assert guard.held
    guard.exit()
    assert elsewhere(lambda: guard.acquire(False)) is True


def inner(ours: ReentrancyGuard) -> None:
    ours.enter("dequeue")


def within(ours: ReentrancyGuard) -> bool:
    return ours.enter_within(0)


def test_what_an_interrupted_call_left_is_forgotten():
    kept = ReentrancyGuard()

    def interrupted() -> None:
        guard = kept
        guard.enter("dequeue")  # and no `leave`: a signal handler raised on the way into it

    interrupted()
    assert kept.held
    kept.raise_busy("dequeue")
    assert not kept.held
    assert elsewhere(lambda: kept.acquire(False)) is True


def test_leaving_what_another_thread_holds_changes_nothing():
    kept = ReentrancyGuard()
    assert elsewhere(lambda: kept.enter("dequeue")) is None
    kept.exit()
    assert kept.held
