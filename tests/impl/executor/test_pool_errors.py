"""What can go wrong with a pool, in words that can be sent (SPEC X2)."""

import pickle

import pytest

from refengine.executor import (
    CallFailed,
    CallTimedOut,
    NotProgressing,
    PoolClosed,
    StartFailed,
    WorkerDied,
    ZygoteFailed,
)
from refengine.executor.errors import how_it_ended
from refengine.executor.process import Outcome


class TestErrors:
    @pytest.mark.parametrize(
        "error",
        [
            WorkerDied(1, 2, "a call", 9, None, ""),
            WorkerDied(1, 2, "a call", exit_reason="SIGTERM"),
            StartFailed(1, 2, "why"),
            ZygoteFailed(1, "why"),
            CallFailed(1, "m", "why", "where"),
            CallTimedOut([1], "m", 2.0),
            NotProgressing(1, 2, 3.0, 4.0),
            PoolClosed("m"),
        ],
    )
    def test_they_can_be_sent(self, error):
        copy = pickle.loads(pickle.dumps(error))
        assert str(copy) == str(error)
        assert vars(copy) == vars(error)

    def test_their_words(self):
        died = WorkerDied(1, 20, "a call", 9, None)
        assert str(died).startswith("worker 1 (pid 20) was killed by SIGKILL; noticed while")
        assert (died.role, died.rank, died.signal, died.status) == ("worker 1", 1, 9, None)
        assert "left because of SIGTERM; noticed" in str(
            WorkerDied(1, 2, "x", exit_reason="SIGTERM")
        )
        assert str(CallFailed(1, "m", "why")) == "m failed at worker 1: why"
        assert str(CallFailed(1, "m", "why", "where")) == "m failed at worker 1: why\nwhere"
        assert "for worker 1 to answer m" in str(CallTimedOut([1], "m", 2.0))
        assert "waited 2 s for workers 0, 1 to answer m" in str(CallTimedOut([0, 1], "m", 2.0))
        assert "waited 2 s for workers to answer m" in str(CallTimedOut([], "m", 2.0))
        assert "worker 1 (pid 2) is alive, but has been in one call for 3.0 s" in str(
            NotProgressing(1, 2, 3.0, 4.0)
        )
        stuck = NotProgressing(1, 2, 3.0, 4.0)
        assert (stuck.ranks, stuck.method, stuck.rank, stuck.pid) == ([1], "check_health", 1, 2)
        assert PoolClosed("m").operation == "m"
        assert (StartFailed(1, 2, "w").pid, ZygoteFailed(3, "w").pid) == (2, 3)

    def test_how_a_process_ended(self):
        assert how_it_ended(9, None) == "was killed by SIGKILL"
        assert how_it_ended(77, None) == "was killed by signal 77"
        assert how_it_ended(None, 0) == "exited with status 0"
        assert how_it_ended(None, None) == "ended"
        assert Outcome.of(9) == Outcome(signal=9)
        assert Outcome.of(3 << 8) == Outcome(status=3)
        assert Outcome.of(0) == Outcome(status=0)
