"""The end of a peer process is noticed, whoever holds its descriptors (Q6, Q7)."""

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from refengine.base.event_waiter import EpollWaiter
from refengine.base.liveness import Peer
from refengine.base.security import SocketFactory

from ..roles import Role


def connected(tmp_path: Path, work: Any) -> tuple[Role, Peer, EpollWaiter, list[Peer]]:
    factory = SocketFactory()
    listener = factory.listen(str(tmp_path / "s"))
    listener.setblocking(True)
    role = Role(work, str(tmp_path / "s"))
    link, _ = listener.accept()
    listener.close()
    gone: list[Peer] = []
    peer, waiter = Peer("reader 0", link), EpollWaiter()
    peer.watch(waiter, gone.append)
    assert not gone
    return role, peer, waiter, gone


def stay(say: Any, path: str) -> None:
    link = SocketFactory().connect(path)
    say(os.getpid())
    signal.pause()
    link.close()


def leave_a_child(say: Any, path: str) -> None:
    link = SocketFactory().connect(path)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    say(child)
    signal.pause()
    link.close()


@pytest.mark.parametrize("work", [stay, leave_a_child])
def test_a_killed_peer_is_noticed_within_milliseconds(tmp_path: Path, work: Any):
    role, peer, waiter, gone = connected(tmp_path, work)
    child = role.hear()
    start = time.monotonic()
    os.kill(role.pid, signal.SIGKILL)
    waiter.block(20)
    took = time.monotonic() - start
    if work is leave_a_child:
        os.kill(child, signal.SIGKILL)
    assert took < 10
    assert gone == [peer]
    assert peer.is_dead() or work is stay  # the hang-up may come first
    role.wait()
    waiter.block(0)
    assert gone == [peer]  # told once
    peer.close()
    waiter.close()


def test_a_peer_that_hung_up_is_gone_while_its_process_lives(tmp_path: Path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer, waiter, gone = Peer("self", ours), EpollWaiter(), []
    peer.watch(waiter, gone.append)
    theirs.close()
    waiter.block(5)
    assert gone == [peer]
    assert not peer.is_dead()
    peer.close()
    waiter.close()


def test_a_peer_that_died_before_we_looked_is_gone_at_once(tmp_path: Path):
    listener = SocketFactory().listen(str(tmp_path / "s"))
    listener.setblocking(True)

    def brief(say: Any, path: str) -> None:
        say(SocketFactory().connect(path).fileno())

    role = Role(brief, str(tmp_path / "s"))
    role.finish()
    link, _ = listener.accept()
    gone: list[Peer] = []
    peer, waiter = Peer("reader 0", link), EpollWaiter()
    peer.watch(waiter, gone.append)
    assert gone == [peer]
    peer.close()
    waiter.close()
    listener.close()


def leave_with_three(say: Any, path: str) -> None:
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(3))
    link = SocketFactory().connect(path)
    say(os.getpid())
    signal.pause()
    link.close()


def test_a_signal_is_told_of_who_was_killed_and_of_nobody_else(tmp_path: Path):
    role, peer, _, _ = connected(tmp_path, leave_with_three)
    with role:
        role.hear()
        os.kill(role.pid, signal.SIGUSR1)
        assert peer.is_dead(10)
        assert peer.signal() is None
        peer.close()


def test_who_has_let_go_of_a_process_holds_no_descriptor(tmp_path: Path):
    role, peer, _, _ = connected(tmp_path, stay)
    with role:
        mine = peer.pidfd
        peer.drop()
        assert (peer.pidfd, peer.is_dead()) == (-1, True)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(mine)
        peer.close()
