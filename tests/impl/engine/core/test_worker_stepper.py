"""The thread that has workers step: in order, to the end of the first thing that fails."""

from __future__ import annotations

import os
import select
import threading

import pytest

from refengine.engine.core.worker_stepper import (
    Called,
    Failed,
    Started,
    Stepped,
    StepperEvent,
    WorkerStepper,
)
from refengine.engine.model.batching import Batch, Row, StepResult
from refengine.engine.settings import EngineSettings
from refengine.errors import Busy
from refengine.executor import CallFailed, PoolClosed

from ..pools import NOBODY, TOKEN, Pool

BATCH = Batch((Row("a", (1,), 0, (), True), Row("b", (1,), 0, (), False)))


def heard(stepper: WorkerStepper, count: int = 1) -> list[StepperEvent]:
    """So much news, as it comes."""
    found: list[StepperEvent] = []
    while len(found) < count:
        ready, _, _ = select.select([stepper.fileno()], [], [], 5.0)
        assert ready, f"no more news than {found}"
        found += stepper.take()
    return found


def started(pool: Pool, **given: object) -> WorkerStepper:
    stepper = pool.stepper(EngineSettings(**given))
    stepper.start()
    assert heard(stepper) == [Started(pool.pids)]
    return stepper


def test_without_news_it_is_not_readable_and_gives_none() -> None:
    stepper = Pool().stepper(EngineSettings())
    assert select.select([stepper.fileno()], [], [], 0)[0] == []
    assert stepper.take() == []
    assert not os.get_inheritable(stepper.fileno())


def test_what_is_asked_is_done_in_order_and_told() -> None:
    pool = Pool((NOBODY, NOBODY + 1))
    stepper = started(pool)
    stepper.step(BATCH)
    stepper.step(None)
    stepper.call("what", "kv_link", "l", 3)
    assert heard(stepper, 3) == [
        Stepped((StepResult([TOKEN, None]), StepResult([TOKEN, None]))),
        Stepped(()),
        Called("what", ""),
    ]
    assert pool.calls[1:] == [("execute_model", (BATCH,)), ("dummy", ()), ("kv_link", ("l", 3))]
    assert stepper.take() == []
    assert select.select([stepper.fileno()], [], [], 0)[0] == []


def test_workers_are_told_what_the_engine_was_and_leave_within_a_second() -> None:
    pool = Pool()
    started(pool, blocks=5, block_size=8, kv_lease=2.0, start_timeout=9.0, tensor_parallel=2)
    ((_, args),) = pool.calls
    assert args == ("refengine.engine.core.worker:EngineWorker", 2)
    assert pool.told["device"] == "cpu"
    size = EngineSettings().size
    assert pool.told["options"] == {"size": size, "blocks": 5, "block_size": 8, "lease": 2.0}
    told = pool.told["settings"]
    assert (told.start_timeout, told.grace, told.term_grace) == (9.0, 1.0, 1.0)
    assert told.max_chunk_bytes * told.max_chunks == 512 * 1024
    assert "torch" in told.preload


def test_a_call_that_fails_is_told_and_the_workers_go_on() -> None:
    pool = Pool()
    pool.raises["kv_link"] = CallFailed(0, "kv_link", "no port")
    stepper = started(pool)
    stepper.call("what", "kv_link")
    stepper.step(None)
    failed, stepped = heard(stepper, 2)
    assert failed == Called("what", "CallFailed: kv_link failed at worker 0: no port")
    assert stepped == Stepped(())


@pytest.mark.parametrize("method", ["start", "execute_model", "dummy"])
def test_workers_that_cannot_start_or_step_are_of_no_use(method: str) -> None:
    pool = Pool()
    pool.raises[method] = OSError("no more")
    stepper = pool.stepper(EngineSettings())
    stepper.start()
    stepper.step(None if method == "dummy" else BATCH)
    stepper.call("what", "kv_link")
    assert heard(stepper, 1 if method == "start" else 2)[-1] == Failed("OSError: no more")
    assert "kv_link" not in pool.methods()


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, []),
        (Busy("busy"), []),
        (TimeoutError("late"), []),
        (PoolClosed("gone"), [Failed(f"PoolClosed: {PoolClosed('gone')}")]),
    ],
)
def test_a_pool_that_fails_between_calls_is_asked_why(
    found: Exception | None, told: list[StepperEvent]
) -> None:
    pool = Pool()
    stepper = started(pool)
    pool.raises |= {"health": found} if found else {}
    pool.failed()
    assert stepper.take() == told
    assert pool.patience == [0.0]  # it is the monitor's thread, which may not wait


def test_whoever_ends_it_ends_the_workers_that_were_started() -> None:
    pool = Pool()
    stepper = pool.stepper(EngineSettings())
    stepper.shut_down()
    assert not pool.ended
    stepper = started(pool)
    stepper.shut_down()
    assert pool.ended


def test_its_thread_keeps_no_process_from_ending() -> None:
    before = set(threading.enumerate())
    started(Pool())
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
