"""Descriptors that one process alone may hold (W9)."""

import fcntl
import multiprocessing
import os
import socket
from pathlib import Path
from typing import Any

from refengine.base import fds as fds_module
from refengine.base.fds import Fd

from ..roles import Role, descriptors


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class TestFd:
    def test_an_end_is_closed_once_and_by_its_loss(self):
        reading, writing = os.pipe()
        end = Fd(reading)
        assert end.fileno() == reading
        end.close()
        assert end.fileno() == -1
        again = os.dup(writing)
        end.close()
        assert is_open(again)
        os.close(again)
        other = Fd(writing)
        del other
        assert not is_open(writing)
        zero = Fd(-1)
        zero.close()

    def test_a_fork_has_something_harmless_in_their_places(self):
        reading, writing = os.pipe()
        end, free = Fd(os.dup(reading)), Fd(os.dup(reading))
        fds_module.own(end)
        gone, (closed, other) = Fd(-1), multiprocessing.Pipe()
        for each in (gone, closed):
            fds_module.own(each)
        for each in (closed, other):
            each.close()

        def child(say: Any) -> None:
            names = [str(Path(f"/proc/self/fd/{e.fileno()}").readlink()) for e in (end, free)]
            flags = fcntl.fcntl(end.fileno(), fcntl.F_GETFD)
            before = descriptors()
            fds_module._after_fork()
            say([names[0], names[1][:5], bool(flags & fcntl.FD_CLOEXEC), len(fds_module._owned)])
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
            fds_module.close_inherited({reading, one.fileno()})

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
            assert [fds_module._is_endpoint(fd) for fd in fds] == [True, True, True, True, False]
        for fd in (reading, writing, flag):
            os.close(fd)
        assert not fds_module._is_endpoint(reading)
        one.close()
        two.close()
