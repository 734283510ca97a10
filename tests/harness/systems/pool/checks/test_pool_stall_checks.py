"""The judge of those who do not answer: deadlines, service afterwards, shutdowns (W5)."""

from __future__ import annotations

import pytest
from pool_tape import PoolTape, pool_convicted, pool_judged

from killpoint.checkers.finding import Inconclusive


def _stopped() -> PoolTape:
    return PoolTape().ready().called().does("stop")


def _goes_on(tape: PoolTape) -> PoolTape:
    return tape.does("continue")


def test_a_deadline_kept_and_service_resumed_is_right() -> None:
    tape = _goes_on(_stopped().called("timeout", timeout=0.5, s=0.52)).called().stops()
    found = pool_judged("W5", tape)
    assert found.violations == []
    assert found.counts == {"deadlines": 1}


@pytest.mark.parametrize(("took", "kind"), [(1.5, "late"), (0.3, "late")])
def test_a_deadline_is_neither_missed_nor_cut_short(took: float, kind: str) -> None:
    tape = _goes_on(_stopped().called("timeout", timeout=0.5, s=took)).called().stops()
    assert pool_convicted("W5", tape).kind == kind


def test_an_error_before_the_deadline_with_nobody_dead_is_lost_service() -> None:
    tape = _goes_on(_stopped().called("peer-died", timeout=0.5, s=0.2)).called().stops()
    assert pool_convicted("W5", tape).kind == "lost"


def test_a_call_that_never_ends_hangs() -> None:
    assert pool_convicted("W5", _stopped().calls().hangs("executor", "call")).kind == "hang"


def test_a_stale_reply_after_the_continue_is_wrong_data() -> None:
    tape = _goes_on(_stopped().called("timeout", timeout=0.5, s=0.5))
    tape.called(replies=[[0, 2], [1, 2]]).stops()
    assert pool_convicted("W5", tape).kind == "wrong-data"


def test_service_that_does_not_come_back_is_starved() -> None:
    tape = _goes_on(_stopped().called("timeout", timeout=0.5, s=0.5))
    assert pool_convicted("W5", tape.called("timeout", s=5.0).stops()).kind == "starved"


def test_nobody_stopped_and_no_deadline_met_are_inconclusive() -> None:
    for tape in (PoolTape().ready().called().stops(), _goes_on(_stopped().called()).called()):
        with pytest.raises(Inconclusive):
            pool_judged("W5", tape)


def test_a_start_with_a_deadline_ends_at_it() -> None:
    tape = PoolTape().starts(timeout=1.0).does("stop").later(990).started("timeout", s=1.0)
    assert pool_judged("W5", tape.gone(0).gone(1)).violations == []
    tape = PoolTape().starts(timeout=1.0).does("stop").later(990).started("timeout", s=4.0)
    assert pool_convicted("W5", tape.gone(0).gone(1)).kind == "late"
    tape = PoolTape().starts(timeout=1.0).does("stop").later(990).started("timeout", s=1.0)
    assert pool_convicted("W5", tape.gone(1)).kind == "leak"


def test_a_shutdown_has_its_graces_and_five_seconds() -> None:
    more = {"expects": "stops-in-time"}
    assert pool_judged("W5", _stopped().stops(s=5.5), **more).violations == []
    assert pool_convicted("W5", _stopped().stops(s=6.5), **more).kind == "late"
    assert pool_judged("W5", _stopped().stops(s=6.5), grace=1.0, **more).violations == []
    assert pool_convicted("W5", _stopped().stops(gone=False), **more).kind == "leak"
    assert pool_convicted("W5", _stopped().stops("error"), **more).kind == "no-error"
    with pytest.raises(Inconclusive):
        pool_judged("W5", _stopped(), **more)


def test_a_stopped_executors_shutdown_counts_from_when_it_goes_on() -> None:
    tape = PoolTape().ready().tell("executor", "pool-stop")
    assert isinstance(tape, PoolTape)
    tape.does("stop", "executor").later(8000).does("continue", "executor")
    tape.tell("executor", "pool-stopped", outcome="ok", s=8.1)
    tape.gone(0).gone(1)
    assert pool_judged("W5", tape, expects="stops-in-time").violations == []


def test_an_executor_that_was_stopped_loses_nothing() -> None:
    more = {"expects": "unaffected"}
    right = PoolTape().ready().calls().does("stop", "executor").does("continue", "executor")
    assert pool_judged("W5", right.done().called().stops(), **more).violations == []
    lost = PoolTape().ready().does("stop", "executor").gone(1).called().stops()
    assert pool_convicted("W5", lost, **more).kind == "lost"
    called = PoolTape().ready().does("stop", "executor").fires().called().stops()
    assert pool_convicted("W5", called, **more).kind == "lost"
    dead = PoolTape().ready().does("stop", "executor").called("closed").stops()
    assert pool_convicted("W5", dead, **more).kind == "lost"
    never = PoolTape().starts().does("stop", "executor").started("error")
    assert pool_convicted("W5", never, **more).kind == "lost"
    with pytest.raises(Inconclusive):
        pool_judged("W5", PoolTape().ready().stops(), **more)


def test_a_call_that_runs_out_while_another_is_stopped_is_no_service_that_stays_away() -> None:
    tape = _goes_on(_stopped().called("timeout", timeout=0.5, s=0.5)).called()
    tape.does("stop", "worker-1").called("timeout", timeout=0.5, s=0.5)
    assert pool_judged("W5", tape.does("continue", "worker-1").called().stops()).violations == []


def test_a_last_call_that_began_while_the_executor_was_stopped_says_nothing_of_later_ones() -> None:
    tape = PoolTape().ready().called().does("stop", "executor").calls(timeout=0.5)
    tape.later(400).does("continue", "executor").done("timeout", s=0.1).stops()
    with pytest.raises(Inconclusive, match="after the stopped role had gone on"):
        pool_judged("W5", tape, expects="unaffected")
    after = PoolTape().ready().called().does("stop", "executor").does("continue", "executor")
    found = pool_convicted("W5", after.called("timeout", s=5.0).stops(), expects="unaffected")
    assert found.kind == "starved"
