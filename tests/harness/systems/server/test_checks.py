"""Each judge of whole servers tells what is broken from what is not, on records made by hand."""

from __future__ import annotations

import pytest
from server_tape import PARTS, ServerTape

from killpoint.checkers.finding import Inconclusive, JudgedElsewhere, Lacking
from killpoint.ledger import Ledger


def _cause(tape: ServerTape, id: str, kind: str, ledger: Ledger | None = None) -> str:
    found = tape.violation(id, ledger)
    assert found is not None
    assert found.kind == kind
    return found.cause


def _leak_of(tape: ServerTape, ledger: Ledger | None = None) -> str:
    found = tape.violation("E8", ledger)
    assert found is not None
    assert found.kind == "leak"
    return found.of


def _sigterm(drain: float | None = 5.0) -> ServerTape:
    return ServerTape(drain).asks(2, control=True, end="whole", ended=3)


def test_e1_a_request_that_its_client_gave_up_is_a_hang() -> None:
    tape = ServerTape().strikes(3, "kill", "worker-0").asks(2, "hang", 63).asks(2, "error", 4)
    tape.at(64, "seen", part="core-0", stack=["wait (shm.py:1)"], state="S")
    cause = _cause(tape, "E1", "hang")
    assert "1 of 2 requests had not ended when their clients gave up, after 61 s" in cause
    assert "worker-0 had been killed" in cause
    assert "core waits in wait (shm.py:1)" in cause


def test_e1_tells_a_utility_call_from_a_request_for_tokens() -> None:
    tape = ServerTape().strikes(3, "kill", "worker-0").asks(2, "error", 4)
    told = "none of them for tokens: utility calls; worker-0 had been killed"
    assert told in _cause(tape.asks(2, "hang", 63, utility=True), "E1", "hang")
    assert "utility" not in _cause(tape.asks(2, "hang", 63), "E1", "hang")


def test_e1_an_error_names_its_cause() -> None:
    mute = ServerTape().asks(2, "error", 3, why="500", status=500)
    assert "without a word" in _cause(mute, "E1", "no-error")
    told = ServerTape().asks(2, "error", 3, why="500 it died", status=500).asks(2, "refused", 3)
    assert told.judged("E1").counts == {"requests": 2}


def test_e2_other_tokens_are_wrong_data_and_a_play_without_control_says_nothing() -> None:
    tape = _sigterm().asks(4, "differs", 6).strikes(5, "kill", "core-0")
    assert "other tokens" in _cause(tape, "E2", "wrong-data")
    held = _sigterm().asks(4, "whole", 6).strikes(5, "kill", "core-0")
    assert held.judged("E2").counts == {"answers": 1, "through a fault": 1}
    with pytest.raises(Inconclusive, match="no control"):
        ServerTape().asks(4, "whole", 6).judged("E2")


@pytest.mark.parametrize(("seconds", "lies"), [(14.0, False), (20.0, True)])
def test_e4_health_may_say_200_for_15_s_while_nothing_moves(seconds: float, lies: bool) -> None:
    tape = ServerTape().goes_on(2, 5, pieces=1).strikes(5, "stop", "worker-0")
    tape.goes_on(5, 5 + seconds).goes_on(5 + seconds, 40, health=503)
    found = tape.violation("E4")
    assert (found is not None) == lies
    assert found is None or "health said 200" in found.cause


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (("cut",), "; follower had been cut off"),
        (("cut", "heal"), "; follower had been cut off, and joined again"),
        (("stop", "continue"), "; follower had been stopped, and went on"),
        (("sigint",), "; follower had been sent SIGINT"),
    ],
)
def test_a_cause_ends_with_what_was_done_last(faults: tuple[str, ...], words: str) -> None:
    tape = ServerTape().asks(2, "whole", 3).asks(4, "hang", 64)
    for n, fault in enumerate(faults):
        tape.strikes(5 + n, fault, "follower")
    assert words in _cause(tape, "E1", "hang")


def test_e4_requests_that_failed_have_ended() -> None:
    tape = ServerTape().goes_on(2, 5, pieces=1).strikes(5, "stop", "worker-0").goes_on(5, 40)
    assert "got a token or an end;" in _cause(tape, "E4", "no-error")
    failed = tape.asks(8, "error", 9, status=500)
    assert "got a token, and those that ended failed;" in _cause(failed, "E4", "no-error")


def test_e4_a_server_that_nobody_asks_is_not_stuck() -> None:
    tape = ServerTape().goes_on(2, 40, open=0)
    assert tape.violation("E4") is None


def test_e4_health_that_denies_what_is_served_lies_too() -> None:
    tape = ServerTape().goes_on(2, 30, health=503, pieces=1)
    assert "did not say 200" in _cause(tape, "E4", "wrong-data")


def test_e5_a_truncated_answer_passes_for_none() -> None:
    tape = ServerTape().asks(2, "truncated", 4, why="status 200, finish_reason 'abort'")
    assert "finish_reason 'abort'" in _cause(tape.strikes(3, "kill", "core-0"), "E5", "lost")
    honest = ServerTape().asks(2, "torn", 4).asks(2, "error", 4).asks(2, "no-answer", 4)
    assert honest.judged("E5").counts == {"answers": 3}


def _told(drain: float | None = 5.0) -> ServerTape:
    return ServerTape(drain).asks(2, "whole", 6).strikes(4, "sigterm", "front")


def test_e6_holds_if_all_is_over_in_time() -> None:
    tape = _told().asks(6, "refused", 6.1).tree(9).at(20, "looked-on")
    assert tape.judged("E6").counts == {"signals": 1, "in flight": 1}


def test_e6_a_request_in_flight_without_an_end_is_a_hang() -> None:
    tape = _told().asks(3, "open", 25).tree(9).at(25, "looked-on")
    assert "1 of 2 requests in flight had neither" in _cause(tape, "E6", "hang")


@pytest.mark.parametrize(("drain", "ended"), [(5.0, 12.0), (None, 40.0)])
def test_e6_the_drain_is_what_the_server_states_or_30_s(drain: float | None, ended: float) -> None:
    late = _told(drain).asks(3, "error", ended).tree(ended).at(60, "looked-on")
    assert "within the drain" in _cause(late, "E6", "hang")
    early = _told(drain).asks(3, "error", ended - 8).tree(ended).at(60, "looked-on")
    assert early.violation("E6") is None


def test_e6_the_tree_is_gone_10_s_after_the_drain() -> None:
    tape = _told().tree(8, "core-0", "worker-0", "worker-1").at(40, "looked-on")
    assert "core and workers still lived" in _cause(tape, "E6", "hang")


def test_e6_a_slow_machine_has_more_time_and_a_bound_that_was_not_reached_tells_nothing() -> None:
    slow = ServerTape(slow=4.0).strikes(4, "sigterm", "front").tree(40).at(60, "looked-on")
    assert slow.judged("E6").violations == []
    for tape in (ServerTape(slow=4.0), ServerTape(slow=4.0).asks(2, "hang", 8)):
        with pytest.raises(Inconclusive, match=r"4\.0 times"):
            tape.strikes(4, "sigterm", "front").tree(5, "core-0").at(20, "looked-on").judged("E6")


def test_e6_what_fails_as_the_drain_ends_has_more_time_to_arrive_on_a_slow_machine() -> None:
    for slow, found in ((1.0, "hang"), (4.0, None)):
        tape = ServerTape(slow=slow).asks(2, "error", 12.5).strikes(4, "sigterm", "front")
        told = tape.tree(13).at(90, "looked-on").judged("E6").violations
        assert [each.kind for each in told] == ([found] if found else [])


def test_e6_a_client_that_gave_up_before_the_drain_was_over_tells_nothing() -> None:
    tape = ServerTape(60.0).asks(2, "hang", 40).strikes(4, "sigterm", "front").tree(41)
    with pytest.raises(Inconclusive):
        tape.at(90, "looked-on").judged("E6")


def test_e6_a_new_request_is_refused() -> None:
    tape = _told().asks(6, "whole", 7).tree(9).at(20, "looked-on")
    assert "neither 503 nor no connection" in _cause(tape, "E6", "no-error")
    told = _told().asks(6, "error", 7, status=503).asks(6, "no-answer", 7).tree(9)
    assert told.at(20, "looked-on").violation("E6") is None


def test_e6_tells_with_which_words_a_new_request_failed() -> None:
    tape = _told().asks(6, "error", 7, status=500, why="500 no thread takes it").tree(9)
    cause = _cause(tape.at(20, "looked-on"), "E6", "no-error")
    assert cause.startswith("a request that came after SIGTERM got error (500 no thread takes it),")


@pytest.mark.parametrize(
    ("how", "broken"),
    [({"code": 0}, False), ({"code": 143}, False), ({"signal": 15}, False), ({"code": 1}, True)],
)
def test_e7_after_an_orderly_end(how: dict[str, int], broken: bool) -> None:
    tape = _told().ends(9, **how).tree(9)
    assert (tape.violation("E7") is not None) == broken


@pytest.mark.parametrize(("how", "broken"), [({"code": 0}, True), ({"code": 1}, False)])
def test_e7_after_a_part_has_died(how: dict[str, int], broken: bool) -> None:
    tape = ServerTape().strikes(4, "kill", "worker-0").ends(9, **how).tree(9)
    found = tape.violation("E7")
    assert (found is not None) == broken
    assert found is None or "ended by itself with status 0" in found.cause


def _front_killed() -> ServerTape:
    return ServerTape().strikes(4, "kill", "front").ends(4.1, signal=9)


def test_e8_orphans_are_told_with_what_they_wait_on() -> None:
    tape = _front_killed().tree(4.1, *(set(PARTS) - {"front"}))
    tape.at(44, "seen", part="core-0", stack=["poll (core.py:9)"], state="S")
    tape.at(44, "looked-on", ports=1)
    cause = _cause(tape, "E8", "leak")
    assert "core and workers still lived" in cause
    assert "hold its ports" in cause
    assert "core waits in poll (core.py:9)" in cause
    assert _leak_of(tape) == "processes"


def test_e8_a_slow_machine_has_more_time() -> None:
    tape = ServerTape(slow=3.0).strikes(4, "kill", "front").tree(4.1, "core-0").tree(30)
    assert tape.at(44, "looked-on").judged("E8").counts == {"deaths": 1}
    short = ServerTape(slow=5.0).strikes(4, "kill", "front").tree(4.1, "core-0")
    with pytest.raises(Inconclusive, match=r"5\.0 times"):
        short.at(44, "looked-on").judged("E8")


def test_e7_a_front_that_was_stopped_first_is_judged_by_its_signal() -> None:
    tape = ServerTape().strikes(3, "sigterm", "front").strikes(4, "stop", "front").ends(9, code=1)
    assert "sent SIGTERM" in _cause(tape.tree(9), "E7", "no-error")


def test_e8_a_tree_that_goes_late_is_late_and_one_that_leaves_things_leaks() -> None:
    late = _front_killed().tree(4.1, "core-0").tree(20).at(44, "looked-on")
    assert _cause(late, "E8", "late")
    gone = _front_killed().tree(6).at(44, "looked-on")
    assert gone.judged("E8").counts == {"deaths": 1}
    assert "outlived it left" in _cause(gone, "E8", "leak", Ledger(segments=["psm_1"]))
    assert _leak_of(gone, Ledger(segments=["psm_1"])) == "names"


@pytest.mark.parametrize(("gauge", "broken"), [(12.0, False), (15.0, True)])
def test_e9_what_hung_up_holds_nothing_after_5_s(gauge: float, broken: bool) -> None:
    tape = ServerTape().goes_on(2, 12).at(3, "gauge", open=18.0).at(3.5, "hung-up", client=0)
    tape.at(11, "gauge", open=gauge).asks(2, "whole", 11)
    assert (tape.violation("E9") is not None) == broken


def test_e9_one_look_as_answers_end_together_excuses_nothing() -> None:
    tape = ServerTape().goes_on(2, 12).at(3, "gauge", open=18.0).at(3.5, "hung-up", client=0)
    for second, count in ((10, 15.0), (10.5, 3.0), (11, 15.0)):
        tape.at(second, "gauge", open=count)
    assert tape.asks(2, "whole", 11).violation("E9") is not None


def test_e9_others_are_answered() -> None:
    tape = ServerTape().at(3, "reads-nothing").asks(2, "error", 9, status=500)
    assert "others got no answer" in _cause(tape, "E9", "lost")


def test_e10_what_was_refused_changes_no_later_answer() -> None:
    tape = ServerTape().asks(2, "whole", 3).at(4, "refusal", status=400)
    assert "answered otherwise" in _cause(tape.asks(5, "differs", 6), "E10", "wrong-data")
    struck = ServerTape().asks(2, "whole", 3).strikes(4, "kill", "worker-0").asks(5, "differs", 6)
    cause = _cause(struck, "E10", "wrong-data")
    assert cause.startswith("worker-0 had been killed, and a later request was answered otherwise")
    held = ServerTape().at(4, "refusal", status=400).asks(5, "whole", 6)
    assert held.judged("E10").counts == {"answers": 1}


def test_l1_what_no_survivor_was_left_to_remove_is_excused_only_where_all_were_killed() -> None:
    tape = ServerTape().tree(9)
    assert "x.sock" in _cause(tape, "L1", "leak", Ledger(files=["x.sock"]))
    assert tape.violation("L1", Ledger(files=["x.sock"], all_killed=True)) is None
    with pytest.raises(Inconclusive, match="still lived"):
        ServerTape().judged("L1")


def test_what_no_play_of_a_server_tells_is_lacking_by_its_reason_and_nothing_else_is() -> None:
    tape = ServerTape(unjudged={"E2": "tokens are random"}).asks(0, "whole", 1, control=True)
    with pytest.raises(Lacking, match="tokens are random"):
        tape.asks(2, "differs", 3).judged("E2")
    assert tape.judged("E1").counts == {"requests": 2}


@pytest.mark.parametrize("id", ["E1", "E2", "E5", "E6", "E7", "E8", "E9", "E10", "L1"])
def test_a_server_to_which_nothing_happened_says_nothing(id: str) -> None:
    with pytest.raises(Inconclusive):
        ServerTape().judged(id)


@pytest.mark.parametrize("id", ["E5", "E7"])
def test_of_a_server_that_nobody_asked_anything_another_play_may_say_more(id: str) -> None:
    with pytest.raises(Inconclusive) as doubt:
        ServerTape().judged(id)
    assert not isinstance(doubt.value, JudgedElsewhere)


@pytest.mark.parametrize("id", ["E5", "E7", "L1"])
def test_of_a_server_that_hangs_at_sigterm_no_further_play_says_more(id: str) -> None:
    tape = _sigterm().strikes(3, "sigterm", "front").asks(2).at(60, "looked-on", left=["front"])
    with pytest.raises(JudgedElsewhere):
        tape.judged(id)


def test_a_part_is_told_by_the_first_frame_outside_of_libraries_and_one_that_runs_by_none() -> None:
    tape = _told().asks(3, "open", 25).at(60, "looked-on")
    stack = ["Runner.run (asyncio/runners.py:118)", "serve (engine/front.py:9)"]
    tape.at(60, "seen", part="front", stack=stack, state="S")
    tape.at(60, "seen", part="core-0", stack=["step (engine/core.py:1)"], state="R")
    cause = _cause(tape, "E6", "hang")
    assert "front waits in serve (engine/front.py:9); core runs" in cause
