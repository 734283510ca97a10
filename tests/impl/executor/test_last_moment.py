"""What happens between a worker's READY and the pool's: the start's last moment (W3, W7)."""

import os
import signal
from typing import Any

import pytest

from refengine.errors import Cancelled
from refengine.executor import PoolSettings, StartFailed, WorkerDied, worker
from refengine.executor.executor import Pool
from refengine.executor.monitor import PoolState
from refengine.executor.settings import WorkerSpec
from refengine.executor.workers import PoolShape

from ..roles import until
from .workers import pool


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_told_to_leave_before_it_noticed_that_all_have_met(number, tmp_path, monkeypatch):
    """To its parent the pool is READY, so this is no failure of the start."""
    go, went_on = tmp_path / "go", tmp_path / "met"

    def meet(self: Any, replies: Any, really: Any = worker._WorkerProcess._handshake) -> Any:
        requests = really(self, replies)
        if self._init.rank == 1:
            until(go.exists)
            os.kill(os.getpid(), number)
            went_on.write_text("")
        return requests

    monkeypatch.setattr(worker._WorkerProcess, "_handshake", meet)
    with pool(options={"marks": str(tmp_path)}) as made:
        assert made.state == "READY"
        go.write_text("")
        with pytest.raises(WorkerDied, match=signal.Signals(number).name):
            made.collective_rpc("wait_for", 5.0, (str(tmp_path / "never"), 1))
    assert (tmp_path / "left-1").exists()
    assert not went_on.exists()


def test_a_worker_that_cannot_meet_its_parent_tells_why(tmp_path, monkeypatch):
    def meet(self: Any, replies: Any) -> Any:
        raise Cancelled("the meeting", "a test")

    monkeypatch.setattr(worker._WorkerProcess, "_handshake", meet)
    with pytest.raises(StartFailed, match=r"(?s)Traceback.*a test while waiting for the meeting"):
        pool(1, options={"marks": str(tmp_path)})
    assert (tmp_path / "left-0").exists()


class Done(Pool):
    """A pool whose last step of the start succeeds, though the pool has ended meanwhile."""

    def _handshake(self, left: Any) -> None:
        self.monitor.failure = lambda what: StartFailed(0, 1, f"failed before {what}")
        self.lifecycle.advance(PoolState.FAILED)


def test_a_pool_that_failed_in_the_last_moment_was_not_started(monkeypatch):
    made = Done(PoolShape(1, 1, "cpu"), WorkerSpec("x:Y", {}), PoolSettings())
    monkeypatch.setattr(made.workers, "start", lambda *_: None)
    monkeypatch.setattr(made.monitor, "start", lambda: None)
    made.monitor.ready.set()
    made.monitor._start_settled.set()
    with pytest.raises(StartFailed, match="failed before the start"):
        made.start()
    made.workers.close()
