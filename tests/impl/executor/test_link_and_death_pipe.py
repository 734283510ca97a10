"""The link of parent and worker, and the death pipe that tells of a death (W4)."""

import fcntl
import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import process
from refengine.executor.process import MAX_MESSAGE_BYTES, link_pair

from ..roles import Role


@pytest.fixture
def line():
    ends = link_pair()
    yield ends
    for end in ends:
        end.close()


class TestLink:
    def test_messages_and_descriptors_arrive_whole(self, line):
        one, two = line
        reading, writing = os.pipe()
        assert one.send(("x", 1), reading, writing)
        assert one.send("second")
        assert two.has_message()
        (found, fds), (second, none) = two.receive(), two.receive()
        assert (found, second, none) == (("x", 1), "second", [])
        assert [os.fstat(fd).st_ino for fd in fds] == [os.fstat(writing).st_ino] * 2
        assert not any(os.get_inheritable(fd) for fd in fds)
        for fd in (reading, writing, *fds):
            os.close(fd)
        assert not two.has_message()
        assert not two.has_message(-1.0)
        assert two.send("x" * (MAX_MESSAGE_BYTES - 100))
        assert one.receive()[0] == "x" * (MAX_MESSAGE_BYTES - 100)
        assert MAX_MESSAGE_BYTES == 131_072

    def test_as_many_descriptors_as_the_kernel_passes_at_once(self, line):
        one, two = line
        assert one.send("all", *[0] * 253)
        fds = two.receive()[1]
        assert len(fds) == 253
        assert not one.send("too many", *[0] * 254)
        for fd in fds:
            os.close(fd)

    def test_what_was_said_before_the_end_is_heard_though_not_all_was_listened_to(self, line):
        one, two = line
        two.send("unheard")
        one.send("last words")
        one.close()
        one.close()
        assert one.fileno() == -1
        assert two.receive()[0] == "last words"
        with pytest.raises(EOFError, match="has closed"):
            two.receive()
        assert two.has_message()
        assert not two.send("anybody?")
        two.close()
        with pytest.raises(EOFError, match="broken"):
            two.receive()

    def test_one_that_does_not_listen_is_not_waited_for(self, line):
        one, _ = line
        said = 0
        while one.send("x" * 1000):
            said += 1
            assert said < 10_000
        assert said > 5

    def test_news_are_waited_for_in_milliseconds(self, monkeypatch, line):
        asked: list[float | None] = []
        poller = SimpleNamespace(register=lambda *_: None, poll=lambda ms: asked.append(ms) or [1])
        monkeypatch.setattr(process, "select", SimpleNamespace(poll=lambda: poller, POLLIN=1))
        assert [line[0].has_message(s) for s in (None, -1.0, 0.25, 3e6)] == [True] * 4
        assert line[0].has_message()
        assert asked == [None, 0.0, 250.0, 2e9, 0.0]


class TestDeathPipe:
    def test_its_owner_gets_the_signal_and_lives_a_second_more(self):
        reading, writing = os.pipe()

        def child(say: Any) -> None:
            os.close(writing)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            process.die_one_second_after_hangup()
            process.send_signal_at_hangup(reading, os.getpid())
            say(signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)
            while signal.getitimer(signal.ITIMER_REAL)[0] == 0:
                time.sleep(0.001)
            say(0.5 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1.0)
            signal.pause()

        with Role(child) as role:
            assert role.hear() is True
            assert fcntl.fcntl(reading, fcntl.F_GETFL) & os.O_ASYNC
            os.close(writing)
            assert role.hear() is True
            assert os.WTERMSIG(role.wait(5)) == signal.SIGALRM
        process.send_signal_at_hangup(reading, role.pid)  # nobody has that number: no harm
        os.close(reading)
