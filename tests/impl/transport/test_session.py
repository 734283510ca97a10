"""The core of a line: what is sent again after a break, and what counts as had."""

from hypothesis import given
from hypothesis import strategies as st

from refengine.transport.session import Session


@given(st.lists(st.integers(0, 7), max_size=60))
def test_any_breaks_deliver_each_message_once_and_in_order(story: list[int]):
    near, far = Session(), Session()
    arrived: list[bytes] = []
    on_the_way: list[tuple[int, bytes | bytearray]] = []
    hello: int | None = None  # on its way, beside the connection before

    def connect() -> None:
        nonlocal hello
        told = far.received if hello is None else hello
        on_the_way.clear()
        assert near.resume(told)
        assert far.resume(0, told)
        hello = None

    def deliver() -> None:
        number, body = on_the_way.pop(0)
        if far.take(number):
            arrived.append(bytes(body))

    for step in [*story, 5, 2]:
        if step <= 1:
            near.post(b"%d" % near.posted)
        elif step == 2:
            on_the_way += near.due()
        elif step == 3 and on_the_way:
            deliver()
        elif step == 4:
            receipt = far.receipt()
            if receipt is not None:
                near.confirm(receipt)
        elif step == 5:
            connect()
        elif step == 6 and hello is None:
            hello = far.received
        elif step == 7 and hello is not None:
            far.receipt()  # nobody listens to the connection before any more
    while on_the_way:
        deliver()
    receipt = far.receipt()
    near.confirm(receipt or 0)
    assert arrived == [b"%d" % n for n in range(near.posted)]
    assert near.handed_over


def test_what_the_far_end_has_had_is_not_kept():
    session = Session()
    for _ in range(1000):
        session.post(b"x")
        list(session.due())
        session.confirm(session.posted)
    assert session.handed_over
    assert list(session.due()) == []


def test_a_far_end_cannot_have_had_more_than_was_posted():
    session = Session()
    session.post(b"a")
    session.post(b"b")
    assert not session.resume(3)
    assert session.resume(2)


def test_a_hello_that_a_receipt_has_overtaken_takes_nothing_back():
    session = Session()
    session.post(b"a")
    session.post(b"b")
    session.confirm(1)
    assert session.resume(0)
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
