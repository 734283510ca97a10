"""Q17 on tapes: a false claim is refused by the end of its handshake."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Attach, Close, Make, Message, Ready, Send

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
    assert "rank 7 of a queue with 1 reader and was told of no error" in found.cause


def test_a_claim_that_fails_in_its_handshake_is_held() -> None:
    tape = _made().ordered("reader-0", "attach").ordered("reader-0", "ready", "timeout")
    assert judged("Q17", tape, Make(), _CLAIM, Ready()).violations == []


def test_a_claim_that_nobody_minded_before_the_next_is_let_in() -> None:
    tape = _made().ordered("reader-0", "attach").ordered("reader-0", "attach")
    assert convicted("Q17", tape, Make(), _CLAIM, Attach()).kind == "no-error"


_TWICE = (Make(), Attach(("reader-0",)), Attach(("reader-1",), rank=0), Ready())


def _both_attached() -> Tape:
    return _made().ordered("reader-0", "attach").ordered("reader-1", "attach")


def test_a_rank_that_two_readers_have_is_no_error_told_to_either() -> None:
    tape = _both_attached().ordered("reader-0", "ready").ordered("reader-1", "ready")
    found = convicted("Q17", tape, *_TWICE, readers=2)
    assert found.kind == "no-error"
    assert "reader-0 and reader-1 both attached as rank 0" in found.cause


@pytest.mark.parametrize(("first", "second"), [("reader-0", "reader-1"), ("reader-1", "reader-0")])
def test_whichever_of_two_claimants_is_refused_the_rank_has_one_reader(
    first: str, second: str
) -> None:
    tape = _both_attached().ordered(first, "ready").ordered(second, "ready", "refused")
    assert judged("Q17", tape, *_TWICE, readers=2).violations == []


def test_two_claimants_are_told_the_same_whether_one_of_them_hangs_or_not() -> None:
    tape = _both_attached().ordered("reader-0", "ready").ordered("reader-1", "ready")
    hung = _both_attached().tell("reader-0", "begin", op="ready").ordered("reader-1", "ready")
    causes = {
        (v.kind, v.cause)
        for each in (tape, hung.hangs("reader-0", "ready"))
        for v in judged("Q17", each, *_TWICE, readers=2).violations
    }
    assert len(causes) == 1


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


_AGAIN = (Make(), Attach(), Ready(), Send([Message(repeat=2)]), Close(("reader-0",)), Attach())


def _attached_again(outcome: str = "ok", **how: object) -> Tape:
    tape = _made().ordered("reader-0", "attach").ordered("reader-0", "ready")
    tape.sent(0).sent(1).gets(0).gets(1).ordered("reader-0", "close")
    tape.tell("reader-0", "begin", op="attach")
    return tape.tell("reader-0", "end", op="attach", outcome=outcome, **how)


class TestASecondAttachment:
    def test_that_is_refused_is_right(self) -> None:
        assert judged("Q17", _attached_again("refused"), *_AGAIN).violations == []

    def test_that_gets_what_is_sent_from_then_on_is_right(self) -> None:
        tape = _attached_again().sent(2).sent(3).gets(2).gets(3).fails("timeout")
        assert judged("Q17", tape, *_AGAIN).violations == []

    def test_that_is_told_of_an_error_later_is_right(self) -> None:
        tape = _attached_again().sent(2).sent(3, "peer-died").gets(2).fails("closed")
        assert judged("Q17", tape, *_AGAIN).violations == []

    @pytest.mark.parametrize(
        ("arrived", "kind", "words"),
        [
            ((1, 2, 3), "duplicate", "received message 1, which was sent before"),
            ((2, 2, 3), "duplicate", "received message 2 a second time"),
            ((3, 2), "reordered", "received message 2 after 3"),
            ((3,), "lost", "never got 1 message sent after that, first message 2"),
            ((), "lost", "never got 2 messages sent after that, first message 2"),
        ],
    )
    def test_that_gets_anything_else_is_wrong(
        self, arrived: tuple[int, ...], kind: str, words: str
    ) -> None:
        tape = _attached_again().sent(2).sent(3)
        for seq in arrived:
            tape.gets(seq)
        found = convicted("Q17", tape.fails("timeout"), *_AGAIN)
        assert (found.kind, found.cause) == (
            kind,
            f"reader-0 attached again, was not refused, and {words}",
        )

    def test_that_gets_torn_bytes_is_wrong(self) -> None:
        tape = _attached_again().sent(2).gets(2, digest="other").fails("timeout")
        assert convicted("Q17", tape, *_AGAIN).kind == "wrong-data"

    def test_that_fails_by_accident_should_say_why(self) -> None:
        tape = _attached_again("error", error="AttributeError: 'NoneType' has no attribute 'x'")
        found = convicted("Q17", tape, *_AGAIN)
        assert (found.kind, found.level) == ("no-error", "SHOULD")

    def test_that_hangs_is_wrong(self) -> None:
        tape = _attached_again().sent(2).waits().hangs("reader-0", "receive")
        assert convicted("Q17", tape, *_AGAIN).kind == "hang"

    def test_that_was_never_made_says_nothing(self) -> None:
        tape = _made().ordered("reader-0", "attach").ordered("reader-0", "close")
        with pytest.raises(Inconclusive, match="nobody attached a second time"):
            judged("Q17", tape, *_AGAIN)
