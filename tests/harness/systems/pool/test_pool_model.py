"""The pool's states and its replies, as the specification has them."""

from __future__ import annotations

import pytest

from killpoint.systems.pool.model import (
    MOVES,
    STATES,
    PoolLife,
    PoolModel,
    TransferVotes,
    reachable,
)


def test_every_life_ends_stopped_and_nothing_comes_back() -> None:
    for state in STATES:
        assert "stopped" in reachable(state)
        for later in reachable(state) - {state}:
            assert state not in reachable(later)


@pytest.mark.parametrize(
    "seen",
    [
        "starting ready running stopping stopped",
        "running running failed stopped",
        "failed stopping",
        "stopped stopped",
    ],
)
def test_a_life_seen_now_and_then_is_right(seen: str) -> None:
    life = PoolLife()
    assert [life.seen(word) for word in seen.split()] == [""] * len(seen.split())


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ("ready starting", "ready was followed by starting"),
        ("failed running", "failed was followed by running"),
        ("stopping failed", "stopping was followed by failed"),
        ("stopped ready", "forward only"),
        ("broken", "no state of a pool"),
    ],
)
def test_a_life_that_goes_back_is_told(seen: str, why: str) -> None:
    life = PoolLife()
    *right, wrong = seen.split()
    assert [life.seen(word) for word in right] == [""] * len(right)
    assert why in life.seen(wrong)


def test_the_moves_are_those_of_the_clause() -> None:
    assert MOVES["failed"] == ("stopping",)
    assert "running" not in MOVES["starting"]


def test_a_reply_belongs_to_its_call_and_stands_in_rank_order() -> None:
    pool = PoolModel(2)
    for call in range(6):
        assert pool.ask(call)
    assert pool.answer(0, [(0, 0), (1, 0)]) == ""
    assert pool.answer(1, [(1, 1)], rank=1) == ""
    assert pool.answer(2, [(0, 2), (1, 1)]) == "stale"
    assert pool.answer(3, [(1, 3), (0, 3)]) == "disordered"
    assert pool.answer(4, [(0, 4)]) == "incomplete"
    assert pool.answer(4, [(0, 4), (1, 4)]) == "unasked"


def test_a_failed_pool_errs_every_pending_call_and_takes_no_more() -> None:
    pool = PoolModel(1)
    pool.ask(0)
    pool.ask(1)
    assert pool.fail() == [0, 1]
    assert not pool.ask(2)


def test_a_transfer_is_due_once_every_rank_has_named_it() -> None:
    votes = TransferVotes(2)
    assert votes.step([["a"], []], told=True) == set()
    assert votes.step([["b"], ["a"]], told=True) == {"a"}
    assert votes.step([[], []], told=True) == set()


def test_what_is_due_in_a_step_without_a_result_is_told_by_the_next() -> None:
    votes = TransferVotes(2)
    assert votes.step([["a"], ["a"]], told=False) == set()
    assert votes.step([[], []], told=True) == {"a"}


def test_an_id_that_is_used_again_takes_another_vote_of_every_rank() -> None:
    votes = TransferVotes(2)
    assert votes.step([["a"], []], told=True) == set()
    assert votes.step([["a"], ["a"]], told=True) == {"a"}
    assert votes.step([[], ["a"]], told=True) == {"a"}
