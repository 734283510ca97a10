"""The judge of a worker's death: everybody is told in time, once, and the pool ends (W3)."""

from __future__ import annotations

import pytest
from pool_tape import PoolTape, pool_convicted, pool_judged

from killpoint.checkers.finding import Inconclusive


def _killed_in_call() -> PoolTape:
    """A worker dies while a call is pending; what comes of that is still to be told."""
    return PoolTape().ready().calls("compute", timeout=None).does("kill")


def _right() -> PoolTape:
    return _killed_in_call().done("peer-died", s=0.2).fires().called("closed").stops()


def test_a_death_that_is_told_once_and_soon_is_right() -> None:
    assert pool_judged("W3", _right()).violations == []
    assert pool_judged("W3", _right()).counts == {"deaths": 1}


def test_a_call_that_never_comes_back_hangs() -> None:
    tape = _killed_in_call().later(4000).hangs("executor", "call")
    found = pool_convicted("W3", tape)
    assert found.kind == "hang"
    assert "executor still waited in call" in found.cause


@pytest.mark.parametrize("fault", ["kill", "exit", "sigterm"])
def test_a_call_told_after_more_than_two_seconds_is_late(fault: str) -> None:
    tape = PoolTape().ready().calls().does(fault).fires().done("peer-died", s=3.0).stops()
    found = pool_convicted("W3", tape)
    assert found.kind == "late"
    assert "call 1" in found.cause
    assert "3.0" in found.cause


def test_a_busy_machine_is_forgiven() -> None:
    tape = PoolTape().ready().calls().does("kill").fires().late(600)
    assert pool_judged("W3", tape.done("peer-died", s=3.0).stops()).violations == []


def test_a_call_that_ran_into_its_own_timeout_was_never_told() -> None:
    tape = _killed_in_call().fires().done("timeout", s=5.0).stops()
    assert pool_convicted("W3", tape).kind == "no-error"
    soon = PoolTape().ready().calls(timeout=1.0).does("kill").fires().done("timeout", s=1.0)
    assert pool_judged("W3", soon.called("closed").stops()).violations == []


def test_a_call_that_goes_well_long_after_the_death_is_no_error() -> None:
    tape = _killed_in_call().fires().done("peer-died").later(3000).called().stops()
    found = pool_convicted("W3", tape)
    assert found.kind == "no-error"
    assert "call 2" in found.cause


def test_a_result_is_told_as_a_call_is() -> None:
    tape = PoolTape().ready().submits().does("kill").fires().result(1, "peer-died").stops()
    assert pool_judged("W3", tape).violations == []
    tape = PoolTape().ready().submits().does("kill").fires().result(1, "peer-died", s=4.0).stops()
    assert pool_convicted("W3", tape).kind == "late"


def test_a_future_that_was_done_before_the_death_has_its_value_after_it() -> None:
    """What had come by then is nobody's loss; what was not done yet, or asked for later, errs."""
    tape = PoolTape().ready().submits().submits().result(2, futures=[1, 2])
    tape.does("kill").fires().later(3000)
    tape.called("peer-died").result(1, futures=[1, 2])
    assert pool_judged("W3", tape.stops()).violations == []
    tape = PoolTape().ready().submits().submits().does("kill").fires()
    tape.result(2, "peer-died", futures=[]).later(3000).result(1, futures=[1]).stops()
    found = pool_convicted("W3", tape)
    assert found.kind == "no-error"
    assert "the result of call 1" in found.cause
    tape = PoolTape().ready().called().does("kill").fires().later(3000).submits()
    assert pool_convicted("W3", tape.result(2).stops()).kind == "no-error"
    tape = PoolTape().ready().submits().does("kill").fires().later(3000).result(1, s=4.0)
    assert pool_convicted("W3", tape.stops()).kind == "no-error"
    tape = PoolTape().ready().submits().does("kill").fires().later(3000).result(1).stops()
    with pytest.raises(Inconclusive, match="no call was pending"):
        pool_judged("W3", tape)


def test_the_callback_fires_once() -> None:
    never = _killed_in_call().done("peer-died").later(3000).called("closed").stops()
    assert pool_convicted("W3", never).kind == "no-error"
    twice = _killed_in_call().done("peer-died").fires().fires().stops()
    assert pool_convicted("W3", twice).kind == "duplicate"
    late = _killed_in_call().done("peer-died").later(3000).fires().stops()
    assert pool_convicted("W3", late).kind == "late"


def test_a_shutdown_that_was_quicker_owes_no_callback() -> None:
    assert pool_judged("W3", _killed_in_call().done("peer-died").stops()).violations == []


def test_a_pool_that_still_runs_is_a_bad_transition() -> None:
    tape = _killed_in_call().done("peer-died").fires().later(2500).seen("running").stops()
    assert pool_convicted("W3", tape).kind == "bad-transition"
    tape = _killed_in_call().done("peer-died").fires().later(2500).seen("failed").stops()
    assert pool_judged("W3", tape).violations == []


def test_a_worker_that_stays_after_the_shutdown_is_a_leak() -> None:
    tape = _killed_in_call().done("peer-died").fires().stops(gone=False).later(6000)
    found = pool_convicted("W3", tape.gone(1))
    assert found.kind == "leak"
    assert "worker-1 was still there" in found.cause


def test_nobody_killed_or_nobody_who_called_is_inconclusive() -> None:
    for tape in (PoolTape().ready().called().stops(), PoolTape().ready().does("kill").stops()):
        with pytest.raises(Inconclusive):
            pool_judged("W3", tape)


def test_a_sigterm_that_is_not_obeyed_is_a_hang() -> None:
    held = PoolTape().ready().calls().does("sigterm", ends=False).later(3000).done()
    found = pool_convicted("W3", held.called().stops())
    assert found.kind == "hang"
    assert "SIGTERM" in found.cause
    short = PoolTape().ready().calls().does("sigterm", ends=False).done().stops(gone=False)
    with pytest.raises(Inconclusive):
        pool_judged("W3", short)


def test_a_death_during_the_handshake_ends_the_start_or_the_pool() -> None:
    more = {"expects": "start-or-pool-fails"}
    tape = PoolTape().starts().does("kill").started("peer-died").later(10).gone(1)
    assert pool_judged("W3", tape, **more).violations == []
    tape = PoolTape().starts().does("kill").later(4000).started("peer-died")
    assert pool_convicted("W3", tape, **more).kind == "late"
    tape = PoolTape().starts().does("kill").started().called("peer-died").fires().stops()
    assert pool_judged("W3", tape, **more).violations == []
    tape = PoolTape().starts().does("kill").started().later(3000).called().stops()
    assert pool_convicted("W3", tape, **more).kind == "no-error"


@pytest.mark.parametrize("fault", ["sigint", "raise"])
@pytest.mark.parametrize(
    ("how", "kinds"),
    [
        ({"code": 130}, []),
        ({"code": 0}, ["lost"]),
        ({"signal": 2}, []),
        ({"signal": 9}, ["lost"]),
        ({"signal": 15}, ["lost"]),
    ],
)
def test_who_says_that_it_leaves_has_left_though_it_is_slow(
    fault: str, how: dict[str, int], kinds: list[str]
) -> None:
    """The executor heard of it before the shutdown; one that a shutdown ended had stayed."""
    tape = PoolTape().ready().called()
    tape = tape.raises() if fault == "raise" else tape.does(fault, ends=False)
    tape.called("peer-died")
    tape.tell("executor", "pool-stop").later(1).fires()
    tape.tell("worker-0", "leaving").gone(0, **how).gone(1, code=0)
    tape.tell("executor", "pool-stopped", outcome="ok", s=0.01)
    found = pool_judged("W3", tape, expects="fails-or-serves")
    assert [violation.kind for violation in found.violations] == kinds


def test_a_signal_that_may_be_ignored_is_obeyed_or_ignored_whole() -> None:
    more = {"expects": "fails-or-serves"}
    left = PoolTape().ready().calls().does("sigint").fires().done("peer-died").called("closed")
    stayed = PoolTape().ready().calls().does("sigint", ends=False).done().called()
    for tape in (left.stops(), stayed.stops()):
        assert pool_judged("W3", tape, **more).violations == []
    lost = PoolTape().ready().calls().does("sigint", ends=False).done("failed").called().stops()
    assert pool_convicted("W3", lost, **more).kind == "lost"
