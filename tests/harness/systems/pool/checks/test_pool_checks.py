"""Judges of states, errors, orphans, descriptors and successors of pools (W1, 4, 6, 7, 9, 10)."""

from __future__ import annotations

import pytest
from pool_tape import PoolTape, pool_convicted, pool_judged

from killpoint.checkers.finding import Inconclusive, Lacking
from killpoint.ledger import Ledger

# -- W1: states -----------------------------------------------------------------------------


def test_a_life_seen_from_ready_to_stopped_is_right() -> None:
    tape = PoolTape().ready().seen("ready").called().seen("running").stops().seen("stopped")
    assert pool_judged("W1", tape).counts == {"states": 3}
    assert pool_judged("W1", tape).violations == []


def test_a_state_that_goes_back_or_disagrees_is_a_bad_transition() -> None:
    back = PoolTape().ready().seen("running", "ready").stops()
    idle = PoolTape().ready().seen("starting")
    alive = PoolTape().ready().stops().seen("stopping")
    for tape in (back, idle, alive):
        assert pool_convicted("W1", tape).kind == "bad-transition"


def test_a_target_without_states_is_unsupported() -> None:
    with pytest.raises(Lacking):
        pool_judged("W1", PoolTape().ready().seen("").stops())


# -- W4: orphans ----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["kill", "sigterm", "exit"])
def test_workers_that_go_with_their_executor_are_right(fault: str) -> None:
    tape = PoolTape().ready().does(fault, "executor").later(300).gone(0).gone(1)
    assert pool_judged("W4", tape).violations == []


def test_a_worker_that_outlives_the_executor_is_a_leak() -> None:
    late = PoolTape().ready().does("kill", "executor").gone(0).later(6000).gone(1)
    assert pool_convicted("W4", late).cause.startswith("worker-1 was still there 5 s after")
    never = PoolTape().ready().does("kill", "executor").gone(0)
    assert pool_convicted("W4", never).kind == "leak"


@pytest.mark.parametrize(("obeyed", "how"), [(True, "ended it"), (False, "did not end it")])
def test_where_a_worker_stays_is_said_and_whether_it_obeys(obeyed: bool, how: str) -> None:
    tape = PoolTape().ready().does("kill", "executor").gone(0).later(6000)
    tape.tell(
        "director", "hang", target="worker-1", op="leaving", stack=["receive (parent_monitor.py:3)"]
    )
    tape.tell("director", "asked-to-leave", target="worker-1", obeyed=obeyed)
    assert pool_convicted("W4", tape).cause == (
        "worker-1 was still there 5 s after the executor had ended; it was seen in receive"
        f" (parent_monitor.py:3); SIGTERM, sent then, {how} within 2 s"
    )


@pytest.mark.parametrize("who", ["worker-0", "worker-1"])
def test_of_a_worker_in_native_code_that_is_said(who: str) -> None:
    tape = PoolTape().ready()
    tape.tell("director", "fault", fault="hold", target=who, where="native")
    found = pool_convicted("W4", tape.does("kill", "executor").gone(0).later(6000)).cause
    assert ("; it was in native code that keeps the interpreter" in found) == (who == "worker-1")


def test_a_workers_child_that_stays_is_a_leak() -> None:
    tape = PoolTape().ready().does("kill", "executor").gone(0).gone(1)
    left = Ledger(processes=["77 sleep"])
    found = pool_convicted("W4", tape, ledger=left)
    assert "1 process (sleep)" in found.cause
    assert "left: process 77 sleep" in found.evidence


def test_an_executor_that_does_not_end_in_its_graces_is_late() -> None:
    tape = PoolTape().ready().does("sigterm", "executor", ends=False).later(8000)
    found = pool_convicted("W4", tape.exits("executor", number=15).gone(0).gone(1))
    assert found.kind == "late"


def test_an_executor_that_was_not_struck_or_had_no_worker_is_inconclusive() -> None:
    alive = PoolTape().ready().stops()
    empty = PoolTape().starts(here=False).does("kill", "executor")
    for tape in (alive, empty, PoolTape().ready().does("sigterm", "executor", ends=False)):
        with pytest.raises(Inconclusive):
            pool_judged("W4", tape)


# -- W6: a worker's own error ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["raise_error", "unpicklable", "leave"])
def test_an_error_that_is_told_and_a_pool_that_goes_on_are_right(method: str) -> None:
    tape = PoolTape().ready().called("failed", method=method).called().stops()
    assert pool_judged("W6", tape).violations == []


def test_an_injected_error_is_owed_to_the_call_that_was_under_way() -> None:
    tape = PoolTape().ready().calls().raises().done("failed").called().stops()
    assert pool_judged("W6", tape).violations == []
    tape = PoolTape().ready().calls().raises().done().called().stops()
    assert pool_convicted("W6", tape).kind == "no-error"


@pytest.mark.parametrize(
    ("ended", "s", "kind"),
    [
        ("ok", 0.01, "no-error"),
        ("timeout", 5.0, "no-error"),
        ("peer-died", 0.01, "lost"),
        ("failed", 3.0, "late"),
    ],
)
def test_an_error_that_is_not_told_is_told_by_its_kind(ended: str, s: float, kind: str) -> None:
    tape = PoolTape().ready().called(ended, method="raise_error", s=s).called().stops()
    assert pool_convicted("W6", tape).kind == kind


def test_a_pool_that_does_not_go_on_is_lost() -> None:
    tape = PoolTape().ready().called("failed", method="leave").called("closed").stops()
    assert pool_convicted("W6", tape).kind == "lost"
    tape = PoolTape().ready().called("failed", method="leave").gone(0).called().stops()
    assert pool_convicted("W6", tape).kind == "lost"
    tape = PoolTape().ready().called("failed", method="leave").fires().called().stops()
    assert pool_convicted("W6", tape).kind == "lost"


def test_w6_without_an_error_or_without_a_later_call_is_inconclusive() -> None:
    for tape in (
        PoolTape().ready().called().stops(),
        PoolTape().ready().called("failed", method="leave").stops(),
    ):
        with pytest.raises(Inconclusive):
            pool_judged("W6", tape)


def test_a_call_cut_short_leaves_a_pool_that_serves_or_one_that_says_it_failed() -> None:
    more = {"expects": "call-or-pool-fails"}

    def struck() -> PoolTape:
        return PoolTape().ready().calls().raises("executor").done("injected")

    for later in ("ok", "closed"):
        assert pool_judged("W6", struck().called(later).stops(), **more).violations == []
    stuck = struck().called("timeout", s=5.0).stops()
    assert pool_convicted("W6", stuck, **more).kind == "no-error"
    mixed = struck().called("closed").called().stops()
    assert pool_convicted("W6", mixed, **more).kind == "lost"
    old = struck().called(replies=[[0, 1], [1, 1]]).stops()
    assert pool_convicted("W6", old, **more).kind == "wrong-data"


# -- W7: a failure at start -----------------------------------------------------------------


def test_the_workers_own_traceback_is_what_a_failed_start_owes() -> None:
    error = "worker-0 failed: Traceback … InjectedError: injected at x.py"
    tape = PoolTape().starts().raises().started("failed", error=error).gone(0).gone(1)
    assert pool_judged("W7", tape).violations == []
    tape = PoolTape().starts().raises().started("failed", error="a worker failed").gone(0).gone(1)
    assert "own traceback" in pool_convicted("W7", tape).cause


def test_a_death_at_start_is_told_within_two_seconds() -> None:
    tape = PoolTape().starts().does("kill").started("peer-died", error="worker-0 died").gone(1)
    assert pool_judged("W7", tape).violations == []
    tape = PoolTape().starts().does("kill").later(4000).started("peer-died").gone(1)
    assert pool_convicted("W7", tape).kind == "late"
    tape = PoolTape().starts().does("kill").later(4000).started("timeout").gone(1)
    assert pool_convicted("W7", tape).kind == "no-error"
    tape = PoolTape().starts().does("kill").started("peer-died").later(6000)
    assert pool_convicted("W7", tape).kind == "leak"
    with pytest.raises(Inconclusive):
        pool_judged("W7", PoolTape().ready())


def test_an_executor_may_hear_of_a_death_at_start_before_the_director_does() -> None:
    tape = PoolTape().starts().does("kill", ends=False).started("peer-died").gone(0).gone(1)
    assert pool_judged("W7", tape).violations == []
    with pytest.raises(Inconclusive):
        pool_judged("W7", PoolTape().starts().started("peer-died").does("kill"))


# -- W9: descriptors ------------------------------------------------------------------------


def _shown(*extra: str) -> PoolTape:
    tape = PoolTape().ends_shown("executor", "pipe:1:w").ready().called()
    tape.ends_shown("executor", "pipe:1:w", "pipe:7:w", "pipe:8:w", "pipe:9:w", "socket:5")
    tape.ends_shown("worker-0", "pipe:1:w", "pipe:7:r", "pipe:9:w")
    return tape.ends_shown("worker-1", "pipe:1:w", "pipe:8:r", "pipe:9:w", *extra).stops()


def test_own_ends_and_what_was_there_before_harm_nobody() -> None:
    assert pool_judged("W9", _shown()).counts == {"processes looked at": 3}
    assert pool_judged("W9", _shown()).violations == []


@pytest.mark.parametrize("end", ["pipe:7:w", "pipe:7:r", "socket:5"])
def test_another_processs_end_is_a_leak(end: str) -> None:
    found = pool_convicted("W9", _shown(end))
    assert found.kind == "leak"
    assert "worker-1" in found.cause


def _pairs(executor: tuple[str, ...], worker: tuple[str, ...], other: tuple[str, ...]) -> PoolTape:
    """Who holds what of two pairs of sockets, 1-2 and 3-4, and of one that is joined to nobody."""
    peers = {"socket:1": "socket:2", "socket:2": "socket:1"}
    peers |= {"socket:3": "socket:4", "socket:4": "socket:3"}
    tape = PoolTape().ready().called()
    for role, ends in (("executor", executor), ("worker-0", worker), ("worker-1", other)):
        held = [f"socket:{end}" for end in ends]
        shown = {end: peer for end, peer in peers.items() if end in held}
        tape.ends_shown(role, *held, peers=shown)
    return tape.stops()


def test_both_ends_of_a_pair_that_one_process_keeps_for_itself_may_be_copied_by_a_fork() -> None:
    tape = _pairs(("1", "2", "3", "9"), ("1", "2", "4", "9"), ("1", "2", "9"))
    assert pool_judged("W9", tape).violations == []


def test_a_copied_end_whose_other_end_is_with_another_process_is_a_leak() -> None:
    found = pool_convicted("W9", _pairs(("1", "2", "3"), ("4",), ("3",)))
    assert found.cause == (
        "executor and worker-1 hold the same end of a socket: worker-0, at its other end, cannot"
        " hear of the death of one of them"
    )


def test_the_same_holds_of_a_pipes_two_ends() -> None:
    both = ("pipe:20:r", "pipe:20:w")
    assert pool_judged("W9", _held(both, both)).violations == []
    for executor, worker in ((both, both[1:]), (both[1:], both)):
        waits = "executor" if executor is both else "worker-0"
        found = pool_convicted("W9", _held(executor, worker))
        assert f"the writing one: {waits}, at its other end, cannot hear" in found.cause


def _held(executor: tuple[str, ...], worker: tuple[str, ...]) -> PoolTape:
    tape = PoolTape().ready().called().ends_shown("executor", *executor)
    return tape.ends_shown("worker-0", *worker).ends_shown("worker-1").stops()


def test_what_cpython_keeps_for_its_children_is_nobodys_fault() -> None:
    tape = _shown("pipe:7:w", "pipe:8:w")
    assert "worker-1" in pool_convicted("W9", tape).cause
    tape.tell("executor", "interpreters-ends", ends=["pipe:7:w", "pipe:8:w"])
    assert pool_judged("W9", tape).violations == []


def test_workers_that_were_not_looked_at_are_no_evidence() -> None:
    with pytest.raises(Inconclusive):
        pool_judged("W9", PoolTape().ready().called().ends_shown("executor").stops())


# -- W10: the next pool ---------------------------------------------------------------------


def _after_a_death() -> PoolTape:
    return PoolTape().ready().calls().does("kill").fires().done("peer-died").stops()


def test_a_next_pool_that_works_is_right() -> None:
    found = pool_judged("W10", _after_a_death().ready().called().stops())
    assert found.violations == []
    assert found.counts == {"next pools": 1}


def test_a_next_pool_that_does_not_start_or_work_is_starved() -> None:
    never = _after_a_death().starts().started("error", error="address in use")
    assert "address in use" in pool_convicted("W10", never).cause
    deaf = _after_a_death().ready().called("timeout", s=5.0)
    assert pool_convicted("W10", deaf).kind == "starved"
    stale = _after_a_death().ready().called(replies=[[0, 1], [1, 1]])
    assert pool_convicted("W10", stale).kind == "wrong-data"


def test_the_first_pools_workers_are_not_the_nexts() -> None:
    tape = PoolTape().ready().calls().does("kill").fires().done("peer-died").stops(gone=False)
    tape.ready().called().stops()
    assert pool_convicted("W3", tape).kind == "leak"


def test_one_pool_alone_says_nothing_of_the_next() -> None:
    for tape in (_after_a_death(), PoolTape().ready().stops().ready().called()):
        with pytest.raises(Inconclusive):
            pool_judged("W10", tape)
