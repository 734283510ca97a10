"""What the kernel says of the other ends of Unix sockets."""

from __future__ import annotations

import os
import signal
import socket

import pytest
from own_network import in_namespace

from killpoint.runner.network.netlink import Netlink
from killpoint.runner.network.sock_diag import unix_peers


def inode(end: socket.socket) -> int:
    return os.fstat(end.fileno()).st_ino


def test_both_ends_of_a_pair_are_joined_until_one_is_closed() -> None:
    one, other = socket.socketpair()
    with one:
        with other:
            peers = unix_peers()
            assert peers[inode(one)] == inode(other)
            assert peers[inode(other)] == inode(one)
        assert inode(one) not in unix_peers()


def test_a_connection_is_joined_once_it_is_accepted(tmp_path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
        assert inode(client) not in unix_peers()
        accepted, _ = server.accept()
        with accepted:
            peers = unix_peers()
            assert peers[inode(client)] == inode(accepted)
            assert inode(server) not in peers


def test_many_sockets_come_in_many_messages() -> None:
    pairs = [socket.socketpair(type=socket.SOCK_SEQPACKET) for _ in range(400)]
    try:
        peers = unix_peers()
        assert [peers.get(inode(a)) for a, _ in pairs] == [inode(b) for _, b in pairs]
    finally:
        for pair in pairs:
            for end in pair:
                end.close()


def test_sockets_of_another_network_namespace_are_asked_for_by_a_process_in_it() -> None:
    parent = os.getpid()

    def act(near: Netlink, far: Netlink, door: int) -> None:
        one, other = socket.socketpair()  # in the namespace that this thread is in
        child = os.fork()
        if child == 0:
            signal.pause()
        try:
            here, there = unix_peers(child), unix_peers(parent)
            assert here[inode(one)] == inode(other)
            assert inode(one) not in there
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    in_namespace(act)


def test_a_process_that_is_gone_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        unix_peers(2**22 + 1)
