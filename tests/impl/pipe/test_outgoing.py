import weakref

from refengine.pipe.frames import TEXT_MOST, Kind
from refengine.pipe.outgoing import AT_ONCE_MOST, Failure, Outgoing, Transfer

from .pairs import Bytes


def asking(outgoing: Outgoing, *sizes: int) -> list[Transfer]:
    made = [Transfer(size) for size in sizes]
    for each in made:
        outgoing.ask(each)
    outgoing.turn()
    return made


def handed_in(outgoing: Outgoing, transfer: Transfer) -> Bytes:
    parcel = Bytes(bytes(transfer.nbytes))
    outgoing.hand_in(transfer, parcel)
    return parcel


def test_room_is_granted_up_to_the_limit_and_in_order():
    outgoing = Outgoing(10)
    a, b, c, d = asking(outgoing, 6, 4, 1, 0)
    assert [outgoing.has(each) for each in (a, b, c, d)] == [True, True, False, False]
    assert outgoing.nbytes() == 10
    assert (a.news.qsize(), c.news.qsize(), c.considered, a.considered) == (1, 1, True, False)
    handed_in(outgoing, b)
    assert outgoing.turn() is b
    outgoing.done()
    outgoing.turn()
    assert outgoing.has(c)
    assert outgoing.has(d)
    assert outgoing.nbytes() == 7
    assert c.news.qsize() == 2


def test_nobody_overtakes_one_that_waits_for_room():
    outgoing = Outgoing(10)
    a, _large, small = asking(outgoing, 6, 5, 1)
    assert not outgoing.has(small)
    outgoing.withdraw(a)
    outgoing.turn()
    assert outgoing.has(_large)
    assert outgoing.has(small)


def test_one_larger_than_the_limit_waits_until_there_is_nothing():
    outgoing = Outgoing(10)
    a, large = asking(outgoing, 1, 11)
    assert not outgoing.has(large)
    parcel = handed_in(outgoing, a)
    outgoing.turn()
    outgoing.done()
    assert parcel.freed == 1
    outgoing.turn()
    assert outgoing.has(large)
    (other,) = asking(outgoing, 1)
    assert not outgoing.has(other)


def test_those_without_bytes_are_bounded_by_their_number():
    outgoing = Outgoing(10)
    made = asking(outgoing, *[0] * (AT_ONCE_MOST + 1))
    assert AT_ONCE_MOST == 1024
    assert outgoing.has(made[-2])
    assert not outgoing.has(made[-1])


def test_they_leave_in_the_order_of_being_handed_in_one_at_a_time():
    outgoing = Outgoing(10)
    a, b = asking(outgoing, 1, 2)
    handed_in(outgoing, b)
    handed_in(outgoing, a)
    assert outgoing.unsent() == 2
    assert outgoing.turn() is b
    assert outgoing.turn() is b
    assert (outgoing.number, outgoing.unsent()) == (0, 2)
    outgoing.done()
    assert (outgoing.number, outgoing.unsent(), outgoing.nbytes()) == (1, 1, 1)
    assert outgoing.turn() is a
    outgoing.done()
    outgoing.done()
    assert (outgoing.number, outgoing.unsent(), outgoing.nbytes()) == (2, 0, 0)
    assert outgoing.turn() is None


def test_one_that_is_withdrawn_frees_its_room_at_any_stage_but_the_last():
    outgoing = Outgoing(10)
    a, b, waits = asking(outgoing, 5, 5, 5)
    parcel = handed_in(outgoing, b)
    for each in (a, b, waits):
        outgoing.withdraw(each)
    assert outgoing.turn() is None
    assert (outgoing.nbytes(), parcel.freed, outgoing.unsent()) == (0, 1, 0)
    assert not outgoing.has(waits)
    (c,) = asking(outgoing, 5)
    parcel = handed_in(outgoing, c)
    outgoing.turn()
    outgoing.withdraw(c)
    assert outgoing.turn() is c
    assert (outgoing.nbytes(), parcel.freed) == (5, 0)


def test_each_that_is_withdrawn_is_let_go_though_another_is_leaving():
    outgoing = Outgoing(10)
    a, b = asking(outgoing, 5, 5)
    handed_in(outgoing, b)
    assert outgoing.turn() is b
    outgoing.withdraw(a)
    outgoing.withdraw(b)
    assert outgoing.turn() is b
    assert outgoing.nbytes() == 5
    assert outgoing.has(b)


def test_nothing_that_was_withdrawn_or_waited_outlives_the_end():
    outgoing = Outgoing(10)
    one, waits = asking(outgoing, 5, 50)
    outgoing.withdraw(one)
    outgoing.end()
    gone = weakref.ref(one), weakref.ref(waits)
    del one, waits
    assert [each() for each in gone] == [None, None]


def test_what_has_no_room_or_is_being_withdrawn_does_not_leave():
    outgoing = Outgoing(10)
    (one,) = asking(outgoing, 5)
    handed_in(outgoing, one)
    handed_in(outgoing, Transfer(5))  # nobody asked for its room
    one.withdrawn = True  # and its withdrawal is on its way
    assert outgoing.turn() is None
    assert outgoing.unsent() == 0


def test_the_end_wakes_everybody_and_holds_nothing():
    outgoing = Outgoing(10)
    current, granted, waits = asking(outgoing, 5, 5, 5)
    parcel = handed_in(outgoing, current)
    outgoing.turn()
    late = handed_in(outgoing, granted)
    outgoing.end()
    assert [each.news.qsize() for each in (current, granted, waits)] == [2, 3, 2]
    assert (outgoing.nbytes(), outgoing.unsent(), outgoing.current) == (0, 0, None)
    assert (parcel.freed, late.freed) == (1, 2)
    assert outgoing.turn() is None


def test_a_failure_says_why_in_a_tensors_place():
    failure = Failure("x" * 5000)
    header = failure.header(3)
    assert (header.kind, header.number, header.follows) == (Kind.FAILED, 3, TEXT_MOST)
    assert bytes(failure.follows()) == b"x" * TEXT_MOST
    assert not failure.beside()
    failure.free()
