"""Judges of replies (W2) and of futures (W8)."""

from __future__ import annotations

import pytest
from pool_tape import PoolTape, pool_convicted, pool_judged

from killpoint.checkers.finding import Inconclusive


@pytest.mark.parametrize("ended", ["timeout", "failed", "refused", "error", "injected"])
def test_own_replies_after_a_call_without_one_are_right(ended: str) -> None:
    found = pool_judged("W2", PoolTape().ready().called(ended).called().called().stops())
    assert found.violations == []
    assert found.counts == {"late replies possible": 2}


def test_the_reply_of_an_earlier_call_is_wrong_data_and_named() -> None:
    tape = PoolTape().ready().called("timeout").called(replies=[[0, 1], [1, 1]])
    found = pool_convicted("W2", tape)
    assert found.kind == "wrong-data"
    assert "call 2 (echo) was given the reply to call 1, which had ended with: timeout" in (
        found.cause
    )


def test_one_stale_reply_among_right_ones_is_found() -> None:
    tape = PoolTape().ready().called("timeout").called(replies=[[0, 2], [1, 1]])
    assert pool_convicted("W2", tape).kind == "wrong-data"


def test_an_abandoned_future_may_leave_a_late_reply_too() -> None:
    assert pool_judged("W2", PoolTape().ready().submits().called()).violations == []
    tape = PoolTape().ready().submits().called(replies=[[0, 1], [1, 1]])
    assert pool_convicted("W2", tape).kind == "wrong-data"


def test_missing_and_disordered_replies_are_told_apart() -> None:
    few = PoolTape().ready().called("timeout").called(replies=[[0, 2]])
    assert pool_convicted("W2", few).kind == "lost"
    disordered = PoolTape().ready().called("timeout").called(replies=[[1, 2], [0, 2]])
    assert pool_convicted("W2", disordered).kind == "reordered"


def test_one_ranks_reply_is_that_ranks() -> None:
    right = PoolTape().ready().called("timeout").called(rank=1, replies=[[1, 2]])
    assert pool_judged("W2", right).violations == []
    wrong = PoolTape().ready().called("timeout").called(rank=1, replies=[[0, 2]])
    assert pool_convicted("W2", wrong).kind == "lost"


def test_without_a_bad_call_or_a_good_one_after_it_nothing_shows() -> None:
    tapes = (PoolTape().ready().called().called(), PoolTape().ready().called("timeout"))
    for tape in (*tapes, PoolTape().ready().called("timeout").called("closed")):
        with pytest.raises(Inconclusive):
            pool_judged("W2", tape)


def test_futures_that_resolve_in_order_are_right() -> None:
    tape = PoolTape().ready().submits().submits()
    tape.result(2, futures=[1, 2]).result(1, futures=[1, 2]).stops()
    assert pool_judged("W8", tape).violations == []


def test_a_future_done_before_an_earlier_one_is_reordered() -> None:
    tape = PoolTape().ready().submits().submits().result(2, futures=[2])
    assert pool_convicted("W8", tape).kind == "reordered"


def test_a_shutdown_resolves_what_is_outstanding() -> None:
    right = PoolTape().ready().submits().stops().result(1, "closed", futures=[1])
    assert pool_judged("W8", right).violations == []
    never = PoolTape().ready().submits().stops().result(1, "timeout", futures=[], s=5.0)
    assert pool_convicted("W8", never).kind == "no-error"
    late = PoolTape().ready().submits().stops().result(1, "closed", futures=[1], s=4.0)
    assert pool_convicted("W8", late).kind == "late"
    tape = PoolTape().ready().submits().stops().tell("executor", "result", n=1, timeout=None)
    assert pool_convicted("W8", tape.later(4000).hangs("executor", "results")).kind == "hang"


def test_no_future_is_no_evidence() -> None:
    with pytest.raises(Inconclusive):
        pool_judged("W8", PoolTape().ready().called().stops())
