"""Judges of coordinators on histories told by hand: each wrong is named, each right one is not."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_tape import CoordinatorTape, coordinator_convicted, coordinator_judged
from synthetic import Tape

from killpoint.checkers.finding import Inconclusive

_IDLE = (0, 0)


def quiet() -> CoordinatorTape:
    return CoordinatorTape()


def in_a_wave() -> CoordinatorTape:
    tape = quiet().told(_IDLE, _IDLE).accepts(0, 0)
    tape.started(0, 0, 1).started(0, 0, 1, to=1).tell("engine-0", "stepped", n=0, wave=0)
    return tape


class TestChangesAreHeard:
    """C7."""

    def test_in_time_by_every_front_end(self) -> None:
        tape = quiet().says(0, (1, 1)).after(0.2).told((1, 1), _IDLE)
        assert coordinator_judged("C7", tape).counts == {"changes": 1, "messages in floods": 0}

    def test_a_later_one_of_that_rank_will_do(self) -> None:
        tape = quiet().says(0, (1, 1)).says(0, (2, 1)).after(0.2).told((2, 1), _IDLE)
        assert coordinator_judged("C7", tape).counts["changes"] == 2

    def test_one_that_comes_late_starved(self) -> None:
        tape = quiet().says(0, (1, 1)).after(0.3).told((1, 1), _IDLE)
        found = coordinator_convicted("C7", tape)
        assert found.kind == "starved"
        assert "only after 0.30 s; 0.25 s are allowed" in found.cause

    def test_a_longer_interval_allows_more(self) -> None:
        tape = CoordinatorTape(interval=0.2).says(0, (1, 1)).after(0.3).told((1, 1), _IDLE)
        assert coordinator_judged("C7", tape).violations == []

    def test_one_that_never_comes_starved(self) -> None:
        tape = quiet().says(0, (1, 1)).after(3).told(_IDLE, _IDLE)
        assert (
            "front-end-0 never heard of the counts [1, 1]"
            in coordinator_convicted("C7", tape).cause
        )

    def test_a_busy_machine_is_allowed_for(self) -> None:
        tape = quiet().says(0, (1, 1)).after(0.3)
        tape.tell("director", "late-tick", ns=60_000_000).tell("x", "y")
        tape.told((1, 1), _IDLE)
        assert coordinator_judged("C7", tape).violations == []

    def test_who_is_dead_or_has_left_need_not_hear(self) -> None:
        tape = quiet().says(0, (1, 1)).does("kill", "front-end-0").after(3).does("kill", "x")
        with pytest.raises(Inconclusive, match="no engine told a change"):
            coordinator_judged("C7", tape)

    def test_without_a_coordinator_nothing_is_said(self) -> None:
        tape = quiet().says(0, (1, 1)).does("kill", "coordinator").after(3).told(_IDLE, _IDLE)
        with pytest.raises(Inconclusive):
            coordinator_judged("C7", tape)


class TestTheClockJumps:
    """C5."""

    def jumped(self, *, gap: float = 0.9) -> CoordinatorTape:
        tape = quiet().told(_IDLE, _IDLE).does("jump-clock", "coordinator")
        tape.tell("coordinator", "jumped", s=-7200.0)
        tape.says(0, (1, 1)).after(0.3).told((1, 1), _IDLE).after(gap).told((1, 1), _IDLE)
        return tape

    def test_and_publications_go_on(self) -> None:
        found = coordinator_judged("C5", self.jumped())
        assert (found.violations, found.counts) == ([], {"changes": 1, "jumps": 1})

    def test_a_gap_beyond_one_interval_is_named(self) -> None:
        found = coordinator_convicted("C5", self.jumped(gap=1.5))
        assert "heard nothing for 1.50 s around a jump of the clock by -7200.0 s" in found.cause

    def test_and_so_is_silence_up_to_the_end(self) -> None:
        tape = self.jumped().after(2).closes()
        assert coordinator_convicted("C5", tape).kind == "starved"

    def test_a_clock_that_stands_still_says_nothing(self) -> None:
        tape = quiet().does("jump-clock", "coordinator").says(0, (1, 1)).told((1, 1), _IDLE)
        with pytest.raises(Inconclusive, match="did not jump"):
            coordinator_judged("C5", tape)


class TestLies:
    """C4."""

    def test_that_are_dropped_alone_are_counted(self) -> None:
        tape = quiet().lies("engine-0", "wrong-type", (7, 7)).after(0.1).told((7, 7), _IDLE)
        tape.lies("front-end-0", "empty").closes()
        assert coordinator_judged("C4", tape).counts == {"lies": 2, "changes": 1}

    def test_it_must_not_end_of_one(self) -> None:
        tape = quiet().lies("engine-0", "empty").tell("parent", "coordinator-gone", pid=7)
        found = coordinator_convicted("C4", tape)
        assert found.kind == "crash"
        assert "after engine-0 sent what makes no sense (empty)" in found.cause

    def test_the_first_that_it_did_not_outlive_is_named_with_the_line(self) -> None:
        tape = quiet().lies("engine-0", "empty").says(0, (5, 1)).after(0.1)
        tape.tell("front-end-0", "hear", what="counts", rank=0, counts=[5, 1])
        tape.tell("front-end-0", "hear-done", what="counts", outcome="ok").told((5, 1), _IDLE)
        tape.lies("engine-0", "not-text").lies("engine-0", "deep")
        tape.tell("parent", "coordinator-gone", pid=7, line="a/wire.py:7")
        found = coordinator_convicted("C4", tape)
        assert found.cause == (
            "the coordinator ended after engine-0 sent what makes no sense (not-text),"
            " at a/wire.py:7"
        )

    def test_what_is_valid_beside_one_is_kept(self) -> None:
        tape = quiet().lies("engine-0", "wrong-type", (7, 7)).after(8).told(_IDLE, _IDLE)
        found = coordinator_convicted("C4", tape)
        assert (found.kind, "beside wrong-type" in found.cause) == ("lost", True)

    def test_who_drowns_its_own_signs_of_life_may_be_given_up_and_nobody_else(self) -> None:
        def tape() -> Any:
            poured = quiet().lies("engine-0", "wrong-type", (7, 7)).after(0.1).told((7, 7), _IDLE)
            return poured.tell("engine-1", "flood", lie="empty", rank=1).after(0.1)

        assert coordinator_judged("C4", tape().told((7, 7), None).closes()).violations == []
        found = coordinator_convicted("C4", tape().told(None, _IDLE).closes())
        assert "that rank 0 is gone" in found.cause

    def test_who_was_told_to_leave_may_be_missed_before_it_says_that_it_left(self) -> None:
        tape = in_a_wave().lies("engine-1", "empty").says(1, (1, 1)).after(0.1)
        tape.told(_IDLE, (1, 1), running=True)
        tape.tell("engine-0", "begin", order=9, op="disconnect")
        tape.told(None, (1, 1), wave=1, running=True).tell("engine-0", "unlinked")
        tape.tell("engine-0", "begin", order=10, op="exit").closes()
        assert coordinator_judged("C4", tape).violations == []

    def test_who_is_killed_may_be_missed_before_it_is_logged_that_it_is(self) -> None:
        tape = in_a_wave().lies("engine-1", "empty").says(1, (1, 1)).after(0.1)
        tape.told(_IDLE, (1, 1), running=True)
        tape.tell("director", "intent", fault="kill", target="engine-0")
        tape.told(None, (1, 1), wave=1, running=True).does("kill", "engine-0").closes()
        assert coordinator_judged("C4", tape).violations == []

    def test_who_came_anew_is_there(self) -> None:
        tape = quiet().lies("engine-1", "empty").after(0.1).told(_IDLE, _IDLE)
        tape.tell("engine-0", "begin", order=9, op="connect").tell("engine-0", "linked", rank=0)
        assert "that rank 0 is gone" in coordinator_convicted("C4", tape.told(None, _IDLE)).cause

    @pytest.mark.parametrize(
        ("counts", "words"),
        [
            (((9, 9), _IDLE), "counts [9, 9] of rank 0, which nobody told"),
            ((_IDLE, None), "that rank 1 is gone, which it is not"),
            ((_IDLE, _IDLE, _IDLE), "heard of 3 ranks, where there are 2"),
        ],
    )
    def test_nothing_of_one_is_published(
        self, counts: tuple[tuple[int, int] | None, ...], words: str
    ) -> None:
        tape = quiet().lies("engine-0", "unknown-rank").after(0.1).told(*counts)
        found = coordinator_convicted("C4", tape)
        assert found.kind == "wrong-data"
        assert words in found.cause

    @pytest.mark.parametrize(("wave", "running"), [(1, False), (0, True)])
    def test_none_moves_the_wave(self, wave: int, running: bool) -> None:
        tape = quiet().lies("engine-0", "far-wave")
        tape.told(_IDLE, _IDLE, wave=wave, running=running)
        assert coordinator_convicted("C4", tape).kind == "bad-transition"

    def test_silence_about_them_is_no_way_to_drop_them(self) -> None:
        tape = quiet().lies("engine-0", "empty").says(1, (1, 1)).told(_IDLE, (1, 1))
        assert coordinator_convicted("C4", tape.closes(logged=0)).kind == "no-error"

    def test_a_request_beside_them_is_stepped(self) -> None:
        tape = (
            in_a_wave().lies("engine-0", "empty").says(1, (1, 1)).told(_IDLE, (1, 1), running=True)
        )
        assert coordinator_judged("C4", tape).violations == []
        assert coordinator_convicted("C4", tape.accepts(1, 0)).kind == "lost"


class TestLosses:
    """C6."""

    def killed(self) -> CoordinatorTape:
        return in_a_wave().does("kill", "engine-1")

    def test_that_are_noticed_in_time_are_counted(self) -> None:
        tape = self.killed().started(1, 0).told(_IDLE, None).after(9).told(_IDLE, None)
        found = coordinator_judged("C6", tape)
        assert (found.violations, found.counts) == ([], {"noticed": 1})

    def test_an_engine_that_nobody_misses_is_named(self) -> None:
        tape = self.killed().started(1, 0).after(9).told(_IDLE, _IDLE)
        found = coordinator_convicted("C6", tape)
        assert found.kind == "no-error"
        assert "never after: front-end-0 heard of engine-1's kill" in found.cause

    def test_one_that_is_missed_late_is_named(self) -> None:
        tape = self.killed().started(1, 0).after(6).told(_IDLE, None)
        assert "only after 6.00 s" in coordinator_convicted("C6", tape).cause

    def stopped(self) -> CoordinatorTape:
        tape = in_a_wave().does("stop", "engine-1").started(1, 0).after(10).told(_IDLE, _IDLE)
        return tape.does("continue", "engine-1")

    def test_one_that_is_missed_only_once_it_has_gone_on_is_missed_late(self) -> None:
        tape = self.stopped().told(_IDLE, None).after(9).told(_IDLE, None)
        assert coordinator_convicted("C6", tape).kind == "late"

    def test_what_is_heard_once_it_was_told_to_leave_is_no_word_of_the_stop(self) -> None:
        tape = self.stopped()
        tape.tell("engine-1", "begin", order=9, op="disconnect")
        found = coordinator_convicted("C6", tape.told(_IDLE, None).after(9).told(_IDLE, None))
        assert found.kind == "no-error"

    def test_nobody_stays_in_its_wave(self) -> None:
        tape = self.killed().told(_IDLE, None).after(9).told(_IDLE, None)
        found = coordinator_convicted("C6", tape)
        assert "engine-0, in wave 0 with engine-1, heard of a wave without it" in found.cause

    def test_a_wave_that_ended_by_itself_held_nobody(self) -> None:
        tape = self.killed().tell("engine-0", "ended", wave=1)
        tape.tell(
            "front-end-0", "heard", what="state", wave=1, running=False, counts=[[0, 0], None]
        )
        tape.later(9000).tell("x", "y")
        assert coordinator_judged("C6", tape).violations == []

    def test_who_returns_is_heard_of(self) -> None:
        tape = in_a_wave().does("stop", "engine-1").started(1, 0).told(_IDLE, None).after(3)
        tape.does("continue", "engine-1").after(9).told(_IDLE, None)
        assert "front-end-0 heard that engine-1 is back" in coordinator_convicted("C6", tape).cause

    def test_a_short_absence_need_not_be_noticed(self) -> None:
        tape = in_a_wave().does("cut", "engine-1").after(1).does("heal", "engine-1")
        tape.told(_IDLE, _IDLE, running=True).after(9).told(_IDLE, _IDLE, running=True)
        assert coordinator_judged("C6", tape).violations == []

    def test_the_coordinators_death_is_told_to_all(self) -> None:
        tape = in_a_wave().does("kill", "coordinator").tell("parent", "coordinator-gone", pid=7)
        for role in ("engine-0", "engine-1", "front-end-0"):
            tape.later(1000).tell(role, "coordinator-lost")
        assert coordinator_judged("C6", tape).counts == {"noticed": 4}

    def test_what_is_seen_before_it_is_logged_that_it_is_done_is_its_effect(self) -> None:
        tape = in_a_wave().tell("director", "intent", fault="kill", target="coordinator")
        tape.tell("parent", "coordinator-gone", pid=7)
        for role in ("engine-0", "engine-1", "front-end-0"):
            tape.tell(role, "coordinator-lost")
        tape.does("kill", "coordinator").later(9000).tell("x", "y")
        found = coordinator_judged("C6", tape)
        assert (found.violations, found.counts) == ([], {"noticed": 4})

    def test_nor_need_an_engines_end_be_noticed_twice(self) -> None:
        tape = in_a_wave().tell("director", "intent", fault="kill", target="engine-1")
        tape.started(1, 0).told(_IDLE, None, wave=1, running=True).does("kill", "engine-1")
        found = coordinator_judged("C6", tape.later(9000).tell("x", "y"))
        assert (found.violations, found.counts) == ([], {"noticed": 1})

    def test_a_wave_that_began_while_it_was_killed_is_left_like_any_other(self) -> None:
        tape = in_a_wave().tell("director", "intent", fault="kill", target="engine-1")
        tape.started(1, 0, 1).does("kill", "engine-1").started(2, 0).told(_IDLE, None, wave=2)
        found = coordinator_judged("C6", tape.later(9000).tell("x", "y"))
        assert (found.violations, found.counts) == ([], {"noticed": 1})

    def test_who_leaves_is_gone_from_when_it_was_told_to(self) -> None:
        tape = in_a_wave().tell("engine-1", "begin", order=9, op="disconnect")
        tape.started(1, 0).told(_IDLE, None, wave=1, running=True).tell("engine-1", "unlinked")
        tape.later(9000).tell("engine-1", "begin", order=10, op="connect").tell("x", "y")
        found = coordinator_judged("C6", tape)
        assert (found.violations, found.counts) == ([], {"noticed": 1})

    def test_who_does_not_notice_it_is_named(self) -> None:
        tape = in_a_wave().does("kill", "coordinator").tell("parent", "coordinator-gone", pid=7)
        tape.later(9000).tell("x", "y")
        found = coordinator_convicted("C6", tape)
        assert "engine-0 noticed coordinator's kill" in found.cause

    def test_it_must_not_outlive_its_parent(self) -> None:
        tape = in_a_wave().does("kill", "parent").later(9000).tell("x", "y")
        assert "coordinator ended after parent's kill" in coordinator_convicted("C6", tape).cause

    def test_it_must_not_go_with_an_engine(self) -> None:
        tape = (
            self.killed().started(1, 0).told(_IDLE, None).tell("parent", "coordinator-gone", pid=7)
        )
        assert coordinator_convicted("C6", tape).kind == "crash"

    def test_a_request_that_is_in_no_wave_is_lost(self) -> None:
        tape = (
            self.killed().started(1, 0).told(_IDLE, None).accepts(0, 1).later(9000).tell("x", "y")
        )
        found = coordinator_convicted("C6", tape)
        assert found.kind == "lost"
        assert "request 1 of engine-0 (for wave 0) was in no wave ever after engine-1's kill" in (
            found.cause
        )

    def test_requests_that_a_new_coordinator_was_told_of_are_its_own(self) -> None:
        tape = in_a_wave().accepts(0, 1).does("kill", "coordinator")
        tape.tell("parent", "coordinator-gone", pid=7)
        for role in ("engine-0", "engine-1", "front-end-0"):
            tape.tell(role, "coordinator-lost")
        assert coordinator_judged("C6", tape.later(9000).tell("x", "y")).violations == []

    def test_if_nobody_was_gone_nothing_is_said(self) -> None:
        with pytest.raises(Inconclusive, match="nobody was gone"):
            coordinator_judged("C6", in_a_wave())


class TestRequestsAreServed:
    """C2."""

    def test_and_counted(self) -> None:
        assert coordinator_judged("C2", in_a_wave()).counts == {"requests": 1}

    def test_one_that_waits_for_more_than_5_s_is_lost(self) -> None:
        tape = quiet().accepts(1, 0, stepped=6.0)
        assert "was in no wave for 6.00 s" in coordinator_convicted("C2", tape).cause

    def test_without_any_nothing_is_said(self) -> None:
        with pytest.raises(Inconclusive, match="no request"):
            coordinator_judged("C2", quiet())
        with pytest.raises(Inconclusive, match="no coordinator"):
            coordinator_judged("C2", Tape())
