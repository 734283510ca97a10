"""Reading a history: what was sent, what arrived, and how the two differ."""

from __future__ import annotations

import pytest
from synthetic import Tape

from killpoint.systems.queue.record import got, mismatches, overflowing, sent, wrong_data


def test_a_message_keeps_its_form_size_digest_and_end() -> None:
    tape = Tape().sent(4, form="array", size=9).mutated(4)
    (message,) = sent(tape.history())
    assert (message.seq, message.form, message.size, message.digest) == (4, "array", 9, "d4")
    assert message.ok
    assert message.mutated == "changed4"


def test_a_send_that_never_returned_is_not_ok_and_has_no_end() -> None:
    (message,) = sent(Tape().sends(0).history())
    assert not message.ok
    assert message.ended is None


def test_a_receive_that_never_returned_is_a_call_of_its_own() -> None:
    calls = got(Tape().gets(0).waits().history(), "reader-0")
    assert [call.outcome for call in calls] == ["ok", "never returned"]


def test_calls_of_other_readers_are_not_mine() -> None:
    tape = Tape().gets(0, "reader-1").gets(7)
    assert [call.seq for call in got(tape.history(), "reader-0")] == [7]


def test_what_nobody_sent_is_wrong_data() -> None:
    ((reader, message, call),) = wrong_data(Tape().gets(3).history(), ["reader-0"])
    assert (reader, message, call.seq) == ("reader-0", None, 3)


def test_a_digest_that_differs_is_wrong_data() -> None:
    tape = Tape().sent(0).gets(0, digest="torn")
    ((_, message, _),) = wrong_data(tape.history(), ["reader-0"])
    assert message is not None
    assert message.seq == 0


@pytest.mark.parametrize(
    ("arrivals", "kind", "names"),
    [
        ([0, 1, 1, 2], "duplicate", "message 1"),
        ([0, 2, 1], "reordered", "message 2 before message 1"),
        ([0, 2], "lost", "before message 1"),
        ([0, 1], "lost", "first message 2"),
        ([], "lost", "first message 0"),
        ([0, 1, 2, 9], "wrong-data", "message 9"),
    ],
)
def test_arrivals_that_differ_are_told_by_kind_reader_and_message(
    arrivals: list[int], kind: str, names: str
) -> None:
    tape = Tape().sent(0).sent(1).sent(2)
    for seq in arrivals:
        tape.gets(seq)
    (found,) = mismatches(tape.history(), "reader-0")
    assert found.kind == kind
    assert "reader-0" in found.cause
    assert names in found.cause


def test_a_send_that_timed_out_may_not_arrive_law_x1() -> None:
    tape = Tape().sent(0).sent(1, "timeout").gets(0).gets(1)
    (found,) = mismatches(tape.history(), "reader-0")
    assert (found.kind, "message 1" in found.cause) == ("wrong-data", True)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_send_that_never_returned_may_arrive_or_not(arrives: bool) -> None:
    tape = Tape().sent(0).sends(1).gets(0)
    if arrives:
        tape.gets(1)
    assert mismatches(tape.history(), "reader-0") == []


def _two_threads(*arrivals: int | str) -> Tape:
    """Three messages; all of the calls that they arrive in begin before the first one ends."""
    tape = Tape().sent(0).sent(1, form="undecodable" if "error" in arrivals else "bytes").sent(2)
    for _ in arrivals:
        tape.waits()
    for each in arrivals:
        tape.ends(each) if isinstance(each, str) else _arrives(tape, each)
    return tape


def _arrives(tape: Tape, seq: int) -> Tape:
    """A receive ends that began earlier, though others began and ended since."""
    return tape.tell("reader-0", "got", outcome="ok", seq=seq, digest=f"d{seq}", s=0.001)


@pytest.mark.parametrize("arrivals", [[1, 0, 2], [2, 1, 0], ["error", 2, 0], [2, 0, "error"]])
def test_receives_of_two_threads_that_are_under_way_at_once_have_no_order(
    arrivals: list[int | str],
) -> None:
    assert mismatches(_two_threads(*arrivals).history(), "reader-0") == []


@pytest.mark.parametrize(
    ("arrivals", "kind"), [([2, 0], "lost"), ([1, 0, 1, 2], "duplicate"), ([1, 9, 0], "wrong-data")]
)
def test_receives_under_way_at_once_still_lose_repeat_and_invent_nothing(
    arrivals: list[int | str], kind: str
) -> None:
    (found,) = mismatches(_two_threads(*arrivals).history(), "reader-0")
    assert found.kind == kind


def test_a_receive_that_begins_after_all_others_ended_comes_after_them() -> None:
    tape = Tape().sent(0).sent(1).sent(2).waits().waits()
    _arrives(_arrives(tape, 2), 1).gets(0)
    (found,) = mismatches(tape.history(), "reader-0")
    assert (found.kind, "message 0 after" in found.cause) == ("reordered", False)


def test_sends_of_two_threads_that_are_under_way_at_once_have_no_order() -> None:
    tape = Tape().sends(0).sends(1)
    for seq in (0, 1):
        tape.tell("writer", "sent", seq=seq, outcome="ok", s=0.001)
    assert mismatches(tape.gets(1).gets(0).history(), "reader-0") == []


def test_an_optional_message_may_be_missing_in_the_middle_but_not_shift_the_rest() -> None:
    tape = Tape().sent(0).sent(1).sent(2).gets(0).gets(2).gets(1)
    (found,) = mismatches(tape.history(), "reader-0", optional=frozenset({1}))
    assert found.kind == "reordered"


def test_a_tail_may_be_missing_only_where_that_is_allowed() -> None:
    history = Tape().sent(0).sent(1).gets(0).history()
    assert mismatches(history, "reader-0", tail_may_miss=True) == []
    assert [found.kind for found in mismatches(history, "reader-0")] == ["lost"]


def test_a_timeout_between_two_messages_harms_nothing() -> None:
    tape = Tape().sent(0).gets(0).fails("timeout").sent(1).gets(1)
    assert mismatches(tape.history(), "reader-0") == []


def test_an_undecodable_message_is_raised_once_and_consumed() -> None:
    tape = Tape().sent(0).sent(1, form="undecodable").sent(2).gets(0).fails("error").gets(2)
    assert mismatches(tape.history(), "reader-0") == []


def test_an_undecodable_message_raised_again_is_a_duplicate() -> None:
    tape = Tape().sent(0, form="undecodable").sent(1).fails("error").fails("error")
    (found,) = mismatches(tape.history(), "reader-0")
    assert found.kind == "duplicate"
    assert "undecodable message 0 2 times" in found.cause


def test_an_undecodable_last_message_raised_again_is_a_duplicate() -> None:
    tape = Tape().sent(0).sent(1, form="undecodable").gets(0).fails("error").fails("error")
    assert [found.kind for found in mismatches(tape.history(), "reader-0")] == ["duplicate"]


def test_an_error_where_a_message_was_due_is_a_loss() -> None:
    tape = Tape().sent(0).fails("error", error="ValueError: odd")
    (found,) = mismatches(tape.history(), "reader-0")
    assert (found.kind, "ValueError: odd" in found.cause) == ("lost", True)


def test_an_error_where_only_a_message_in_flight_was_due_is_no_loss() -> None:
    tape = Tape().sent(0).sends(1).gets(0).fails("error", error="RuntimeError: writer gone")
    assert mismatches(tape.history(), "reader-0") == []


def test_a_send_that_an_injected_exception_left_may_have_arrived() -> None:
    tape = Tape().sent(0).sent(1, "injected").gets(0).gets(1)
    assert mismatches(tape.history(), "reader-0") == []


def test_the_evidence_of_a_loss_shows_the_hang_it_ended_in() -> None:
    tape = Tape().sent(0).waits().hangs("reader-0", "receive")
    (found,) = mismatches(tape.history(), "reader-0")
    assert any("hang" in line for line in found.evidence)


def test_only_a_message_that_is_surely_larger_than_a_slot_overflows() -> None:
    small, large, parts = sent(
        Tape().sent(0, size=999).sent(1, size=1000).sent(2, form="buffers", size=5000).history()
    )
    assert [overflowing(message, 1000) for message in (small, large, parts)] == [
        False,
        True,
        False,
    ]
