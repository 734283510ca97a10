"""Judges of delivery: R2, R3, R6, R7, Q1 to Q4, Q13, Q14."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Close

_ALL = ("R3", "Q1", "Q14")
_WHOLE = ("R2", *_ALL, "Q2", "Q3", "Q4")


def _three(mutate: bool = False) -> Tape:
    tape = Tape()
    for seq in range(3):
        tape.sent(seq, size=10 + seq)
        if mutate:
            tape.mutated(seq)
    return tape


@pytest.mark.parametrize("id", ["R2", *_ALL, "R7", "Q2", "Q4", "Q13"])
def test_every_message_whole_once_in_order_is_held(id: str) -> None:
    finding = judged(id, _three().gets(0).gets(1).gets(2))
    assert finding.violations == []
    assert finding.counts["messages"] == 3


@pytest.mark.parametrize("id", ["R2", *_ALL, "R7", "Q2", "Q4", "Q13"])
def test_nothing_that_arrives_is_never_held(id: str) -> None:
    try:
        found = judged(id, Tape().sent(0, "timeout")).violations
    except Inconclusive:
        return
    assert found


@pytest.mark.parametrize("id", _WHOLE)
def test_a_torn_message_is_wrong_data_by_its_number_and_reader(id: str) -> None:
    found = convicted(id, _three(mutate=id == "Q3").gets(0).gets(1, digest="torn").gets(2))
    assert found.kind == "wrong-data"
    assert "message 1" in found.cause
    assert "reader-0" in found.cause


@pytest.mark.parametrize(
    "id",
    [
        "R7",
        "Q13",
    ],
)
def test_a_torn_message_is_wrong_data_for_failures_and_threads_too(id: str) -> None:
    tape = _three().gets(0).gets(1, digest="torn").gets(2)
    assert convicted(id, tape).kind == "wrong-data"


@pytest.mark.parametrize("id", [*_ALL, "R7", "Q2", "Q4"])
@pytest.mark.parametrize(
    ("arrivals", "kind"),
    [([0, 2], "lost"), ([0, 1], "lost"), ([0, 1, 1, 2], "duplicate"), ([0, 2, 1], "reordered")],
)
def test_lost_repeated_and_shifted_messages_are_told_apart(
    id: str, arrivals: list[int], kind: str
) -> None:
    tape = _three()
    for seq in arrivals:
        tape.gets(seq)
    assert convicted(id, tape).kind == kind


@pytest.mark.parametrize("id", [*_ALL, "R7", "Q2", "Q4"])
def test_a_loss_at_one_of_two_readers_names_that_reader(id: str) -> None:
    tape = _three()
    for seq in range(3):
        tape.gets(seq, "reader-0")
    tape.gets(0, "reader-1").gets(1, "reader-1")
    found = convicted(id, tape, readers=2)
    assert found.kind == "lost"
    assert "reader-1" in found.cause


@pytest.mark.parametrize("id", [*_ALL, "R7", "Q4", "Q2", "Q13"])
def test_a_hang_is_a_hang(id: str) -> None:
    tape = Tape().sent(0).gets(0).waits().hangs("reader-0", "receive")
    assert convicted(id, tape).kind == "hang"


@pytest.mark.parametrize("id", _ALL)
def test_a_message_that_could_not_be_sent_is_lost(id: str) -> None:
    found = convicted(id, Tape().sent(0).gets(0).sent(1, "error"))
    assert found.kind == "lost"
    assert "message 1" in found.cause


@pytest.mark.parametrize("id", _ALL)
def test_a_send_that_timed_out_cleanly_loses_nothing(id: str) -> None:
    """Two slots, and a reader that does not receive: the third message has no room."""
    tape = Tape().sent(0).sent(1).sent(2, "timeout", s=5.0).gets(0).gets(1)
    assert judged(id, tape).violations == []


@pytest.mark.parametrize("id", _ALL)
def test_a_timeout_beside_a_reader_that_is_stopped_is_clean(id: str) -> None:
    tape = Tape().sent(0).gets(0).sent(1).waits()
    tape.tell("director", "fault", fault="stop", target="reader-0").sent(2, "timeout", s=5.0)
    tape.tell("director", "fault", fault="continue", target="reader-0").gets(1)
    assert judged(id, tape).violations == []


@pytest.mark.parametrize("id", _ALL)
def test_a_timed_out_send_is_blamed_on_the_reader_that_sleeps_beside_a_message(id: str) -> None:
    tape = Tape().sent(0).gets(0).gets(0, "reader-1").waits().waits("reader-1").sent(1)
    found = convicted(id, tape.gets(1, "reader-1").sent(2, "timeout", s=5.0), readers=2)
    assert found.kind == "starved"
    assert "reader-0 sleeps in receive beside 1 unread message" in found.cause
    assert "reader-1" not in found.cause


@pytest.mark.parametrize("id", _ALL)
def test_a_timed_out_send_to_readers_that_took_everything_gets_no_room_back(id: str) -> None:
    tape = Tape().sent(0).sent(1).gets(0).gets(1).waits().sent(2, "timeout", s=5.0)
    found = convicted(id, tape)
    assert found.kind == "starved"
    assert "message 2" in found.cause
    assert "every reader waits in receive and has taken all 2 messages" in found.cause


@pytest.mark.parametrize("id", _ALL)
def test_readers_that_gave_up_beside_a_stuck_send_have_done_what_they_could(id: str) -> None:
    tape = Tape().sent(0).sent(1).gets(0).gets(1).waits().sends(2).later(4990).ends("timeout")
    tape.later(20).tell("writer", "sent", seq=2, outcome="timeout", s=5.01)
    assert convicted(id, tape).kind == "starved"


@pytest.mark.parametrize("id", _ALL)
def test_a_reader_that_closed_and_is_waited_for_is_named(id: str) -> None:
    tape = Tape().sent(0).gets(0, "reader-1").ordered("reader-0", "close").sent(1)
    tape.gets(1, "reader-1").sent(2, "timeout", s=5.0)
    found = convicted(id, tape, Close(("reader-0",)), readers=2)
    assert found.kind == "starved"
    assert "reader-0, which closed its end, has taken 0 of 2 messages" in found.cause


@pytest.mark.parametrize("op", ["make", "attach", "ready"])
def test_a_queue_that_cannot_be_built_where_nothing_is_wrong_is_violated(op: str) -> None:
    found = convicted("Q14", Tape().ordered("writer", op, "error"))
    assert f"writer's {op} failed" in found.cause


def test_a_queue_that_cannot_be_built_is_not_the_absence_of_an_error() -> None:
    assert convicted("Q14", Tape().ordered("writer", "make", "error")).kind == "lost"


def test_bytes_that_the_sender_wrote_later_are_blamed_on_the_callers_memory() -> None:
    tape = Tape().sent(0, form="array", size=5000).mutated(0).gets(0, digest="changed0")
    found = convicted("Q3", tape)
    assert found.kind == "wrong-data"
    assert "sends from the caller's memory" in found.cause


@pytest.mark.parametrize(
    "id",
    [
        "Q2",
        "R2",
        "R3",
        "R4",
    ],
)
def test_bytes_that_the_sender_wrote_later_break_q3_alone(id: str) -> None:
    tape = Tape().sent(0, form="array", size=500).mutated(0).gets(0, digest="changed0")
    assert judged(id, tape).violations == []


def test_q3_is_inconclusive_where_nothing_was_changed_or_no_changed_object_arrived() -> None:
    for tape in (Tape().sent(0).gets(0), Tape().sent(0).mutated(0)):
        with pytest.raises(Inconclusive):
            judged("Q3", tape)


def test_q3_says_which_message_was_not_taken() -> None:
    with pytest.raises(
        Inconclusive, match=r"message 0 \(array, 9000 bytes\) was not sent: timeout"
    ):
        judged("Q3", Tape().sent(0, "timeout", form="array", size=9000, s=5.0))


def test_q3_counts_the_changed_objects_that_arrived() -> None:
    tape = Tape().sent(0).mutated(0).sent(1).gets(0).gets(1)
    assert judged("Q3", tape).counts == {"messages": 1}


def test_r6_is_held_while_what_a_reader_holds_stays_the_same() -> None:
    tape = Tape().sent(0).gets(0).tell("reader-0", "recheck", seq=0, same=True)
    assert judged("R6", tape).violations == []


def test_r6_names_the_form_the_message_and_its_holder() -> None:
    tape = Tape().sent(3, form="tensor").gets(3).tell("reader-0", "recheck", seq=3, same=False)
    found = convicted("R6", tape)
    assert found.kind == "wrong-data"
    assert "the tensor of message 3 that reader-0 holds" in found.cause
    assert "slot" not in found.cause  # a target may have none


def test_r6_tells_the_senders_memory_from_the_queues() -> None:
    tape = Tape().sent(3, form="tensor").mutated(3).gets(3)
    shared = tape.tell("reader-0", "recheck", seq=3, same=False, digest="changed3")
    cause = convicted("R6", shared).cause
    assert "after its sender had changed the object: they share its memory" in cause


def test_r7_needs_an_unencodable_message_to_be_refused() -> None:
    found = convicted("R7", Tape().sent(0, form="unencodable").sent(1).gets(1))
    assert found.kind == "no-error"


def test_r7_lets_an_unencodable_message_be_refused_without_a_trace() -> None:
    tape = Tape().sent(0).sent(1, "error", form="unencodable").sent(2).gets(0).gets(2)
    assert judged("R7", tape).violations == []


def test_r7_sees_an_undecodable_message_that_was_skipped_in_silence() -> None:
    tape = Tape().sent(0).sent(1, form="undecodable").sent(2).gets(0).gets(2)
    assert convicted("R7", tape).kind == "lost"


def test_q4_lets_a_message_beyond_a_limit_be_refused() -> None:
    tape = Tape().sent(0).sent(1, "refused", form="buffers", size=9000).sent(2).gets(0).gets(2)
    finding = judged("Q4", tape)
    assert finding.violations == []
    assert finding.counts["refused"] == 1


def test_q4_sees_a_refused_message_that_arrived_all_the_same() -> None:
    tape = Tape().sent(0).sent(1, "refused").gets(0).gets(1)
    assert convicted("Q4", tape).kind == "wrong-data"


@pytest.mark.parametrize("id", [*_ALL, "R2", "R7", "Q2", "Q4"])
def test_a_message_that_arrives_after_its_send_had_failed_is_called_that(id: str) -> None:
    """Half of it had left when the send gave up, and the rest followed later."""
    tape = Tape().sent(0).gets(0).sent(1, "timeout", s=5.0).gets(1)
    found = judged(id, tape).violations
    assert all("never published" not in each.cause for each in found)
    if id != "R2":  # which judges bytes, and these are whole
        cause = found[0].cause
        assert "reader-0 received message 1, whose send had ended with timeout" in cause


def test_evidence_of_an_odd_arrival_shows_the_sends_of_what_its_cause_names() -> None:
    failed = Tape().sent(0, "timeout", s=5.0)
    skipped = Tape()
    twice = Tape().sent(0).gets(0)
    for seq in range(1, 12):
        failed.sent(seq)
        skipped.sent(seq - 1)
        twice.sent(seq)
    for seq in range(1, 12):
        failed.gets(seq)
        twice.gets(seq)
    late = convicted("R3", failed.gets(0)).evidence
    assert ("seq=0 outcome=timeout" in late[1], "seq=0" in late[-1]) == (True, True)
    again = convicted("R3", twice.gets(0)).evidence
    assert sum("got" in line and "seq=0" in line for line in again) == 2
    lost = convicted("R3", skipped.gets(0).gets(2)).evidence
    assert any("sent" in line and "seq=1" in line for line in lost)
    never = convicted("R3", Tape().sent(0).sent(1).sent(2).gets(0)).evidence
    assert any("sent" in line and "seq=1" in line for line in never)


def test_q4_does_not_take_a_timeout_of_a_small_message_for_a_refusal() -> None:
    tape = Tape().sent(0).gets(0).sent(1, "timeout", s=5.0).sent(2).gets(2)
    assert judged("Q4", tape).violations != []


def test_q4_does_not_let_a_small_message_be_refused() -> None:
    found = convicted("Q4", Tape().sent(0).gets(0).sent(1, "refused").sent(2).gets(2))
    assert (found.kind, "message 1" in found.cause) == ("lost", True)


@pytest.mark.parametrize("id", ["R2", "R3", "R4", "Q2", "Q13"])
def test_a_message_its_sender_changed_later_can_still_be_torn(id: str) -> None:
    tape = Tape().sent(0, form="array", size=500).mutated(0).gets(0, digest="half")
    assert convicted(id, tape).kind == "wrong-data"


# -- R7 at the level of the ring ------------------------------------------------------------


def _fills(tape: Tape, *fates: str) -> Tape:
    for seq, fate in enumerate(fates):
        tape.sends(seq, form="ring")
        if fate == "ok":
            tape.tell("writer", "sent", seq=seq, outcome="ok", digest=f"crc{seq}")
    return tape


def _reads(tape: Tape, *found: int | None) -> Tape:
    """Ring reads, each of a slot by its number; None for one whose decode raised."""
    for seq in found:
        if seq is not None:
            tape.tell("reader-0", "got", outcome="ok", digest=f"crc{seq}")
        tape.tell("reader-0", "end", op="ring-read", outcome="error" if seq is None else "ok")
    return tape


@pytest.mark.parametrize(
    ("fates", "found"),
    [
        (["ok", "raises", "ok"], [0, 2]),
        (["ok", "ok", "ok"], [0, None, 2]),
        (["ok", "ok", "ok", "ok"], [None, None, 2, 3]),
    ],
)
def test_a_failed_slot_is_passed_over_once(fates: list[str], found: list[int | None]) -> None:
    assert judged("R7", _reads(_fills(Tape(), *fates), *found)).violations == []


@pytest.mark.parametrize(
    ("fates", "found", "word"),
    [
        (["ok", "raises", "ok"], [0, 1, 2], "after a fill that raised"),
        (["ok", "ok", "ok"], [0, None, 1, 2], "after a decode that raised"),
    ],
)
def test_a_failed_slot_that_comes_back_is_violated(
    fates: list[str], found: list[int | None], word: str
) -> None:
    violation = convicted("R7", _reads(_fills(Tape(), *fates), *found))
    assert violation.kind == "wrong-data"
    assert word in violation.cause


def test_a_ring_that_nobody_read_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("R7", _fills(Tape(), "raises"))


# -- Q13: several threads on one object -----------------------------------------------------


def test_threads_may_get_messages_in_any_order() -> None:
    assert judged("Q13", _three().gets(2).gets(0).gets(1)).violations == []


def test_a_message_got_by_two_threads_is_a_duplicate() -> None:
    found = convicted("Q13", _three().gets(0).gets(1).gets(1).gets(2))
    assert (found.kind, found.cause) == ("duplicate", "a reader received a message twice")


def test_whose_threads_they_were_is_not_guessed() -> None:
    """The case says whether the sender or the reader has two."""
    found = convicted("Q13", _three().gets(0).gets(2).fails("timeout"))
    assert found.cause == ("a message that was sent never reached a reader, and nobody was told")


def test_a_message_nobody_sent_is_wrong_data() -> None:
    assert convicted("Q13", _three().gets(0).gets(1).gets(2).gets(9)).kind == "wrong-data"


def test_a_loss_between_threads_is_excused_only_by_an_error() -> None:
    assert convicted("Q13", _three().gets(0).gets(2).fails("timeout")).kind == "lost"
    assert judged("Q13", _three().gets(0).gets(2).fails("busy")).violations == []


def test_who_is_told_of_a_death_where_nobody_died_was_misled() -> None:
    found = convicted("R3", Tape().sent(0).gets(0).fails("peer-died"))
    assert found.kind == "lost"
    assert "nobody had died" in found.cause


def test_who_is_told_to_go_need_not_take_everything() -> None:
    tape = Tape().sent(0).sent(1).gets(0).gets(1).gets(0, "reader-1")
    assert judged("R3", tape, Close(("reader-1",)), readers=2).violations == []
    assert convicted("R3", tape, Close(("writer",)), readers=2).kind == "lost"
