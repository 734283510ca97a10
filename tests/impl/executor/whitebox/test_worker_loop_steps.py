"""A worker's loop and its way to say things, without its process (W6)."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.errors import Cancelled, Undecodable
from refengine.executor import worker
from refengine.executor.parent_monitor import ShutdownRequest, ShutdownRequested
from refengine.executor.worker import DirectReplies, ThreadedReplies, WorkerLoop, format_error


class Out:
    """Replies as they are said; `no` is raised instead."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.no: dict[str, BaseException] = {}

    def result(self, number: int, value: Any) -> None:
        self._say("result", number, value)

    def failure(self, number: int, error: BaseException) -> None:
        self._say("failure", number, error)

    def close(self) -> None:
        self._say("close")

    def _say(self, word: str, *what: Any) -> None:
        if word in self.no:
            raise self.no[word]
        self.did.append((word, *what))


class Object:
    def twice(self, n: int, *, plus: int = 0) -> int:
        return 2 * n + plus

    def fail(self) -> None:
        raise ValueError("on purpose")

    def leave(self) -> None:
        raise ShutdownRequested(3)


class Bench:
    def __init__(self, *requests: Any, rank: int = 1) -> None:
        self.out, self.shutdown_request, self.page = Out(), ShutdownRequest(), list[Any]()
        self.requests = list(requests)
        page: Any = SimpleNamespace(
            begin=lambda rank: self.page.append(("begin", rank)),
            end=lambda rank: self.page.append(("end", rank)),
        )
        queue: Any = SimpleNamespace(dequeue=self.dequeue)
        self.server = WorkerLoop(Object(), rank, queue, self.out, page, self.shutdown_request)

    def dequeue(self, indefinite: bool = False) -> Any:
        assert indefinite
        if not self.requests:
            raise Cancelled("a request", "shutdown")
        request = self.requests.pop(0)
        if isinstance(request, BaseException):
            raise request
        return request

    def serve(self) -> list[Any]:
        self.server.serve()
        return self.out.did


def torn(message: Any, cause: BaseException | None = None) -> Undecodable:
    error = Undecodable(1)
    error.undecoded = pickle.dumps(message)
    error.__cause__ = cause
    return error


class TestWorkerLoop:
    def test_it_replies_to_each_call_with_its_number_until_the_end(self):
        b = Bench((1, "twice", (3,), {"plus": 1}, None), (2, "twice", (4,), {}, 1))
        assert b.serve() == [("result", 1, 7), ("result", 2, 8)]
        assert b.shutdown_request.reason == "the parent closed the pool"
        assert b.page == [("begin", 1), ("end", 1)] * 2

    def test_leaving_passes_through_a_method(self):
        b = Bench((1, "leave", (), {}, 0))
        with pytest.raises(ShutdownRequested):
            b.serve()
        assert b.out.did == []

    @pytest.mark.parametrize(("word", "method"), [("result", "twice"), ("failure", "fail")])
    def test_when_nobody_reads_replies_it_leaves(self, word, method):
        b = Bench((1, method, (3,) if method == "twice" else (), {}, None), "never")
        b.out.no[word] = Cancelled("room", "shutdown")
        b.serve()
        assert b.shutdown_request.reason == "nobody reads replies any more"
        assert b.requests == ["never"]

    @pytest.mark.parametrize(("only", "replies"), [(1, True), (0, False)])
    def test_a_request_that_cannot_be_read_is_a_failure_of_its_call(self, only, replies, caplog):
        cause = ValueError("cannot be read")
        b = Bench(torn((5, "m", (), {}, only), cause))
        assert b.serve() == ([("failure", 5, cause)] if replies else [])
        assert ("does not reply" in caplog.text) == (not replies)

    def test_what_is_no_request_ends_the_loop(self):
        b = Bench(torn("no request"))
        with pytest.raises(Undecodable):
            b.serve()
        assert b.out.did == []
        assert not b.shutdown_request.requested


class Words:
    def __init__(self, *no: BaseException) -> None:
        self.no, self.sent = list(no), list[Any]()

    def enqueue(self, message: Any) -> None:
        if self.no:
            raise self.no.pop(0)
        self.sent.append(message)


def direct(*no: BaseException) -> tuple[DirectReplies, list[Any]]:
    words: Any = Words(*no)
    return DirectReplies(words), words.sent


class TestReplies:
    def test_one_that_cannot_be_sent_is_a_failure(self):
        out, sent = direct(SystemExit(3))
        out.result(1, "value")
        ((number, well, (reason, text)),) = sent
        assert (number, well, reason) == (1, False, "SystemExit: 3")
        assert text.startswith("Traceback")

    @pytest.mark.parametrize("end", [Cancelled("room", "x"), ShutdownRequested(1)])
    def test_the_end_is_no_failure(self, end):
        out, sent = direct(end)
        with pytest.raises(type(end)):
            out.result(1, "value")
        assert sent == []

    def test_an_error_without_words_is_its_type(self):
        class Mute(Exception):
            error: BaseException = ValueError("no words")

            def __str__(self) -> str:
                raise self.error

        assert format_error(Mute())[0] == "Mute"
        assert format_error(KeyError("x"))[0] == "KeyError: 'x'"
        Mute.error = ShutdownRequested(1)
        with pytest.raises(ShutdownRequested):
            format_error(Mute())

    def test_a_thread_sends_in_order_and_logs_what_it_cannot_send(self, caplog):
        out = Out()
        direct: Any = out
        thread = ThreadedReplies(direct)
        assert (thread._thread.daemon, thread._thread.name) == (True, "output")
        error = ValueError("x")
        thread.result(1, "a")
        thread.failure(2, error)
        out_no = KeyError("odd")
        thread.close()
        assert out.did == [("result", 1, "a"), ("failure", 2, error)]
        assert not thread._thread.is_alive()
        out.no["result"] = out_no
        thread = ThreadedReplies(direct)
        thread.result(3, "b")
        thread.failure(4, error)
        thread.close()
        assert out.did[2:] == [("failure", 4, error)]
        assert "a reply could not be sent" in caplog.text
        caplog.clear()
        out.no["result"] = Cancelled("room", "x")
        thread = ThreadedReplies(direct)
        thread.result(5, "c")
        thread.failure(6, error)
        thread.close()
        assert out.did[3:] == []
        assert caplog.text == ""

    def test_what_is_under_way_has_a_short_time(self):
        joined: list[float] = []
        direct: Any = Out()
        thread = ThreadedReplies(direct)
        thread.close()
        thread._thread = SimpleNamespace(join=joined.append)
        thread.close()
        assert joined == [worker._FLUSH_WITHIN]
        assert 1 < worker._FLUSH_WITHIN < 3


def test_a_health_check_of_ones_own_comes_first():
    b = Bench((1, "check_health", (), {}, None))
    b.server._worker = SimpleNamespace(check_health=lambda: "well")
    assert b.serve() == [("result", 1, "well")]
    assert worker._default_health_check() is None
