"""The judge of a group whose ranks have several calls under way at once (H2)."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.scenario import Fault
from killpoint.systems.group.record import calls


def _two_lanes(*, second_waits: float = 0.0, thread: int = 2) -> GroupTape:
    """Threads of rank 0 wait for ranks 1 and 2; both objects come, one thread sleeps on."""
    tape = GroupTape().asks(0, 1, 1).asks(0, 2, thread)
    tape.posts(2, 0, 7).gets(0, 2, thread, 7).posts(1, 0, 8)
    tape.later(second_waits)
    return tape.gets(0, 1, 1, 8)


def _one_lane(*seqs: int | None) -> GroupTape:
    """Threads of rank 0 wait for rank 1 at once, which has sent objects 0 and 1: what they get."""
    tape = GroupTape().posts(1, 0, 0).posts(1, 0, 1)
    for thread, _ in enumerate(seqs):
        tape.asks(0, 1, thread)
    for thread, seq in enumerate(seqs):
        tape.gets(0, 1, thread, seq, "ok" if seq is not None else "timeout")
    return tape


def _barrier_beside(ms: float) -> GroupTape:
    """Rank 0 waits at a barrier and for rank 1; all come to the barrier."""
    tape = GroupTape().asks(0, 1, 1).comes_in(0, 2).comes(1).comes(2)
    tape.goes(1).goes(2).later(ms)
    return tape.goes_from(0, 2, ms / 1000).posts(1, 0, 3).gets(0, 1, 1, 3)


def _gather_beside(ms: float) -> GroupTape:
    """The same at a gather."""
    tape = GroupTape().asks(0, 1, 1)
    tape.tell("rank-0", "gather", seq=0, size=64, digest="d0", thread=2)
    tape.gathers(1, 1, [0, 1, 2]).gathers(2, 2, [0, 1, 2]).later(ms)
    got = {"seqs": [0, 1, 2], "digests": ["d0", "d1", "d2"]}
    tape.tell("rank-0", "gathered", outcome="ok", s=ms / 1000, **got, thread=2)
    return tape.posts(1, 0, 3).gets(0, 1, 1, 3)


def _broadcast_beside(ms: float) -> GroupTape:
    """Rank 0 waits for a broadcast and an object of rank 1."""
    tape = GroupTape().asks(0, 1, 1).tell("rank-0", "broadcast", source="rank-1", thread=2)
    assert isinstance(tape, GroupTape)
    tape.airs(1, 0).hears(2, 1, 0).later(ms)
    found = {"seq": 0, "digest": "d0"}
    tape.tell("rank-0", "broadcast-done", source="rank-1", outcome="ok", s=1, **found, thread=2)
    return tape.posts(1, 0, 3).gets(0, 1, 1, 3)


def test_a_call_belongs_to_its_thread() -> None:
    first, second, *_ = calls(_two_lanes(second_waits=500).history())
    assert (first.thread, first.seq, second.thread, second.seq) == (1, 8, 2, 7)


@pytest.mark.parametrize(
    "tape",
    [
        _two_lanes(),
        _two_lanes(second_waits=900),
        _two_lanes(thread=0),
        _one_lane(0, 1),
        _one_lane(1, 0),
        _one_lane(None, 0, 1),
        _one_lane(1, None, 0),
        _barrier_beside(900),
        _gather_beside(900),
        _broadcast_beside(900),
        GroupTape()
        .asks(0, 1, 1)
        .asks(0, 2, 2)
        .gets(0, 1, 1, None, "timeout")
        .posts(2, 0, 0)
        .gets(0, 2, 2, 0),
    ],
    ids=[
        "two lanes",
        "soon after",
        "the first thread waits, too",
        "in the order of the calls",
        "in the other order",
        "one came too late for two",
        "one in the middle",
        "a barrier",
        "a gather",
        "a broadcast",
        "one runs out beside another",
    ],
)
def test_what_calls_at_once_can_have_seen_is_held(tape: GroupTape) -> None:
    assert group_judged("H2", tape).violations == []


@pytest.mark.parametrize(
    ("tape", "kind", "cause"),
    [
        (
            _two_lanes(second_waits=1500),
            "late",
            "rank-0's receive from rank-1 ended 1.50 s after it could:"
            " rank-0's receive from rank-2 waited, too",
        ),
        (_barrier_beside(1500), "late", "rank-0's barrier ended 1.5"),
        (_gather_beside(1500), "late", "rank-0's gather ended 1.5"),
        (_broadcast_beside(1500), "late", "rank-0's broadcast of rank-1 ended 1.5"),
        (_one_lane(0, 0), "duplicate", "object 0 came a second time"),
        (_one_lane(1, 1), "lost", "object 1 came, and never object 0"),
        (
            GroupTape()
            .posts(1, 0, 0)
            .posts(1, 0, 1)
            .asks(0, 1, 1)
            .gets(0, 1, 1, 1)
            .asks(0, 1, 2)
            .gets(0, 1, 2, 0),
            "reordered",
            "object 1 came before object 0",
        ),
        (
            GroupTape()
            .posts(1, 0, 0)
            .passes(500)
            .asks(0, 1, 1)
            .asks(0, 2, 2)
            .passes(500)
            .gets(0, 1, 1, None, "timeout")
            .posts(2, 0, 0)
            .gets(0, 2, 2, 0),
            "lost",
            "although object 0 was sent",
        ),
    ],
    ids=[
        "a thread sleeps on",
        "at a barrier",
        "at a gather",
        "in a broadcast",
        "one object for both",
        "one is left out",
        "one after the other",
        "one runs out beside another",
    ],
)
def test_what_calls_at_once_cannot_have_seen_is_told(
    tape: GroupTape, kind: str, cause: str
) -> None:
    found = group_convicted("H2", tape)
    assert found.kind == kind
    assert cause in found.cause


def test_a_late_call_is_shown_with_what_it_waited_for() -> None:
    shown = "\n".join(group_convicted("H2", _two_lanes(second_waits=1500)).evidence)
    assert "sent-to" in shown


def test_a_call_alone_may_be_slow() -> None:
    tape = GroupTape().asks(0, 1, 1).posts(1, 0, 0).passes(1500).gets(0, 1, 1, 0)
    assert group_judged("H2", tape).violations == []


def test_a_call_that_a_fault_held_up_may_be_slow() -> None:
    tape = _two_lanes(second_waits=1500)
    assert group_judged("H2", tape, Fault("delay", "rank-1", pause=2.0)).violations == []


def test_a_call_is_as_late_as_another_was_that_came_first() -> None:
    tape = GroupTape().posts(1, 0, 0).posts(1, 0, 1).asks(0, 1, 1).asks(0, 1, 2).passes(900)
    tape.gets(0, 1, 1, 0).passes(900).gets(0, 1, 2, 1)
    assert group_judged("H2", tape).violations == []
