"""What happens between a worker's READY and the pool's: the start's last moment (W3, W7)."""

import os
import signal
from typing import Any

import pytest

from refengine.errors import Cancelled
from refengine.executor import PoolSettings, StartFailed, WorkerDied, worker
from refengine.executor.crew import Shape
from refengine.executor.lifecycle import State
from refengine.executor.pool import Pool
from refengine.executor.settings import WorkerSpec

from ..roles import until
from .workers import pool


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_told_to_leave_before_it_noticed_that_all_have_met(number, tmp_path, monkeypatch):
    """To its parent the pool is READY, so this is no failure of the start."""
    go, went_on = tmp_path / "go", tmp_path / "met"

    def meet(self: Any, replies: Any, really: Any = worker._Life._meet) -> Any:
        requests = really(self, replies)
        if self._birth.rank == 1:
            until(go.exists)
            os.kill(os.getpid(), number)
            went_on.write_text("")
        return requests

    monkeypatch.setattr(worker._Life, "_meet", meet)
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

    monkeypatch.setattr(worker._Life, "_meet", meet)
    with pytest.raises(StartFailed, match=r"(?s)Traceback.*a test while waiting for the meeting"):
        pool(1, options={"marks": str(tmp_path)})
    assert (tmp_path / "left-0").exists()


class Done(Pool):
    """A pool whose last step of the start succeeds, though the pool has ended meanwhile."""

    def _meet(self, left: Any) -> None:
        self.watch.failure = lambda what: StartFailed(0, 1, f"failed before {what}")
        self.lifecycle.advance(State.FAILED)


def test_a_pool_that_failed_in_the_last_moment_was_not_started(monkeypatch):
    made = Done(Shape(1, 1, "cpu"), WorkerSpec("x:Y", {}), PoolSettings())
    monkeypatch.setattr(made.crew, "start", lambda *_: None)
    monkeypatch.setattr(made.watch, "start", lambda: None)
    made.watch.ready.set()
    made.watch._news.set()
    with pytest.raises(StartFailed, match="failed before the start"):
        made.start()
    made.crew.close()
