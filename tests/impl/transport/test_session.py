"""The core of a line: what is sent again after a break, and what counts as had."""

from hypothesis import given
from hypothesis import strategies as st

from refengine.transport.session import Session


@given(st.lists(st.integers(0, 5), max_size=60))
def test_any_breaks_deliver_each_message_once_and_in_order(story: list[int]):
    near, far = Session(), Session()
    arrived: list[bytes] = []
    on_the_way: list[tuple[int, bytes | bytearray]] = []
    for step in story:
        if step <= 1:
            near.post(b"%d" % near.posted)
        elif step == 2:
            on_the_way += near.due()
        elif step == 3 and on_the_way:
            number, body = on_the_way.pop(0)
            if far.take(number):
                arrived.append(bytes(body))
        elif step == 4:
            receipt = far.receipt()
            if receipt is not None:
                near.confirm(receipt)
        elif step == 5:
            on_the_way.clear()
            assert near.resume(far.received)
    near.resume(far.received)
    arrived += [bytes(body) for number, body in near.due() if far.take(number)]
    assert arrived == [b"%d" % n for n in range(near.posted)]


def test_what_the_far_end_has_had_is_not_kept():
    session = Session()
    for _ in range(1000):
        session.post(b"x")
        list(session.due())
        session.confirm(session.posted)
    assert session.handed_over
    assert list(session.due()) == []


def test_a_far_end_cannot_have_had_more_than_was_posted_or_less_than_it_said():
    session = Session()
    session.post(b"a")
    session.post(b"b")
    assert not session.resume(3)
    session.confirm(1)
    assert not session.resume(0)
    assert session.resume(1)
    assert [number for number, _ in session.due()] == [1]


def test_a_repeated_message_and_one_after_a_gap_are_not_taken():
    session = Session()
    assert session.take(0)
    assert not session.take(0)
    assert not session.take(2)
    assert session.take(1)


def test_a_count_is_told_once():
    session = Session()
    assert session.receipt() is None
    session.take(0)
    assert session.receipt() == 1
    assert session.receipt() is None


def test_until_it_is_settled_nothing_is_confirmed_and_then_all_at_once():
    session = Session(settled=False)
    session.take(0)
    session.take(1)
    assert (session.had, session.receipt()) == (0, None)
    assert session.resume(0)
    assert session.receipt() is None
    session.settled = True
    assert (session.had, session.receipt(), session.receipt()) == (2, 2, None)


def test_who_comes_in_the_place_of_one_that_never_was_gets_all_and_says_all():
    session = Session(settled=False)
    session.post(b"a")
    session.post(b"b")
    list(session.due())
    session.take(0)
    assert session.start_over()
    assert list(session.due()) == [(0, b"a"), (1, b"b")]
    assert session.take(0)


def test_nobody_comes_in_the_place_of_one_that_has_confirmed_something():
    session = Session()
    session.post(b"a")
    session.confirm(1)
    session.take(0)
    assert not session.start_over()
    assert (session.received, session.handed_over) == (1, True)
