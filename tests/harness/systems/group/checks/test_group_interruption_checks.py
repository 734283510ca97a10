"""R9's judge in a group: a struck call was made for all, or for nobody."""

from __future__ import annotations

from typing import Any

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.scenario import Fault, Point

_STRIKE = Fault("raise", "rank-0", Point("send-to", line=3))


def _struck() -> GroupTape:
    tape = GroupTape()
    tape.tell("rank-0", "raised", how="injected", where="group.py:7 in send_obj")
    return tape


def _airs(tape: GroupTape, seq: int, outcome: str) -> GroupTape:
    about: dict[str, Any] = {"source": "rank-0", "seq": seq}
    tape.tell("rank-0", "broadcast", **about, digest=f"d{seq}")
    tape.tell("rank-0", "broadcast-done", **about, outcome=outcome, s=0.001)
    return tape


def _hears(tape: GroupTape, rank: int, *seqs: int) -> GroupTape:
    for seq in seqs:
        tape.tell(f"rank-{rank}", "broadcast", source="rank-0")
        found = {"seq": seq, "digest": f"d{seq}"}
        tape.tell(f"rank-{rank}", "broadcast-done", source="rank-0", outcome="ok", **found)
    tape.tell(f"rank-{rank}", "broadcast", source="rank-0")
    tape.tell(f"rank-{rank}", "broadcast-done", source="rank-0", outcome="closed")
    return tape


def _comes(tape: GroupTape, op: str, rank: int, seq: int = -1) -> GroupTape:
    tape.tell(f"rank-{rank}", op, seq=seq, digest=f"d{seq}")
    return tape


def _returns(tape: GroupTape, op: str, rank: int, outcome: str = "ok", *seqs: int) -> GroupTape:
    done = {"gather": "gathered", "barrier": "barrier-done"}[op]
    about = {"seqs": list(seqs), "digests": [f"d{seq}" for seq in seqs]}
    tape.tell(f"rank-{rank}", done, outcome=outcome, s=0.001, **about)
    return tape


@pytest.mark.parametrize("arrived", [(0, 1, 2), (0, 2)])
def test_a_struck_send_may_be_made_or_not(arrived: tuple[int, ...]) -> None:
    tape = _struck().posts(0, 1, 0).posts(0, 1, 1, "injected").posts(0, 1, 2)
    for seq in arrived:
        tape.takes(1, 0, seq)
    finding = group_judged("R9", tape.misses(1, 0, "closed"), _STRIKE)
    assert finding.violations == []
    assert finding.counts == {"exceptions": 1}


@pytest.mark.parametrize(
    ("arrived", "kind"),
    [((0, 1, 1, 2), "duplicate"), ((0, 1), "lost"), ((0, 2, 1), "reordered"), ((0, 9), "wrong-")],
)
def test_what_comes_of_it_is_judged_as_ever(arrived: tuple[int, ...], kind: str) -> None:
    tape = _struck().posts(0, 1, 0).posts(0, 1, 1, "injected").posts(0, 1, 2)
    for seq in arrived:
        tape.takes(1, 0, seq)
    found = group_convicted("R9", tape.misses(1, 0, "closed"), _STRIKE)
    assert found.kind.startswith(kind)
    assert "group.py:7" in found.cause


def test_an_object_that_arrives_altered_is_wrong_data() -> None:
    tape = _struck().posts(0, 1, 0, "injected").takes(1, 0, 0, digest="half")
    assert group_convicted("R9", tape, _STRIKE).kind == "wrong-data"


def test_the_next_call_must_work() -> None:
    tape = _struck().posts(0, 1, 0, "injected").posts(0, 1, 1, "busy")
    assert group_convicted("R9", tape, _STRIKE).kind == "lost"


def test_a_struck_broadcast_reaches_all_or_nobody() -> None:
    for there in ((0, 1), (1,)):
        tape = _airs(_airs(_struck(), 0, "injected"), 1, "ok")
        tape = _hears(_hears(tape, 1, *there), 2, *there)
        assert group_judged("R9", tape, _STRIKE).violations == []
    tape = _airs(_airs(_struck(), 0, "injected"), 1, "ok")
    tape = _hears(_hears(tape, 1, 0, 1), 2, 1)
    found = group_convicted("R9", tape, _STRIKE)
    assert found.kind == "lost"
    assert "reached rank-1, never rank-2" in found.cause


def _meeting(op: str, again: tuple[int, ...], seen: tuple[int, ...] = (0, 2, 3)) -> GroupTape:
    """Rank 0 is struck, comes again with object 2 for 0, and all come back."""
    tape = _returns(_comes(_struck(), op, 0, 0), op, 0, "injected")
    for rank, seq in ((0, 1), (1, 2), (2, 3)):
        _comes(tape, op, rank, seq)
    for rank in again:
        _returns(tape, op, rank, "ok", *seen)
    return tape


@pytest.mark.parametrize("seen", [(0, 2, 3), (1, 2, 3)])
def test_a_struck_gather_gives_what_was_given_before_or_after(seen: tuple[int, ...]) -> None:
    assert group_judged("R9", _meeting("gather", (0, 1, 2), seen), _STRIKE).violations == []


def test_a_gather_gives_nothing_that_a_rank_did_not_give() -> None:
    found = group_convicted("R9", _meeting("gather", (0, 1, 2), (7, 2, 3)), _STRIKE)
    assert found.kind == "wrong-data"


def test_all_come_back_from_one_gather_with_the_same() -> None:
    tape = _meeting("gather", (0, 1))
    assert group_convicted("R9", _returns(tape, "gather", 2, "ok", 1, 2, 3)).kind == "lost"


def test_all_come_back_from_a_struck_barrier_once() -> None:
    assert group_judged("R9", _meeting("barrier", (0, 1, 2)), _STRIKE).violations == []
    assert group_convicted("R9", _meeting("barrier", (0, 1)), _STRIKE).kind == "lost"


def test_nobody_comes_back_before_all_have_come() -> None:
    tape = _returns(_comes(_struck(), "barrier", 0), "barrier", 0)
    for rank in (1, 2):
        _returns(_comes(tape, "barrier", rank), "barrier", rank)
    assert group_convicted("R9", tape, _STRIKE).kind == "no-error"
