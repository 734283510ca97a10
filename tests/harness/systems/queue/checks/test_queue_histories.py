"""The judge of a queue's histories, of many parties at once (H1)."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive


def _two_sent() -> Tape:
    return Tape().sent(0).sent(1)


def test_a_life_that_could_have_been_is_counted() -> None:
    found = judged("H1", _two_sent().gets(0).fails("timeout", after=0.02, timeout=0.02).gets(1))
    assert found.violations == []
    assert found.counts["messages"] == 2
    assert found.counts["operations"] == 5
    assert found.counts["states"] == 3


@pytest.mark.parametrize(
    ("tape", "kind", "words"),
    [
        (_two_sent().gets(0).gets(0), "duplicate", "message 0 a second time"),
        (_two_sent().gets(1).gets(0), "reordered", "message 1 before message 0"),
        (_two_sent().gets(1), "lost", "which never arrived"),
        (_two_sent().gets(0, digest="other"), "wrong-data", "different from what was sent"),
        (Tape().sent(0, "timeout", s=0.05).gets(0), "wrong-data", "whose send had ended with"),
        (Tape().sent(0, "error").sent(1).gets(1), "lost", "no party was gone: error"),
        (_two_sent().fails("error"), "lost", "receive raised"),
        (_two_sent().fails("peer-died"), "lost", "no party was gone: peer-died"),
    ],
    ids=lambda each: each.replace(" ", "-")[:24] if isinstance(each, str) else "",
)
def test_what_could_not_have_been_is_told(tape: Tape, kind: str, words: str) -> None:
    found = convicted("H1", tape)
    assert found.kind == kind
    assert words in found.cause


def test_a_message_cannot_come_before_it_is_sent() -> None:
    tape = Tape().waits().tell("reader-0", "got", outcome="ok", seq=0, digest="d0", s=0.001)
    found = convicted("H1", tape.sent(0))
    assert found.kind == "wrong-data"
    assert found.cause == "reader-0 had received message 0 before its send began"


def test_a_receive_may_time_out_until_a_message_has_been_there_for_a_while() -> None:
    soon = Tape().waits(timeout=0.2).sent(0).later(90).ends("timeout", s=0.2)
    assert judged("H1", soon).violations == []
    late = Tape().sent(0).later(150).fails("timeout", after=0.0, timeout=0.0)
    found = convicted("H1", late)
    assert found.kind == "starved"
    assert "took nothing, though message 0 had been published" in found.cause


def test_a_send_may_time_out_while_no_slot_is_free() -> None:
    full = _two_sent().sent(2, "timeout", s=0.4)  # there are two slots
    assert judged("H1", full).violations == []
    free = _two_sent().gets(0).later(150).sent(2, "timeout", s=0.0)
    found = convicted("H1", free)
    assert found.kind == "starved"
    assert found.cause == "message 2 (bytes, 64 bytes) found no room, and a slot was free"


def test_a_death_explains_failures_once_all_is_read() -> None:
    told = _two_sent().gets(0).gets(1).kills("writer").fails("peer-died")
    assert judged("H1", told).violations == []
    found = convicted("H1", _two_sent().gets(0).kills("writer").fails("peer-died"))
    assert found.cause.startswith("reader-0 was told of the writer's end before message 1")
    dead = Tape().kills("reader-0").sent(0, "peer-died")
    assert judged("H1", dead).violations == []


def test_a_message_that_cannot_be_decoded_fails_one_receive() -> None:
    tape = Tape().sent(0, form="undecodable").sent(1).fails("error").gets(1)
    assert judged("H1", tape).violations == []
    tape = Tape().sent(0, form="unencodable").sent(1).gets(1)
    assert convicted("H1", tape).kind == "lost"
    assert judged("H1", Tape().sent(0, "error", form="unencodable")).violations == []


def test_a_deadline_is_kept() -> None:
    found = convicted("H1", Tape().fails("timeout", after=0.5, timeout=0.05))
    assert found.kind == "late"


def test_what_is_held_stays_as_it_came() -> None:
    tape = Tape().sent(0).gets(0).tell("reader-0", "recheck", seq=0, same=False, digest="x")
    assert convicted("H1", tape).kind == "wrong-data"


def test_a_program_that_waited_for_a_party_at_rest_shows_nothing() -> None:
    tape = _two_sent().gets(0).sent(2).sends(3).hangs("writer", "send")
    with pytest.raises(Inconclusive, match="not told to go on"):
        judged("H1", tape)
