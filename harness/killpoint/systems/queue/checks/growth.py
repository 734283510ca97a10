"""Memory under a steady stream: flat, or growing with every message (Q12).

Private memory and mappings are judged apart. Private memory, the heap included, counts by the bytes
touched; mappings that can be shared count by their number and length: touching more of one that
does not grow is no growth. A private mapping that does not grow, and has more untouched than an
allocator asks for at a time, may be a buffer on its first lap: the bytes touched in it are set
apart, and while they increase no verdict is given.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import cast

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.checkers.slope import LEAST, Slope, slope
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.verdict import Violation

GREEN = 2.0
"""Bytes a message; memory is flat if the whole interval of its slope lies below."""
RED = 4.0
"""Bytes a message from which on memory grows."""
_ROUNDED = 0.95
"""The part of a leak that pages, in which memory is counted, may leave of its slope."""
_PAGE = 4096
_WARM_UP = 5
"""One window in so many is not judged: caches and arenas fill in it, and rings are lapped."""


class Sample(msgspec.Struct):
    """A role's weight after so many messages."""

    messages: int
    event: Event
    roomy: dict[tuple[int, int], int]
    """Bytes touched of each private mapping that has room, by its start and length."""


def check_q12_memory(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q12: neither private memory nor mappings follow the number of messages."""
    found = hangs(history)
    judged, doubt = 0, ""
    for role in scenario.roles():
        windows = samples(history, role)
        windows = windows[len(windows) // _WARM_UP :]
        if len(windows) < LEAST:
            continue
        judged += 1
        said = _growth(history, role, windows)
        if isinstance(said, Violation):
            found = found or [said]
        else:
            doubt = doubt or said
    if not found and (doubt or not judged):
        few = f"no role was weighed after {LEAST} windows of a stream and some to warm up"
        raise Inconclusive(doubt or few)
    return Finding(found[:1], {"roles weighed": judged})


def samples(history: History, role: str) -> list[Sample]:
    """The weights of a role, the last for each number of messages that it had handled by then."""
    ends: list[int] = []
    totals: list[int] = [0]
    for event in history.of("sent", "got", "streamed", role=role):
        ends.append(event.t)
        one = event.text("outcome") == "ok"
        totals.append(totals[-1] + (event.number("count") if event.kind == "streamed" else one))
    found: dict[int, Sample] = {}
    roomy: dict[tuple[int, int], int] = {}
    for event in history.of("room", "weight"):
        if event.text("target") != role:
            continue
        if event.kind == "room":
            roomy = _places(event)
            continue
        done = totals[bisect.bisect_right(ends, event.t)]
        found[done] = Sample(done, event, roomy)
    return list(found.values())


def _places(event: Event) -> dict[tuple[int, int], int]:
    given = cast("list[tuple[int, int, int]]", event.data.get("mappings", []))
    return {(start, length): touched for start, length, touched in given}


def _growth(history: History, role: str, windows: list[Sample]) -> Violation | str:
    """Return the violation if memory grows; else why that cannot be judged, or an empty text."""
    apart = _first_laps(windows)
    touched = [sum(each.roomy[place] for place in apart) for each in windows]
    private = [
        each.event.number("private", 0) - aside
        for each, aside in zip(windows, touched, strict=True)
    ]
    doubt = ""
    for what, values, unit in (
        ("private memory", private, 1),
        ("mappings that can be shared", _of(windows, "shared"), 1),
        ("number of mappings", _of(windows, "mappings"), _PAGE),
    ):
        grown = slope([each.messages for each in windows], [unit * value for value in values])
        if _is_red(grown):
            return _accuse(history, role, what, grown, windows)
        if grown.high >= GREEN:
            doubt = doubt or f"{role}'s {what} grew by {_words(grown)}: neither flat nor growth"
    lap = slope([each.messages for each in windows], touched)
    if not doubt and lap.high >= GREEN:
        doubt = f"{role} is still touching memory for the first time, {_words(lap)}, that it has"
    return doubt


def _of(windows: list[Sample], field: str) -> list[int]:
    return [each.event.number(field, 0) for each in windows]


def _first_laps(windows: list[Sample]) -> Sequence[tuple[int, int]]:
    """Private mappings with room that neither came, went, grew nor shrank between the windows."""
    lasting = set(windows[0].roomy)
    for each in windows[1:]:
        lasting &= set(each.roomy)
    return sorted(lasting)


def _is_red(grown: Slope) -> bool:
    return grown.low > GREEN and grown.at >= RED * _ROUNDED


def _words(grown: Slope) -> str:
    return f"{grown.at:.1f} bytes a message (99 in 100: {grown.low:.1f} … {grown.high:.1f})"


def _accuse(
    history: History, role: str, what: str, grown: Slope, windows: list[Sample]
) -> Violation:
    count = windows[-1].messages - windows[0].messages
    if what == "number of mappings":
        often = round(_PAGE / grown.at)
        cause = f"{role} has one mapping more every {often} messages, over {count} messages"
    else:
        cause = (
            f"{role}'s {what} grew by {_words(grown)}, over {count} messages"
            f" in {len(windows) - 1} windows"
        )
    seen = [windows[at].event for at in (0, len(windows) // 2, -1)]
    return Violation("growth", cause, evidence(history, seen))
