"""Calls that do not wait (SPEC W8)."""

import os
import signal
import threading

import pytest

from refengine.errors import DeadlinePassed
from refengine.executor import CallFailed, CallTimedOut, PoolClosed, WorkerDied

from .workers import pool


def submit(made, method, *args, timeout=None, rank=None):
    return made.collective_rpc(method, timeout, args, non_block=True, unique_reply_rank=rank)


@pytest.fixture(scope="module")
def two():
    with pool(in_flight=4) as made:
        yield made


def test_they_resolve_in_the_order_of_the_calls(two, tmp_path):
    order = []
    go = tmp_path / "go"
    futures = [submit(two, "wait_for", str(go))]
    futures += [submit(two, "echo", n) for n in (1, 2)]
    for n, future in enumerate(futures):
        future.add_done_callback(lambda _, n=n: order.append(n))
    assert not any(future.done() for future in futures)
    go.write_text("")
    assert [f.result(5.0) for f in futures][1:] == [[(r, (n,), {}) for r in (0, 1)] for n in (1, 2)]
    assert order == [0, 1, 2]


def test_one_rank_alone_gives_one_value(two):
    assert submit(two, "pid", rank=1).result(5.0) == two.pids[1]


def test_a_failure_is_its_own_calls_alone(two):
    bad, good = submit(two, "fail_with", ValueError("no")), submit(two, "pid")
    with pytest.raises(CallFailed, match="no"):
        bad.result(5.0)
    assert good.result(5.0) == two.pids


def test_a_call_that_waits_takes_its_turn_behind_those_that_do_not(two, tmp_path):
    go = tmp_path / "go"
    first = submit(two, "wait_for", str(go))
    threading.Timer(0.1, go.write_text, ("",)).start()
    assert two.collective_rpc("pid", 5.0) == two.pids
    assert first.done()


def test_it_ends_at_its_deadline_though_those_before_it_have_none(two, tmp_path):
    go = tmp_path / "go"
    first = submit(two, "wait_for", str(go))
    with pytest.raises(CallTimedOut) as late:
        two.collective_rpc("pid", 0.1)
    go.write_text("")
    assert late.value.ranks == []  # nobody has looked
    assert first.result(5.0) == [0, 1]
    assert two.collective_rpc("pid", 5.0) == two.pids


def test_a_deadline_of_one_is_no_end_of_the_next(two, tmp_path):
    go = tmp_path / "go"
    late, next_one = submit(two, "wait_for", str(go), timeout=0.1), submit(two, "pid")
    with pytest.raises(CallTimedOut):
        late.result(5.0)
    go.write_text("")
    assert next_one.result(5.0) == two.pids


def test_one_more_than_may_be_in_flight_waits_for_the_oldest(two, tmp_path):
    go = tmp_path / "go"
    futures = [submit(two, "wait_for", str(go), rank=0) for _ in range(4)]
    with pytest.raises(DeadlinePassed, match="in flight"):
        submit(two, "pid", timeout=0.05)
    go.write_text("")
    assert submit(two, "pid", timeout=5.0).result(5.0) == two.pids
    assert all(future.done() for future in futures)


def test_they_cannot_be_cancelled_since_the_workers_are_at_it(two):
    future = submit(two, "pid")
    assert not future.cancel()
    assert future.result(5.0) == two.pids


def test_shutdown_resolves_every_one_with_an_error(tmp_path):
    made = pool(in_flight=3)
    futures = [submit(made, "wait_for", str(tmp_path / "never")) for _ in range(3)]
    made.shutdown()
    for future in futures:
        with pytest.raises(PoolClosed):
            future.result(0.0)


def test_a_workers_death_resolves_every_one_with_it(tmp_path):
    with pool(in_flight=3) as made:
        futures = [submit(made, "wait_for", str(tmp_path / "never")) for _ in range(3)]
        os.kill(made.pids[1], signal.SIGKILL)
        for future in futures:
            with pytest.raises(WorkerDied, match="SIGKILL"):
                future.result(10.0)
