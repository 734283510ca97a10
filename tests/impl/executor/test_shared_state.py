"""State that workers share, and how one of them knows its rank."""

import fcntl
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import WorkerContext
from refengine.executor.process import ProgressBoard, new_progress_file
from refengine.executor.settings import SharedLock
from refengine.executor.workers import PoolShape


class TestProgressBoard:
    def test_each_worker_has_its_own_words(self, monkeypatch):
        from refengine.executor import process

        now = [5_000_000_000]
        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic_ns=lambda: now[0]))
        fd = new_progress_file(200)
        assert os.fstat(fd).st_size == 8192  # 200 workers of 32 bytes, in whole pages
        made, other = ProgressBoard(fd, 200), ProgressBoard(fd, 200)
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
        fd = new_progress_file(1)
        assert not os.get_inheritable(fd)
        assert os.fstat(fd).st_size == 4096
        os.close(fd)


class TestLock:
    def test_one_holder_at_a_time_over_one_file(self):
        fd = new_progress_file(1)
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
        fd = new_progress_file(1)
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


class TestWorkerContext:
    def test_a_rank_knows_its_stage_and_its_place_in_it(self):
        lock: Any = None
        places = [WorkerContext(rank, 4, 2, "cpu", lock, "") for rank in range(4)]
        assert [p.is_driver for p in places] == [True, False, True, False]
        assert [p.tensor_rank for p in places] == [0, 1, 0, 1]
        assert [p.stage for p in places] == [0, 0, 1, 1]
        assert PoolShape(4, 2, "cpu").output_rank == 2
        assert PoolShape(4, 4, "cpu").output_rank == 0
