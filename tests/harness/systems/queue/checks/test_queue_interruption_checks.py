"""R9's judge: a struck call was made or was not, everywhere, and nothing else is harmed."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Close, Fault, Point

_STRIKE = Fault("raise", "writer", Point("send", line=3))


def _struck(role: str = "writer") -> Tape:
    return Tape().tell(role, "raised", how="injected", where="ring.py:7 in publish")


def _sends(seq: int, outcome: str = "injected") -> Tape:
    """A send that was struck between two others that were not."""
    tape = Tape().sent(seq - 1).sends(seq)
    tape.tell("writer", "raised", how="injected", where="ring.py:7 in publish")
    tape.tell("writer", "sent", seq=seq, outcome=outcome, s=0.001)
    return tape.sent(seq + 1)


def _reads(tape: Tape, *seqs: int, reader: str = "reader-0", last: str = "closed") -> Tape:
    for seq in seqs:
        tape.gets(seq, reader)
    return tape.fails(last, reader)


@pytest.mark.parametrize("arrived", [(0, 1, 2), (0, 2)])
def test_a_struck_send_may_be_made_or_not(arrived: tuple[int, ...]) -> None:
    finding = judged("R9", _reads(_sends(1), *arrived), _STRIKE)
    assert finding.violations == []
    assert finding.counts == {"exceptions": 1}


def test_nothing_is_said_where_nothing_was_raised() -> None:
    with pytest.raises(Inconclusive, match="1 exceptions were to strike, 0 did"):
        judged("R9", _reads(Tape().sent(0), 0), _STRIKE)


def test_a_struck_send_that_one_of_two_readers_has_is_half_done() -> None:
    tape = _reads(_reads(_sends(1), 0, 1, 2), 0, 2, reader="reader-1")
    found = convicted("R9", tape, _STRIKE, readers=2)
    assert found.kind == "lost"
    assert "reached reader-0 and never reader-1" in found.cause
    assert "ring.py:7" in found.cause


def test_a_reader_that_was_told_to_go_need_not_have_it() -> None:
    tape = _reads(_reads(_sends(1), 0, 1, 2), 0, reader="reader-1")
    assert judged("R9", tape, _STRIKE, Close(("reader-1",)), readers=2).violations == []


def test_a_struck_send_that_comes_twice_is_a_duplicate() -> None:
    assert convicted("R9", _reads(_sends(1), 0, 1, 1, 2), _STRIKE).kind == "duplicate"


def test_a_message_beside_the_struck_one_must_arrive() -> None:
    found = convicted("R9", _reads(_sends(1), 0, 1), _STRIKE)
    assert found.kind == "lost"
    assert "message 2" in found.cause


def test_a_message_after_the_struck_one_must_not_overtake() -> None:
    assert convicted("R9", _reads(_sends(1), 0, 2, 1), _STRIKE).kind == "reordered"


def test_a_struck_message_that_arrives_torn_is_wrong_data() -> None:
    tape = _sends(1).gets(0).gets(1, digest="half")
    assert convicted("R9", _reads(tape, 2), _STRIKE).kind == "wrong-data"


def test_a_call_that_came_back_well_although_struck_must_have_been_made() -> None:
    finding = judged("R9", _reads(_sends(1, "ok"), 0, 1, 2), _STRIKE)
    assert finding.counts == {"exceptions": 1, "swallowed": 1}
    assert convicted("R9", _reads(_sends(1, "ok"), 0, 2), _STRIKE).kind == "lost"


@pytest.mark.parametrize("outcome", ["busy", "error", "closed", "peer-died", "timeout"])
def test_the_next_send_must_work(outcome: str) -> None:
    tape = _sends(1)
    tape.sent(3, outcome)
    found = convicted("R9", _reads(tape, 0, 2), _STRIKE)
    assert found.kind == "lost"
    assert "message 3 failed after an exception had struck writer" in found.cause


@pytest.mark.parametrize("outcome", ["busy", "error", "peer-died", "lost", "cancelled"])
def test_a_receive_must_not_end_otherwise_than_by_the_end(outcome: str) -> None:
    assert convicted("R9", _reads(_sends(1), 0, 2, last=outcome), _STRIKE).kind == "lost"


def test_a_struck_receive_is_followed_by_its_message() -> None:
    tape = Tape().sent(0).sent(1).waits()
    tape.tell("reader-0", "raised", how="signal", where="ring.py:9 in claim").ends("injected")
    strike = Fault("interrupt", "reader-0", Point("receive", line=3))
    assert judged("R9", _reads(tape, 0, 1), strike).violations == []


def test_a_struck_receive_must_not_eat_its_message() -> None:
    tape = Tape().sent(0).sent(1).waits()
    tape.tell("reader-0", "raised", how="signal", where="ring.py:9 in claim").ends("injected")
    strike = Fault("interrupt", "reader-0", Point("receive", line=3))
    assert convicted("R9", _reads(tape, 1), strike).kind == "lost"


@pytest.mark.parametrize("op", ["make", "attach", "ready", "close"])
def test_what_was_struck_can_be_done_again_and_must_work_then(op: str) -> None:
    tape = _struck().ordered("writer", op, "injected").ordered("writer", op)
    strike = Fault("raise", "writer", Point("close", line=3))
    assert judged("R9", _reads(tape.sent(0), 0), strike).violations == []
    tape = _struck().ordered("writer", op, "injected").ordered("writer", op, "error")
    assert convicted("R9", _reads(tape.sent(0), 0), strike).kind == "lost"


def test_a_party_that_hangs_after_a_strike_is_a_hang() -> None:
    assert convicted("R9", _sends(1).gets(0).hangs("reader-0", "receive"), _STRIKE).kind == "hang"
