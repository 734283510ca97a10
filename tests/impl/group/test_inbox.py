"""Taking the next object out of an inbox, without any I/O (R9, X1)."""

from collections.abc import Callable
from typing import Any

import pytest

from refengine.errors import Busy, DeadlinePassed, NotReady, RankDied, Undecodable
from refengine.group.exit_reason import ExitReason
from refengine.group.inbox import pop
from refengine.group.protocol import Kind, pack, pack_object
from refengine.transport import Gone

from .test_barrier import Interrupted, Place, Poison

KINDS = [Kind.LETTER, Kind.CAST]


class Desk(Place):
    """Rank 1 of 3, told things by hand."""

    def bring(self, *objects: object, kind: Kind = Kind.LETTER, source: int = 2) -> None:
        for obj in objects:
            self.member.hear(pack_object(kind, source, 1, 0, obj))

    def take(self, timeout: float | None = 4.0, kind: Kind = Kind.LETTER, source: int = 2) -> Any:
        return pop(self.context, kind, source, timeout)


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_a_kind_and_source_come_in_order(kind: Kind):
    here = Desk()
    here.bring("a", "b", "c", kind=kind)
    here.bring("other", kind=kind, source=0)
    assert [here.take(0, kind) for _ in range(3)] == ["a", "b", "c"]
    assert here.take(0, kind, 0) == "other"
    assert here.member.inboxes[kind, 2].taken == 3


@pytest.mark.parametrize(("kind", "what"), [(Kind.LETTER, "an object"), (Kind.CAST, "a broadcast")])
def test_what_did_not_come_is_named(kind: Kind, what: str):
    here = Desk()
    with pytest.raises(DeadlinePassed) as caught:
        here.take(kind=kind)
    assert (caught.value.waiting_for, caught.value.seconds) == (f"{what} from rank 2", 4.0)
    assert not here.member.inboxes[kind, 2].guard.held
    here.bring("late", kind=kind)
    assert here.take(kind=kind) == "late"


def test_what_was_sent_before_a_death_comes_before_it():
    here = Desk()
    here.bring("last")
    here.member.hear(pack(Kind.GONE, 2, body=ExitReason(2, Gone("died")).pack()))
    assert here.take() == "last"
    with pytest.raises(RankDied, match="an object from rank 2"):
        here.take(None)


def test_nothing_is_taken_before_the_group_is_ready():
    here = Desk()
    here.bring("x")
    here.context.ready = False
    with pytest.raises(NotReady, match="an object from rank 2"):
        here.take()
    here.context.ready = True
    assert here.take(0) == "x"


def test_a_bad_object_is_raised_once_with_its_number():
    here = Desk()
    here.bring("a", Poison(), "b")
    assert here.take() == "a"
    with pytest.raises(Undecodable) as caught:
        here.take()
    assert caught.value.number == 1
    assert here.take() == "b"


def test_a_second_call_from_within_is_told_and_takes_nothing():
    def again() -> None:
        here.bring("x")
        with pytest.raises(Busy, match="an object from rank 2"):
            here.take()
        assert here.member.inboxes[Kind.LETTER, 2].guard.held

    here = Desk(again)
    assert here.take() == "x"


def test_a_call_that_loses_the_race_for_its_guard_does_not_wait_for_it():
    here = Desk()
    here.bring("x")
    inbox, asked = here.member.inboxes[Kind.LETTER, 2], []
    inbox.guard.acquire = lambda *how: asked.append(how)
    with pytest.raises(Busy, match="an object from rank 2"):
        here.take()
    assert asked == [(False,)]
    assert (inbox.guard.held, len(inbox.bodies)) == (False, 1)


@pytest.mark.parametrize("method", ["drop", "exit"])
def test_an_exception_on_the_way_out_leaves_the_object(method: str):
    here = Desk()
    here.bring("x", "y")
    inbox = here.member.inboxes[Kind.LETTER, 2]
    holder: Any = inbox if method == "drop" else inbox.guard
    original: Callable[[], None] = getattr(holder, method)

    def strike() -> None:
        setattr(holder, method, original)
        if method == "drop":
            original()
        raise Interrupted

    setattr(holder, method, strike)
    with pytest.raises(Interrupted):
        here.take()
    assert inbox.taken == 0
    assert [here.take(0), here.take(0)] == ["x", "y"]
    assert inbox.taken == 2
