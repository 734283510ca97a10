"""A stream gives each piece once, and its end whenever it is asked."""

import threading

import pytest

from refengine.engine.errors import RequestFailed, StreamEnded
from refengine.engine.front_end.streams import Completion, Delta, Stream
from refengine.errors import DeadlinePassed


def stream(*news):
    made = Stream("a", lambda: None)
    for each in news:
        made.put(each)
    return made


def test_pieces_come_in_order_once_and_then_it_has_ended():
    made = stream(Delta((1,)), Delta((2, 3), "stop"))
    assert made.ended
    assert made.next(0) == Delta((1,))
    assert made.next(0) == Delta((2, 3), "stop")
    for _ in range(2):
        with pytest.raises(StreamEnded, match="request a"):
            made.next(0)


def test_its_result_is_all_of_it_whatever_was_taken():
    made = stream(Delta((1,)), Delta((2, 3)))
    made.next(0)
    assert not made.ended
    with pytest.raises(DeadlinePassed, match=r"waited 0 s for the end of request a"):
        made.result(0)
    with pytest.raises(DeadlinePassed, match=r"waited 0.01 s for"):
        made.result(0.01)
    made.put(Delta((), "length"))
    for _ in range(2):
        assert made.result(0) == Completion((1, 2, 3), "length")


def test_an_error_ends_it_and_is_raised_each_time():
    made = stream(Delta((1,)), RequestFailed("a", "x", (1,)))
    assert made.next(0) == Delta((1,))
    for _ in range(2):
        with pytest.raises(RequestFailed, match="after 1 tokens: x"):
            made.next(0)
        with pytest.raises(RequestFailed):
            made.result(0)


def test_a_deadline_changes_nothing():
    made = stream()
    with pytest.raises(DeadlinePassed, match=r"waited 0.01 s for tokens of request a"):
        made.next(0.01)
    made.put(Delta((1,)))
    assert made.next(0) == Delta((1,))


def test_what_comes_after_its_end_is_dropped():
    made = stream(Delta((), "cancelled"), Delta((1,)))
    assert made.result(0) == Completion((), "cancelled")


def test_whoever_waits_is_woken():
    made = stream()
    taken = []
    waiter = threading.Thread(target=lambda: taken.append(made.next(10)))
    waiter.start()
    made.put(Delta((1,)))
    waiter.join(5)
    assert taken == [Delta((1,))]


def test_a_subscriber_hears_what_was_and_what_comes():
    made, heard = stream(Delta((1,))), []
    made.subscribe(heard.append)
    assert heard == [Delta((1,))]
    made.put(Delta((2,), "stop"))
    made.put(Delta((3,)))
    assert heard == [Delta((1,)), Delta((2,), "stop")]
    assert made.next(0) == Delta((1,))


def test_cancelling_is_told_to_the_engine():
    told = []
    Stream("a", lambda: told.append(1)).cancel()
    assert told == [1]


def test_whoever_waits_is_woken_though_a_listener_fails():
    stream = Stream("a", lambda: None)
    stream.subscribe(lambda _: 1 / 0)
    there, heard = threading.Event(), []

    def wait():
        there.set()
        heard.append(stream.next(20.0))

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert there.wait(5.0)
    with pytest.raises(ZeroDivisionError):
        stream.put(Delta((1,)))
    waiting.join(10.0)
    assert heard == [Delta((1,))]
    waiting.join()
