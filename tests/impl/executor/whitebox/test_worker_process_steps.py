"""A worker's watch over its parent and its life, without its process (W4)."""

import os
import pickle
import signal
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.errors import Cancelled
from refengine.executor import parent_monitor, worker
from refengine.executor.parent_monitor import (
    LEAVE,
    ParentMonitor,
    ShutdownRequest,
    ShutdownRequested,
)
from refengine.executor.process import MAX_MESSAGE_BYTES, link_pair
from refengine.executor.settings import WorkerSpec
from refengine.executor.worker import DirectReplies, ThreadedReplies
from refengine.executor.worker_init import WorkerInit

from ...roles import Role, descriptors


class TestParentMonitor:
    def test_what_the_parent_says_is_heard_and_leave_is_obeyed(self):
        ours, theirs = link_pair()
        reading, writing = os.pipe()
        shutdown_request = ShutdownRequest()
        ear = ParentMonitor(theirs, reading, shutdown_request)
        ours.send({"a": "handle"})
        ear._receive()
        assert ear.next_message() == {"a": "handle"}
        assert not shutdown_request.requested
        ours.send(LEAVE)
        ear._receive()
        assert ear.next_message() == LEAVE
        assert (shutdown_request.reason, shutdown_request.status) == ("the pool shuts down", 0)
        for fd in (reading, writing):
            os.close(fd)
        ours.close()
        theirs.close()

    @pytest.mark.parametrize("what", ["link", "pipe"])
    def test_when_the_parent_is_gone_its_things_go_first_and_then_the_group(
        self, what, monkeypatch
    ):
        did: list[Any] = []
        ours, theirs = link_pair()
        reading, writing = os.pipe()

        def end(group: int, number: int) -> None:
            did.append((group, number))
            raise InterruptedError  # a real one does not return

        monkeypatch.setattr(parent_monitor, "remove_own", lambda: did.append("own"))
        monkeypatch.setattr(parent_monitor, "remove_stale_names", lambda: did.append("sweep"))
        monkeypatch.setattr(
            parent_monitor,
            "await_end",
            lambda fd, seconds: did.append((fd is ear._parent, seconds)),
        )
        monkeypatch.setattr(parent_monitor.os, "killpg", end)
        ear = ParentMonitor(theirs, reading, ShutdownRequest())
        if what == "link":
            ours.close()
        else:
            os.close(writing)
        with pytest.raises(InterruptedError):
            ear._listen()
        assert did == ["own", (True, 0.5), "sweep", "own", (0, signal.SIGKILL)]
        os.close(reading)
        if what == "link":
            os.close(writing)
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


class TestWorkerProcess:
    @pytest.fixture
    def life(self, monkeypatch):
        ours, theirs = link_pair()
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
                "temporary": tempfile.gettempdir(),
                "worker": pickle.dumps(WorkerSpec(f"{__name__}:Loaded", {"extra": 5})),
                "output_thread": False, "max_chunk_bytes": 100, "max_chunks": 3,
                "log_prefix": False,
            }  # fmt: skip
            fd = os.memfd_create("page")
            os.truncate(fd, 4096)
            ear: Any = SimpleNamespace(next_message=lambda: "of requests")
            one: Any = worker._WorkerProcess(
                WorkerInit(**given | more), fd, 77, theirs, ear, ShutdownRequest(), (8, 9)
            )
            os.close(fd)
            one.ours, one.queue, one.ear = ours, queue, ear
            made.append(one)
            return one

        monkeypatch.setattr(worker, "set_title", lambda rank: queue.did.append(f"t{rank}"))
        monkeypatch.setattr(worker, "prefix_output", lambda rank: queue.did.append(f"p{rank}"))
        yield make
        ours.close()
        theirs.close()

    def test_the_worker_is_made_in_its_place_and_loaded(self, life, monkeypatch):
        threads: list[int] = []
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=threads.append))
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        one = life(log_prefix=True)
        made = one._load()
        assert made.did == ["device", "model"]
        place = made.place
        assert (place.rank, place.world_size, place.tensor_parallel) == (1, 2, 1)
        assert (place.device, place.store, place.lock) == ("cpu", "/proc/self/fd/77", one._lock)
        assert place.wakeups == (8, 9)
        assert made.extra == 5
        assert one._worker is made
        assert one.queue.did == ["t1", "p1"]
        for word in ("many", None):
            environ = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
            life(environ=environ | ({"OMP_NUM_THREADS": word} if word else {}))._load()
        assert threads == [3, 1, 1]

    def test_its_queue_of_replies_is_as_it_was_told(self, life):
        one = life()
        queue = one._open_reply_queue()
        assert (queue.given, queue.more) == ((1,), {"max_chunk_bytes": 100, "max_chunks": 3})
        one._shutdown_request.request("the end")
        assert queue.did == ["shutdown"]

    def test_it_meets_its_parent_over_both_queues(self, life):
        one, replies = life(), Queue()
        assert one._handshake(replies) is one.queue
        assert one.queue.given == ("of requests", 1)
        (seconds,) = one.queue.did
        assert seconds == 120  # as long as a parent waits for its zygote
        assert replies.did == [seconds]
        one._shutdown_request.request("the end")
        assert one.queue.did == [seconds, "shutdown"]

    def test_a_meeting_that_fails_gives_the_queue_back(self, life):
        one, replies = life(), Queue()
        replies.no = Cancelled("all", "x")
        with pytest.raises(Cancelled):
            one._handshake(replies)
        assert one.queue.did[1:] == ["close"]

    def test_told_to_leave_instead_of_the_meeting_it_does(self, life):
        one = life()
        one.ear.next_message = lambda: LEAVE
        with pytest.raises(ShutdownRequested) as leave:
            one._handshake(Queue())
        assert leave.value.code == 0

    def test_why_it_cannot_start_is_told_in_its_words(self, life):
        one = life()
        one._report_start_error(ValueError("x" * MAX_MESSAGE_BYTES + " in the end"))
        (word, text), _ = one.ours.receive()
        assert word == worker.FAILED
        assert text.endswith("in the end\n")
        assert len(text) == MAX_MESSAGE_BYTES // 4
        assert one._shutdown_request.status == 1
        one = life()
        one._shutdown_request.request("SIGTERM", 143)
        one._report_start_error(ShutdownRequested(143))
        assert one.ours.receive()[0] == (worker.FAILED, "it was told to leave (SIGTERM)")
        assert one._shutdown_request.status == 143

    def test_it_says_why_it_leaves_then_sends_what_is_left_then_tidies_up(self, life, caplog):
        did: list[str] = []
        for why, shutdown in (("SIGTERM", True), ("", True), ("x", False)):
            one = life()
            if why:
                one._shutdown_request.request(why)
            if shutdown:
                one._worker = SimpleNamespace(shutdown=lambda: did.append("shutdown") or 1 / 0)
            one._shut_down(SimpleNamespace(close=lambda: did.append("close")))
            told_why = why or "an error of its own"
            assert one.ours.receive()[0] == (worker.LEAVING, told_why)
        assert did == ["close", "shutdown"] * 2 + ["close"]
        assert caplog.text.count("the worker's shutdown() failed") == 2

    @pytest.mark.parametrize("thread", [False, True])
    def test_results_leave_the_way_it_was_told(self, life, thread):
        out = life(output_thread=thread)._make_replies(SimpleNamespace(enqueue=None))
        assert isinstance(out, ThreadedReplies if thread else DirectReplies)
        out.close()


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
    assert worker._worker_class(WorkerSpec(Loaded, {})) is Loaded
    assert worker._worker_class(WorkerSpec(f"{__name__}:Loaded.Inner", {})) is Loaded.Inner


class TestWorkerMain:
    """`worker_main` from its first message on."""

    @pytest.mark.parametrize("stdin", [True, False])
    def test_it_is_bound_to_its_parent_first(self, stdin):
        def child(say: Any) -> None:
            asked: list[Any] = []
            worker.die_one_second_after_hangup = lambda: asked.append("a second")
            worker.send_signal_at_hangup = lambda *what: asked.append(what)
            os.dup2(os.pipe()[0], 0)
            open_before = len(descriptors())
            if not stdin:
                os.close(0)  # as a daemon's may be
            worker._bind_to_parent(55)
            say([asked == ["a second", (55, -os.getpid())], os.getpgid(0) == os.getpid()])
            say(str(Path("/proc/self/fd/0").readlink()))
            say(len(descriptors()) - open_before)

        with Role(child) as role:
            assert role.finish() == [[True, True], "/dev/null", 0]

    @pytest.mark.parametrize("how", ["leaves", "ends"])
    def test_its_status_says_how_it_left(self, how, monkeypatch):
        ours, theirs = link_pair()
        birth_fd, did = os.memfd_create("birth"), list[str]()
        monkeypatch.setattr(worker, "_bind_to_parent", lambda death: did.append("bound"))
        monkeypatch.setattr(worker, "read_init", lambda fd: "birth")

        class Ear:
            def __init__(self, link: Any, death: int, shutdown_request: Any) -> None:
                pass

            def start(self) -> None:
                did.append("listens")

        class Life:
            def __init__(self, *given: Any) -> None:
                assert given[0] == "birth"
                self.shutdown_request = given[5]

            def run(self) -> None:
                did.append("lives")
                self.shutdown_request.request("x", 7)
                if how == "leaves":
                    raise ShutdownRequested(7)

        monkeypatch.setattr(worker, "ParentMonitor", Ear)
        monkeypatch.setattr(worker, "_WorkerProcess", Life)
        monkeypatch.setattr(ShutdownRequest, "handle_signals", lambda self: did.append("obeys"))
        ours.send("born", birth_fd, birth_fd, birth_fd, birth_fd)
        assert worker.worker_main(theirs) == 7
        assert did == ["bound", "listens", "obeys", "lives"]
        os.close(birth_fd)
        ours.close()
        theirs.close()
