"""Calls and what may become of them (SPEC W2, W5, W6), on real workers."""

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from refengine.errors import DeadlinePassed, Unencodable
from refengine.executor import CallFailed, CallTimedOut, NotProgressing, PoolClosed

from ..roles import until
from .workers import CHUNK, Unreadable, Unsendable, pool


@pytest.fixture(scope="module")
def two():
    with pool() as made:
        yield made


def works(made):
    """Whether it does, in the right order."""
    answers = made.collective_rpc("echo", 5.0, (1, "two"), {"three": 3})
    return answers == [(rank, (1, "two"), {"three": 3}) for rank in (0, 1)]


def test_every_worker_runs_a_method_and_answers_come_in_rank_order(two):
    assert works(two)
    assert two.collective_rpc("pid") == two.pids
    assert two.state == "RUNNING"


def test_a_deadline_may_be_further_away_than_the_kernel_waits():
    with pool(1, start_timeout=3e6) as made:
        assert made.collective_rpc("pid", 3e6) == made.pids


def test_one_rank_alone_may_answer(two):
    for rank in (1, 0):
        assert two.collective_rpc("pid", unique_reply_rank=rank) == two.pids[rank]


@pytest.mark.parametrize("nbytes", [0, CHUNK - 40, CHUNK, 50_000, 3 << 20])
def test_results_of_every_size_arrive(two, nbytes):
    assert two.collective_rpc("fill", 5.0, (nbytes,)) == [b"\1" * nbytes, b"\2" * nbytes]


@pytest.mark.parametrize("nbytes", [10, 50_000])
def test_arguments_of_every_size_arrive(two, nbytes):
    assert two.collective_rpc("echo", 5.0, (b"x" * nbytes,))[1] == (1, (b"x" * nbytes,), {})


@pytest.mark.parametrize(
    ("method", "args", "reason"),
    [
        ("fail_with", (ValueError("on purpose"),), "ValueError: on purpose"),
        ("fail_with", (KeyboardInterrupt(),), "KeyboardInterrupt"),
        ("leave", (), "SystemExit: 5"),
        ("unsendable", (), "Unencodable"),
        ("unsendable_exit", (), "SystemExit: 6"),
        ("unreadable", (), "it cannot be read"),
        ("no_such_method", (), "has no method 'no_such_method'"),
        ("echo", (Unreadable(),), "it cannot be read"),
        ("echo", (Unreadable("exit"),), "SystemExit: 4"),
        ("deferred", (OSError("late"),), "OSError: late"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_told_and_the_pool_goes_on(two, method, args, reason):
    with pytest.raises(CallFailed) as failure:
        two.collective_rpc(method, 5.0, args)
    assert reason in str(failure.value)
    assert failure.value.rank == 0
    assert works(two)


def test_a_workers_own_traceback_is_in_the_error(two):
    with pytest.raises(CallFailed, match=r"(?s)Traceback.*in fail_with"):
        two.collective_rpc("fail_with", 5.0, (ValueError("here"),))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(2)])
def test_an_error_of_a_rank_that_does_not_reply_disturbs_nobody(two, error):
    assert two.collective_rpc("fail_with", 5.0, (error, 1), unique_reply_rank=0) == 0
    assert works(two)


def test_arguments_that_cannot_be_sent_are_refused_at_once(two):
    with pytest.raises(Unencodable):
        two.collective_rpc("echo", 5.0, (Unsendable(TypeError("no")),))
    assert works(two)


def test_a_late_reply_never_reaches_a_later_call(two, tmp_path):
    """Inline and overflow; more of them than the queue of replies has room for."""
    go = tmp_path / "go"
    for _ in range(4):
        with pytest.raises(CallTimedOut) as late:
            two.collective_rpc("wait_for", 0.02, (str(go), 1))
        assert late.value.ranks == [1]
    threading.Timer(0.1, go.write_text, ("",)).start()
    for size in (10, 50_000, 20, 60_000):
        assert two.collective_rpc("fill", 5.0, (size,), unique_reply_rank=1) == b"\2" * size
    assert works(two)


def test_who_has_answered_is_not_told_as_late(two, tmp_path):
    go, answered = tmp_path / "go", tmp_path / "answered"

    def work(worker, go, answered):
        if worker.context.rank == 0:
            return worker.wait_for(go)
        return worker.touch(answered)

    pytest.importorskip("cloudpickle")
    with pytest.raises(CallTimedOut) as late:
        two.collective_rpc(work, 1.0, (str(go), str(answered)))
    assert answered.exists()
    assert late.value.ranks == [0]
    go.write_text("")
    assert works(two)


def test_replies_that_nobody_took_do_not_keep_a_worker_from_reading(two):
    for n in range(20):  # each queue has four slots
        with contextlib.suppress(TimeoutError):
            two.collective_rpc("echo", 0.0, (n,))
    assert works(two)


def test_a_call_ends_at_its_deadline_also_when_the_queue_of_requests_is_full(two, tmp_path):
    go = tmp_path / "go"
    begin = time.monotonic()
    kinds = set()
    for _ in range(8):
        with pytest.raises(TimeoutError) as late:
            two.collective_rpc("wait_for", 0.05, (str(go), 0))
        kinds.add(type(late.value))
    assert kinds == {CallTimedOut, DeadlinePassed}  # with room in the queue, and without
    assert 0.4 <= time.monotonic() - begin < 8.0
    go.write_text("")
    assert works(two)


def test_a_stopped_worker_costs_a_call_its_deadline_and_nothing_else(two):
    os.kill(two.pids[1], signal.SIGSTOP)
    try:
        begin = time.monotonic()
        with pytest.raises(CallTimedOut, match="worker 1"):
            two.collective_rpc("pid", 0.2)
        assert 0.2 <= time.monotonic() - begin < 8.0
    finally:
        os.kill(two.pids[1], signal.SIGCONT)
    assert works(two)


def test_health_tells_a_worker_that_gets_on_from_one_that_does_not(two, tmp_path):
    two.check_health(5.0)
    go = tmp_path / "go"
    with pytest.raises(CallTimedOut):
        two.collective_rpc("wait_for", 0.05, (str(go), 1))
    with pytest.raises(NotProgressing) as stuck:
        two.check_health(0.2)
    assert (stuck.value.rank, stuck.value.pid) == (1, two.pids[1])
    assert stuck.value.busy_for >= 0.2
    go.write_text("")
    two.check_health(5.0)


def test_health_tells_the_same_worker_however_often_it_is_asked(two, tmp_path):
    """Until no more requests find room, and after."""
    go = tmp_path / "go"
    with pytest.raises(CallTimedOut):
        two.collective_rpc("wait_for", 0.05, (str(go), 1))
    told = []
    for _ in range(8):  # each queue has four slots
        with pytest.raises(NotProgressing) as stuck:
            two.check_health(0.2)
        told.append(stuck.value.rank)
    assert told == [1] * 8
    go.write_text("")
    two.check_health(5.0)


def test_a_worker_that_gets_on_slowly_is_healthy(two):
    for _ in range(4):
        with pytest.raises(CallTimedOut):
            two.collective_rpc("deaf_to_exit", 0.01, (0.2,))
    two.check_health(0.7)  # it finishes a call meanwhile, though not this one
    assert works(two)


def test_two_threads_take_turns(two):
    found = []

    def many(mark):
        found.extend(two.collective_rpc("echo", 5.0, (mark,))[1][1] == (mark,) for _ in range(50))

    threads = [threading.Thread(target=many, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [True] * 150


def test_a_finished_transfer_is_told_though_the_step_that_reported_it_failed():
    with pool(transfers=True) as made:
        for failing, reports in (([["a"]], ([], ["a"])), ({1: ["b"]}, (["b"], []))):
            with pytest.raises(CallFailed):
                made.execute_model(failing)
            assert made.execute_model(reports).finished_sending == {*reports[0], *reports[1]}


@pytest.mark.parametrize("behind_a_future", [False, True])
def test_a_finished_transfer_is_told_though_the_step_that_reported_it_timed_out(
    tmp_path, behind_a_future
):
    go = tmp_path / "go"
    with pool(transfers=True, in_flight=3, execute_timeout=0.05) as made:
        if behind_a_future:
            made.collective_rpc("wait_for", None, (str(go), 1), non_block=True)
        else:
            with pytest.raises(CallTimedOut):
                made.collective_rpc("wait_for", 0.0, (str(go), 1))
        with pytest.raises(CallTimedOut):
            made.execute_model([["a"], []])
        made._pool.settings = replace(made.settings, execute_timeout=None)
        go.write_text("")
        assert made.execute_model([[], ["a"]]).finished_sending == {"a"}


def test_a_function_is_sent_by_value_and_gets_the_worker(two):
    pytest.importorskip("cloudpickle")
    factor = 3
    assert two.collective_rpc(lambda worker, n: worker.context.rank * n * factor, 5.0, (2,)) == [
        0,
        6,
    ]


def test_a_term_signal_during_a_method_that_raises_anyway_is_obeyed(tmp_path):
    with pool(options={"marks": str(tmp_path)}) as made:
        with pytest.raises(TimeoutError):
            made.collective_rpc("deaf_to_exit", 0.1, (5.0,))
        for pid in made.pids:
            os.kill(pid, signal.SIGTERM)
        until(lambda: made.state == "STOPPED")
        assert {p.name for p in tmp_path.iterdir()} == {"left-0", "left-1"}


@pytest.mark.parametrize("thread", [False, True])
def test_after_the_end_every_call_is_refused(thread):
    made = pool(output_thread=thread)
    assert works(made)
    made.shutdown()
    for call in (lambda: made.collective_rpc("pid"), made.check_health):
        with pytest.raises(PoolClosed):
            call()
    made.shutdown()
    assert made.state == "STOPPED"
