"""The core of a line: what is sent again after a break, and what counts as had."""

from hypothesis import given
from hypothesis import strategies as st

from refengine.lines.line import Line


@given(st.lists(st.integers(0, 5), max_size=60))
def test_any_breaks_deliver_each_message_once_and_in_order(story: list[int]):
    near, far = Line(), Line()
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
    line = Line()
    for _ in range(1000):
        line.post(b"x")
        list(line.due())
        line.confirm(line.posted)
    assert line.handed_over
    assert list(line.due()) == []


def test_a_far_end_cannot_have_had_more_than_was_posted_or_less_than_it_said():
    line = Line()
    line.post(b"a")
    line.post(b"b")
    assert not line.resume(3)
    line.confirm(1)
    assert not line.resume(0)
    assert line.resume(1)
    assert [number for number, _ in line.due()] == [1]


def test_a_repeated_message_and_one_after_a_gap_are_not_taken():
    line = Line()
    assert line.take(0)
    assert not line.take(0)
    assert not line.take(2)
    assert line.take(1)


def test_a_count_is_told_once():
    line = Line()
    assert line.receipt() is None
    line.take(0)
    assert line.receipt() == 1
    assert line.receipt() is None


def test_until_it_is_settled_nothing_is_confirmed_and_then_all_at_once():
    line = Line(settled=False)
    line.take(0)
    line.take(1)
    assert (line.had, line.receipt()) == (0, None)
    assert line.resume(0)
    assert line.receipt() is None
    line.settled = True
    assert (line.had, line.receipt(), line.receipt()) == (2, 2, None)


def test_who_comes_in_the_place_of_one_that_never_was_gets_all_and_says_all():
    line = Line(settled=False)
    line.post(b"a")
    line.post(b"b")
    list(line.due())
    line.take(0)
    assert line.start_over()
    assert list(line.due()) == [(0, b"a"), (1, b"b")]
    assert line.take(0)


def test_nobody_comes_in_the_place_of_one_that_has_confirmed_something():
    line = Line()
    line.post(b"a")
    line.confirm(1)
    line.take(0)
    assert not line.start_over()
    assert (line.received, line.handed_over) == (1, True)
