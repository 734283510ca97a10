"""What only time can tell: who is a suspect at two readings, with nothing moved between them."""

import pytest
from scene import cast, process

from killpoint.inspection.model import Edge, Ring, Slot
from killpoint.inspection.standstill import standing, suspects
from killpoint.inspection.wait_graph import Node

_TREE = cast(process(10), process(20, 10, "message"), process(21, 10, "message"))
_ASKS = Edge(10, 20, "a message in replies", ring="replies")
_RESTS = Edge(20, 10, "a message in requests", idle=True, ring="requests")
_STILL = {"requests": ((1,), (2,)), "replies": ((0,), (0,))}


def test_whose_answer_is_waited_for_while_it_waits_for_work_is_named_once_nothing_moved() -> None:
    found = suspects(_TREE, [_ASKS, _RESTS], [], {})
    (named,) = standing(found, found, _STILL, dict(_STILL), 1.5)
    assert named.pid == 20
    assert "has read all that pid 10 has sent it" in named.sentence
    assert named.sentence.endswith("for 1.5 s: the answer was lost, or never sent")
    assert named.waiters == (10,)
    assert named.doubt


def test_a_message_that_moved_meanwhile_clears_it() -> None:
    found = suspects(_TREE, [_ASKS, _RESTS], [], {})
    assert standing(found, found, _STILL, {**_STILL, "replies": ((1,), (0,))}, 1.5) == []
    assert standing(found, found, {}, {}, 1.5) == []


def test_two_who_both_rest_are_no_suspects() -> None:
    rests = [Edge(10, 20, "a message in replies", idle=True, ring="replies"), _RESTS]
    assert suspects(_TREE, rests, [], {}) == []
    assert suspects(_TREE, [_ASKS], [], {}) == []


def test_one_that_computes_is_named_once_nothing_moved_and_never_for_certain() -> None:
    running = [(_TREE[20], "is at step (engine.py:7)", (10, 21))]
    found = suspects(_TREE, [_ASKS], running, {})
    (named,) = standing(found, found, _STILL, dict(_STILL), 1.5)
    assert named.sentence.startswith("pid 20 (python engine.py) runs, and is at step (engine.py:7)")
    assert named.doubt == "a long step, or a loop without an end"
    assert standing([], found, _STILL, _STILL, 1.5) == []


def test_who_is_waited_for_in_no_ring_cannot_be_seen_to_stand_still() -> None:
    found = suspects(_TREE, [], [(_TREE[20], "is at step (engine.py:7)", ())], {})
    assert standing(found, found, _STILL, _STILL, 1.5) == []


def test_who_waits_for_several_of_whom_one_answers_does_not_wait_in_vain() -> None:
    """A core waits at the rings of all ranks, of which one has the answers of each step."""
    both = [_ASKS, Edge(10, 21, "a message in others", ring="others")]
    running = [(_TREE[pid], "is at all_reduce (distributed.py:3)", (10,)) for pid in (20, 21)]
    found = suspects(_TREE, both, running, {})
    still = {"replies": ((0,),), "others": ((0,),)}
    assert [each.pid for each in standing(found, found, still, dict(still), 2.1)] == [20, 21]
    assert standing(found, found, still, {**still, "replies": ((1,),)}, 2.1) == []


def _main(what: str, *, runs: bool = False) -> dict[int, Node]:
    return {10: Node(10, 10, "MainThread", "step (core.py:9)", what, runs=runs)}


@pytest.mark.parametrize(
    ("what", "runs", "told"),
    [
        ("runs", True, "pid 10 (python engine.py) runs, at work (engine.py:1); nothing has moved"),
        ("sleeps for 1000000 s", False, "sleeps for 1000000 s, at work (engine.py:1); nothing"),
        ("waits for a lock, a condition or an event", False, "waits for a lock, at work"),
    ],
)
def test_who_is_rested_for_and_is_not_at_rest_itself_is_named(
    what: str, runs: bool, told: str
) -> None:
    found = suspects(_TREE, [_RESTS], [], _main(what, runs=runs))
    (named,) = standing(found, found, _STILL, dict(_STILL), 1.5)
    assert (named.pid, named.waiters) == (10, (20,))
    assert told in named.sentence


def test_who_polls_is_at_rest_and_so_is_who_waits_at_a_queue() -> None:
    assert suspects(_TREE, [_RESTS], [], _main("polls pipe 7")) == []
    assert suspects(_TREE, [_RESTS], [], _main("sleeps for a moment")) == []
    queued = cast(process(10, waits="lock"), process(20, 10, "message"))
    assert suspects(queued, [_RESTS], [], _main("waits for a lock, a condition or an event")) == []


_OTHER = [
    Edge(10, 21, "a message in others", ring="others"),
    Edge(21, 10, "a message in requests", idle=True, ring="requests"),
]


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ({}, [20, 21]),
        ({"replies": 1, "requests": 1}, [20]),
        ({"replies": 10, "others": 6}, [20]),
        ({"replies": 6, "others": 10}, [21]),
        ({"replies": 9, "others": 10}, [20, 21]),
        ({"replies": 10, "others": 9}, [21, 20]),
    ],
)
def test_of_two_that_may_owe_the_answer_one_that_answered_less_is_not_waited_for(
    sent: dict[str, int], named: list[int]
) -> None:
    found = suspects(_TREE, [_ASKS, _RESTS, *_OTHER], [], {}, sent)
    assert [each.pid for each in found] == named


def test_who_cannot_be_told_from_another_is_named_with_it() -> None:
    found = suspects(_TREE, [_ASKS, _RESTS, *_OTHER], [], {}, {"replies": 9, "others": 10})
    ends = [each.sentence.partition("waits for its answer")[2] for each in found]
    assert ends == [", or for that of pid 21", ", or for that of pid 20"]


def test_messages_of_a_ring_are_counted_by_their_numbers_or_else_by_its_slots() -> None:
    slots = (Slot(0, True, ()), Slot(1, True, ()), Slot(2, False, ()))
    numbered = (Slot(0, True, (), 16), Slot(1, True, (), 15))
    assert [Ring("r", "x", 1, each, ()).sent for each in (slots, numbered, ())] == [2, 17, 0]
