"""Judges of the ring: transitions, capacity, who unlinks (R1, R4, R8)."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import RingAttach

# -- R1 -------------------------------------------------------------------------------------


def _lap(tape: Tape) -> Tape:
    for role, flag, value in [
        ("writer", 0, 0),
        ("writer", 1, 0),
        ("writer", 2, 0),
        ("writer", 0, 1),
        ("reader-1", 2, 1),
        ("reader-0", 1, 1),
    ]:
        tape.stores(role, 0, flag, value)
    return tape


def test_two_laps_as_published_are_held() -> None:
    finding = judged("R1", _lap(_lap(Tape())), readers=2)
    assert finding.violations == []
    assert finding.counts == {"transitions": 12}


def test_r1_without_a_recorded_store_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("R1", Tape().sent(0).gets(0), readers=2)


@pytest.mark.parametrize(
    ("role", "flag", "value", "why"),
    [
        ("writer", 0, 0, "writer may only go"),
        ("reader-0", 2, 1, "own flag only"),
        ("reader-0", 1, 0, "a reader may only go"),
        ("reader-0", 0, 0, "own flag only"),
    ],
)
def test_a_move_outside_the_table_names_role_slot_and_cases(
    role: str, flag: int, value: int, why: str
) -> None:
    tape = Tape().stores("writer", 0, 0, 1).stores(role, 0, flag, value)
    found = convicted("R1", tape, readers=2)
    assert found.kind == "bad-transition"
    assert f"{role} moved slot 0 from case 2" in found.cause
    assert why in found.cause


def test_stores_are_judged_by_their_numbers_not_by_their_times() -> None:
    tape = Tape()
    tape.tell("reader-0", "store", turn=1, slot=0, flag=1, value=1)
    tape.tell("writer", "store", turn=0, slot=0, flag=0, value=1)
    assert judged("R1", tape).violations == []


def test_slots_are_apart() -> None:
    tape = Tape().stores("writer", 0, 0, 1).stores("writer", 1, 0, 1).stores("reader-0", 1, 1, 1)
    assert judged("R1", tape).violations == []


# -- R4 -------------------------------------------------------------------------------------


def test_as_many_unread_messages_as_slots_are_held() -> None:
    tape = Tape().sent(0).sent(1).sent(2, "timeout").gets(0).gets(1)
    assert judged("R4", tape).violations == []


def test_a_message_accepted_into_a_full_ring_is_a_bad_transition() -> None:
    tape = Tape().sent(0).sent(1).sent(2).gets(0).gets(1).gets(2)
    found = convicted("R4", tape)
    assert found.kind == "bad-transition"
    for word in ("message 2", "2 messages unread", "reader-0", "2 slots"):
        assert word in found.cause


def test_a_reader_inside_its_call_may_have_freed_its_slot_already() -> None:
    tape = Tape().sent(0).sent(1).waits().sent(2).gets(0).gets(1).gets(2)
    assert judged("R4", tape).violations == []


def test_a_message_overwritten_before_it_was_read_is_wrong_data_or_lost() -> None:
    assert convicted("R4", Tape().sent(0).gets(0, digest="later")).kind == "wrong-data"
    assert convicted("R4", Tape().sent(0).sent(1).gets(1)).kind == "lost"


def test_r4_is_inconclusive_where_nothing_arrived() -> None:
    with pytest.raises(Inconclusive):
        judged("R4", Tape().sent(0, "timeout"))


def test_a_writer_that_goes_on_without_a_dead_reader_overwrites_nobodys_slot() -> None:
    tape = Tape().kills("reader-1")
    for seq in range(4):
        tape.sent(seq).gets(seq, "reader-0")
    assert judged("R4", tape, readers=2).violations == []


# -- R8 -------------------------------------------------------------------------------------


def _segment(tape: Tape, role: str, act: str, pid: int, name: str = "seg") -> Tape:
    return tape.tell(role, "segment", act=act, name=name, pid=pid)


def test_one_unlink_by_the_creator_is_held() -> None:
    tape = _segment(_segment(Tape(), "writer", "create", 10), "writer", "unlink", 10)
    finding = judged("R8", tape)
    assert finding.violations == []
    assert finding.counts == {"names": 1}


def test_an_unlink_by_a_reader_is_a_bad_transition() -> None:
    tape = _segment(_segment(Tape(), "writer", "create", 10), "reader-0", "unlink", 11)
    found = convicted("R8", tape)
    assert found.kind == "bad-transition"
    assert "reader-0 unlinked the segment" in found.cause


def test_an_unlink_by_a_forks_copy_is_told_as_one() -> None:
    tape = _segment(Tape(), "writer", "create", 10).tell("writer", "forked-copy", pid=12)
    assert "a fork's copy" in convicted("R8", _segment(tape, "writer", "unlink", 12)).cause


def test_a_second_unlink_is_a_bad_transition() -> None:
    tape = _segment(Tape(), "writer", "create", 10)
    _segment(_segment(tape, "writer", "unlink", 10), "writer", "unlink", 10)
    assert "unlinked 2 times" in convicted("R8", tape).cause


@pytest.mark.parametrize("how", ["missing", "small"])
def test_a_bad_segment_must_raise(how: str) -> None:
    step = RingAttach("missing" if how == "missing" else "small")
    found = convicted("R8", Tape().ordered("reader-0", "ring-attach", "ok"), step)
    assert found.kind == "no-error"
    assert judged("R8", Tape().ordered("reader-0", "ring-attach", "error"), step).violations == []


def test_an_accident_of_the_code_is_no_clear_error() -> None:
    step = RingAttach("missing")

    def ends(error: str) -> Tape:
        how = {"op": "ring-attach", "outcome": "error", "error": error}
        return Tape().tell("reader-0", "begin", op="ring-attach").tell("reader-0", "end", **how)

    found = convicted("R8", ends("AttributeError: no attribute 'x' (a.py:7)"), step)
    assert (found.kind, found.level) == ("no-error", "SHOULD")
    assert "AttributeError" in found.cause
    clear = ends("FileNotFoundError: /dev/shm/psm_1 (a.py:7)")
    assert judged("R8", clear, step).violations == []


def test_after_the_creators_death_anybody_may_unlink() -> None:
    tape = _segment(Tape(), "writer", "create", 10)
    tape.tell("director", "intent", fault="kill", target="writer")
    tape.tell("director", "exit", target="writer", pid=10, signal=9)
    assert judged("R8", _segment(tape, "reader-0", "unlink", 11)).violations == []


def test_a_name_used_twice_is_unlinked_twice() -> None:
    tape = Tape()
    for _ in range(2):
        _segment(_segment(tape, "writer", "create", 10), "writer", "unlink", 10)
    assert judged("R8", tape).violations == []
