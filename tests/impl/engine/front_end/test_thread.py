"""The front end's thread: requests go out, tokens come in, and nobody is left waiting."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from refengine.coordinator import Addresses, State
from refengine.coordinator import protocol as coordinator_wire
from refengine.engine import protocol
from refengine.engine.errors import EngineClosed
from refengine.engine.front_end import thread
from refengine.engine.front_end.request_tracker import DropReplica, RequestTracker
from refengine.engine.front_end.streams import Completion, Delta, Stream
from refengine.engine.front_end.thread import FrontEndThread
from refengine.engine.protocol import AddRequest, Cancel, Heartbeat, Output, Outputs, Request
from refengine.engine.settings import EngineSettings

from ...mutated_frames import FATAL
from ...roles import until
from ...striking import start_struck
from ..hosted import Sockets


class Office:
    """A desk that turns, and the replicas that it talks to."""

    def __init__(self) -> None:
        self.sockets = Sockets()
        self.now = 100.0
        self.evicted: list[DropReplica] = []
        settings = EngineSettings(data_parallel=2)
        self.looks = 0
        """How often somebody has looked at the clock."""
        self.front_end = FrontEndThread(RequestTracker(settings), self.evicted.append, self.clock)
        self.lives = 0

    def clock(self) -> float:
        self.looks += 1
        return self.now

    def replica(self, name: str = "core-0") -> Any:
        """It serves from now on; where it hears and answers."""
        self.lives += 1
        life = self.lives
        socket, address = self.sockets.bind(zmq.DEALER, f"{name}-{life}")
        self.front_end.do(lambda tracker, _: tracker.started(name, life, 1))
        self.front_end.do(lambda tracker, now: tracker.arrived(name, address, now))
        return socket

    def lose(self, name: str = "core-0") -> None:
        self.front_end.do(lambda tracker, now: tracker.left(name, "was killed", True, now))

    def submit(self, name: str = "a", prompt: tuple[int, ...] = (1, 2)) -> Stream:
        front_end = self.front_end
        stream: Stream = Stream(name, lambda: front_end.cancel(stream))
        front_end.open(stream, lambda tracker, now: tracker.submit(name, prompt, 9, now))
        return stream

    def close(self) -> None:
        self.front_end.close()
        self.sockets.close()


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    made.front_end.start()
    yield made
    made.close()


def request(replica: Any) -> Request:
    """The next that comes to a replica."""
    message = protocol.decode_to_core(replica.recv())
    assert isinstance(message, AddRequest)
    return message.request


def give(replica: Any, attempt: Request, *tokens: int, finish: str | None = None) -> None:
    replica.send(protocol.encode(Outputs((Output(attempt.id, tokens, finish),))))


# -- requests -------------------------------------------------------------------------------------


def test_a_request_goes_to_a_replica_and_its_tokens_to_its_stream(office: Office) -> None:
    replica = office.replica()
    stream = office.submit()
    attempt = request(replica)
    assert attempt.prompt == (1, 2)
    give(replica, attempt, 5)
    assert stream.next(5.0) == Delta((5,))
    give(replica, attempt, 6, finish="length")
    assert stream.result(5.0) == Completion((5, 6), "length")
    assert office.front_end.ask(lambda tracker, now: (tracker.open, now)) == (0, 100.0)


def test_a_stream_that_has_ended_is_nobodys_but_its_users(office: Office) -> None:
    stream = office.submit()
    stream.cancel()
    stream.result(5.0)
    office.front_end.ask(lambda *_: None)
    there = weakref.ref(stream)
    del stream
    until(lambda: gc.collect() + 1 and there() is None, 5.0)


def test_an_id_is_in_use_until_its_stream_has_had_its_end() -> None:
    office = Office()  # its thread has not begun: what is to be delivered waits
    try:
        first = office.submit("a")
        first.cancel()
        with pytest.raises(ValueError, match="'a' already"):
            office.submit("a")
        office.front_end.start()
        assert first.result(5.0).finish == "cancelled"
        replica = office.replica()
        second = office.submit("a")
        first.cancel()  # whose end has come: the id is the other's
        give(replica, request(replica), 5, finish="length")
        assert second.result(5.0) == Completion((5,), "length")
        assert office.front_end.alive
    finally:
        office.close()


def test_what_is_asked_is_done_at_once(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "_TICK", 60.0)  # else it looks anyway
    replica = office.replica()
    for number in range(16):
        office.submit(f"r{number}")
        request(replica)


def test_one_that_is_cancelled_is_so_at_the_replica_too(office: Office) -> None:
    replica = office.replica()
    stream = office.submit()
    attempt = request(replica)
    stream.cancel()
    assert stream.result(5.0).finish == "cancelled"
    assert protocol.decode_to_core(replica.recv()) == Cancel(attempt.id)


def test_what_the_book_refuses_is_raised_and_changes_nothing(office: Office) -> None:
    replica = office.replica()
    stream = office.submit()
    with pytest.raises(ValueError, match="'a'"):
        office.submit()
    give(replica, request(replica), 5)
    assert stream.next(5.0) == Delta((5,))


def test_nobody_listens_to_a_lost_replica_and_its_next_life_serves(office: Office) -> None:
    old = office.replica()
    stream = office.submit()
    first = request(old)
    give(old, first, 5)
    assert stream.next(5.0) == Delta((5,))
    office.lose()
    new = office.replica()
    again = request(new)
    assert again.prompt == (1, 2, 5)
    until(lambda: not old.poll(0, zmq.POLLOUT), 5.0)
    give(new, again, 7, finish="stop")
    assert stream.result(5.0).tokens == (5, 7)


def test_a_replica_that_does_not_listen_holds_nobody_up(office: Office) -> None:
    _, address = office.sockets.bind(zmq.DEALER, "deaf", room=1)
    office.front_end.do(lambda tracker, now: tracker.arrived("core-0", address, now))
    for number in range(100):
        office.submit(f"r{number}", (1,) * 4000)
    office.replica("core-1")
    stream = office.submit("last")
    stream.cancel()
    assert stream.result(5.0).finish == "cancelled"


def test_a_listener_that_fails_is_told_of_and_the_others_hear(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    replica = office.replica()
    failing, other = office.submit("a"), office.submit("b")
    failing.subscribe(lambda _: 1 / 0)
    for _ in range(2):
        give(replica, request(replica), 5)
    assert other.next(5.0) == Delta((5,))
    assert "a listener of request a has failed" in caplog.messages


# -- who does not get on --------------------------------------------------------------------------


def test_a_replica_that_says_nothing_is_evicted_though_nothing_happens(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    poller = office.front_end._poller
    poll, waits = poller.poll, list[int]()
    monkeypatch.setattr(poller, "poll", lambda ms: waits.append(ms) or poll(ms))
    replica = office.replica()
    replica.send(protocol.encode(Heartbeat(0, 0, 0, 7, 0.0)))
    until(
        lambda: office.front_end.ask(lambda tracker, _: tracker.replicas["core-0"].steps) == 7, 5.0
    )
    office.now = 111.0
    until(lambda: office.evicted and waits)
    assert set(waits) == {250}  # it looks four times a second
    assert (office.evicted[0].name, office.evicted[0].life) == ("core-0", 1)


def test_it_does_not_turn_for_nothing(office: Office) -> None:
    office.front_end.connect_coordinator(None)  # rung once, and never again
    before, looks = time.monotonic(), office.looks
    until(lambda: office.looks >= looks + 9, 5.0)  # three in each turn
    assert time.monotonic() - before > 0.2


def test_it_is_alive_while_its_thread_turns(office: Office) -> None:
    held, there = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        there.set()
        held.wait(10.0)

    assert office.front_end.alive
    office.submit().subscribe(hold)
    office.front_end.do(lambda tracker, _: tracker.cancel("a"))
    assert there.wait(5.0)
    office.now = 101.9
    assert office.front_end.alive
    office.now = 102.0
    assert not office.front_end.alive
    held.set()
    until(lambda: office.front_end.alive, 5.0)
    office.front_end.close()
    assert not office.front_end.alive


# -- the end --------------------------------------------------------------------------------------


def test_closed_every_stream_ends_and_so_does_the_thread(office: Office) -> None:
    before = set(threading.enumerate())
    replica = office.replica()
    streams = [office.submit(name) for name in "ab"]
    request(replica)
    assert not office.front_end.closed
    office.front_end.close()
    assert office.front_end.closed
    for stream in streams:
        with pytest.raises(EngineClosed, match=f"request {stream.request_id}"):
            stream.result(0)
    until(lambda: not replica.poll(0, zmq.POLLOUT), 5.0)
    office.front_end.close()
    assert len(before - set(threading.enumerate())) == 1


def test_who_comes_after_its_end_is_told_so(office: Office) -> None:
    office.front_end.close()
    with pytest.raises(EngineClosed):
        office.submit()


def test_one_that_never_turned_leaves_nobody_waiting() -> None:
    office = Office()
    stream = office.submit()
    office.close()
    with pytest.raises(EngineClosed):
        stream.result(0)


def test_closed_while_its_thread_is_started_it_is_released_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A signal's exception may strike within `start`, when the thread has no `ident` yet (R9)."""
    office = Office()
    office.replica()
    stream = office.submit()
    with start_struck(office.front_end._thread):
        try:
            office.front_end.start()
        finally:
            office.front_end.close()
    with pytest.raises(EngineClosed):
        stream.result(0.0)
    assert caplog.messages == []
    office.sockets.close()


def test_a_listener_may_close_it(office: Office) -> None:
    stream, errors = office.submit(), list[Exception]()

    def close(_: object) -> None:
        try:
            office.front_end.close()
        except Exception as error:
            errors.append(error)

    stream.subscribe(close)
    stream.cancel()
    until(lambda: not office.front_end.alive, 5.0)
    assert errors == []


def test_its_thread_keeps_no_process_from_ending() -> None:
    before = set(threading.enumerate())
    office = Office()
    office.front_end.start()
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
    office.close()


def test_a_message_that_is_none_is_dropped_alone(office: Office) -> None:
    replica, stream = office.replica(), office.submit()
    attempt = request(replica)
    for frame in (b"nonsense", *FATAL):
        replica.send(frame)
    give(replica, attempt, 6, finish="length")
    assert stream.result(5.0) == Completion((6,), "length")


def test_a_thread_that_fails_leaves_nobody_waiting(
    office: Office, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, stream = office.replica(), office.submit()
    stream.subscribe(lambda _: 1 / 0)
    other = office.submit("b")
    monkeypatch.setattr(protocol, "decode_from_core", lambda _: 1 / 0)
    replica.send(b"a word")
    for each in (stream, other):
        with pytest.raises(EngineClosed):
            each.result(5.0)
    until(lambda: not office.front_end.alive, 5.0)
    assert "the front end's thread has failed" in caplog.messages


# -- the coordinator ------------------------------------------------------------------------------


class States:
    """Where a coordinator would tell its states."""

    def __init__(self, office: Office, name: str) -> None:
        self.socket, self.address = office.sockets.bind(zmq.XPUB, name)
        office.front_end.connect_coordinator(Addresses(self.address, "", ""))
        assert self.socket.recv() == b"\1"

    def publish(self, wave: int) -> None:
        self.socket.send(coordinator_wire.encode(State(wave, True)))


def test_waves_are_counted_on_over_all_coordinators(office: Office) -> None:
    first = States(office, "first")
    first.publish(2)
    first.publish(3)
    until(lambda: office.front_end.wave == 3, 5.0)
    second = States(office, "second")
    assert first.socket.recv() == b"\0"  # nobody listens there any more
    assert office.front_end.wave == 3
    second.publish(4)
    until(lambda: office.front_end.wave == 7, 5.0)


def test_how_quiet_the_coordinator_is_can_be_asked(office: Office) -> None:
    assert office.front_end.coordinator_silent_for() == 0.0
    states = States(office, "states")
    office.now = 103.0
    until(lambda: office.front_end.coordinator_silent_for() == 3.0, 5.0)
    states.publish(1)
    until(lambda: office.front_end.coordinator_silent_for() == 0.0, 5.0)
    office.now = 105.0
    until(lambda: office.front_end.coordinator_silent_for() == 2.0, 5.0)
    office.front_end.connect_coordinator(None)
    assert office.front_end.coordinator_silent_for() == 0.0
    assert states.socket.recv() == b"\0"
    assert office.front_end.coordinator_silent_for() == 0.0


def test_closed_it_leaves_the_coordinator(office: Office) -> None:
    states = States(office, "states")
    office.front_end.close()
    assert states.socket.recv() == b"\0"
