"""Page points: stores wait at exactly the pages they come to, in the order they come to them."""

from __future__ import annotations

import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from killpoint.points import pages
from killpoint.points.pages import PAGE, Protected, Refused, Segment, mapped

_PAGES = 40
_BEGIN = 5


@pytest.fixture
def shared() -> Iterator[mmap.mmap]:
    path = Path(f"/dev/shm/kp-pages-{os.getpid()}")
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    path_gone = path.unlink
    try:
        os.ftruncate(fd, _PAGES * PAGE)
        with mmap.mmap(fd, _PAGES * PAGE) as memory:
            path_gone()
            yield memory
    finally:
        os.close(fd)


class Child:
    """A process whose stores to shared memory wait for this one."""

    def __init__(self, act: Callable[[], object]) -> None:
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            protected = Protected()
            socket.send_fds(theirs, [b"x"], [protected.fd])
            theirs.recv(1)
            act()
            protected.end()
            os._exit(0)
        with ours, theirs:
            _, (self.fd,), _, _ = socket.recv_fds(ours, 1, 1)
            ours.send(b"g")
        self.ended = os.pidfd_open(self.pid)

    def next_store(self) -> int | None:
        """The page that it waits at; None once it has ended."""
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        poller.register(self.ended, select.POLLIN)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            ready = {fd for fd, _ in poller.poll(100)}
            for address in pages.faults(self.fd) if self.fd in ready else ():
                return address
            if self.ended in ready:
                return None
        raise TimeoutError("the child neither stored nor ended within 20 s")

    def close(self) -> None:
        os.close(self.fd)
        os.waitpid(self.pid, 0)
        os.close(self.ended)


def _stores(child: Child) -> list[int]:
    order: list[int] = []
    while (address := child.next_store()) is not None:
        order.append(address // PAGE)
        pages.allow(child.fd, address)
    child.close()
    return [page - order[0] for page in order]


def _here() -> None:
    try:
        Protected().end()
    except Refused as refused:
        pytest.skip(str(refused))


def test_a_copy_comes_to_its_pages_one_after_the_other(shared: mmap.mmap) -> None:
    _here()

    def copy() -> None:
        shared[_BEGIN : _BEGIN + 20 * PAGE] = b"\7" * (20 * PAGE)

    assert _stores(Child(copy)) == list(range(21))
    assert shared[_BEGIN : _BEGIN + 20 * PAGE] == b"\7" * (20 * PAGE)


def test_a_page_is_met_once_however_often_it_is_stored_to(shared: mmap.mmap) -> None:
    _here()

    def scribble() -> None:
        for page in (9, 3, 9, 3, 4):
            shared[page * PAGE] = 1

    assert _stores(Child(scribble)) == [0, -6, -5]


@pytest.mark.parametrize("held", [0, 1, 7, 19])
def test_what_lies_beyond_the_held_page_is_untouched(shared: mmap.mmap, held: int) -> None:
    _here()

    def copy() -> None:
        shared[: 20 * PAGE] = b"\7" * (20 * PAGE)

    child = Child(copy)
    for _ in range(held):
        address = child.next_store()
        assert address is not None
        pages.allow(child.fd, address)
    assert child.next_store() is not None
    whole = [shared[page * PAGE : (page + 1) * PAGE].count(7) for page in range(_PAGES)]
    assert all(whole[1:held])
    assert not any(whole[held:])
    os.kill(child.pid, 9)
    child.close()
    assert not any(shared[held * PAGE :])


def test_loads_are_not_held(shared: mmap.mmap) -> None:
    _here()
    assert Child(lambda: bytes(shared)).next_store() is None


def test_after_its_end_nothing_is_held(shared: mmap.mmap) -> None:
    _here()
    protected = Protected()
    protected.end()
    shared[0] = 1
    assert shared[0] == 1


def test_leave_for_a_process_that_is_dead_is_no_error(shared: mmap.mmap) -> None:
    _here()
    child = Child(lambda: shared.__setitem__(0, 1))
    address = child.next_store()
    assert address is not None
    os.kill(child.pid, 9)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    pages.allow(child.fd, address)
    child.close()


def test_segments_are_read_off_the_maps_unlinked_ones_too() -> None:
    maps = b"""\
7f0000000000-7f0000002000 rw-s 00000000 00:1b 5      /dev/shm/ring-1
7f0000002000-7f0000003000 r--s 00000000 00:1b 6      /dev/shm/only-read
7f0000003000-7f0000004000 rw-p 00000000 00:1b 7      /dev/shm/private
7f0000004000-7f0000008000 rw-s 00000000 00:1b 8      /dev/shm/gone (deleted)
7f0000009000-7f000000a000 rw-s 00000000 00:1b 9      /tmp/elsewhere
"""
    start = 0x7F0000000000
    assert mapped(maps) == [
        Segment("ring-1", start, 2 * 4096),
        Segment("gone", start + 0x4000, 4 * 4096),
    ]
    assert Segment("x", start, 4 * PAGE).page(start + 2 * PAGE) == 2


def test_a_machine_without_it_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_SYSCALL", {})
    with pytest.raises(Refused, match="userfaultfd"):
        Protected()


def test_a_call_that_is_forbidden_is_told_with_the_kernels_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import platform

    monkeypatch.setattr(pages, "_SYSCALL", {platform.machine(): 1 << 20})
    with pytest.raises(Refused, match="not implemented"):
        Protected()
