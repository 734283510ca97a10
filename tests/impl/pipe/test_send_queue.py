import weakref

from refengine.pipe.protocol import TEXT_MOST, Kind
from refengine.pipe.send_queue import AT_ONCE_MOST, Failure, SendQueue, Transfer

from .pairs import Bytes


def asking(send_queue: SendQueue, *sizes: int) -> list[Transfer]:
    made = [Transfer(size) for size in sizes]
    for each in made:
        send_queue.ask(each)
    send_queue.advance()
    return made


def handed_in(send_queue: SendQueue, transfer: Transfer) -> Bytes:
    snapshot = Bytes(bytes(transfer.nbytes))
    send_queue.hand_in(transfer, snapshot)
    return snapshot


def test_room_is_granted_up_to_the_limit_and_in_order():
    send_queue = SendQueue(10)
    a, b, c, d = asking(send_queue, 6, 4, 1, 0)
    assert [send_queue.has(each) for each in (a, b, c, d)] == [True, True, False, False]
    assert send_queue.nbytes() == 10
    assert (a.news.qsize(), c.news.qsize(), c.considered, a.considered) == (1, 1, True, False)
    handed_in(send_queue, b)
    assert send_queue.advance() is b
    send_queue.done()
    send_queue.advance()
    assert send_queue.has(c)
    assert send_queue.has(d)
    assert send_queue.nbytes() == 7
    assert c.news.qsize() == 2


def test_nobody_overtakes_one_that_waits_for_room():
    send_queue = SendQueue(10)
    a, _large, small = asking(send_queue, 6, 5, 1)
    assert not send_queue.has(small)
    send_queue.withdraw(a)
    send_queue.advance()
    assert send_queue.has(_large)
    assert send_queue.has(small)


def test_one_larger_than_the_limit_waits_until_there_is_nothing():
    send_queue = SendQueue(10)
    a, large = asking(send_queue, 1, 11)
    assert not send_queue.has(large)
    snapshot = handed_in(send_queue, a)
    send_queue.advance()
    send_queue.done()
    assert snapshot.freed == 1
    send_queue.advance()
    assert send_queue.has(large)
    (other,) = asking(send_queue, 1)
    assert not send_queue.has(other)


def test_those_without_bytes_are_bounded_by_their_number():
    send_queue = SendQueue(10)
    made = asking(send_queue, *[0] * (AT_ONCE_MOST + 1))
    assert AT_ONCE_MOST == 1024
    assert send_queue.has(made[-2])
    assert not send_queue.has(made[-1])


def test_they_leave_in_the_order_of_being_handed_in_one_at_a_time():
    send_queue = SendQueue(10)
    a, b = asking(send_queue, 1, 2)
    handed_in(send_queue, b)
    handed_in(send_queue, a)
    assert send_queue.unsent() == 2
    assert send_queue.advance() is b
    assert send_queue.advance() is b
    assert (send_queue.number, send_queue.unsent()) == (0, 2)
    send_queue.done()
    assert (send_queue.number, send_queue.unsent(), send_queue.nbytes()) == (1, 1, 1)
    assert send_queue.advance() is a
    send_queue.done()
    send_queue.done()
    assert (send_queue.number, send_queue.unsent(), send_queue.nbytes()) == (2, 0, 0)
    assert send_queue.advance() is None


def test_one_that_is_withdrawn_frees_its_room_at_any_stage_but_the_last():
    send_queue = SendQueue(10)
    a, b, waits = asking(send_queue, 5, 5, 5)
    snapshot = handed_in(send_queue, b)
    for each in (a, b, waits):
        send_queue.withdraw(each)
    assert send_queue.advance() is None
    assert (send_queue.nbytes(), snapshot.freed, send_queue.unsent()) == (0, 1, 0)
    assert not send_queue.has(waits)
    (c,) = asking(send_queue, 5)
    snapshot = handed_in(send_queue, c)
    send_queue.advance()
    send_queue.withdraw(c)
    assert send_queue.advance() is c
    assert (send_queue.nbytes(), snapshot.freed) == (5, 0)


def test_each_that_is_withdrawn_is_let_go_though_another_is_leaving():
    send_queue = SendQueue(10)
    a, b = asking(send_queue, 5, 5)
    handed_in(send_queue, b)
    assert send_queue.advance() is b
    send_queue.withdraw(a)
    send_queue.withdraw(b)
    assert send_queue.advance() is b
    assert send_queue.nbytes() == 5
    assert send_queue.has(b)


def test_nothing_that_was_withdrawn_or_waited_outlives_the_end():
    send_queue = SendQueue(10)
    one, waits = asking(send_queue, 5, 50)
    send_queue.withdraw(one)
    send_queue.end()
    gone = weakref.ref(one), weakref.ref(waits)
    del one, waits
    assert [each() for each in gone] == [None, None]


def test_what_has_no_room_or_is_being_withdrawn_does_not_leave():
    send_queue = SendQueue(10)
    (one,) = asking(send_queue, 5)
    handed_in(send_queue, one)
    handed_in(send_queue, Transfer(5))  # nobody asked for its room
    one.withdrawn = True  # and its withdrawal is on its way
    assert send_queue.advance() is None
    assert send_queue.unsent() == 0


def test_the_end_wakes_everybody_and_holds_nothing():
    send_queue = SendQueue(10)
    current, granted, waits = asking(send_queue, 5, 5, 5)
    snapshot = handed_in(send_queue, current)
    send_queue.advance()
    late = handed_in(send_queue, granted)
    send_queue.end()
    assert [each.news.qsize() for each in (current, granted, waits)] == [2, 3, 2]
    assert (send_queue.nbytes(), send_queue.unsent(), send_queue.current) == (0, 0, None)
    assert (snapshot.freed, late.freed) == (1, 2)
    assert send_queue.advance() is None


def test_a_failure_says_why_in_a_tensors_place():
    failure = Failure("x" * 5000)
    header = failure.header(3)
    assert (header.kind, header.number, header.follows) == (Kind.FAILED, 3, TEXT_MOST)
    assert bytes(failure.follows()) == b"x" * TEXT_MOST
    assert not failure.beside()
    failure.free()
