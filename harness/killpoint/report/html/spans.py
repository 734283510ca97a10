"""Time that roles spend inside operations: from the event that begins one to its end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from killpoint.history.event import Event
from killpoint.report.timeline import ENDS, MAY_END_ELSEWHERE, ONE_AT_A_TIME

_ENDS = {begin: (end, key) for begin, (end, key) in ENDS.items() if begin not in MAY_END_ELSEWHERE}
"""A bar on a lane is not for requests, of which a front end has hundreds at once."""
_BEGINS = {end: (begin, key) for begin, (end, key) in _ENDS.items()}


class Span(msgspec.Struct, array_like=True, frozen=True):
    """A role inside an operation; places are indexes into the play's events."""

    role: str
    begin: int
    end: int
    """-1: nothing ended it in this record."""
    op: str
    order: bool
    """True if the span is a whole order of the runner's, which may hold several calls."""
    outcome: str


def spans(events: Sequence[Event]) -> list[Span]:
    """Return every operation of a play, in the order of their begins."""
    found: list[Span] = []
    inside: dict[tuple[str, str], list[int]] = {}
    for index, event in enumerate(events):
        if event.kind in _ENDS:
            waiting = inside.setdefault((event.role, event.kind), [])
            if event.kind in ONE_AT_A_TIME:  # what raised told no end
                found += [_span(events, begun, index, "raised") for begun in waiting]
                waiting.clear()
            waiting.append(index)
        elif event.kind in _BEGINS:
            begin, key = _BEGINS[event.kind]
            waiting = inside.get((event.role, begin), [])
            same = (n for n in waiting if events[n].text(key) == event.text(key))
            begun = next(same, None)
            if begun is not None:
                waiting.remove(begun)
                found.append(_span(events, begun, index, event.text("outcome")))
        elif event.kind in ("exit", "gone"):
            for (role, _), waiting in inside.items():
                if role == event.text("target"):
                    found += [_span(events, begun, index, "ended") for begun in waiting]
                    waiting.clear()
    found += [_span(events, begun, -1, "") for each in inside.values() for begun in each]
    return sorted(found, key=lambda span: span.begin)


def _span(events: Sequence[Event], begun: int, end: int, outcome: str) -> Span:
    begin = events[begun]
    order = begin.kind == "begin"
    return Span(
        begin.role, begun, end, begin.text("op") if order else begin.kind, order, outcome or "ok"
    )
