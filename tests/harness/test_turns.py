"""Who is to play alone waits for others of the kind, or until there is nothing else to play."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from killpoint.judgement.turns import Turns

_SOON = 10.0


class _Case(threading.Thread):
    """A case that wants to play alone once, and then ends when it is told to."""

    def __init__(self, turns: Turns, go_on: Callable[[], object] = lambda: None) -> None:
        super().__init__(daemon=True)
        self._turns, self._go_on = turns, go_on
        self.had_turn, self.may_end = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with self._turns.case(), self._turns.alone(self._go_on):
            self.had_turn.set()
            self.may_end.wait(_SOON)


def _looked(times: int) -> tuple[threading.Event, Callable[[], None]]:
    """Return an event, and what sets it once it was called so often."""
    enough, calls = threading.Event(), list[None]()

    def look() -> None:
        calls.append(None)
        if len(calls) >= times:
            enough.set()

    return enough, look


def test_the_first_waits_until_half_of_the_threads_do() -> None:
    turns = Turns()
    turns.expect(10, 4)
    waits, look = _looked(3)
    first = _Case(turns, look)
    assert waits.wait(_SOON)
    assert not first.had_turn.is_set()
    second = _Case(turns)
    assert first.had_turn.wait(_SOON)
    assert second.had_turn.wait(_SOON)
    late = _Case(turns)
    assert late.had_turn.wait(_SOON)  # the others are paused anyway
    for case in (first, second, late):
        case.may_end.set()
        case.join(_SOON)
    waits, look = _looked(3)
    again = _Case(turns, look)
    assert waits.wait(_SOON)
    assert not again.had_turn.is_set()  # it is nobody's turn any more
    _Case(turns).may_end.set()
    assert again.had_turn.wait(_SOON)
    again.may_end.set()


def test_it_does_not_wait_once_nothing_else_is_played() -> None:
    turns = Turns()
    turns.expect(2, 8)
    waits, look = _looked(3)
    with turns.case():
        last = _Case(turns, look)
        assert waits.wait(_SOON)
        assert not last.had_turn.is_set()
    assert last.had_turn.wait(_SOON)
    last.may_end.set()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_of_few_threads_each_has_its_turn_at_once(threads: int) -> None:
    turns = Turns()
    turns.expect(10, threads)
    case = _Case(turns)
    assert case.had_turn.wait(_SOON)
    case.may_end.set()


def test_who_is_interrupted_waits_no_more_and_counts_no_more() -> None:
    turns = Turns()
    turns.expect(10, 4)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), turns.alone(interrupted):
        pass
    waits, look = _looked(3)
    case = _Case(turns, look)
    assert waits.wait(_SOON)
    assert not case.had_turn.is_set()
    other = _Case(turns)
    assert case.had_turn.wait(_SOON)
    case.may_end.set()
    other.may_end.set()
