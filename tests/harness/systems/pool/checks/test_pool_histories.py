"""The judge of a pool's histories, of many calls at once (H3)."""

from __future__ import annotations

import pytest
from pool_tape import PoolTape, pool_convicted, pool_judged


def test_calls_with_their_own_replies_are_held() -> None:
    found = pool_judged("H3", PoolTape().ready().called().called().stops())
    assert found.violations == []
    assert found.counts["replies"] == 4


def test_another_calls_reply_is_told() -> None:
    tape = PoolTape().ready().called("timeout").called(replies=[[0, 1], [1, 1]])
    assert pool_convicted("H3", tape).kind == "wrong-data"


@pytest.mark.parametrize("ended", ["error", "refused", "peer-died", "failed"])
def test_a_call_that_failed_for_nothing_is_lost(ended: str) -> None:
    found = pool_convicted("H3", PoolTape().ready().called(ended))
    assert found.kind == "lost"
    assert "no worker was gone" in found.cause


def _digest(tape: PoolTape, digest: str) -> PoolTape:
    for event in tape.events:
        if event.kind in ("call", "submit"):
            event.data["digest"] = digest
    return tape


def test_a_reply_that_differs_from_what_its_worker_made_is_told() -> None:
    assert pool_judged("H3", _digest(PoolTape().ready().called(), "d")).violations == []
    found = pool_convicted("H3", _digest(PoolTape().ready().called(), "other"))
    assert found.kind == "wrong-data"
    assert "differs from what the worker made" in found.cause


def _stopped() -> PoolTape:
    return PoolTape().ready().does("stop")


@pytest.mark.parametrize(
    ("tape", "kind", "words"),
    [
        (_stopped().called("timeout", timeout=0.1, s=0.05), "late", "too early"),
        (_stopped().called("timeout", timeout=0.1, s=0.9), "late", "too late"),
        (_stopped().called("ok", timeout=0.1, s=0.9), "late", "ended with ok after 0.900 s"),
        (PoolTape().ready().called("timeout", timeout=3.0, s=3.0), "starved", "ran out of time"),
    ],
    ids=["early", "late", "late-and-well", "starved"],
)
def test_a_calls_deadline_is_its_own(tape: PoolTape, kind: str, words: str) -> None:
    found = pool_convicted("H3", tape)
    assert found.kind == kind
    assert words in found.cause


def test_a_call_to_a_worker_that_stands_still_runs_out_of_time() -> None:
    for timeout in (0.0, 0.1):
        tape = _stopped().called("timeout", timeout=timeout, s=timeout + 0.01)
        assert pool_judged("H3", tape).violations == []


def test_a_worker_that_goes_on_leaves_the_other_one_stopped() -> None:
    tape = _stopped().does("stop", "worker-1").does("continue", "worker-1")
    tape.called("timeout", timeout=3.0, s=3.0)
    assert pool_judged("H3", tape).violations == []


@pytest.mark.parametrize(("finished", "kinds"), [(2, []), (3, ["wrong-data"])])
def test_health_does_not_give_up_workers_that_get_on(finished: int, kinds: list[str]) -> None:
    tape = PoolTape().ready().tell("executor", "health", timeout=0.35)
    for _ in range(finished):
        tape.later(100).tell("worker-0", "served").tell("worker-1", "served")
    tape.tell("executor", "health-done", outcome="timeout", error="", s=0.35)
    assert [each.kind for each in pool_judged("H3", tape).violations] == kinds


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        ([["a"], []], "", ""),
        ([[], []], "lost", "step 1 did not tell that a had been sent by every rank"),
        ([["a", "b"], []], "wrong-data", "told that b had been sent, and not every rank had named"),
        ([["a"], ["a"]], "wrong-data", "told that a had been received"),
    ],
)
def test_a_step_tells_what_every_rank_has_finished(
    told: list[list[str]], kind: str, words: str
) -> None:
    tape = PoolTape().ready()
    for n, sent in enumerate(([["a"], []], [["b"], ["a"]])):
        asked = {"n": n, "output": True, "sent": sent, "received": [[], []]}
        tape.tell("executor", "execute", **asked)
        result = {"sent": told[0], "received": told[1]} if n else {"sent": [], "received": []}
        tape.tell("executor", "executed", n=n, outcome="ok", error="", s=0.001, **result)
    found = pool_judged("H3", tape).violations
    assert [each.kind for each in found] == [kind] * bool(kind)
    assert not kind or words in found[0].cause


def test_a_step_without_a_result_leaves_what_is_due_to_the_next() -> None:
    tape = PoolTape().ready()
    for n, (sent, told) in enumerate((([[], ["a"]], None), ([["a"], []], ["a"]))):
        asked = {"n": n, "output": told is not None, "sent": sent, "received": [[], []]}
        tape.tell("executor", "execute", **asked)
        result = {} if told is None else {"sent": told, "received": []}
        tape.tell("executor", "executed", n=n, outcome="ok", error="", s=0.001, **result)
    assert pool_judged("H3", tape).violations == []


def test_futures_are_done_in_turn() -> None:
    def two() -> PoolTape:
        return PoolTape().ready().submits().submits()

    assert (
        pool_judged("H3", two().result(1, futures=[1]).result(2, futures=[1, 2])).violations == []
    )
    assert pool_convicted("H3", two().result(2, futures=[2])).kind == "reordered"


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_a_reply_that_cannot_be_unpickled_fails_its_call(outcome: str) -> None:
    told = PoolTape().ready().called(outcome, method="unreadable").called()
    assert pool_judged("H3", told).violations == []
    found = pool_convicted("H3", PoolTape().ready().called(method="unreadable"))
    assert found.kind == "no-error"
    found = pool_convicted("H3", PoolTape().ready().called("error", method="raise_error"))
    assert found.kind == "lost"
