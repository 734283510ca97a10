"""What a queue makes of its arguments, and what a reader's end does with a message (R7, R9)."""

import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.cleanup import ReleaseStack
from refengine.base.serialization import Pickler
from refengine.errors import Busy, Cancelled, QueueClosed, RankRefused, Undecodable, WrongRole
from refengine.queue import MessageQueue, message_queue
from refengine.queue.handshake import Handle
from refengine.queue.reader import Reader
from refengine.queue.settings import Settings
from refengine.queue.writer import Writer


class Sending(Writer):
    """Notes what it is asked."""

    def __init__(self, *given: Any) -> None:
        self.given, self.log = given, list[Any]()
        self.handle = "handle"
        self.whole = True

    def enqueue(self, obj: object, timeout: float | None = None) -> None:
        self.log.append(("enqueue", obj, timeout))

    def wait_until_ready(self, timeout: float | None) -> None:
        self.log.append(("wait", timeout))

    def stop(self) -> None:
        self.log.append("stop")

    def close(self, timeout: float) -> bool:
        self.log.append(("close", timeout))
        return self.whole


class Taking(Reader):
    """Notes what it is asked."""

    def __init__(self, *given: Any) -> None:
        self.given, self.log = given, list[Any]()

    def say_hello(self) -> None:
        self.log.append("hello")

    def dequeue(
        self, timeout: float | None = None, cancel: Any = None, indefinite: bool = False
    ) -> Any:
        self.log.append(("dequeue", timeout, cancel, indefinite))
        return "it"

    def close(self, timeout: float) -> bool:
        self.log.append(("close", timeout))
        return True

    def _next(self, timeout: float | None) -> Any: ...
    def _handshake_step(self, left: Any) -> bool: ...
    def _shutdown(self, seconds: float) -> None: ...


@pytest.fixture(autouse=True)
def noting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_queue, "Writer", Sending)
    monkeypatch.setattr(message_queue, "LocalReader", type("Near", (Taking,), {}))
    monkeypatch.setattr(message_queue, "RemoteReader", type("Far", (Taking,), {}))


def given(*arguments: Any, **named: Any) -> tuple[Any, ...]:
    """What the writer's end was made with, but for its settings and what undoes it."""
    return MessageQueue(*arguments, **named)._end.given[:-2]


def test_what_is_not_said_is_all_local_ten_chunks_of_24_mib_on_the_loopback():
    assert given(3) == (3, [0, 1, 2], 24 << 20, 10, "127.0.0.1")
    assert given(3, 1) == (3, [0], 24 << 20, 10, "127.0.0.1")
    assert given(3, 2, [0, 2], 100, 5) == (3, [0, 2], 100, 5, "127.0.0.1")
    assert given(3, 0, connect_ip="::1") == (3, [], 24 << 20, 10, "::1")


def test_seams_become_settings():
    settings, _ = MessageQueue(1, peer_timeout=3.0)._end.given[-2:]
    assert settings == Settings(peer_timeout=3.0, limits=settings.limits, sockets=settings.sockets)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0,), "at least one reader and one chunk"),
        ((1, 1, None, 100, 0), "at least one reader and one chunk"),
        ((1, 1, None, 31), "max_chunk_bytes is 31, at least 32"),
        ((2, 3), "3 different local ranks below 2 needed"),
        ((2, 2, [0, 0]), "2 different local ranks"),
        ((2, 1, [0, 1]), "1 different local ranks"),
        ((2, 1, [2]), "below 2 needed, not .2."),
        ((2, 1, [-1]), "below 2 needed"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(arguments: Any, text: str):
    with pytest.raises(ValueError, match=text):
        MessageQueue(*arguments)


def test_numbers_at_the_edge_are_taken():
    assert given(1, 1, [0], 32, 1)[2:4] == (32, 1)
    assert given(2, 1, [1])[1] == [1]


def handle(ring: Any = "ring", remote: str = "tcp://there:1") -> Handle:
    return Handle(3, (0, 2), ring, "door", "overflow", "keys", remote)


@pytest.mark.parametrize(("rank", "kind"), [(0, "Near"), (1, "Far"), (2, "Near")])
def test_a_reader_is_local_or_remote_as_its_handle_says(rank: int, kind: str):
    made = MessageQueue.create_from_handle(handle(), rank, peer_timeout=3.0)
    end: Any = made._end
    assert type(end).__name__ == kind
    assert end.given[:2] == (handle(), rank)
    assert end.given[2:-2] == (("ring",) if kind == "Near" else ())
    assert end.given[-2].peer_timeout == 3.0
    assert end.log == ["hello"]


@pytest.mark.parametrize(
    ("rank", "card"),
    [(3, handle()), (-1, handle()), (0, handle(ring=None)), (1, handle(remote=""))],
)
def test_a_rank_that_is_none_is_refused_with_those_that_are(rank: int, card: Handle):
    with pytest.raises(RankRefused) as caught:
        MessageQueue.create_from_handle(card, rank)
    assert caught.value.facts[:2] == (rank, "unknown; the ranks are [0, 1, 2]")


def test_a_writer_writes_and_a_reader_reads():
    writer, reader = MessageQueue(1), MessageQueue.create_from_handle(handle(), 0)
    with pytest.raises(WrongRole) as caught:
        writer.dequeue()
    assert caught.value.facts == ("dequeue", "writer")
    with pytest.raises(WrongRole) as caught:
        reader.enqueue("x")
    assert caught.value.facts == ("enqueue", "reader")
    writer.enqueue("x", 1.0)
    assert writer.broadcast_object("y") == "y"
    assert reader.broadcast_object() == "it"
    assert reader.dequeue(2.0, cancel="c", indefinite=True) == "it"
    writer.wait_until_ready(3.0)
    writer.shutdown()
    assert writer.export_handle() == "handle"
    log: Any = writer._end.log
    assert log == [("enqueue", "x", 1.0), ("enqueue", "y", None), ("wait", 3.0), "stop"]
    log = reader._end.log
    assert log == ["hello", ("dequeue", None, None, False), ("dequeue", 2.0, "c", True)]


def test_a_close_has_two_seconds_and_is_not_done_again_at_exit_unless_it_failed():
    with MessageQueue(1) as made:
        end: Any = made._end
    assert end.log == [("close", 2.0)]
    assert not made._finalizer.still_active()
    made = MessageQueue(1)
    end = made._end
    end.whole = False
    made.close(1.0)
    assert made._finalizer.still_active()
    del made
    assert end.log == [("close", 1.0), ("close", 2.0)]


def test_at_exit_queues_are_left_before_what_they_may_need():
    assert "exitpriority=20" in repr(MessageQueue(1)._finalizer)


def test_the_defaults_are_those_that_are_told():
    def default(call: Callable[..., Any], name: str = "timeout") -> Any:
        return inspect.signature(call).parameters[name].default

    assert default(MessageQueue.close) == 2.0
    assert default(MessageQueue.enqueue) is None
    assert default(MessageQueue.dequeue) is None
    assert default(MessageQueue.dequeue, "indefinite") is False
    together = MessageQueue.create_from_process_group
    alone = MessageQueue.create_from_process_group_single_reader
    for call in (together, alone):
        assert default(call) == 300.0
        assert default(call, "max_chunk_bytes") == 24 << 20
        assert default(call, "max_chunks") == 10
    assert default(together, "writer_rank") == default(alone, "reader_rank") == 0
    assert default(together, "blocking") is True
    assert default(alone, "blocking") is False


# -- taking ---------------------------------------------------------------------------------


def dumped(obj: object) -> list[bytes | memoryview]:
    return list(Pickler(1 << 20).dumps(obj))


class NotingReader(Reader):
    """Ready; what its ring holds is written down before."""

    def __init__(self, *objects: object) -> None:
        super().__init__(SimpleNamespace(), 0, Settings(), ReleaseStack())
        self.raws = [dumped(obj) for obj in objects]
        self.number, self.asked = 0, list[Any]()
        self.refusal_error = None
        self.watching: list[bool] = []

    def _next(self, timeout: float | None) -> Any:
        self.asked.append(timeout)
        self.watching.append(self._waiter.in_call)
        if self._undelivered is None:
            self._undelivered = self.number, self.raws.pop(0)
            self.number += 1
        return self._decode(*self._undelivered)

    def say_hello(self) -> None: ...
    def _handshake_step(self, left: Any) -> bool: ...
    def _shutdown(self, seconds: float) -> None: ...


@pytest.fixture
def reader():
    made: list[NotingReader] = []

    def make(*objects: object) -> NotingReader:
        made.append(NotingReader(*objects))
        return made[-1]

    yield make
    for each in made:
        each._undo.close()


class Interrupted(BaseException):
    pass


class Raises:
    """Unpickled, it runs what a test has set."""

    now: Callable[[], Any] = staticmethod(lambda: "it")

    def __reduce__(self) -> Any:
        return _run, ()


def _run() -> Any:
    return Raises.now()


def test_messages_are_handed_out_and_dropped(reader: Any):
    end = reader("x", "y")
    assert [end.dequeue(t, None, False) for t in (1.0, None)] == ["x", "y"]
    assert end.asked == [1.0, None]
    assert end._undelivered is None
    assert not end._guard.held
    assert end.watching == [False, False]


@pytest.mark.parametrize(("cancel", "indefinite"), [(None, True), ("token", False)])
def test_a_call_that_may_be_cancelled_is_watched_and_no_other(
    reader: Any, cancel: Any, indefinite: bool
):
    end = reader("x", "y")
    cancel = cancel and SimpleNamespace(is_set=lambda: False)
    end.dequeue(0, cancel, indefinite)
    assert not end._waiter.in_call
    end.dequeue(0, None, False)
    assert end.watching == [True, False]


def test_a_call_that_an_exception_left_watched_is_forgotten(reader: Any):
    end = reader("x")
    end._waiter.begin_call(SimpleNamespace(is_set=lambda: True))
    end.dequeue(0, None, False)
    assert not end._waiter.in_call
    assert end._waiter.fault() is None


def test_a_failing_call_is_watched_no_more(reader: Any):
    end = reader()
    with pytest.raises(IndexError):
        end.dequeue(0, None, True)
    assert not end._waiter.in_call
    assert not end._guard.held


def test_an_obstacle_comes_first(reader: Any):
    end = reader("x")
    end.refusal_error = lambda what: QueueClosed(what)
    with pytest.raises(QueueClosed, match="dequeue"):
        end.dequeue(0, None, False)
    assert end.asked == []
    assert not end._guard.held


def test_a_call_that_loses_the_race_for_its_guard_does_not_wait_for_it(reader: Any):
    end, asked = reader("x"), []
    end._guard.acquire = lambda *how: asked.append(how)
    with pytest.raises(Busy, match="dequeue"):
        end.dequeue(0, None, False)
    assert asked == [(False,)]
    assert end.asked == []


def test_an_exception_on_the_way_out_leaves_the_message(reader: Any):
    end = reader("x")
    release = end._guard.release

    def strike() -> None:
        end._guard.release = release
        raise Interrupted

    end._guard.release = strike
    with pytest.raises(Interrupted):
        end.dequeue(0, None, False)
    assert end._undelivered is not None
    assert end.dequeue(0, None, False) == "x"
    assert end.number == 1


def attempt(end: NotingReader, *errors: BaseException | None) -> Any:
    left = list(errors)

    def now() -> Any:
        error = left.pop(0)
        if error is not None:
            raise error
        return "it"

    Raises.now = staticmethod(now)
    try:
        return end.dequeue(0, None, False)
    except BaseException as error:
        return error


@pytest.mark.parametrize("extra", [[], [bytearray(b"o") * (1 << 20)]])
def test_a_bad_message_is_raised_once_with_its_number(reader: Any, extra: list[Any]):
    first = ValueError()
    end = reader("x", [Raises(), *extra], "next")
    end.dequeue(0, None, False)
    outcome = attempt(end, first, ValueError())
    assert isinstance(outcome, Undecodable)
    assert (outcome.number, outcome.__cause__) == (1, first)
    assert end.dequeue(0, None, False) == "next"


def test_one_that_fails_differently_each_time_raises_its_first_and_stays(reader: Any):
    end, first = reader(Raises()), ValueError()
    assert attempt(end, first, KeyError()) is first
    assert attempt(end, None) == "it"


def test_what_strikes_the_callers_thread_at_every_try_is_no_error_of_the_message(reader: Any):
    end, struck = reader(Raises()), ValueError("a signal handler's")

    def now() -> str:
        if threading.current_thread() is threading.main_thread():
            raise struck
        return "it"

    Raises.now = staticmethod(now)
    for _ in range(2):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  which one is what counts
            end.dequeue(0, None, False)
        assert caught.value is struck
    assert attempt(end, None) == "it"


def test_an_error_from_outside_is_passed_on_and_the_message_stays(reader: Any):
    for error in (Interrupted(), ValueError()):
        end = reader(Raises())
        assert attempt(end, error, None) is error
        assert attempt(end, None) == "it"


def test_a_message_that_raises_no_ordinary_error_is_consumed_and_raises_it(reader: Any):
    end, first = reader(Raises(), "next"), Interrupted()
    assert attempt(end, first, Interrupted()) is first
    assert end.dequeue(0, None, False) == "next"


def test_a_refusal_is_the_vigils_fault_or_that_this_end_closed(reader: Any):
    end = reader()
    error = end._refusal("x")
    assert isinstance(error, QueueClosed)
    assert error.who == "this end"
    end._waiter.stop()
    assert isinstance(end._refusal("x"), Cancelled)
    assert end._missing() == "the writer's go"
