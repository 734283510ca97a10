"""Judges of flow and of silence: no silent drop (Q5), cuts that lose nothing or are told (Q18)."""

from __future__ import annotations

import pytest
from synthetic import Tape, scene

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive
from killpoint.ledger import Ledger
from killpoint.targets.protocol import QueueShape
from killpoint.verdict import Violation

S = 1000.0


def found(id: str, tape: Tape, readers: int = 1, remote: int = 1) -> list[Violation]:
    scenario = scene(judges=id)
    scenario.shape = QueueShape(readers=readers, remote=remote, chunk_bytes=1000)
    return CHECKERS[id](scenario, tape.history(), Ledger()).violations


def kind(id: str, tape: Tape, **more: int) -> str:
    violations = found(id, tape, **more)
    assert len(violations) == 1
    return violations[0].kind


def does(tape: Tape, fault: str, role: str = "reader-0", toward: str = "both") -> Tape:
    """A fault by the runner."""
    return tape.tell("director", "fault", fault=fault, target=role, toward=toward)


# -- Q5 -------------------------------------------------------------------------------------


def stopped() -> Tape:
    return does(Tape().sent(0).gets(0), "stop")


def test_a_slow_reader_that_gets_everything_later_is_all_that_is_asked() -> None:
    tape = does(stopped().sent(1).sent(2), "continue").gets(1).gets(2).fails("timeout")
    assert found("Q5", tape) == []


def test_a_writer_that_is_slowed_keeps_the_promise() -> None:
    tape = does(stopped().sent(1).sent(2, "timeout"), "continue").gets(1).fails("timeout")
    assert found("Q5", tape) == []


def test_a_message_dropped_in_silence_is_lost() -> None:
    for arrives in (1, 2):
        tape = does(stopped().sent(1).sent(2), "continue").gets(arrives).fails("timeout")
        assert kind("Q5", tape) == "lost"
    assert "1 of 3 messages" in found("Q5", tape)[0].cause


@pytest.mark.parametrize("word", ["lost", "closed", "peer-died"])
def test_a_reader_that_is_told_of_its_loss_is_not_wronged(word: str) -> None:
    tape = does(stopped().sent(1).sent(2), "continue").fails(word)
    assert found("Q5", tape) == []


def test_a_reader_that_only_runs_into_its_timeout_is_not_told() -> None:
    assert kind("Q5", does(stopped().sent(1), "continue").fails("timeout")) == "lost"


def test_a_send_that_timed_out_and_arrives_all_the_same_is_wrong() -> None:
    tape = does(stopped().sent(1, "timeout"), "continue").gets(1)
    assert kind("Q5", tape) == "wrong-data"


def test_a_fast_reader_beside_a_slow_one_loses_nothing_either() -> None:
    tape = does(Tape().sent(0).gets(0).gets(0, "reader-1"), "stop", "reader-1").sent(1)
    tape.gets(1, "reader-1").fails("timeout")
    assert kind("Q5", tape, readers=2, remote=1) == "lost"


def test_a_writer_that_never_comes_back_hangs() -> None:
    assert kind("Q5", stopped().sends(1).hangs("writer", "send")) == "hang"


def test_a_slow_local_reader_says_nothing_of_remote_ones() -> None:
    with pytest.raises(Inconclusive):
        found("Q5", stopped().sent(1).gets(1), readers=2, remote=1)


# -- Q18: short -----------------------------------------------------------------------------


def healed(seconds: float = 3.0) -> Tape:
    tape = does(Tape().sent(0).gets(0).waits(), "cut").sent(1).later(seconds * S)
    return does(tape, "heal")


def test_a_short_cut_after_which_all_arrives_is_all_that_is_asked() -> None:
    assert found("Q18", healed().gets(1)) == []


def test_a_message_sent_in_a_short_cut_may_not_be_lost() -> None:
    assert kind("Q18", healed().ends("timeout")) == "lost"
    assert kind("Q18", healed().ends("peer-died")) == "lost"


def test_a_message_may_not_come_twice_after_a_reset() -> None:
    tape = does(Tape().sent(0).gets(0), "reset").sent(1).gets(0).gets(1)
    assert kind("Q18", tape) == "duplicate"


def test_a_loss_says_what_was_done_to_the_connections() -> None:
    tape = does(does(Tape().sent(0).gets(0), "delay"), "reset").sent(1).ends("timeout")
    assert found("Q18", tape)[0].cause.endswith("(connections: delay, reset)")


def test_a_short_cut_does_not_make_a_send_fail() -> None:
    tape = does(does(Tape().sent(0).gets(0), "cut").sent(1, "timeout").later(S), "heal")
    assert kind("Q18", tape) == "lost"


def test_a_cut_that_the_machine_made_too_long_is_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="too near"):
        found("Q18", healed(9.5).gets(1))


def test_a_cut_in_which_nothing_was_sent_is_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="nothing was sent"):
        found("Q18", does(does(Tape().sent(0).gets(0), "cut").later(S), "heal"))


# -- Q18: for good --------------------------------------------------------------------------


def cut(silence: float | None = 2.5, toward: str = "both", role: str = "reader-0") -> Tape:
    tape = Tape()
    if silence is not None:
        tape.tell("writer", "silence", seconds=silence)
    return does(tape.sent(0).gets(0).waits(), "cut", role, toward)


def told(tape: Tape, after: float, word: str = "peer-died", writer: str = "peer-died") -> Tape:
    return tape.sends(1).later(after * S).ends(word).tell("writer", "sent", seq=1, outcome=writer)


def test_both_ends_told_within_the_silence_is_all_that_is_asked() -> None:
    for word in ("peer-died", "closed"):
        assert found("Q18", told(cut(), 2.6, word)) == []


def test_the_allowance_is_the_machines_own_lateness() -> None:
    assert kind("Q18", told(cut(), 3.5)) == "late"
    assert found("Q18", told(cut().late(400), 3.5)) == []


def test_a_target_whose_silence_cannot_be_set_has_ten_seconds() -> None:
    assert found("Q18", told(cut(None), 9.9)) == []
    (late,) = found("Q18", told(cut(None), 11.0))
    assert (late.kind, late.level) == ("late", "SHOULD")  # the bound is ours, and the cause says so
    assert "the target has no peer timeout, and 10 s are granted to it" in late.cause


def test_where_the_silence_was_set_it_is_the_targets_own() -> None:
    (late,) = found("Q18", told(cut(), 3.5))
    assert late.level is None
    assert "the peer timeout was set to 2.5 s" in late.cause


def test_a_reader_that_waits_for_ever_hangs_and_the_cut_is_named() -> None:
    violations = found("Q18", cut().later(9 * S).hangs("reader-0", "receive"))
    assert violations[0].kind == "hang"
    assert "reader-0, cut off" in violations[0].cause
    assert "never noticed" in violations[0].cause


def test_a_reader_that_only_ran_into_its_own_timeouts_was_not_told() -> None:
    assert kind("Q18", cut(toward="role").later(4 * S).ends("timeout")) == "no-error"


def test_a_reader_told_of_something_else_was_not_told() -> None:
    assert kind("Q18", told(cut(), 2.5, "error")) == "no-error"


def test_a_gap_before_the_word_is_lost() -> None:
    tape = does(Tape().sent(0).sent(1).sent(2).gets(0).gets(2).waits(), "cut", toward="role")
    assert kind("Q18", tape.later(S).ends("closed")) == "lost"


def test_a_writer_that_accepts_messages_for_nobody_was_not_told() -> None:
    for outcome in ("ok", "timeout"):
        tape = cut(toward="peer").later(4 * S).sent(1, outcome)
        assert kind("Q18", tape) == "no-error"


def test_a_send_in_the_silence_may_be_accepted_and_the_next_one_tells() -> None:
    tape = cut(toward="peer").sent(1).later(4 * S).sent(2, "peer-died")
    assert found("Q18", tape) == []


def test_the_writer_s_own_cut_is_its_readers_the_other_way_round() -> None:
    tape = cut(role="writer", toward="role").later(4 * S).sent(1)
    assert kind("Q18", tape) == "no-error"
    tape = cut(role="writer", toward="peer").later(4 * S).ends("timeout")
    assert kind("Q18", tape) == "no-error"


def test_a_half_open_connection_is_not_mended_by_a_heal() -> None:
    tape = does(does(Tape().sent(0).gets(0).waits(), "half-open", toward="role"), "heal")
    assert kind("Q18", tape.later(12 * S).ends("timeout")) == "no-error"


def test_a_cut_that_nobody_was_asked_about_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        found("Q18", cut().later(9 * S))


# -- deaths, from afar ----------------------------------------------------------------------


def test_a_missing_tail_dies_with_its_writer_and_a_gap_does_not() -> None:
    tape = Tape().sent(0).sent(1).sent(2).kills("writer")
    assert found("Q6", Tape().sent(0).sent(1).kills("writer").gets(0).fails("peer-died")) == []
    assert kind("Q6", tape.gets(0).gets(2).fails("peer-died")) == "lost"
    local = Tape().sent(0).sent(1).kills("writer").gets(0).fails("peer-died")
    assert kind("Q6", local, remote=0) == "lost"
