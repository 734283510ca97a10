"""What is made is kept in the step that makes it (R9)."""

import os
import socket
import threading

import pytest

from refengine.base.cleanup import (
    OnceStartedThread,
    ReleaseStack,
    ServingThread,
    append_atomically,
)
from refengine.base.event_waiter import EpollWaiter
from refengine.base.fds import HeldFds
from refengine.base.security import Keys
from refengine.queue.handshake import HandshakeState, hello_message

from ..striking import start_struck


def test_what_a_call_gives_is_kept():
    kept: list[int] = [1]
    append_atomically(kept, max, 2, 3)
    assert kept == [1, 3]


def test_what_was_made_is_dropped_last_first():
    dropped: list[str] = []
    undo = ReleaseStack()
    assert undo.acquire(dropped.append, str.upper, "first") == "FIRST"
    undo.acquire(dropped.append, str.upper, "second")
    undo.close()
    assert dropped == ["SECOND", "FIRST"]
    undo.close()
    assert len(dropped) == 2


def test_what_could_not_be_made_is_not_dropped():
    dropped: list[int] = []
    undo = ReleaseStack()
    with pytest.raises(ValueError, match="invalid literal"):
        undo.acquire(dropped.append, int, "no number")
    undo.close()
    assert dropped == []


def test_a_thread_that_was_prevented_does_nothing_though_it_is_started():
    called: list[object] = []
    thread = ServingThread(called.append, 1, name="prevented")
    assert thread.prevent()
    thread.start()
    thread.join(10)
    assert called == []
    assert thread.prevent()


def test_a_thread_may_be_prevented_after_its_start_was_struck():
    called: list[object] = []
    thread = ServingThread(called.append, 1, name="struck")
    with start_struck(thread):
        try:
            thread.start()
        finally:
            assert thread.ident is None
            assert thread.prevent()
    assert thread.ident is not None
    assert called == []


def test_a_thread_that_has_begun_cannot_be_prevented():
    called: list[object] = []
    thread = ServingThread(called.append, 1, name="begun")
    thread.start()
    thread.join(10)
    assert called == [1]
    assert not thread.prevent()
    assert thread.daemon


def test_a_thread_that_is_started_again_runs_once():
    called: list[str] = []
    gate = threading.Event()

    def target() -> None:
        called.append(threading.current_thread().name)
        gate.wait()

    thread = OnceStartedThread(target, "once")
    assert not thread.is_current()
    thread.join(10)  # it has not begun: nobody waits
    for _ in range(3):
        thread.start()
    (attempt,) = thread._attempts
    assert (attempt.name, attempt.daemon) == ("once", True)
    gate.set()
    thread.join(10)
    assert not attempt.is_alive()
    thread.start()
    assert thread._attempts == [attempt]
    assert called == ["once"]


def test_after_a_struck_start_another_thread_runs_in_place_of_the_first(monkeypatch):
    called: list[int] = []
    thread = OnceStartedThread(lambda: called.append(threading.get_ident()), "once")
    first = thread._attempt()
    with start_struck(first):
        monkeypatch.setattr(thread, "_attempt", lambda: first)
        try:
            thread.start()
        finally:
            monkeypatch.undo()
            thread.start()
            thread.join(10)
    struck, ran = thread._attempts
    assert (struck, called) == (first, [ran.ident])


def test_descriptors_close_with_their_keeper():
    own = HeldFds()
    fd = own.open(os.eventfd, 0)
    os.fstat(fd)
    del own
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_watching_again_changes_nothing():
    ours, theirs = socket.socketpair()
    waiter, heard = EpollWaiter(), list[str]()
    with ours, theirs:
        for _ in range(2):
            waiter.watch(ours.fileno(), lambda: heard.append("news"))
        theirs.send(b"x")
        waiter.block(1)
        waiter.close()
    assert heard == ["news"]


def test_a_hello_heard_again_has_the_same_answer():
    keys = Keys.fresh()
    meeting = HandshakeState([0, 1], keys)
    welcome = meeting.hello(hello_message(1, keys), 5)
    assert meeting.hello(hello_message(1, keys), 5) == welcome
    assert meeting.hello(hello_message(1, keys), 6) != welcome
    assert meeting.unheard() == 1
