"""The pool's small parts, each alone (SPEC 5)."""

import fcntl
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import (
    CallFailed,
    CallTimedOut,
    Executor,
    NotProgressing,
    Place,
    PoolClosed,
    PoolSettings,
    StartFailed,
    WorkerDied,
    ZygoteFailed,
    birth,
    children,
    crew,
    executor,
    hangup,
    held,
    starting,
)
from refengine.executor.birth import Birth
from refengine.executor.children import Forked, Outcome, has_ended, kill_group, send
from refengine.executor.crew import Crew, Member, Shape
from refengine.executor.ending import run_and_exit
from refengine.executor.errors import how_it_ended
from refengine.executor.escalation import Escalation, Step
from refengine.executor.flag import Flag
from refengine.executor.futures import InOrder, Pending, new_future
from refengine.executor.held import End
from refengine.executor.leaving import Leave, Leaving
from refengine.executor.link import MOST_BYTES, Link, pair
from refengine.executor.page import Page, new_file
from refengine.executor.settings import WorkerSpec
from refengine.executor.shared_lock import SharedLock

from ..roles import Role, until


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def line():
    ends = pair()
    yield ends
    for end in ends:
        end.close()


class TestFace:
    """`Executor` without a pool behind it."""

    @pytest.fixture
    def face(self, monkeypatch):
        did: list[Any] = []

        class Pool:
            def __init__(self, shape: Any, spec: Any, settings: Any) -> None:
                self.shape, self.spec, self.settings = shape, spec, settings
                self.lifecycle = SimpleNamespace(state=SimpleNamespace(name="READY"))
                self.crew = SimpleNamespace(pids=lambda: [7, 8])
                self.watch = SimpleNamespace(call_on_failure=did.append)

            def start(self) -> None:
                did.append("start")

            def stop(self) -> None:
                did.append("stop")

            @property
            def asking(self) -> Any:
                return self

            def call(self, order: Any) -> list[Any]:
                did.append(order[:5])
                return [SimpleNamespace(), "second"]

            def submit(self, order: Any, shape: Any) -> Any:
                did.append((*order[:5], shape))
                return shape

            def check_health(self, timeout: float | None) -> None:
                did.append(timeout)

        monkeypatch.setattr(executor, "Pool", Pool)

        def make(*args: Any, **given: Any) -> Any:
            made: Any = Executor("x:Y", *args, **given)
            made.did = did
            made.pool = made._pool
            return made

        return make

    def test_one_worker_on_the_cpu_is_the_default(self, face):
        made = face()
        assert made.pool.shape == Shape(1, 1, "cpu")
        assert made.pool.spec == WorkerSpec("x:Y", {})
        assert made.settings == PoolSettings()
        assert (made.state, made.pids, made.max_concurrent_batches) == ("READY", [7, 8], 1)
        assert made.did == ["start"]

    def test_all_workers_are_one_stage_unless_it_is_said(self, face):
        assert face(4).pool.shape == Shape(4, 4, "cpu")
        assert face(4, 2, device="cuda").pool.shape == Shape(4, 2, "cuda")
        assert face(1, 1).pool.shape == Shape(1, 1, "cpu")
        assert face(2, options={"a": 1}).pool.spec.options == {"a": 1}

    def test_a_callback_is_added_to_those_of_the_settings(self, face):
        settings = PoolSettings(failure_callbacks=[print])
        made = face(settings=settings, on_failure=repr)
        assert made.settings.failure_callbacks == [print, repr]
        assert settings.failure_callbacks == [print]
        assert face(settings=settings).settings is settings
        made.on_failure(str)
        assert made.did[-1] is str

    def test_a_start_that_fails_is_stopped(self, face, monkeypatch):
        did: list[str] = []

        def fail(self: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(executor.Pool, "start", fail)
        monkeypatch.setattr(executor.Pool, "stop", lambda self: did.append("stop"))
        with pytest.raises(KeyboardInterrupt):
            face()
        assert did[:1] == ["stop"]

    def test_calls_as_they_go_to_the_pool(self, face):
        made = face(2, 1, settings=PoolSettings(execute_timeout=3.0, health_timeout=5.0))
        made.did.clear()
        assert made.collective_rpc("m")[1] == "second"
        made.collective_rpc("m", 1.0, (2,), {"k": 3})
        assert made.did == [("m", None, (), {}, None), ("m", 1.0, (2,), {"k": 3}, None)]
        made.did.clear()
        assert isinstance(made.collective_rpc("m", unique_reply_rank=0), SimpleNamespace)
        assert made.collective_rpc("m", non_block=True) is list
        first = made.collective_rpc("m", non_block=True, unique_reply_rank=0)
        assert first([5, 6]) == 5
        assert made.did == [
            ("m", None, (), {}, 0), ("m", None, (), {}, None, list),
            ("m", None, (), {}, 0, first),
        ]  # fmt: skip
        made.did.clear()
        made.execute_model("s")
        made.execute_model("s", non_block=True)
        made.take_draft_token_ids()
        made.execute_dummy_batch()
        made.check_health()
        made.check_health(0.0)
        assert made.did == [
            ("execute_model", 3.0, ("s",), {}, 1), ("execute_model", 3.0, ("s",), {}, 1, first),
            ("take_draft_token_ids", 3.0, (), {}, 1), ("execute_dummy_batch", 3.0, (), {}, None),
            5.0, 0.0,
        ]  # fmt: skip

    def test_with_transfers_every_rank_answers(self, face):
        made = face(2, 2, settings=PoolSettings(transfers=True, execute_timeout=3.0))
        made.did.clear()
        found = made.execute_model("s")
        assert (found.finished_sending, found.finished_receiving) == (set(), set())
        combine = made.execute_model("s", non_block=True)
        assert combine == made._aggregation.combine
        assert made.did == [
            ("execute_model", 3.0, ("s",), {}, None),
            ("execute_model", 3.0, ("s",), {}, None, combine),
        ]

    def test_it_stops_its_pool_once_however_it_ends(self, face):
        made = face()
        with made as same:
            assert same is made
        assert made.did == ["start", "stop"]
        assert not made._finalizer.still_active()
        other = face()
        finalizer = other._finalizer
        assert finalizer._key[0] == 30  # before a zygote's
        made.did.clear()
        finalizer()
        assert made.did == ["stop"]


def test_settings_by_default():
    """What a user gets who says nothing; each is a promise of the documentation."""
    s = PoolSettings()
    assert (s.start, s.preload, s.start_timeout) == ("zygote", ("torch",), 300.0)
    assert (s.execute_timeout, s.health_timeout) == (None, 10.0)
    assert (s.grace, s.term_grace, s.in_flight) == (4.0, 4.0, 1)
    assert (s.output_thread, s.transfers, s.log_prefix) == (False, False, True)
    assert (s.max_chunk_bytes, s.max_chunks, s.reply_chunk_bytes) == (24 * 1024**2, 10, None)
    assert s.failure_callbacks == []
    assert s.failure_callbacks is not PoolSettings().failure_callbacks


class TestErrors:
    @pytest.mark.parametrize(
        "error",
        [
            WorkerDied(1, 2, "a call", 9, None, ""),
            WorkerDied(1, 2, "a call", farewell="SIGTERM"),
            StartFailed(1, 2, "why"),
            ZygoteFailed(1, "why"),
            CallFailed(1, "m", "why", "where"),
            CallTimedOut([1], "m", 2.0),
            NotProgressing(1, 2, 3.0, 4.0),
            PoolClosed("m"),
        ],
    )
    def test_they_can_be_sent(self, error):
        copy = pickle.loads(pickle.dumps(error))
        assert str(copy) == str(error)
        assert vars(copy) == vars(error)

    def test_their_words(self):
        died = WorkerDied(1, 20, "a call", 9, None)
        assert str(died).startswith("worker 1 (pid 20) was killed by SIGKILL; noticed while")
        assert (died.role, died.rank, died.signal, died.status) == ("worker 1", 1, 9, None)
        assert "left because of SIGTERM; noticed" in str(WorkerDied(1, 2, "x", farewell="SIGTERM"))
        assert str(CallFailed(1, "m", "why")) == "m failed at worker 1: why"
        assert str(CallFailed(1, "m", "why", "where")) == "m failed at worker 1: why\nwhere"
        assert "for worker 1 to answer m" in str(CallTimedOut([1], "m", 2.0))
        assert "waited 2 s for workers 0, 1 to answer m" in str(CallTimedOut([0, 1], "m", 2.0))
        assert "worker 1 (pid 2) is alive, but has been in one call for 3.0 s" in str(
            NotProgressing(1, 2, 3.0, 4.0)
        )
        stuck = NotProgressing(1, 2, 3.0, 4.0)
        assert (stuck.ranks, stuck.method, stuck.rank, stuck.pid) == ([1], "check_health", 1, 2)
        assert PoolClosed("m").operation == "m"
        assert (StartFailed(1, 2, "w").pid, ZygoteFailed(3, "w").pid) == (2, 3)

    def test_how_a_process_ended(self):
        assert how_it_ended(9, None) == "was killed by SIGKILL"
        assert how_it_ended(77, None) == "was killed by signal 77"
        assert how_it_ended(None, 0) == "exited with status 0"
        assert how_it_ended(None, None) == "ended"
        assert Outcome.of(9) == Outcome(signal=9)
        assert Outcome.of(3 << 8) == Outcome(status=3)
        assert Outcome.of(0) == Outcome(status=0)


class TestPage:
    def test_each_worker_has_its_own_words(self, monkeypatch):
        from refengine.executor import page

        now = [5_000_000_000]
        monkeypatch.setattr(page, "time", SimpleNamespace(monotonic_ns=lambda: now[0]))
        fd = new_file(200)
        assert os.fstat(fd).st_size == 8192  # 200 workers of 32 bytes, in whole pages
        made, other = Page(fd, 200), Page(fd, 200)
        os.close(fd)
        for rank in (0, 1, 199):
            assert (other.done(rank), other.busy_for(rank)) == (0, None)
            made.begin(rank)
            now[0] += 1_500_000_000
            assert other.busy_for(rank) == 1.5
            assert other.done(rank) == 0
            made.end(rank)
            assert (other.done(rank), other.busy_for(rank)) == (1, None)
        made.begin(1)
        made.begin(1)
        made.end(1)
        assert other.busy_for(1) == 0.0
        assert [other.done(rank) for rank in (0, 1, 2, 198, 199)] == [1, 2, 0, 0, 1]

    def test_a_new_program_does_not_inherit_its_file(self):
        fd = new_file(1)
        assert not os.get_inheritable(fd)
        assert os.fstat(fd).st_size == 4096
        os.close(fd)


class TestLock:
    def test_one_holder_at_a_time_over_one_file(self):
        fd = new_file(1)
        one, two = SharedLock(fd), SharedLock(fd)
        assert not os.get_inheritable(one._fd)
        os.close(fd)
        with one:
            assert one._threads.locked()
            with pytest.raises(BlockingIOError):
                fcntl.flock(two._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not one._threads.locked()
        two.acquire()
        with pytest.raises(BlockingIOError):
            fcntl.flock(one._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        two.release()
        one.acquire()
        one.release()
        number = one._fd
        del one
        assert not is_open(number)
        two._fd = -1
        two.__del__()

    def test_a_threads_turn_ends_with_its_release(self):
        fd = new_file(1)
        lock, order = SharedLock(fd), list[str]()
        os.close(fd)

        def other() -> None:
            with lock:
                order.append("other")

        lock.acquire()
        thread = threading.Thread(target=other)
        thread.start()
        order.append("first")
        lock.release()
        thread.join(5)
        assert order == ["first", "other"]


class TestPlace:
    def test_a_rank_knows_its_stage_and_its_place_in_it(self):
        lock: Any = None
        places = [Place(rank, 4, 2, "cpu", lock, "") for rank in range(4)]
        assert [p.is_driver for p in places] == [True, False, True, False]
        assert [p.tensor_rank for p in places] == [0, 1, 0, 1]
        assert [p.stage for p in places] == [0, 0, 1, 1]
        assert Shape(4, 2, "cpu").output_rank == 2
        assert Shape(4, 4, "cpu").output_rank == 0


class TestFlag:
    def test_it_waits_for_its_deadline_and_not_once_it_is_set(self):
        flag = Flag()
        assert not flag.wait(0.0)
        assert not flag.wait(-1.0)
        assert not flag.wait(0.01)
        threading.Timer(0.02, flag.set).start()
        assert flag.wait(None)
        assert flag.wait(-1.0)
        other = Flag()
        threading.Timer(0.02, other.set).start()
        assert other.wait(5.0)

    def test_seconds_are_milliseconds_to_the_kernel(self, monkeypatch):
        from refengine.executor import flag

        asked: list[float | None] = []
        poller = SimpleNamespace(register=lambda *_: None, poll=asked.append)
        monkeypatch.setattr(flag, "select", SimpleNamespace(poll=lambda: poller, POLLIN=1))
        made = Flag()
        for seconds in (None, -2.0, 0.5):
            made.wait(seconds)
        made.set()
        assert made.wait(9.0)
        assert asked == [None, 0.0, 500.0]


class TestLink:
    def test_messages_and_descriptors_arrive_whole(self, line):
        one, two = line
        reading, writing = os.pipe()
        assert one.say(("x", 1), reading, writing)
        assert one.say("second")
        assert two.has_news()
        (found, fds), (second, none) = two.hear(), two.hear()
        assert (found, second, none) == (("x", 1), "second", [])
        assert [os.fstat(fd).st_ino for fd in fds] == [os.fstat(writing).st_ino] * 2
        assert not any(os.get_inheritable(fd) for fd in fds)
        for fd in (reading, writing, *fds):
            os.close(fd)
        assert not two.has_news()
        assert not two.has_news(-1.0)
        assert two.say("x" * (MOST_BYTES - 100))
        assert one.hear()[0] == "x" * (MOST_BYTES - 100)
        assert MOST_BYTES == 131_072

    def test_eight_descriptors_and_no_more(self, line):
        one, two = line
        assert one.say("all", *[0] * 8)
        fds = two.hear()[1]
        assert len(fds) == 8
        for fd in fds:
            os.close(fd)

    def test_what_was_said_before_the_end_is_heard_though_not_all_was_listened_to(self, line):
        one, two = line
        two.say("unheard")
        one.say("last words")
        one.close()
        one.close()
        assert one.fileno() == -1
        assert two.hear()[0] == "last words"
        with pytest.raises(EOFError, match="has closed"):
            two.hear()
        assert two.has_news()
        assert not two.say("anybody?")
        two.close()
        with pytest.raises(EOFError, match="broken"):
            two.hear()

    def test_one_that_does_not_listen_is_not_waited_for(self, line):
        one, _ = line
        said = 0
        while one.say("x" * 1000):
            said += 1
            assert said < 10_000
        assert said > 5

    def test_news_are_waited_for_in_milliseconds(self, monkeypatch, line):
        from refengine.executor import link

        asked: list[float | None] = []
        poller = SimpleNamespace(register=lambda *_: None, poll=lambda ms: asked.append(ms) or [1])
        monkeypatch.setattr(link, "select", SimpleNamespace(poll=lambda: poller, POLLIN=1))
        assert [line[0].has_news(s) for s in (None, -1.0, 0.25)] == [True] * 3
        assert line[0].has_news()
        assert asked == [None, 0.0, 250.0, 0.0]


class TestHeld:
    def test_an_end_is_closed_once_and_by_its_loss(self):
        reading, writing = os.pipe()
        end = End(reading)
        assert end.fileno() == reading
        end.close()
        assert end.fileno() == -1
        again = os.dup(writing)
        end.close()
        assert is_open(again)
        os.close(again)
        other = End(writing)
        del other
        assert not is_open(writing)
        zero = End(-1)
        zero.close()

    def test_a_fork_has_something_harmless_in_their_places(self):
        reading, writing = os.pipe()
        end, free = End(os.dup(reading)), End(os.dup(reading))
        held.hold(end)
        gone = End(-1)
        held.hold(gone)

        def child(say: Any) -> None:
            names = [str(Path(f"/proc/self/fd/{e.fileno()}").readlink()) for e in (end, free)]
            flags = fcntl.fcntl(end.fileno(), fcntl.F_GETFD)
            before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
            held._after_fork()
            say([names[0], names[1][:5], bool(flags & fcntl.FD_CLOEXEC), len(held._held)])
            say(len(before) - len(os.listdir("/proc/self/fd")))  # noqa: PTH208

        with Role(child) as role:
            assert role.hear() == ["/dev/null", "pipe:", True, 0]
            assert role.hear() == 0
        for fd in (reading, writing):
            os.close(fd)

    def test_a_forked_worker_lets_go_of_ends_alone(self, tmp_path):
        def child(say: Any) -> None:
            reading, writing = os.pipe()
            one, two = socket.socketpair()
            flag = os.eventfd(0)
            file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
            standard = [os.readlink(f"/proc/self/fd/{n}") for n in range(3)]  # noqa: PTH115
            held.let_go({reading, one.fileno()})

            def kind(fd: int) -> str:
                name = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
                return "nothing" if name == "/dev/null" else name.split(":")[0]

            fds = (reading, writing, one.fileno(), two.fileno(), flag, file)
            say([kind(fd) for fd in fds[:5]])
            say(kind(file).endswith("/file"))
            after = [os.readlink(f"/proc/self/fd/{n}") for n in range(3)]  # noqa: PTH115
            os._exit(0 if standard == after else 3)

        with Role(child) as role:
            # What is said after that goes nowhere: its own pipe was let go of, too.
            role.wait()
            assert role.status == 0

    def test_what_is_an_end(self, tmp_path):
        reading, writing = os.pipe()
        one, two = socket.socketpair()
        flag = os.eventfd(0)
        with (tmp_path / "file").open("w") as file:
            fds = (reading, writing, one.fileno(), flag, file.fileno())
            assert [held._is_an_end(fd) for fd in fds] == [True, True, True, True, False]
        for fd in (reading, writing, flag):
            os.close(fd)
        assert not held._is_an_end(reading)
        one.close()
        two.close()


class TestHangup:
    def test_its_owner_gets_the_signal_and_lives_a_second_more(self):
        reading, writing = os.pipe()

        def child(say: Any) -> None:
            os.close(writing)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            hangup.last_a_second()
            hangup.send_at_hangup(reading, os.getpid())
            say(signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)
            while signal.getitimer(signal.ITIMER_REAL)[0] == 0:
                os.sched_yield()
            say(0.5 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1.0)
            signal.pause()

        with Role(child) as role:
            assert role.hear() is True
            assert fcntl.fcntl(reading, fcntl.F_GETFL) & os.O_ASYNC
            os.close(writing)
            assert role.hear() is True
            assert os.WTERMSIG(role.wait(5)) == signal.SIGALRM
        hangup.send_at_hangup(reading, role.pid)  # nobody has that number: no harm
        os.close(reading)


class TestChildren:
    @pytest.fixture
    def child(self):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            while True:
                signal.pause()
        made = Forked(pid)
        yield made
        if made.pidfd.fileno() >= 0:
            send(made, 9)
            has_ended(made, 5.0)
            made.outcome(0.0)
            made.close()

    def test_its_end_is_told_once_it_has_ended(self, child):
        assert not has_ended(child)
        assert not has_ended(child, 0.01)
        assert child.outcome(0.01) is None
        until(lambda: os.getpgid(child.pid) == child.pid)
        kill_group(child)
        assert has_ended(child, 5.0)
        assert child.outcome(0.0) == Outcome(signal=9)
        assert child.outcome(0.0) == Outcome(signal=9)
        with pytest.raises(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)
        kill_group(child)
        child.close()
        assert child.pidfd.fileno() == -1
        assert has_ended(child)
        kill_group(child)
        send(child, 9)

    def test_one_that_somebody_else_reaped_has_an_unknown_end(self, child):
        send(child, 15)
        os.waitpid(child.pid, 0)
        assert child.outcome(1.0) is None

    def test_its_time_is_in_milliseconds(self, child, monkeypatch):
        asked: list[float] = []
        poller = SimpleNamespace(register=lambda *_: None, poll=asked.append)
        with monkeypatch.context() as patch:
            patch.setattr(children, "select", SimpleNamespace(poll=lambda: poller, POLLIN=1))
            assert not has_ended(child)
            assert not has_ended(child, 0.5)
        assert asked == [0.0, 500.0]

    @pytest.mark.parametrize("code", [22, 1])
    def test_an_older_kernel_is_asked_by_number(self, child, monkeypatch, code):
        did: list[Any] = []

        def by_descriptor(fd: int, number: int, info: Any = None, flags: int = 0) -> None:
            did.append((number, flags))
            if flags:
                raise OSError(code, "no such flag")

        with monkeypatch.context() as patch:
            patch.setattr(children.signal, "pidfd_send_signal", by_descriptor)
            patch.setattr(children.os, "killpg", lambda pid, number: did.append(pid))
            kill_group(child)
        assert did == [(9, 4), *[child.pid] * (code == 22), (9, 0)]

    def test_one_whose_group_is_not_there_yet_is_killed_itself(self, child, monkeypatch):
        real, did = signal.pidfd_send_signal, list[int]()

        def by_descriptor(fd: int, number: int, info: Any = None, flags: int = 0) -> None:
            if flags:
                raise ProcessLookupError
            did.append(number)
            real(fd, number)

        with monkeypatch.context() as patch:
            patch.setattr(children.signal, "pidfd_send_signal", by_descriptor)
            kill_group(child)
        assert did == [9]


class TestLeaving:
    def test_it_is_told_once_and_wakes_whoever_waits(self):
        leaving, woken = Leaving(), list[int]()
        leaving.on_leave(lambda: woken.append(1))
        assert (leaving.asked, leaving.why, leaving.status, woken) == (False, "", 0, [])
        assert leaving.ask("the end", 3)
        assert not leaving.ask("another", 4)
        assert (leaving.asked, leaving.why, leaving.status, woken) == (True, "the end", 3, [1])
        leaving.on_leave(lambda: woken.append(2))
        assert woken == [1, 2]
        other = Leaving()
        other.ask("by itself")
        assert other.status == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_raises_once(self, number):
        def child(say: Any) -> None:
            leaving = Leaving()
            leaving.obey_signals()
            try:
                signal.raise_signal(number)
            except Leave as leave:
                say([leave.code, leaving.why, leaving.status])
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.raise_signal(each)
            say("still here")

        with Role(child) as role:
            assert role.finish() == [
                [128 + number, signal.Signals(number).name, 128 + number], "still here",
            ]  # fmt: skip


class TestEnding:
    @pytest.mark.parametrize(
        ("what", "status"),
        [(0, 0), (7, 7), (SystemExit(4), 4), (SystemExit(), 0), (SystemExit("no"), 1),
         (ValueError("x"), 1), (KeyboardInterrupt(), 1)],
    )  # fmt: skip
    def test_its_status_is_that_of_the_work(self, what, status):
        def child(say: Any) -> None:
            def work() -> int:
                if isinstance(what, BaseException):
                    raise what
                return what

            multiprocessing.util.Finalize(None, lambda: say("tidied up"), exitpriority=1)
            sys.excepthook = lambda kind, *_: say(kind.__name__)
            sys.stdout = SimpleNamespace(flush=lambda: say("flushed"))
            run_and_exit(work)

        with Role(child) as role:
            said = role.finish()
            assert os.waitstatus_to_exitcode(role.wait()) == status
        raised = type(what).__name__
        told = [raised] if raised in ("ValueError", "KeyboardInterrupt") else []
        assert said == [*told, "tidied up", "flushed"]


class TestBirth:
    def about(self, **more: Any) -> Birth:
        given: dict[str, Any] = {
            "rank": 0, "world_size": 1, "tensor_parallel": 1, "device": "cpu", "environ": {},
            "folder": "", "path": [], "main": {}, "worker": pickle.dumps(WorkerSpec("x:Y", {})),
            "output_thread": False, "reply_chunk_bytes": 1, "max_chunks": 1, "log_prefix": False,
        }  # fmt: skip
        return Birth(**given | more)

    def test_a_worker_takes_over_its_parents_surroundings(self, tmp_path):
        about = self.about(environ={"ONLY": "this"}, folder=str(tmp_path), path=["/some/where"])
        elsewhere = self.about(environ={"ONLY": "this"})

        def child(say: Any) -> None:
            spec = about.settle_in()
            say([spec.worker, dict(os.environ), str(Path.cwd()), sys.path])
            elsewhere.settle_in()
            say(str(Path.cwd()))
            birth.spawn.prepare = lambda main: say(["prepared", main])
            self.about(main={"init_main_from_name": "x"}).settle_in()

        with Role(child) as role:
            spec = ["x:Y", {"ONLY": "this"}, str(tmp_path), ["/some/where"]]
            assert role.finish() == [
                spec, str(tmp_path), ["prepared", {"init_main_from_name": "x"}],
            ]  # fmt: skip

    def test_surroundings_are_those_of_now(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SEEN", "yes")
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.chdir(tmp_path)
        found = birth.surroundings()
        assert found["environ"] == {"OMP_NUM_THREADS": "1"} | dict(os.environ)
        assert (found["folder"], found["path"]) == (str(tmp_path), sys.path)
        assert birth.with_threads({"OMP_NUM_THREADS": "4"}) == {"OMP_NUM_THREADS": "4"}
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert birth.surroundings()["folder"] == ""

    def test_a_class_of_the_main_program_needs_that(self, monkeypatch):
        assert birth.main_program("some.module:Class") == {}
        assert birth.main_program(Birth) == {}
        data = {"init_main_from_path": "/x.py", "sys_path": [], "name": "worker"}
        asked: list[str] = []
        monkeypatch.setattr(
            birth.spawn, "get_preparation_data", lambda name: asked.append(name) or data
        )
        assert birth.main_program("__main__:Class") == {"init_main_from_path": "/x.py"}
        assert asked == ["worker"]


class TestCrew:
    @pytest.fixture
    def brought(self, monkeypatch):
        """Members that are born at once; what each heard."""
        heard: list[Any] = []

        def start(theirs: Link, name: str) -> Any:
            (word, fds) = theirs.hear()
            with os.fdopen(fds[0], "rb") as file:
                file.seek(0)
                heard.append((name, word, pickle.load(file), fds[2:]))
            for fd in fds[1:]:
                os.close(fd)
            reading, writing = os.pipe()
            os.close(writing)
            return SimpleNamespace(pid=4000 + len(heard), pidfd=End(reading), close=lambda: None)

        monkeypatch.setattr(crew, "start_method", lambda settings: start)
        monkeypatch.setattr(hangup, "send_at_hangup", lambda fd, pid: heard.append((fd, pid)))
        return heard

    def test_each_is_told_everything_about_itself(self, brought):
        made = Crew(Shape(2, 1, "cuda"))
        settings = PoolSettings(
            output_thread=True, max_chunk_bytes=4096, max_chunks=3, log_prefix=False
        )
        made.start(WorkerSpec("m:C", {"a": 1}), settings)
        names = [entry for entry in brought if len(entry) == 4]
        assert [(name, word, about.rank) for name, word, about, _ in names] == [
            ("worker-0", "born", 0), ("worker-1", "born", 1),
        ]  # fmt: skip
        about = names[1][2]
        assert (about.world_size, about.tensor_parallel, about.device) == (2, 1, "cuda")
        assert (about.output_thread, about.reply_chunk_bytes, about.max_chunks) == (True, 4096, 3)
        assert not about.log_prefix
        assert about.main == {}
        assert about.path == sys.path
        assert pickle.loads(about.worker) == WorkerSpec("m:C", {"a": 1})
        assert len(names[0][3]) == 2
        assert made.pids() == [4001, 4003]
        owners = [entry[1] for entry in brought if len(entry) == 2]
        assert owners == made.pids()
        for member in made.members:
            assert member.theirs.fileno() == member.hears_death.fileno() == -1
            assert member.alive.fileno() >= 0
            assert (member.handle, member.complaint, member.farewell) == (None, "", "")
        ends = [m.link for m in made.members] + [m.alive for m in made.members]
        made.close()
        assert [end.fileno() for end in ends] == [-1] * 4
        assert made._page_fd.fileno() == made._store.fileno() == -1

    def test_replies_may_have_another_size(self, brought):
        made = Crew(Shape(1, 1, "cpu"))
        made.start(WorkerSpec("m:C", {}), PoolSettings(reply_chunk_bytes=100))
        assert brought[0][2].reply_chunk_bytes == 100
        made.close()

    def test_one_that_could_not_be_started_keeps_nothing(self):
        member = Member(3)
        assert (member.process, member.pid) == (None, 0)

        def fail(theirs: Link, name: str) -> Any:
            raise OSError("no room")

        about: Any = "about"
        with pytest.raises(OSError, match="no room"):
            member.start(fail, about, (1, 2))
        assert member.theirs.fileno() == member.hears_death.fileno() == -1
        member.close()
        assert member.link.fileno() == member.alive.fileno() == -1

    def test_in_a_fork_all_ends_are_blank(self):
        made = Crew(Shape(1, 1, "cpu"))
        made.members.append(Member(0))

        def child(say: Any) -> None:
            member = made.members[0]
            ends = (member.link, member.alive, made._page_fd, made._store)
            say([str(Path(f"/proc/self/fd/{end.fileno()}").readlink()) for end in ends])

        with Role(child) as role:
            assert role.hear() == ["/dev/null"] * 4
        made.close()


class TestStarting:
    def test_each_word_has_its_way(self, monkeypatch):
        assert starting.start_method(PoolSettings(start="fork")) is starting.fork
        for method in ("spawn", "forkserver"):
            found: Any = starting.start_method(PoolSettings(start=method))
            assert found.func is starting._by_multiprocessing
            assert found.args[0].get_start_method() == method
        asked: list[Any] = []
        shared = SimpleNamespace(fork="its fork")
        monkeypatch.setattr(starting.Zygote, "shared", lambda p: asked.append(p) or shared)
        assert starting.start_method(PoolSettings(start="zygote", preload=("a",))) == "its fork"
        assert asked == [("a",)]

    def test_a_process_of_multiprocessings(self, line):
        context: Any = SimpleNamespace(Process=Started)
        made = starting._by_multiprocessing(context, line[1], "worker-1")
        process: Any = made
        given = process._process.given
        assert (given["name"], given["target"]) == ("worker-1", starting._born)
        assert given["args"][0]._link is line[1]
        assert made.pid == os.getpid()
        assert made.outcome(0.0) is None
        process.pidfd.close()
        process._process.codes = [None, -9]
        assert made.outcome(0.25) == Outcome(signal=9)
        assert process._process.joined == [0.25]
        process._process.codes = [3]
        assert made.outcome(0.25) == Outcome(status=3)
        process._process.codes = [0]
        assert made.outcome(0.25) == Outcome(status=0)
        process._process.codes = [None]
        assert made.outcome(0.25) is None
        made.close()

    def test_one_that_is_gone_already_has_ended(self, monkeypatch):
        def gone(pid: int) -> int:
            raise ProcessLookupError

        monkeypatch.setattr(starting.os, "pidfd_open", gone)
        made = starting._Child(SimpleNamespace(pid=5, exitcode=1))
        assert made.pidfd.fileno() == -1
        assert made.outcome(0.0) == Outcome(status=1)

    def test_a_link_on_its_way_is_rebuilt_for_the_new_process_alone(self, line):
        fd = os.dup(line[1].fileno())
        os.set_inheritable(fd, True)
        made = starting._rebuilt(SimpleNamespace(detach=lambda: fd))
        assert made.fileno() == fd
        assert not os.get_inheritable(fd)
        line[0].say("hello")
        assert made.hear()[0] == "hello"
        made.close()

    def test_a_born_workers_status_is_its_processs(self, line, monkeypatch):
        monkeypatch.setattr(starting, "be_worker", lambda link: 5)
        with pytest.raises(SystemExit) as end:
            starting._born(line[0])
        assert end.value.code == 5


class Started:
    """A process of multiprocessing's, as far as it is used."""

    def __init__(self, **given: Any) -> None:
        self.given, self.pid, self.joined = given, 0, list[float]()
        self.codes: list[int | None] = [None]

    def start(self) -> None:
        self.pid = os.getpid()

    @property
    def exitcode(self) -> int | None:
        return self.codes[0] if len(self.codes) == 1 else self.codes.pop(0)

    def join(self, seconds: float) -> None:
        self.joined.append(seconds)


def test_after_the_last_step_nothing_is_due():
    plan = Escalation(1.0, 1.0, 1.0, 0.0)
    while plan.next_at is not None:
        plan.step(plan.next_at)
    assert plan.step(1e9) is None
    assert [step.value for step in Step] == ["ask", "terminate", "kill", "give up"]


class TestInOrder:
    def pending(self, number: int) -> Pending:
        return Pending(number, "work", (0,), lambda: None, None, list, new_future())

    def test_a_future_whose_waiter_gave_it_a_value_keeps_it(self):
        made = InOrder(lambda *_: [], lambda _: None)
        assert made.oldest() is None
        one, two = self.pending(1), self.pending(2)
        made.pending.extend([one, two])
        assert made.oldest() is one.future
        one.future.set_result("mine")
        made.end(PoolClosed)
        assert one.future.result() == "mine"
        assert isinstance(two.future.exception(), PoolClosed)
        assert not made.pending

    def test_its_thread_is_made_once_and_keeps_nobody(self):
        ran: list[int] = []
        made = InOrder(lambda number, *_: ran.append(number) or [number], lambda _: None)
        calls = [self.pending(n) for n in (1, 2, 3)]
        for one in calls:
            made.add(one)
        assert [one.future.result(5) for one in calls] == [[1], [2], [3]]
        assert ran == [1, 2, 3]
        assert len(made._threads) == 1
        thread = made._threads[0]
        assert (thread.daemon, thread.name) == (True, "pool replies")
        made.end(PoolClosed)
        assert not thread.is_alive()
        made.end(PoolClosed)

    def test_the_way_is_free_before_the_waiter_wakes(self):
        seen: list[int] = []
        made = InOrder(lambda *_: [1], lambda _: None)
        for shape in (list, lambda _: 1 / 0):
            one = Pending(1, "work", (0,), lambda: None, None, shape, new_future())
            one.future.add_done_callback(lambda _: seen.append(len(made.pending)))
            made.add(one)
            one.future.exception(5)
        made.end(PoolClosed)
        assert seen == [0, 0]

    def test_its_own_thread_may_end_it(self):
        made = InOrder(lambda *_: [1], lambda _: None)
        one = Pending(
            1, "work", (0,), lambda: None, None, lambda _: made.end(PoolClosed), new_future()
        )
        made.add(one)
        assert isinstance(one.future.exception(5), PoolClosed)

    def test_one_whose_thread_was_never_started_can_be_ended(self):
        made = InOrder(lambda *_: [1], lambda _: None)
        made._threads.append(threading.Thread(target=lambda: None))
        made.pending.append(self.pending(1))
        made.end(PoolClosed)
        assert not made.pending
