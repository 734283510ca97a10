"""Time that roles spend inside operations: from the event that begins one to its end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from killpoint.checkers import pool_record
from killpoint.history.event import Event
from killpoint.report.html import arrows

_ENDS = {
    **arrows.ENDS,
    **pool_record.ENDS,
    "receive": "got",
    "receive-from": "got-from",
    "broadcast": "broadcast-done",
    "gather": "gathered",
    "barrier": "barrier-done",
    "pipe-receive": "pipe-got",
    "pipe-close": "pipe-closed",
    "blocks-receive": "blocks-got",
    "serving": "served",
    "hear": "hear-done",
    "coordinator-start": "coordinator-started",
    "coordinator-close": "coordinator-closed",
    "engine-start": "engine-started",
    "engine-stop": "engine-stopped",
    "begin": "end",
}
_BEGINS = {end: begin for begin, end in _ENDS.items()}
_NUMBERS = ("seq", "n", "request", "order", "call")
"""Fields that tell operations of one kind apart, where a role is in several at once."""


class Span(msgspec.Struct, array_like=True, frozen=True):
    """A role inside an operation; places are indexes into the play's events."""

    role: str
    begin: int
    end: int
    """-1: nothing ended it in this record."""
    op: str
    order: bool
    """Whether it is a whole order of the director's, which may hold several calls."""
    outcome: str


def spans(events: Sequence[Event]) -> list[Span]:
    """Every operation of a play, in the order of their begins."""
    found: list[Span] = []
    inside: dict[tuple[str, str], list[int]] = {}
    for index, event in enumerate(events):
        if event.kind in _ENDS:
            inside.setdefault((event.role, event.kind), []).append(index)
        elif event.kind in _BEGINS:
            waiting = inside.get((event.role, _BEGINS[event.kind]), [])
            begun = _match(events, waiting, event)
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


def _match(events: Sequence[Event], waiting: list[int], end: Event) -> int | None:
    """The oldest begin that this may be the end of."""
    for begun in waiting:
        first = events[begun].data
        if all(first[key] == end.data[key] for key in _NUMBERS if key in first and key in end.data):
            return begun
    return None


def _span(events: Sequence[Event], begun: int, end: int, outcome: str) -> Span:
    begin = events[begun]
    order = begin.kind == "begin"
    return Span(
        begin.role, begun, end, begin.text("op") if order else begin.kind, order, outcome or "ok"
    )
