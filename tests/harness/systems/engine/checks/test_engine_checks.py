"""E1 to E4 on histories that are told: what they let pass, and what they call by which name."""

from __future__ import annotations

import pytest
from engine_tape import FRONT, TOKENS, WELL, EngineTape

from killpoint.checkers.finding import Inconclusive, Lacking

_WELL = {"outcome": "ok", "finish": "length", "error": "", "count": len(TOKENS)}


class TestEveryRequestEnds:
    def test_tokens_are_an_end_and_so_is_an_error_that_names_who_died(self) -> None:
        tape = EngineTape().serves(1.0)
        n = tape.asks()
        tape.strikes("kill", "core-0/worker-0").fails(n, "RequestFailed: core-0 (pid 7) died")
        found = tape.calm().judged("E1")
        assert found.violations == []
        assert found.counts == {"requests": 11, "errors that name a cause": 1}

    @pytest.mark.parametrize("error", ["Failed: ", "Failed: 17", "Failed: it could not be served"])
    def test_an_error_that_names_nobody_is_none(self, error: str) -> None:
        tape = EngineTape()
        n = tape.asks()
        tape.strikes("kill", "core-0").fails(n, error)
        assert tape.calm().convicted("E1").kind == "no-error"

    def test_an_error_although_nothing_was_done_is_none_that_names_a_cause(self) -> None:
        tape = EngineTape()
        tape.fails(tape.asks(), "Failed: core-0 died")
        assert "nothing had been done" in tape.calm().convicted("E1").cause

    def test_whoever_is_refused_or_met_the_stop_has_been_told(self) -> None:
        tape = EngineTape()
        tape.fails(tape.asks(), "Full: 9 wait", "refused")
        tape.fails(tape.asks(), "Closed: it is closed", "closed")
        assert tape.calm().judged("E1").violations == []

    def test_a_request_without_an_end_is_lost(self) -> None:
        tape = EngineTape()
        tape.asks()
        tape.tell(FRONT, "first", n=1)
        found = tape.calm().convicted("E1")
        assert found.kind == "lost"
        assert "it had begun to come" in found.cause

    def test_a_request_that_only_the_stop_has_ended_is_lost_if_its_time_was_over(self) -> None:
        tape = EngineTape()
        n = tape.asks(within=2.0)
        tape.later(3_000)
        tape.tell(FRONT, "calm", yes=False).tell(FRONT, "engine-stop")
        tape.fails(n, "Closed: it is closed", "closed")
        assert tape.convicted("E1").kind == "lost"

    def test_a_request_that_ended_before_the_stop_is_not_said_to_have_no_end(self) -> None:
        tape = EngineTape()
        n = tape.asks(within=2.0)
        tape.later(2_500).tell(FRONT, "calm", yes=False)
        tape.later(500).tell(FRONT, "answer", **_WELL, n=n)
        found = tape.tell(FRONT, "engine-stop").convicted("E1")
        assert (found.kind, found.cause) == ("late", "request 1 took 3.0 s; the limit is 2 s")

    @pytest.mark.parametrize("ends", [True, False])
    def test_a_machine_that_was_late_has_more_time_for_what_is_waited_for(self, ends: bool) -> None:
        tape = EngineTape()
        n = tape.asks(within=2.0)
        tape.later(2_500).late(400).tell(FRONT, "calm", yes=False)
        if ends:
            tape.tell(FRONT, "engine-stop").tell(FRONT, "answer", **_WELL, n=n)
            assert tape.judged("E1").violations == []
        else:
            with pytest.raises(Inconclusive, match="too little time"):
                tape.judged("E1")

    def test_an_end_after_its_time_is_late(self) -> None:
        tape = EngineTape()
        n = tape.asks(within=2.0)
        tape.later(2_500).later(0)
        tape.gives(n)
        assert tape.calm().convicted("E1").kind == "late"

    def test_a_machine_that_was_late_itself_excuses_that(self) -> None:
        tape = EngineTape()
        n = tape.asks(within=2.0)
        tape.later(2_500).late(400)
        tape.gives(n)
        assert tape.calm().judged("E1").violations == []

    def test_what_is_cancelled_ends_soon(self) -> None:
        tape = EngineTape()
        n = tape.asks()
        tape.tell(FRONT, "cancelled", n=n).later(2_500)
        tape.gives(n, [3], "cancelled")
        assert tape.calm().convicted("E1").kind == "late"

    @pytest.mark.parametrize(
        ("tokens", "finish"),
        [(TOKENS, "done"), (TOKENS, "cancelled"), ([3], "length"), ([*TOKENS, 9], "stop")],
    )
    def test_a_finish_says_what_is_so(self, tokens: list[int], finish: str) -> None:
        tape = EngineTape()
        tape.gives(tape.asks(), tokens, finish)
        assert tape.calm().convicted("E1").kind == "wrong-data"

    def test_a_part_that_dies_unasked_is_a_crash(self) -> None:
        tape = EngineTape().serves(0.5)
        tape.tell("director", "gone", target="core-0", pid=1, signal=11)
        assert tape.serves(0.5).convicted("E1").kind == "crash"

    def test_who_still_waits_in_its_start_hangs(self) -> None:
        tape = EngineTape()
        tape.tell("director", "hang", target=FRONT, op="engine-start", stack=["x"])
        assert tape.convicted("E1").kind == "hang"

    def test_what_was_not_done_says_nothing(self) -> None:
        tape = EngineTape(data_parallel=2).serves(0.5).strikes("kill", "core-0")
        tape.events = [e for e in tape.events if e.kind != "fault"]
        with pytest.raises(Inconclusive, match="was not there"):
            tape.calm().judged("E1")

    def test_a_target_without_that_part_cannot_be_asked(self) -> None:
        tape = EngineTape(data_parallel=2).serves(0.5).strikes("kill", "coordinator")
        tape.events = [e for e in tape.events if e.data.get("target") != "coordinator"]
        with pytest.raises(Lacking, match="no part coordinator"):
            tape.calm().judged("E1")

    def test_an_engine_that_did_not_start_is_inconclusive(self) -> None:
        tape = EngineTape()
        tape.events[0].data = {"outcome": "error", "error": "no"}
        with pytest.raises(Inconclusive, match="did not start"):
            tape.judged("E1")


class TestTokensAreTheModelsOwn:
    def test_they_are_equal(self) -> None:
        found = EngineTape().serves(1.0).calm().judged("E2")
        assert found.violations == []
        assert found.counts == {"answers": 10, "through a fault": 0}

    @pytest.mark.parametrize(
        ("tokens", "finish", "kind"),
        [
            ([3, 1, 4, 1, 6], "length", "wrong-data"),
            ([3, 1, 3, 1, 4], "length", "wrong-data"),
            ([*TOKENS, 9], "length", "duplicate"),
            (TOKENS[:4], "stop", "lost"),
            (TOKENS, "stop", "wrong-data"),
        ],
    )
    def test_any_other_is_told_as_what_it_is(
        self, tokens: list[int], finish: str, kind: str
    ) -> None:
        tape = EngineTape()
        tape.gives(tape.asks(), tokens, finish)
        assert tape.calm().convicted("E2").kind == kind

    def test_of_one_that_was_cancelled_the_beginning_is_compared(self) -> None:
        tape = EngineTape().serves(0.2)
        for tokens in ([3, 1], [3, 2]):
            n = tape.asks()
            tape.tell(FRONT, "cancelled", n=n)
            tape.gives(n, tokens, "cancelled")
        assert "request 4 (which was cancelled)" in tape.calm().convicted("E2").cause

    def test_what_was_open_at_a_death_and_ended_well_came_through_it(self) -> None:
        tape = EngineTape()
        n = tape.asks()
        tape.strikes("kill", "core-0")
        tape.gives(n)
        assert tape.calm().judged("E2").counts["through a fault"] == 1

    def test_without_the_model_alone_or_an_answer_nothing_is_known(self) -> None:
        with pytest.raises(Inconclusive, match="was not run alone"):
            EngineTape().serves(0.5).judged("E2")
        tape = EngineTape()
        tape.fails(tape.asks())
        with pytest.raises(Inconclusive, match="no request ended well"):
            tape.calm().judged("E2")


class TestFaultsAreSurvived:
    def test_a_replica_dies_and_comes_back(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0").serves(2.0)
        found = tape.whole().serves(2.5).calm().judged("E3")
        assert found.violations == []
        assert found.counts["kills"] == 1
        (words,) = found.told
        assert words.startswith("core killed: 10.")
        assert words.endswith("; whole after 2.0 s")

    def test_goodput_that_stays_below_half_is_starved(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0")
        for _ in range(12):
            tape.later(990)
            tape.gives(tape.asks())
        assert "below half" in tape.whole().calm().convicted("E3").cause

    @pytest.mark.parametrize("then", [1.5, 3.0])
    def test_goodput_has_10_s_to_be_half_though_parts_are_back_sooner(self, then: float) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0").later(3_000)
        assert isinstance(tape, EngineTape)
        tape.whole().later(then * 1000)
        tape.calm()
        if then < 2.0:
            with pytest.raises(Inconclusive, match=r"ended 4\.5 s after the death"):
                tape.judged("E3")
        else:
            assert "where it had been 10." in tape.convicted("E3").cause

    def test_a_replica_that_does_not_come_back_is_starved(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0").serves(20.0)
        assert "had not come back" in tape.whole(False).calm().convicted("E3").cause

    def test_a_machine_on_which_the_engine_had_started_as_slowly_leaves_it_open(self) -> None:
        tape = EngineTape(start=8.0, data_parallel=2).serves(2.0).strikes("kill", "core-0")
        with pytest.raises(Inconclusive, match=r"start had taken 8\.0 s"):
            tape.serves(30.0).whole(False).calm().judged("E3")

    def test_goodput_that_is_not_whole_with_the_replica_back_is_starved(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0").serves(1.5).whole()
        for _ in range(12):
            tape.later(190)
            tape.gives(tape.asks())
        assert "where it had been 10." in tape.calm().convicted("E3").cause

    def test_goodput_that_the_machine_itself_held_up_is_not_missed(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0").serves(1.5).whole()
        tape.late(350)
        for _ in range(12):
            tape.later(190)
            tape.gives(tape.asks())
        assert tape.calm().judged("E3").violations == []

    def test_a_failure_is_told_within_5_s(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0)
        n = tape.asks(within=30.0)
        tape.strikes("kill", "core-0").serves(6.0).fails(n, "RequestFailed: core-0 died")
        assert tape.whole().serves(2.0).calm().convicted("E3").kind == "late"

    def test_requests_elsewhere_succeed(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0").serves(2.0)
        tape.fails(tape.asks(), "RequestFailed: core-0 died")
        assert tape.whole().serves(2.0).calm().convicted("E3").kind == "lost"

    def test_a_coordinators_death_fails_nobody(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0)
        n = tape.asks()
        tape.strikes("kill", "coordinator").fails(n, "RequestFailed: coordinator died")
        found = tape.serves(0.5).whole().serves(2.5).calm().convicted("E3")
        assert found.kind == "lost"
        assert "asked 0.0 s before the death of coordinator" in found.cause

    @pytest.mark.parametrize("first", ["coordinator", "core-0"])
    def test_who_loses_its_replica_later_did_not_fail_of_an_earlier_death(self, first: str) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", first).serves(0.5)
        tape.whole().serves(2.5)
        held = tape.asks()
        tape.strikes("kill", "core-1")
        sent = tape.asks()
        tape.serves(0.5).fails(held, "RequestFailed: core-1 died")
        tape.fails(sent, "RequestFailed: core-1 died")
        assert tape.whole().serves(2.5).calm().judged("E3").violations == []

    def test_who_lost_its_replica_before_does_not_fail_of_the_coordinators_death(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0)
        held = tape.asks()
        tape.strikes("kill", "core-1").serves(0.5).whole().serves(2.1)
        tape.strikes("kill", "coordinator").fails(held, "RequestFailed: core-1 died")
        assert tape.serves(0.5).whole().serves(2.5).calm().judged("E3").violations == []

    def test_the_others_are_judged_too_if_the_scenario_says_so(self) -> None:
        tape = EngineTape(data_parallel=2).serves(2.0).strikes("kill", "core-0").serves(2.0)
        tape.gives(tape.asks(), [9, 9, 9, 9, 9])
        tape.whole().serves(2.5).calm()
        assert tape.judged("E3").violations == []
        assert "than the model alone" in tape.convicted("E3", "E2").cause

    def test_too_few_requests_before_the_fault_say_nothing(self) -> None:
        tape = EngineTape(data_parallel=2).serves(0.3).strikes("kill", "core-0").serves(1.0)
        with pytest.raises(Inconclusive, match="hardly a request"):
            tape.calm().judged("E3")


class TestHealthNeverLies:
    def test_all_well_is_said_while_all_is_well(self) -> None:
        found = EngineTape().serves(2.0).calm().judged("E4")
        assert found.violations == []
        assert found.counts == {"looks": 20, "stops": 0, "deaths": 0}

    @pytest.mark.parametrize("words", ["ready progressing", "alive progressing", "alive ready"])
    def test_nothing_else_is(self, words: str) -> None:
        assert EngineTape().serves(1.0, words).calm().convicted("E4").kind == "wrong-data"

    def test_a_stopped_part_is_told_within_3_s_and_forgotten_once_it_goes_on(self) -> None:
        tape = EngineTape().serves(1.0).strikes("stop", "core-0")
        tape.asks(within=30.0)
        tape.hangs_on(2.8, WELL).hangs_on(2.0, "alive ready").strikes("continue", "core-0")
        tape.gives(tape.n).serves(3.5)
        assert tape.calm().judged("E4").violations == []

    def test_progress_is_not_said_while_nothing_moves(self) -> None:
        tape = EngineTape().serves(1.0).strikes("stop", "core-0/worker-0")
        tape.asks(within=30.0)
        found = tape.hangs_on(4.0, WELL).calm().convicted("E4")
        assert "after core-0/worker-0 was stopped" in found.cause

    def test_it_is_not_dead_while_it_answers(self) -> None:
        tape = EngineTape().serves(1.0).strikes("stop", "core-0")
        assert "not alive" in tape.hangs_on(2.0, "ready").calm().convicted("E4").cause

    @pytest.mark.parametrize("words", ["ready progressing", "alive"])
    def test_who_was_kept_from_running_may_take_itself_for_dead_or_others(self, words: str) -> None:
        assert EngineTape().serves(1.0).looks(words).calm().judged("E4").violations
        tape = EngineTape().serves(1.0).later(2_000).looks(words).serves(1.0)
        assert tape.calm().judged("E4").violations == []
        tape = EngineTape().serves(1.0).later(600).looks(words).serves(1.0)
        assert tape.calm().judged("E4").violations

    def test_one_request_that_does_not_move_beside_others_is_no_progress_either(self) -> None:
        tape = EngineTape(data_parallel=2).serves(1.0).strikes("stop", "core-1")
        for tenth in range(45):
            tape.later(97).later(0)
            tape.gives(tape.asks()).looks(open=1, stalled=tenth / 10)
        assert "core-1 was stopped" in tape.calm().convicted("E4").cause

    def test_all_is_well_again_3_s_after_it_goes_on(self) -> None:
        tape = EngineTape().serves(1.0).strikes("stop", "core-0").serves(1.0, "alive")
        tape.strikes("continue", "core-0").serves(4.0, "alive ready")
        assert tape.calm().convicted("E4").kind == "late"

    @pytest.mark.parametrize(
        ("stopped", "again", "why"),
        [("alive ready", "alive ready", "did not say that all is well"), (WELL, WELL, "progress")],
    )
    def test_a_machine_so_late_that_no_limit_was_reached_leaves_it_open(
        self, stopped: str, again: str, why: str
    ) -> None:
        tape = EngineTape().serves(1.0).strikes("stop", "core-0")
        tape.asks(within=30.0)
        tape.hangs_on(4.5, stopped).strikes("continue", "core-0")
        tape.gives(tape.n).serves(3.5, again)
        for _ in range(2):
            tape.tell("director", "denied", target="core-0", ns=int(8e9), over=0)
        with pytest.raises(Inconclusive, match=why):
            tape.calm().judged("E4")

    def test_without_a_replica_it_is_not_ready(self) -> None:
        tape = EngineTape().serves(1.0).strikes("kill", "core-0").hangs_on(2.0, "alive ready")
        assert "before another one was there" in tape.calm().convicted("E4").cause

    def test_once_ready_it_serves(self) -> None:
        tape = EngineTape().serves(1.0).strikes("kill", "core-0").hangs_on(0.8, "alive")
        tape.tell("director", "part-here", target="core-0", pid=2)
        tape.asks(within=30.0)
        assert "later no token had come" in tape.hangs_on(2.0, WELL).calm().convicted("E4").cause

    def test_a_death_that_is_told_and_made_good_is_honest(self) -> None:
        tape = EngineTape().serves(1.0).strikes("kill", "core-0").hangs_on(2.5, "alive")
        tape.whole().serves(2.0)
        assert tape.calm().judged("E4").violations == []

    def test_a_word_as_somebody_begins_who_can_see_to_it_is_no_lie(self) -> None:
        tape = EngineTape().serves(1.0).strikes("kill", "core-0")
        n = tape.asks(within=30.0)
        tape.hangs_on(4.5, "alive").tell("director", "part-here", target="core-0", pid=2)
        tape.looks(WELL, open=1, stalled=4.6)
        tape.gives(n).whole().serves(2.0)
        assert tape.calm().judged("E4").violations == []

    def test_an_answer_that_is_waited_for_is_late(self) -> None:
        tape = EngineTape().serves(0.5)
        tape.looks(s=1.7)
        assert tape.calm().convicted("E4").kind == "late"
