"""Rules on generated programs of a queue (H1): each convicts, and acquits what is proper."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers import CHECKERS
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.targets.shapes import QueueShape
from killpoint.verdict import Violation


def _remote(tape: Tape, *, slots: int = 2) -> list[Violation]:
    """What H1 finds where the only reader is remote."""
    shape = QueueShape(readers=1, chunk_bytes=1000, chunks=slots, remote=1)
    scenario = Scenario("H1/synthetic", ["H1"], [], shape=shape)
    return CHECKERS["H1"](scenario, tape.history(), Ledger()).violations


def _struck(tape: Tape, fault: str, target: str = "reader-0") -> Tape:
    """A fault of connections."""
    return tape.tell("director", "fault", fault=fault, target=target, toward="both")


def _full() -> Tape:
    """Two messages in two slots."""
    return Tape().sent(0).sent(1)


class TestSendsThatWait:
    def test_one_that_goes_on_with_the_slot_is_right(self) -> None:
        tape = _full().sends(2).later(2000).gets(0).later(90)
        assert (
            judged("H1", tape.tell("writer", "sent", seq=2, outcome="ok", s=2.1)).violations == []
        )

    def test_one_that_sleeps_on_until_its_deadline_is_late(self) -> None:
        tape = _full().sends(2).later(100).gets(0).later(2300)
        found = convicted("H1", tape.tell("writer", "sent", seq=2, outcome="ok", s=2.4))
        assert found.kind == "late"
        assert "was sent only 2301 ms after it could have been: a slot was free" in found.cause

    def test_a_busy_machine_explains_as_much_as_it_took(self) -> None:
        tape = _full().sends(2).later(100).gets(0).later(2300).late(1200)
        assert (
            judged("H1", tape.tell("writer", "sent", seq=2, outcome="ok", s=2.4)).violations == []
        )

    @pytest.mark.parametrize("outcome", ["ok", "timeout"])
    def test_a_reader_that_left_holds_nobody_up(self, outcome: str) -> None:
        tape = _full().gets(0).gets(0, "reader-1").gets(1).ordered("reader-1", "close")
        tape = tape.sent(2).sends(3).later(2400)
        late = tape.tell("writer", "sent", seq=3, outcome=outcome, s=2.4)
        found = convicted("H1", late, readers=2)
        assert found.kind == ("late" if outcome == "ok" else "starved")
        assert "nobody else but reader-1, who had left, was behind" in found.cause

    @pytest.mark.parametrize("outcome", ["ok", "timeout"])
    def test_a_reader_has_not_left_before_its_close_has_ended(self, outcome: str) -> None:
        """A close may take 2 s (Q11), and what it holds is free when it is done."""
        tape = _full().gets(0).gets(1).sends(2).tell("reader-1", "begin", op="close").later(1500)
        late = tape.tell("writer", "sent", seq=2, outcome=outcome, s=1.5)
        late.tell("reader-1", "end", op="close", outcome="ok", s=1.5)
        assert judged("H1", late, readers=2).violations == []

    def test_what_becomes_of_the_slots_of_the_dead_is_open(self) -> None:
        tape = _full().kills("reader-0").sends(2).later(2400)
        tape.tell("writer", "sent", seq=2, outcome="timeout", s=2.4)
        assert judged("H1", tape).violations == []

    def test_one_that_fails_since_all_have_left_is_right(self) -> None:
        left = Tape().sent(0).gets(0).ordered("reader-0", "close")
        assert judged("H1", left.sent(1, "closed")).violations == []
        one_of_two = Tape().sent(0).gets(0).ordered("reader-0", "close").sent(1, "closed")
        assert convicted("H1", one_of_two, readers=2).kind == "lost"


class TestTheWritersEnd:
    def test_it_is_told_once_all_is_read(self) -> None:
        tape = _full().ordered("writer", "close").gets(0).gets(1).fails("closed")
        assert judged("H1", tape).violations == []

    def test_it_is_not_told_before(self) -> None:
        found = convicted("H1", _full().ordered("writer", "close").gets(0).fails("closed"))
        assert found.kind == "lost"
        assert found.cause.startswith("reader-0 was told of the writer's end before message 1")

    def test_nobody_has_gone_until_the_close_begins(self) -> None:
        tape = _full().gets(0).gets(1).fails("closed").ordered("writer", "close")
        assert "no party was gone: closed" in convicted("H1", tape).cause

    def test_a_loss_may_be_told_by_its_number(self) -> None:
        tape = _full().ordered("writer", "close").gets(0)
        assert judged("H1", tape.fails("lost", error="1 message is lost")).violations == []
        tape = _full().ordered("writer", "close").gets(0)
        assert convicted("H1", tape.fails("lost", error="3 messages are lost")).kind == "lost"

    def test_a_close_that_took_its_time_on_a_harmed_link_has_tried(self) -> None:
        def tape(seconds: float) -> Tape:
            begun = _struck(_full().gets(0), "reset").ordered("writer", "close", s=seconds)
            return begun.fails("peer-died")

        assert _remote(tape(1.8)) == []
        (found,) = _remote(tape(0.01))
        assert found.cause.startswith("reader-0 was told of the writer's end before message 1")


class TestTheWritersDeath:
    """A killed writer takes with it what its own thread had not written to a socket yet (Q6)."""

    @pytest.mark.parametrize(("size", "expected"), [(64, ["lost"]), (2_000_000, [])])
    def test_only_what_is_in_a_slot_outlives_it(self, size: int, expected: list[str]) -> None:
        tape = Tape().sent(0, size=size).kills("writer").fails("peer-died")
        assert [each.kind for each in judged("H1", tape).violations] == expected

    @pytest.mark.parametrize(("size", "expected"), [(64, ["starved"]), (2_000_000, [])])
    def test_until_it_is_noticed_a_receive_may_wait(self, size: int, expected: list[str]) -> None:
        tape = Tape().sent(0, size=size).kills("writer").fails("timeout", after=1.5, timeout=1.5)
        assert [each.kind for each in judged("H1", tape).violations] == expected

    def test_what_was_due_before_it_still_is(self) -> None:
        tape = Tape().sent(0).sent(1, size=2_000_000).kills("writer").fails("peer-died")
        assert convicted("H1", tape).kind == "lost"

    def test_a_close_that_had_ended_before_it_had_delivered_all(self) -> None:
        tape = Tape().sent(0, size=2_000_000).ordered("writer", "close").kills("writer")
        assert convicted("H1", tape.fails("closed")).kind == "lost"

    def test_a_remote_reader_may_miss_the_last(self) -> None:
        assert _remote(Tape().sent(0).kills("writer").fails("peer-died")) == []


class TestHarmedLinks:
    def test_a_reset_is_no_death(self) -> None:
        (found,) = _remote(_struck(_full().gets(0).gets(1), "reset").later(1500).fails("peer-died"))
        assert found.cause == "reader-0's receive failed, and no party was gone: peer-died"

    def test_a_loss_is_told_with_what_was_done_to_the_connection(self) -> None:
        (found,) = _remote(_struck(_full(), "reset").gets(1))
        assert found.cause.endswith("it was skipped in silence (connections: reset)")

    @pytest.mark.parametrize("target", ["reader-0", "writer"])
    def test_a_message_may_take_until_the_link_is_back(self, target: str) -> None:
        def waits(ms: float) -> list[Violation]:
            tape = _struck(_struck(Tape(), "cut", target).sent(0).later(400), "heal", target)
            return _remote(tape.later(ms).fails("timeout", after=0.0, timeout=0.0))

        assert waits(2500) == []
        (found,) = waits(3500)
        assert found.kind == "starved"

    def test_a_send_may_wait_for_the_link_too(self) -> None:
        def waits(ms: float) -> list[Violation]:
            tape = _struck(Tape().sent(0).gets(0), "reset").later(ms)
            return _remote(tape.sends(1).tell("writer", "sent", seq=1, outcome="timeout", s=0.0))

        assert waits(2500) == []
        assert [found.kind for found in waits(3500)] == ["starved"]

    def test_a_deadline_holds_all_the_same(self) -> None:
        tape = _struck(Tape(), "reset").fails("timeout", after=0.5, timeout=0.05)
        assert [found.kind for found in _remote(tape)] == ["late"]


def test_a_reader_that_receives_on_after_a_failed_decode_gets_the_rest() -> None:
    tape = Tape().sent(0).sent(1, form="undecodable").sent(2)
    assert judged("H1", tape.gets(0).fails("error").gets(2)).violations == []
    twice = Tape().sent(0, form="undecodable").sent(1).fails("error").fails("error")
    assert convicted("H1", twice).kind == "duplicate"


def test_nothing_at_all_shows_nothing() -> None:
    shown: list[Any] = list(judged("H1", Tape().sent(0)).counts.values())
    assert shown[0] == 0
