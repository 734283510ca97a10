"""A worker's steps without its process: its loop, its ear, its way to say things (W4, W6)."""

import os
import pickle
import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.errors import Cancelled, Undecodable
from refengine.executor import replying, serving, tether, worker
from refengine.executor.birth import Birth
from refengine.executor.leaving import Leave, Leaving
from refengine.executor.link import MOST_BYTES, pair
from refengine.executor.replying import ByThread, Straight, told
from refengine.executor.serving import Server
from refengine.executor.settings import WorkerSpec
from refengine.executor.tether import LEAVE, Tether

from ..roles import Role


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
        raise Leave(3)


class Bench:
    def __init__(self, *requests: Any, rank: int = 1) -> None:
        self.out, self.leaving, self.page = Out(), Leaving(), list[Any]()
        self.requests = list(requests)
        page: Any = SimpleNamespace(
            begin=lambda rank: self.page.append(("begin", rank)),
            end=lambda rank: self.page.append(("end", rank)),
        )
        queue: Any = SimpleNamespace(dequeue=self.dequeue)
        self.server = Server(Object(), rank, queue, self.out, page, self.leaving)

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


class TestServing:
    def test_it_replies_to_each_call_with_its_number_until_the_end(self):
        b = Bench((1, "twice", (3,), {"plus": 1}, None), (2, "twice", (4,), {}, 1))
        assert b.serve() == [("result", 1, 7), ("result", 2, 8)]
        assert b.leaving.why == "the parent closed the pool"
        assert b.page == [("begin", 1), ("end", 1)] * 2

    def test_a_call_that_another_replies_to_is_run_and_not_replied_to(self, caplog):
        b = Bench((1, "twice", (3,), {}, 0), (2, "fail", (), {}, 0))
        assert b.serve() == []
        assert b.page == [("begin", 1), ("end", 1)] * 2
        assert "call 2 failed at a worker that does not reply" in caplog.text
        assert "on purpose" in caplog.text

    def test_an_error_is_told_by_whoever_replies(self, caplog):
        b = Bench((1, "fail", (), {}, None), (2, "fail", (), {}, 1))
        assert [(word, n, str(e)) for word, n, e in b.serve()] == [
            ("failure", 1, "on purpose"), ("failure", 2, "on purpose"),
        ]  # fmt: skip
        assert caplog.text == ""

    def test_a_method_that_is_not_there_is_named_and_health_is_always_there(self):
        b = Bench((1, "other", (), {}, None), (2, "check_health", (), {}, None))
        (word, number, error), health = b.serve()
        assert (word, number, str(error)) == ("failure", 1, "Object has no method 'other'")
        assert health == ("result", 2, None)

    def test_a_method_is_looked_up_once(self):
        b = Bench()
        assert b.server._method("twice") is b.server._method("twice")

    def test_a_function_gets_the_worker(self, monkeypatch):
        library = SimpleNamespace(loads=lambda data: lambda w, n, k: (type(w).__name__, n, k))
        monkeypatch.setitem(sys.modules, "cloudpickle", library)
        b = Bench((1, b"...", (2,), {"k": 3}, None))
        assert b.serve() == [("result", 1, ("Object", 2, 3))]

    def test_told_to_leave_it_takes_nothing_more(self):
        b = Bench((1, "twice", (3,), {}, None))
        b.leaving.ask("a signal")
        assert b.serve() == []
        assert len(b.requests) == 1

    def test_leaving_passes_through_a_method(self):
        b = Bench((1, "leave", (), {}, 0))
        with pytest.raises(Leave):
            b.serve()
        assert b.out.did == []

    @pytest.mark.parametrize(("word", "method"), [("result", "twice"), ("failure", "fail")])
    def test_when_nobody_reads_replies_it_leaves(self, word, method):
        b = Bench((1, method, (3,) if method == "twice" else (), {}, None), "never")
        b.out.no[word] = Cancelled("room", "shutdown")
        b.serve()
        assert b.leaving.why == "nobody reads replies any more"
        assert b.requests == ["never"]

    @pytest.mark.parametrize(
        ("only", "replies"), [(None, True), (1, True), (0, False), ("odd", True)]
    )
    def test_a_request_that_cannot_be_read_is_a_failure_of_its_call(self, only, replies, caplog):
        cause = ValueError("cannot be read")
        b = Bench(torn((5, "m", (), {}, only), cause))
        assert b.serve() == ([("failure", 5, cause)] if replies else [])
        assert ("does not reply" in caplog.text) == (not replies)

    def test_one_without_a_cause_is_told_itself(self):
        error = torn((5, "m", (), {}, None))
        assert Bench(error).serve() == [("failure", 5, error)]

    @pytest.mark.parametrize(
        "error", [torn("no request"), torn((5, True, "a reply")), KeyboardInterrupt(), Leave(1)]
    )
    def test_what_is_no_request_ends_the_loop(self, error):
        b = Bench(error)
        with pytest.raises(type(error)):
            b.serve()
        assert b.out.did == []
        assert not b.leaving.asked


class Words:
    def __init__(self, *no: BaseException) -> None:
        self.no, self.sent = list(no), list[Any]()

    def enqueue(self, message: Any) -> None:
        if self.no:
            raise self.no.pop(0)
        self.sent.append(message)


def straight(*no: BaseException) -> tuple[Straight, list[Any]]:
    words: Any = Words(*no)
    return Straight(words), words.sent


class TestReplying:
    def test_a_value_or_what_it_defers_to_is_sent(self):
        out, sent = straight()
        out.result(1, "value")
        out.result(2, SimpleNamespace(get_output=lambda: "made late"))
        assert sent == [(1, True, "value"), (2, True, "made late")]
        out.close()
        assert len(sent) == 2

    def test_one_that_cannot_be_sent_is_a_failure(self):
        out, sent = straight(SystemExit(3))
        out.result(1, "value")
        ((number, well, (reason, text)),) = sent
        assert (number, well, reason) == (1, False, "SystemExit: 3")
        assert text.startswith("Traceback")

    @pytest.mark.parametrize("end", [Cancelled("room", "x"), Leave(1)])
    def test_the_end_is_no_failure(self, end):
        out, sent = straight(end)
        with pytest.raises(type(end)):
            out.result(1, "value")
        assert sent == []

    def test_an_error_without_words_is_its_type(self):
        class Mute(Exception):
            error: BaseException = ValueError("no words")

            def __str__(self) -> str:
                raise self.error

        assert told(Mute())[0] == "Mute"
        assert told(KeyError("x"))[0] == "KeyError: 'x'"
        Mute.error = Leave(1)
        with pytest.raises(Leave):
            told(Mute())

    def test_a_thread_sends_in_order_and_logs_what_it_cannot_send(self, caplog):
        out = Out()
        straight: Any = out
        thread = ByThread(straight)
        assert (thread._thread.daemon, thread._thread.name) == (True, "output")
        error = ValueError("x")
        thread.result(1, "a")
        thread.failure(2, error)
        out_no = KeyError("odd")
        thread.close()
        assert out.did == [("result", 1, "a"), ("failure", 2, error)]
        assert not thread._thread.is_alive()
        out.no["result"] = out_no
        thread = ByThread(straight)
        thread.result(3, "b")
        thread.failure(4, error)
        thread.close()
        assert out.did[2:] == [("failure", 4, error)]
        assert "a reply could not be sent" in caplog.text
        caplog.clear()
        out.no["result"] = Cancelled("room", "x")
        thread = ByThread(straight)
        thread.result(5, "c")
        thread.failure(6, error)
        thread.close()
        assert out.did[3:] == []
        assert caplog.text == ""

    def test_what_is_under_way_has_a_short_time(self):
        joined: list[float] = []
        straight: Any = Out()
        thread = ByThread(straight)
        thread.close()
        thread._thread = SimpleNamespace(join=joined.append)
        thread.close()
        assert joined == [replying._FLUSH]
        assert 1 <= replying._FLUSH <= 3


class TestTether:
    def test_what_the_parent_says_is_heard_and_leave_is_obeyed(self):
        ours, theirs = pair()
        reading, writing = os.pipe()
        leaving = Leaving()
        ear = Tether(theirs, reading, leaving)
        ours.say({"a": "handle"})
        ear._obey()
        assert ear.hear() == {"a": "handle"}
        assert not leaving.asked
        ours.say(LEAVE)
        ear._obey()
        assert ear.hear() == LEAVE
        assert (leaving.why, leaving.status) == ("the pool shuts down", 0)
        for fd in (reading, writing):
            os.close(fd)
        ours.close()
        theirs.close()

    @pytest.mark.parametrize("what", ["link", "pipe"])
    def test_when_the_parent_is_gone_its_things_go_first_and_then_the_group(
        self, what, monkeypatch
    ):
        did: list[Any] = []
        ours, theirs = pair()
        reading, writing = os.pipe()

        def end(group: int, number: int) -> None:
            did.append((group, number))
            raise InterruptedError  # a real one does not return

        monkeypatch.setattr(tether, "remove_own", lambda: did.append("own"))
        monkeypatch.setattr(tether, "sweep", lambda: did.append("sweep"))
        monkeypatch.setattr(
            tether, "await_end", lambda fd, seconds: did.append((fd is ear._parent, seconds))
        )
        monkeypatch.setattr(tether.os, "killpg", end)
        ear = Tether(theirs, reading, Leaving())
        if what == "link":
            ours.close()
        else:
            os.close(writing)
        with pytest.raises(InterruptedError):
            ear._listen()
        assert did == ["own", (True, 0.5), "sweep", (0, signal.SIGKILL)]
        os.close(reading)
        if what == "link":
            os.close(writing)
        ours.close()
        theirs.close()

    def test_it_listens_in_a_thread_of_its_own(self):
        ours, theirs = pair()
        reading, writing = os.pipe()

        def child(say: Any) -> None:
            leaving, woken = Leaving(), threading.Event()
            leaving.on_leave(woken.set)
            ear = Tether(theirs, reading, leaving)
            ear.start()
            say(ear.hear())
            say(woken.wait(5))

        with Role(child) as role:
            ours.say("first")
            assert role.hear() == "first"
            ours.say(LEAVE)
            assert role.hear() is True
        for fd in (reading, writing):
            os.close(fd)
        ours.close()
        theirs.close()


class Queue:
    """A message queue that meets at once."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self.given, self.more, self.did = given, more, list[Any]()
        self.no: BaseException | None = None

    def wait_until_ready(self, seconds: float) -> None:
        self.did.append(seconds)
        if self.no is not None:
            raise self.no

    def shutdown(self) -> None:
        self.did.append("shutdown")

    def close(self) -> None:
        self.did.append("close")

    def enqueue(self, message: Any) -> None:
        self.did.append(message)

    def export_handle(self) -> str:
        return "of replies"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TestLife:
    @pytest.fixture
    def life(self, monkeypatch):
        ours, theirs = pair()
        made: list[Any] = []
        queue = Queue()

        class Queues(Queue):
            @staticmethod
            def create_from_handle(handle: Any, rank: int) -> Any:
                queue.given = (handle, rank)
                return queue

        monkeypatch.setattr(worker, "MessageQueue", Queues)

        def make(**more: Any) -> Any:
            given: dict[str, Any] = {
                "rank": 1, "world_size": 2, "tensor_parallel": 1, "device": "cpu",
                "environ": dict(os.environ), "folder": "", "path": sys.path, "main": {},
                "worker": pickle.dumps(WorkerSpec(f"{__name__}:Loaded", {"extra": 5})),
                "output_thread": False, "reply_chunk_bytes": 100, "max_chunks": 3,
                "log_prefix": False,
            }  # fmt: skip
            fd = os.memfd_create("page")
            os.truncate(fd, 4096)
            ear: Any = SimpleNamespace(hear=lambda: "of requests")
            one: Any = worker._Life(Birth(**given | more), fd, 77, theirs, ear, Leaving())
            os.close(fd)
            one.ours, one.queue, one.ear = ours, queue, ear
            made.append(one)
            return one

        monkeypatch.setattr(worker.titles, "set_title", lambda rank: queue.did.append(f"t{rank}"))
        monkeypatch.setattr(
            worker.titles, "prefix_output", lambda rank: queue.did.append(f"p{rank}")
        )
        yield make
        ours.close()
        theirs.close()

    def test_the_worker_is_made_in_its_place_and_loaded(self, life, monkeypatch):
        threads: list[int] = []
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=threads.append))
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        one = life(log_prefix=True)
        made = one._begin()
        assert made.did == ["device", "model"]
        place = made.place
        assert (place.rank, place.world_size, place.tensor_parallel) == (1, 2, 1)
        assert (place.device, place.store, place.lock) == ("cpu", "/proc/self/fd/77", one._lock)
        assert made.extra == 5
        assert one._worker is made
        assert one.queue.did == ["t1", "p1"]
        for word in ("many", None):
            environ = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
            life(environ=environ | ({"OMP_NUM_THREADS": word} if word else {}))._begin()
        assert threads == [3, 1, 1]

    def test_its_queue_of_replies_is_as_it_was_told(self, life):
        one = life()
        queue = one._reply_queue()
        assert (queue.given, queue.more) == ((1,), {"max_chunk_bytes": 100, "max_chunks": 3})
        one._leaving.ask("the end")
        assert queue.did == ["shutdown"]

    def test_it_meets_its_parent_over_both_queues(self, life):
        one, replies = life(), Queue()
        assert one._meet(replies) is one.queue
        assert one.queue.given == ("of requests", 1)
        (seconds,) = one.queue.did
        assert 60 <= seconds <= 300
        assert replies.did == [seconds]
        one._leaving.ask("the end")
        assert one.queue.did == [seconds, "shutdown"]

    def test_a_meeting_that_fails_gives_the_queue_back(self, life):
        one, replies = life(), Queue()
        replies.no = Cancelled("all", "x")
        with pytest.raises(Cancelled):
            one._meet(replies)
        assert one.queue.did[1:] == ["close"]

    def test_told_to_leave_instead_of_the_meeting_it_does(self, life):
        one = life()
        one.ear.hear = lambda: LEAVE
        with pytest.raises(Leave) as leave:
            one._meet(Queue())
        assert leave.value.code == 0

    def test_why_it_cannot_start_is_told_in_its_words(self, life):
        one = life()
        one._report(ValueError("x" * MOST_BYTES + " in the end"))
        (word, text), _ = one.ours.hear()
        assert word == worker.FAILED
        assert text.endswith("in the end\n")
        assert len(text) == MOST_BYTES // 4
        assert one._leaving.status == 1
        one = life()
        one._leaving.ask("SIGTERM", 143)
        one._report(Leave(143))
        assert one.ours.hear()[0] == (worker.FAILED, "it was told to leave (SIGTERM)")
        assert one._leaving.status == 143

    def test_it_says_why_it_leaves_then_sends_what_is_left_then_tidies_up(self, life, caplog):
        did: list[str] = []
        for why, shutdown in (("SIGTERM", True), ("", True), ("x", False)):
            one = life()
            if why:
                one._leaving.ask(why)
            if shutdown:
                one._worker = SimpleNamespace(shutdown=lambda: did.append("shutdown") or 1 / 0)
            one._leave(SimpleNamespace(close=lambda: did.append("close")))
            told_why = why or "of an error of its own"
            assert one.ours.hear()[0] == (worker.LEAVING, told_why)
        assert did == ["close", "shutdown"] * 2 + ["close"]
        assert caplog.text.count("the worker's shutdown() failed") == 2

    @pytest.mark.parametrize("thread", [False, True])
    def test_results_leave_the_way_it_was_told(self, life, thread):
        out = life(output_thread=thread)._outlet(SimpleNamespace(enqueue=None))
        assert isinstance(out, ByThread if thread else Straight)
        out.close()

    def test_its_whole_life(self, life, monkeypatch):
        did: list[Any] = []

        def serve(*given: Any) -> Any:
            did.append(given[1])
            return SimpleNamespace(serve=lambda: did.append("serve"))

        monkeypatch.setattr(worker, "Server", serve)
        one = life()
        one.live()
        assert did == [1, "serve"]
        assert one.ours.hear()[0] == (worker.READY, "of replies")
        assert one.ours.hear()[0] == (worker.LEAVING, "of an error of its own")
        assert one.queue.did[-1] == "close"
        assert not one.ours.has_news()

    def test_without_a_parent_it_meets_nobody(self, life):
        one = life()
        one.ours.close()
        one.ear.hear = lambda: pytest.fail("there is nobody")
        one.live()
        assert one._leaving.status == 0

    def test_told_to_leave_while_it_meets_it_complains_of_nothing(self, life):
        one = life()

        def hear() -> str:
            one._leaving.ask("the pool shuts down")
            return LEAVE

        one.ear.hear = hear
        one.live()
        assert one.ours.hear()[0][0] == worker.READY
        assert one.ours.hear()[0] == (worker.LEAVING, "the pool shuts down")
        assert one._worker.did[-1] == "shutdown"


class Loaded:
    def __init__(self, place: Any, extra: int) -> None:
        self.place, self.extra, self.did = place, extra, list[str]()

    def init_device(self) -> None:
        self.did.append("device")

    def load_model(self) -> None:
        self.did.append("model")

    def shutdown(self) -> None:
        self.did.append("shutdown")

    class Inner:
        pass


def test_a_class_may_be_given_itself_or_by_name():
    assert worker._class_of(WorkerSpec(Loaded, {})) is Loaded
    assert worker._class_of(WorkerSpec(f"{__name__}:Loaded.Inner", {})) is Loaded.Inner


class TestBeing:
    """`be_worker` from its first word on."""

    def test_without_a_first_word_it_is_nothing(self):
        ours, theirs = pair()
        ours.say("born", 0)  # too few descriptors
        assert worker.be_worker(theirs) == 1
        ours.close()
        assert worker.be_worker(theirs) == 1
        theirs.close()

    @pytest.mark.parametrize("stdin", [True, False])
    def test_it_is_bound_to_its_parent_first(self, stdin):
        def child(say: Any) -> None:
            asked: list[Any] = []
            worker.hangup.last_a_second = lambda: asked.append("a second")
            worker.hangup.send_at_hangup = lambda *what: asked.append(what)
            open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
            if not stdin:
                os.close(0)  # as a daemon's may be
            worker._bind_to_parent(55)
            say([asked == ["a second", (55, -os.getpid())], os.getpgid(0) == os.getpid()])
            say(os.readlink("/proc/self/fd/0"))  # noqa: PTH115
            say(len(os.listdir("/proc/self/fd")) - open_before)  # noqa: PTH208

        with Role(child) as role:
            assert role.finish() == [[True, True], "/dev/null", 0]

    def test_what_it_is_told_is_read_and_let_go_of(self):
        fd = os.memfd_create("birth")
        os.write(fd, pickle.dumps("everything"))
        found: Any = worker._read(fd)
        assert found == "everything"
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)

    @pytest.mark.parametrize("how", ["leaves", "ends"])
    def test_its_status_says_how_it_left(self, how, monkeypatch):
        ours, theirs = pair()
        birth_fd, did = os.memfd_create("birth"), list[str]()
        monkeypatch.setattr(worker, "_bind_to_parent", lambda death: did.append("bound"))
        monkeypatch.setattr(worker, "_read", lambda fd: "birth")

        class Ear:
            def __init__(self, link: Any, death: int, leaving: Any) -> None:
                pass

            def start(self) -> None:
                did.append("listens")

        class Life:
            def __init__(self, *given: Any) -> None:
                assert given[0] == "birth"
                self.leaving = given[5]

            def live(self) -> None:
                did.append("lives")
                self.leaving.ask("x", 7)
                if how == "leaves":
                    raise Leave(7)

        monkeypatch.setattr(worker, "Tether", Ear)
        monkeypatch.setattr(worker, "_Life", Life)
        monkeypatch.setattr(Leaving, "obey_signals", lambda self: did.append("obeys"))
        ours.say("born", birth_fd, birth_fd, birth_fd, birth_fd)
        assert worker.be_worker(theirs) == 7
        assert did == ["bound", "listens", "obeys", "lives"]
        os.close(birth_fd)
        ours.close()
        theirs.close()


def test_a_health_check_of_ones_own_comes_first():
    b = Bench((1, "check_health", (), {}, None))
    b.server._worker = SimpleNamespace(check_health=lambda: "well")
    assert b.serve() == [("result", 1, "well")]
    assert serving._alive() is None
