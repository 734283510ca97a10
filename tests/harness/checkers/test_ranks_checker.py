"""Q17 on tapes: a false claim is refused by the end of its handshake."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Attach, Make, Message, Ready, Send

_CLAIM = Attach(("reader-0",), rank=7)


def _made() -> Tape:
    return Tape().ordered("writer", "make")


def test_a_refused_claim_is_held() -> None:
    tape = _made().ordered("reader-0", "attach", "refused").ordered("reader-0", "attach")
    tape.ordered("reader-0", "ready")
    assert judged("Q17", tape, Make(), _CLAIM, Attach()).violations == []


def test_a_claim_that_is_let_in_is_no_error_told() -> None:
    tape = _made().ordered("reader-0", "attach").ordered("reader-0", "ready")
    found = convicted("Q17", tape, Make(), _CLAIM, Ready())
    assert found.kind == "no-error"
    assert "rank 7 of a queue with 1 readers" in found.cause.replace(",", "")


def test_a_claim_that_fails_in_its_handshake_is_held() -> None:
    tape = _made().ordered("reader-0", "attach").ordered("reader-0", "ready", "timeout")
    assert judged("Q17", tape, Make(), _CLAIM, Ready()).violations == []


def test_a_claim_that_nobody_minded_before_the_next_is_let_in() -> None:
    tape = _made().ordered("reader-0", "attach").ordered("reader-0", "attach")
    assert convicted("Q17", tape, Make(), _CLAIM, Attach()).kind == "no-error"


def test_a_rank_that_another_has_is_named_so() -> None:
    tape = _made().ordered("reader-0", "attach").ordered("reader-1", "attach")
    tape.ordered("reader-1", "ready")
    steps = (Make(), Attach(("reader-0",)), Attach(("reader-1",), rank=0), Ready())
    assert "which another reader has" in convicted("Q17", tape, *steps, readers=2).cause


def test_a_reader_that_can_send_is_a_second_writer() -> None:
    stray = Send([Message()], role="reader-0")
    tape = _made().tell("reader-0", "send", seq=0, form="bytes", size=64, digest="d0")
    told = tape.tell("reader-0", "sent", seq=0, outcome="ok", s=0.1)
    assert "a reader, sent message 0" in convicted("Q17", told, Make(), stray).cause


def test_a_reader_that_may_not_send_is_held() -> None:
    stray = Send([Message()], role="reader-0")
    tape = _made().tell("reader-0", "send", seq=0, form="bytes", size=64, digest="d0")
    tape.tell("reader-0", "sent", seq=0, outcome="error", s=0.1).sent(1).gets(1)
    assert judged("Q17", tape, Make(), stray).violations == []


def test_a_play_without_a_claim_says_nothing() -> None:
    with pytest.raises(Inconclusive):
        judged("Q17", _made(), Make(), Attach())
