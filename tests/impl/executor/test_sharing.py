"""What workers share, and how one of them knows its place."""

import fcntl
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import (
    Place,
)
from refengine.executor.crew import Shape
from refengine.executor.flag import Flag
from refengine.executor.page import Page, new_file
from refengine.executor.shared_lock import SharedLock


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
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(number)
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
