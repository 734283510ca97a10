"""A pool's executor and workers, on real processes: what they log, and where they can be struck."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pool_plays import EXAMPLES, UP, of, outcomes, played

from killpoint.cases import select
from killpoint.runner.stage import Stage
from killpoint.scenario import (
    Call,
    Fault,
    Health,
    NextPool,
    Point,
    PoolStop,
    Results,
    Scenario,
    Submit,
    Wait,
)
from killpoint.search.case_run import CaseRun


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_pool:PoolTarget") as made:
            yield made


def test_a_call_is_answered_by_every_rank_with_its_own_number(stage: Stage) -> None:
    play = played(stage, *UP, Call(times=2, timeout=9.0), Call(rank=1, timeout=9.0), Wait())
    asked = [(e.number("n"), e.text("digest")) for e in of(play, "call")]
    answers = [e.data["replies"] for e in of(play, "call-done")]
    digests = dict(asked)
    assert answers == [
        [[0, 0, digests[0]], [1, 0, digests[0]]],
        [[0, 1, digests[1]], [1, 1, digests[1]]],
        [[1, 2, digests[2]]],
    ]
    assert len({*digests.values()}) == 3
    assert play.ledger.empty(), play.ledger.words()


def test_workers_come_by_themselves_and_are_seen_to_go(stage: Stage) -> None:
    play = played(stage, *UP, PoolStop(), Wait())
    pids = of(play, "pool-started")[0].data["pids"]
    assert [of(play, "worker-here", f"worker-{rank}")[0].number("pid") for rank in (0, 1)] == pids
    assert {(e.text("target"), e.number("code")) for e in of(play, "gone")} == {
        ("worker-0", 0),
        ("worker-1", 0),
    }
    assert [e.text("state") for e in of(play, "pool-state")][:2] == ["ready", "stopped"]


def test_a_worker_that_is_killed_at_a_phase_is_told_to_its_executor(stage: Stage) -> None:
    kill = Fault("kill", "worker-1", Point("work", name="computing"))
    play = played(stage, *UP, kill, Call("compute", timeout=9.0), Wait())
    assert play.unreached == []
    assert [e.text("where") for e in of(play, "reached")] == ["computing"]
    gone = {e.text("target"): e.number("signal") for e in of(play, "gone")}
    assert gone["worker-1"] == 9
    assert outcomes(play, "call-done") == ["peer-died"]
    assert len(of(play, "failure-callback")) == 1
    assert play.ledger.empty(), play.ledger.words()


def test_what_is_submitted_resolves_in_order(stage: Stage) -> None:
    play = played(stage, *UP, Submit(times=3), Results(timeout=9.0), Health(), Wait())
    assert [e.number("n") for e in of(play, "result-done")] == [0, 1, 2]
    assert outcomes(play, "result-done") == ["ok"] * 3
    assert of(play, "result-done")[-1].data["done"] == [0, 1, 2]
    assert outcomes(play, "health-done") == ["ok"]


def test_a_second_pool_has_workers_of_the_same_names(stage: Stage) -> None:
    steps = [PoolStop(), NextPool(timeout=20.0), Call(timeout=9.0), Wait(within=30.0)]
    play = played(stage, *UP, *steps)
    first, second = (e.data["pids"] for e in of(play, "pool-started"))
    assert first != second
    assert outcomes(play, "call-done") == ["ok"]
    assert len(of(play, "gone")) == 4


def test_a_worker_too_many_is_let_go(stage: Stage) -> None:
    play = played(stage, *UP, workers=1, shape={"tensor": 1})
    assert len(of(play, "worker-here")) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scenario, "workers", lambda _: [])
        play = played(stage, *UP, Call(timeout=9.0), Wait(), workers=2)
    assert outcomes(play, "call-done") == ["ok"]


def test_of_a_pool_without_words_for_its_states_nobody_asks_which_it_is_in() -> None:
    (case,) = select(["W1/plain-life"])
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_pool:WordlessPoolTarget") as made:
            case_run = CaseRun(case.id, made, seed=0, full=False, folder=None)
            outcome = case_run.judge(case.run)
    assert (outcome.outcome, outcome.cause) == ("unsupported", "the target's pools have no states")
