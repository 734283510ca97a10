"""The owner's side of a zygote, against a scripted other side (W9)."""

import os
import select
import signal
import threading
from multiprocessing import util
from socket import socket
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.fds import Fd
from refengine.executor import Zygote, ZygoteFailed, fork_server
from refengine.executor.fork_server import ForkedWorker
from refengine.executor.process import Link, Outcome, has_ended, link_pair


def has_hung_up(fd: int) -> bool:
    poller = select.poll()
    poller.register(fd, 0)
    return bool(poller.poll(0))


class TestWithoutAProcess:
    """The owner's side against a scripted other side."""

    @pytest.fixture
    def made(self, monkeypatch):
        sleeper = os.fork()
        if sleeper == 0:
            signal.pause()
            os._exit(0)
        heard: list[Any] = []

        def run(preload: Any, descriptors: tuple[int, int]) -> int:
            heard.append((preload, Link(_socket(os.dup(descriptors[0])))))
            heard.append(os.dup(descriptors[1]))
            return sleeper

        monkeypatch.setattr(fork_server, "_spawn", run)
        monkeypatch.setattr(fork_server, "send_signal_at_hangup", lambda fd, pid: heard.append(pid))
        made = Zygote(("a", "b"))
        assert heard[0][0] == ("a", "b")
        assert heard[2] == sleeper
        made.other, made.death = heard[0][1], heard[1]
        yield made
        os.kill(sleeper, signal.SIGKILL)
        has_ended(made._process, 5.0)
        made.close()
        made.other.close()
        os.close(made.death)

    def test_a_child_is_what_it_says_it_is(self, made):
        ours, theirs = link_pair()
        report_end: list[Link] = []

        def answer() -> None:
            entry, (link, report, *streams) = made.other.receive()
            assert entry == "refengine.executor.worker:worker_main"
            assert os.fstat(link).st_ino == os.fstat(theirs.fileno()).st_ino
            assert [os.fstat(fd).st_ino for fd in streams] == [os.fstat(n).st_ino for n in (1, 2)]
            for fd in (link, *streams):
                os.close(fd)
            report_end.append(Link(_socket(report)))
            report_end[0].send(4711, made._process.pidfd.fileno())

        thread = threading.Thread(target=answer)
        thread.start()
        offspring = made.fork(theirs, "worker-3")
        thread.join(5)
        assert offspring.pid == 4711
        assert offspring.outcome(0.0) is None
        report_end[0].send(9)
        assert offspring.outcome(0.0) == Outcome(signal=9)
        report_end[0].close()
        assert offspring.outcome(0.0) == Outcome(signal=9)
        offspring.close()
        assert offspring._report.fileno() == offspring.pidfd.fileno() == -1
        for each in (ours, theirs):
            each.close()

    def test_a_child_whose_zygote_ended_has_an_unknown_end(self):
        ours, theirs = link_pair()
        reading, writing = os.pipe()
        offspring = ForkedWorker(1, reading, ours)
        theirs.close()
        assert offspring.outcome(0.0) == Outcome()
        offspring.close()
        os.close(writing)

    def test_one_that_does_not_answer_is_told_and_nothing_is_kept(self, made, monkeypatch):
        kept: list[Link] = []

        def pair_of_ours() -> tuple[Link, Link]:
            kept.extend(link_pair())
            return kept[0], kept[1]

        ours, theirs = link_pair()
        monkeypatch.setattr(fork_server, "link_pair", pair_of_ours)
        with pytest.raises(ZygoteFailed, match=r"it did not answer in 0\.05 s"):
            made.fork(theirs, "x", within=0.05)
        assert [link.fileno() for link in kept] == [-1, -1]
        ours.close()
        theirs.close()

    def test_its_answers_have_limits(self):
        assert fork_server._ANSWER_WITHIN == 120  # as long as a worker waits for its parent
        assert 2 < fork_server._EXIT_WITHIN < 4

    def test_to_end_it_its_link_is_closed_first_and_then_its_pipe(self, made, monkeypatch):
        monkeypatch.setattr(fork_server, "_EXIT_WITHIN", 0.02)
        asked: list[tuple[bool, float]] = []

        def ended(process: Any, seconds: float = 0.0) -> bool:
            asked.append((has_hung_up(made.death), seconds))
            return False

        monkeypatch.setattr(fork_server, "has_ended", ended)
        fork_server._end_zygote(made._link, made._death_pipe_writer, made._process)
        assert asked == [(False, 0.02), (True, 0.02)]
        assert made.other.receive()[0] == fork_server.GOODBYE
        assert (
            made._link.fileno()
            == made._death_pipe_writer.fileno()
            == made._process.pidfd.fileno()
            == -1
        )
        with pytest.raises(EOFError):
            made.other.receive()
        monkeypatch.setattr(fork_server, "has_ended", lambda *_: True)
        made._process.pidfd = Fd(os.pidfd_open(made.pid))

    def test_one_that_ends_by_itself_keeps_its_pipe_till_then(self, made, monkeypatch):
        asked: list[bool] = []

        def ended(process: Any, seconds: float = 0.0) -> bool:
            asked.append(has_hung_up(made.death))
            return True

        with monkeypatch.context() as patch:
            patch.setattr(fork_server, "has_ended", ended)
            outcomes: list[float] = []
            process = SimpleNamespace(outcome=outcomes.append, close=lambda: None)
            fork_server._end_zygote(made._link, made._death_pipe_writer, process)
        assert (asked, outcomes) == ([False], [0.0])
        assert has_hung_up(made.death)

    def test_it_is_ended_with_the_interpreter_after_the_pools(self, made):
        registry = util._finalizer_registry.items()
        found = [key for key, f in registry if getattr(f, "_weakref", lambda: None)() is made]
        assert [key[0] for key in found] == [10]


def _socket(fd: int) -> socket:
    return socket(fileno=fd)


@pytest.mark.parametrize("missing", [1, 2])
def test_a_process_without_its_streams_passes_none(missing, monkeypatch):
    assert fork_server._streams() == (1, 2)

    def fstat(fd: int) -> None:
        if fd == missing:
            raise OSError("closed")

    monkeypatch.setattr(fork_server, "os", SimpleNamespace(fstat=fstat))
    assert fork_server._streams() == ()
