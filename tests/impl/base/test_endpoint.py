"""What both ends of a queue share: who may meet when, and how long they wait (Q10, Q13)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from refengine.base.cleanup import ReleaseStack
from refengine.base.endpoint import Endpoint
from refengine.errors import Busy, DeadlinePassed, NotReady


class Meeting(Endpoint):
    """An end whose rounds are functions; each takes a second."""

    def __init__(self, *rounds: Callable[["Meeting"], bool]) -> None:
        self.now = 0.0
        super().__init__(lambda: self.now, ReleaseStack())
        self._rounds = list(rounds)
        self.left: list[float | None] = []

    def _handshake_step(self, left: Callable[[], float | None]) -> bool:
        self.left.append(left())
        self.now += 1.0
        return self._rounds.pop(0)(self)

    def _shutdown(self, seconds: float) -> None:
        pass

    def _missing(self) -> str:
        return "the others"


def complete(_: Meeting) -> bool:
    return True


def in_vain(_: Meeting) -> bool:
    return False


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def meeting(undo: ExitStack, *rounds: Callable[[Meeting], bool]) -> Meeting:
    made = Meeting(*rounds)
    undo.callback(made.close, 0.0)
    return made


def test_rounds_go_on_until_all_are_there(undo: ExitStack):
    end = meeting(undo, in_vain, in_vain, complete)
    assert end.refusal_error is NotReady
    end.wait_until_ready(3.0)
    assert end.left == [3.0, 2.0, 1.0]
    assert (end.ready, end.refusal_error) == (True, None)
    end.wait_until_ready(0.0)  # again, it asks nobody


def test_a_deadline_ends_it_and_it_may_be_tried_again(undo: ExitStack):
    end = meeting(undo, in_vain, in_vain, complete)
    with pytest.raises(DeadlinePassed, match="2 s for the others"):
        end.wait_until_ready(2.0)
    assert end.left == [2.0, 1.0]
    end.wait_until_ready(None)
    assert end.left[2:] == [None]


def test_a_call_inside_a_call_of_the_same_thread_is_one_too_many(undo: ExitStack):
    def as_a_signal_handler_would(end: Meeting) -> bool:
        with pytest.raises(Busy):
            end.wait_until_ready(1.0)
        return True

    end = meeting(undo, as_a_signal_handler_would, complete)
    end.wait_until_ready(1.0)
    assert end.left == [1.0]
    assert not end._guard.held
