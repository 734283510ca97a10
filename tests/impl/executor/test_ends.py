"""Lines and ends that tell of a death, and who may hold them (W4, W9)."""

import fcntl
import multiprocessing
import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import (
    hangup,
    held,
)
from refengine.executor.held import End
from refengine.executor.link import MOST_BYTES, pair

from ..roles import Role, descriptors


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

    def test_as_many_descriptors_as_the_kernel_passes_at_once(self, line):
        one, two = line
        assert one.say("all", *[0] * 253)
        fds = two.hear()[1]
        assert len(fds) == 253
        assert not one.say("too many", *[0] * 254)
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
        gone, (closed, other) = End(-1), multiprocessing.Pipe()
        for each in (gone, closed):
            held.hold(each)
        for each in (closed, other):
            each.close()

        def child(say: Any) -> None:
            names = [str(Path(f"/proc/self/fd/{e.fileno()}").readlink()) for e in (end, free)]
            flags = fcntl.fcntl(end.fileno(), fcntl.F_GETFD)
            before = descriptors()
            held._after_fork()
            say([names[0], names[1][:5], bool(flags & fcntl.FD_CLOEXEC), len(held._held)])
            say(len(before) - len(descriptors()))

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
            for n in range(3):
                os.dup2(writing, n)
            standard = [str(Path(f"/proc/self/fd/{n}").readlink()) for n in range(3)]
            held.let_go({reading, one.fileno()})

            def kind(fd: int) -> str:
                name = str(Path(f"/proc/self/fd/{fd}").readlink())
                return "nothing" if name == "/dev/null" else name.split(":")[0]

            fds = (reading, writing, one.fileno(), two.fileno(), flag, file)
            say([kind(fd) for fd in fds[:5]])
            say(kind(file).endswith("/file"))
            after = [str(Path(f"/proc/self/fd/{n}").readlink()) for n in range(3)]
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
