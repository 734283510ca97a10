"""Words that stand for a mechanism: of a cause that several mechanisms share, none is told."""

from __future__ import annotations

import re

import pytest

from killpoint.findings.registry import findings

_WAITS = "it waits, and nobody is dead, stopped or cut off"
_UNNOTICED = "connections was never noticed (the target has no peer timeout)"
_MISSED = "not within 5 s, and never after"
_PARENT = "after the death of parent by signal 9, this was left"
_LOOKED = "ended in an AttributeError of the code that looks, which does not name the segment"


@pytest.mark.parametrize(
    ("cause", "whose"),
    [
        (f"writer still waited in ready after 8.2 s in recv: {_WAITS}", []),
        (f"rank-1 still waited in barrier after 6.2 s in broadcast_obj: {_WAITS}", []),
        (
            f"reader-0 waits for reader-0, cut off; the cut of reader-0's {_UNNOTICED}",
            ["silent-cut"],
        ),
        (f"it waits for rank-1, cut off; the half-open of rank-1's {_UNNOTICED}", ["silent-store"]),
        ("15.9 s after its only reader was cut off the writer's send was accepted", ["silent-cut"]),
        (f"attaching to a segment that does not exist {_LOOKED}", []),
        ("rank-2's join failed, and its error does not name rank-0: Error", ["unnamed-rank"]),
        ("rank-0's join failed after an exception had struck rank-0 at x.py:5", ["half-joined"]),
        ("rank-0's gather failed after an exception had struck rank-0 at x:5", ["half-gathered"]),
        (
            "after an exception had struck rank-0 at x.py:3 in recv_obj, rank-0's receive from"
            " rank-2 gave object 1, not 0",
            ["half-gathered"],
        ),
        (f"{_MISSED}: front-end-0 heard of engine-1's cut", ["unwatched-engine"]),
        (f"{_MISSED}: engine-0 noticed coordinator's stop", ["unwatched-engine"]),
        (f"{_MISSED}: the coordinator ended after parent's kill", ["orphan-coordinator"]),
        (f"{_PARENT}: 1 process (python), 1 unix socket (coordinator-a/b)", ["orphan-coordinator"]),
        (f"{_PARENT}: 1 unix socket (coordinator-a/b)", ["coordinator-paths-stay"]),
        ("after the death of writer by signal 9, this was left: 2 unix sockets", []),
        ("the send of message 3 failed after an exception had struck writer at x.py:5", []),
    ],
)
def test_a_cause_is_told_by_what_its_mechanism_alone_has(cause: str, whose: list[str]) -> None:
    known = findings().values()
    assert [e.id for e in known if any(re.search(each, cause) for each in e.told_as)] == whose
