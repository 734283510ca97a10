"""A worker's parts without its process: loop, replies, shutdown request, parent monitor."""

import os
import queue as queues
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.serialization import Encoder, Limits
from refengine.errors import Cancelled, QueueClosed, Undecodable, Unencodable
from refengine.executor import parent_monitor, process
from refengine.executor.parent_monitor import (
    LEAVE,
    ParentMonitor,
    ShutdownRequest,
    ShutdownRequested,
)
from refengine.executor.process import ProgressBoard, link_pair
from refengine.executor.settings import SharedLock, WorkerContext, WorkerSpec
from refengine.executor.worker import DirectReplies, ThreadedReplies, WorkerLoop, format_error
from refengine.executor.worker_init import (
    WorkerInit,
    main_program,
    parent_environment,
    with_thread_limit,
)


class Requests:
    """Gives what it was made with, in turn; raises what is an exception."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)

    def dequeue(self, indefinite: bool) -> Any:
        assert indefinite
        item = self.items.pop(0) if self.items else QueueClosed("the writer")
        if isinstance(item, BaseException):
            raise item
        return item


class Recorder:
    """Replies as they are handed over."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.gone = False

    def result(self, number: int, value: Any) -> None:
        if self.gone:
            raise QueueClosed("every reader")
        self.sent.append((number, value))

    def failure(self, number: int, error: BaseException) -> None:
        self.result(number, error)

    def close(self) -> None: ...


class Work:
    def add(self, a: int, b: int = 0) -> int:
        return a + b

    def fail(self, error: BaseException) -> None:
        raise error


@pytest.fixture
def counted():
    fd = process.new_progress_file(2)
    yield ProgressBoard(fd, 2)
    os.close(fd)


def serve(counted: ProgressBoard, *items: Any, rank: int = 1) -> tuple[Recorder, ShutdownRequest]:
    replies, shutdown_request = Recorder(), ShutdownRequest()
    requests: Any = Requests(*items)
    WorkerLoop(Work(), rank, requests, replies, counted, shutdown_request).serve()
    return replies, shutdown_request


def test_each_request_is_run_and_answered(counted):
    replies, shutdown_request = serve(
        counted, (1, "add", (1,), {"b": 2}, None), (2, "add", (5,), {}, 1)
    )
    assert replies.sent == [(1, 3), (2, 5)]
    assert shutdown_request.reason == "the parent closed the pool"


def test_who_is_not_asked_runs_it_and_says_nothing(counted):
    failing = (2, "fail", (ValueError("x"),), {}, 0)
    replies, _ = serve(counted, (1, "add", (1,), {}, 0), failing, (3, "add", (4,), {}, 1))
    assert replies.sent == [(3, 4)]
    assert counted.done(1) == 3


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_method_raises_is_its_answer(counted, error):
    replies, _ = serve(counted, (1, "fail", (error,), {}, None), (2, "add", (1,), {}, None))
    assert replies.sent == [(1, error), (2, 1)]


def test_being_told_to_leave_inside_a_method_ends_the_loop(counted):
    with pytest.raises(ShutdownRequested):
        serve(counted, (1, "fail", (ShutdownRequested(143),), {}, None), (2, "add", (1,), {}, None))


def test_once_told_to_leave_no_request_is_taken(counted):
    shutdown_request, replies = ShutdownRequest(), Recorder()
    shutdown_request.request("enough")
    requests: Any = Requests((1, "add", (1,), {}, None))
    WorkerLoop(Work(), 0, requests, replies, counted, shutdown_request).serve()
    assert (replies.sent, len(requests.items)) == ([], 1)


def test_a_request_that_cannot_be_decoded_is_answered_by_its_number(counted):
    bad = Undecodable(0)
    main = Encoder(Limits()).encode((9, "add", (1,), {}, None))[0]
    vars(bad)["undecoded"] = main
    bad.__cause__ = ValueError("odd")
    replies, _ = serve(counted, bad, (10, "add", (1,), {}, None))
    assert replies.sent[0][0] == 9
    assert str(replies.sent[0][1]) == "odd"
    assert replies.sent[1] == (10, 1)


def test_one_that_is_meant_for_another_rank_is_not(counted):
    bad = Undecodable(0)
    vars(bad)["undecoded"] = Encoder(Limits()).encode((9, "add", (1,), {}, 0))[0]
    assert serve(counted, bad)[0].sent == []


@pytest.mark.parametrize("main", [None, b"nothing", Encoder(Limits()).encode((1, 2))[0]])
def test_an_exception_that_tells_no_number_ends_the_worker(counted, main):
    error = Undecodable(0)
    if main is not None:
        vars(error)["undecoded"] = main
    with pytest.raises(Undecodable):
        serve(counted, error)


@pytest.mark.parametrize("method", ["add", "fail"])
def test_it_leaves_when_nobody_hears_answers_any_more(counted, method):
    shutdown_request, replies = ShutdownRequest(), Recorder()
    replies.gone = True
    args = (1,) if method == "add" else (ValueError("x"),)
    requests: Any = Requests((1, method, args, {}, None), (2, "add", (1,), {}, None))
    WorkerLoop(Work(), 0, requests, replies, counted, shutdown_request).serve()
    assert "nobody reads" in shutdown_request.reason
    assert len(requests.items) == 1


def test_a_missing_method_is_named_and_health_needs_none(counted):
    replies, _ = serve(counted, (1, "nope", (), {}, None), (2, "check_health", (), {}, None))
    assert isinstance(replies.sent[0][1], AttributeError)
    assert "Work has no method 'nope'" in str(replies.sent[0][1])
    assert replies.sent[1] == (2, None)


def test_calls_are_counted_and_timed(counted):
    assert (counted.busy_for(1), counted.done(1)) == (None, 0)
    counted.begin(1)
    busy = counted.busy_for(1)
    assert busy is not None
    assert 0 <= busy < 5
    counted.end(1)
    assert (counted.busy_for(1), counted.done(1), counted.done(0)) == (None, 1, 0)


class Outbox:
    def __init__(self, refuse: type | None = None) -> None:
        self.sent: list[Any] = []
        self.refuse = refuse

    def enqueue(self, message: Any) -> None:
        if self.refuse is not None and isinstance(message[2], self.refuse):
            raise Unencodable("thing")
        self.sent.append(message)


def outlet(refuse: type | None = None) -> tuple[Any, DirectReplies]:
    box: Any = Outbox(refuse)
    return box, DirectReplies(box)


def test_a_result_is_sent_and_a_deferred_one_is_made_first():
    box, straight = outlet()
    straight.result(1, "plain")
    straight.result(2, SimpleNamespace(get_output=lambda: "made"))
    assert box.sent == [(1, True, "plain"), (2, True, "made")]


def test_one_that_cannot_be_sent_is_a_failure_with_its_trace():
    box, straight = outlet(refuse=set)
    straight.result(3, {1})
    ((number, well, (reason, trace)),) = box.sent
    assert (number, well) == (3, False)
    assert reason.startswith("Unencodable: cannot encode")
    assert trace.startswith("Traceback")


@pytest.mark.parametrize(
    "error", [ShutdownRequested(143), QueueClosed("every reader"), Cancelled("x", "y")]
)
def test_being_told_to_leave_and_having_no_reader_are_no_failures(error):
    box, straight = outlet()

    def fail():
        raise error

    with pytest.raises(type(error)):
        straight.result(1, SimpleNamespace(get_output=fail))
    assert box.sent == []


def test_a_thread_sends_in_order_and_all_of_it_before_it_closes():
    box, straight = outlet(refuse=set)
    thread = ThreadedReplies(straight)
    for n in range(50):
        thread.result(n, n)
    thread.failure(50, ValueError("x"))
    thread.result(51, {1})
    thread.close()
    assert [m[:2] for m in box.sent] == [(n, n < 50) for n in range(52)]


def test_an_error_is_told_in_words_even_if_it_has_none():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert format_error(ValueError("v"))[0] == "ValueError: v"
    assert format_error(Odd())[0] == "Odd"


# -- leaving ------------------------------------------------------------------------------------


@pytest.fixture
def handlers():
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_raises_once_wakes_and_says_why(number, handlers):
    shutdown_request, woken = ShutdownRequest(), []
    shutdown_request.on_request(lambda: woken.append(1))
    shutdown_request.handle_signals()
    with pytest.raises(ShutdownRequested) as left:
        os.kill(os.getpid(), number)
    assert left.value.code == 128 + number == shutdown_request.status
    assert (shutdown_request.reason, woken) == (signal.Signals(number).name, [1])
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_reason_counts_and_late_comers_are_woken():
    shutdown_request, woken = ShutdownRequest(), []
    assert not shutdown_request.requested
    assert shutdown_request.request("one", 7)
    assert not shutdown_request.request("two", 8)
    shutdown_request.on_request(lambda: woken.append("late"))
    assert (
        shutdown_request.reason,
        shutdown_request.status,
        woken,
        shutdown_request.requested,
    ) == ("one", 7, ["late"], True)


@pytest.fixture
def tied(monkeypatch):
    """A parent monitor in this process, whose last act is only noted."""
    acts: queues.SimpleQueue[str] = queues.SimpleQueue()
    ended = threading.Event()
    monkeypatch.setattr(parent_monitor, "remove_own", lambda: acts.put("own"))
    monkeypatch.setattr(parent_monitor, "await_end", lambda *_: acts.put("waited"))
    monkeypatch.setattr(parent_monitor, "remove_stale_names", lambda: acts.put("sweep"))

    def end():
        ended.set()
        raise SystemExit  # of its thread

    ours, theirs = link_pair()
    hears, alive = os.pipe()
    shutdown_request = ShutdownRequest()
    line = ParentMonitor(theirs, hears, shutdown_request, end)
    line.start()
    yield SimpleNamespace(
        parent=ours,
        alive=alive,
        acts=acts,
        line=line,
        shutdown_request=shutdown_request,
        ended=ended,
    )
    ours.close()
    assert ended.wait(5)
    theirs.close()


def test_what_the_parent_says_is_heard_and_leave_is_obeyed(tied):
    tied.parent.send({"a": "handle"})
    assert tied.line.next_message() == {"a": "handle"}
    assert not tied.shutdown_request.requested
    tied.parent.send(LEAVE)
    assert tied.line.next_message() == LEAVE
    assert tied.shutdown_request.reason == "the pool shuts down"


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_when_the_parent_is_gone_names_are_removed_and_everybody_ends(tied, how):
    os.close(tied.alive) if how == "killed" else tied.parent.close()
    assert tied.ended.wait(5)
    assert [tied.acts.get(timeout=5) for _ in range(4)] == ["own", "waited", "sweep", "own"]
    assert not tied.shutdown_request.requested


# -- what it is born with -----------------------------------------------------------------------


def test_it_takes_over_its_parents_environment(monkeypatch, tmp_path):
    import pickle

    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    around = parent_environment() | {"environ": {"ONLY": "this"}}
    spec = WorkerSpec("m:W", {"a": 1})
    about = WorkerInit(
        rank=0, world_size=1, tensor_parallel=1, device="cpu", main={}, worker=pickle.dumps(spec),
        output_thread=False, max_chunk_bytes=1, max_chunks=1, log_prefix=False, **around,
    )  # fmt: skip
    os.chdir("/")
    sys.path.append("/nowhere")
    assert about.apply() == spec
    assert (os.environ, Path.cwd()) == ({"ONLY": "this"}, tmp_path)
    assert "/nowhere" not in sys.path


def test_one_openmp_thread_unless_somebody_knows_better():
    assert with_thread_limit({}) == {"OMP_NUM_THREADS": "1"}
    assert with_thread_limit({"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"


def test_the_main_program_is_told_only_for_a_class_that_stands_in_it(monkeypatch):
    assert main_program("my.module:Worker") == {}
    assert main_program(Work) == {}
    monkeypatch.setattr(Work, "__module__", "__main__")
    assert set(main_program(Work)) <= {"init_main_from_name", "init_main_from_path"}
    assert main_program(Work) == main_program("__main__:Work")


def test_a_place_knows_its_stage():
    lock: Any = None
    places = [WorkerContext(rank, 4, 2, "cpu", lock, "") for rank in range(4)]
    assert [p.is_driver for p in places] == [True, False, True, False]
    assert [(p.stage, p.tensor_rank) for p in places] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_lock_over_one_file_excludes_other_openers_and_threads():
    fd = process.new_progress_file(1)
    one, other = SharedLock(fd), SharedLock(fd)
    inside = []

    def enter(lock):
        with lock:
            inside.append(1)

    with one:
        threads = [threading.Thread(target=enter, args=(lock,)) for lock in (one, other)]
        for thread in threads:
            thread.start()
        threads[0].join(0.05)
        assert inside == []
    for thread in threads:
        thread.join(5)
    assert inside == [1, 1]
    os.close(fd)


def test_lines_are_prefixed_where_they_begin():
    written: list[str] = []
    stream: Any = SimpleNamespace(write=written.append, encoding="x")
    prefixed = process._PrefixedStream(stream, "> ")
    assert prefixed.write("one\ntwo") == 7
    prefixed.write(" more\n\nthree")
    prefixed.write("")
    prefixed.writelines(["\n", "end\n"])
    assert "".join(written) == "> one\n> two more\n\n> three\n> end\n"
    assert prefixed.encoding == "x"
