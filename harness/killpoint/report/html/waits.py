"""Waits: which role waited for which, and how long, in a hang or a long call."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from killpoint.checkers.finding import Absent, absent, frame
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.report.html.spans import Span

_LONG = 1.0
"""Seconds from which on a call that came back with an error is shown as a wait."""
_MOST = 8


class Wait(msgspec.Struct, frozen=True):
    """A role that waited."""

    role: str
    op: str
    seconds: float
    at: int
    """Index of the event at which it was seen to wait still, or came back."""
    outcome: str
    """``hang``; or what the call gave in the end."""
    frame: str
    """Frame at which the role stood, if that was sampled."""
    waits_for: list[Absent]
    """Roles that were dead, stopped or cut off then."""


def waits(history: History, spans: Sequence[Span]) -> list[Wait]:
    """Return the roles that hang, then those that waited long and in vain, the longest first."""
    events = history.events
    hung = [
        _hang(history, index, event) for index, event in enumerate(events) if event.kind == "hang"
    ]
    long = [
        Wait(span.role, span.op, seconds, span.end, span.outcome, "", _others(history, span))
        for span in spans
        if not span.order and span.end >= 0 and span.outcome not in ("ok", "raised", "ended")
        if (seconds := (events[span.end].t - events[span.begin].t) / 1e9) >= _LONG
    ]
    return [*hung, *sorted(long, key=lambda wait: -wait.seconds)[: max(0, _MOST - len(hung))]]


def _hang(history: History, index: int, event: Event) -> Wait:
    role = event.text("target")
    began = [e.t for e in history.events[:index] if e.role == role]
    since = (event.t - began[-1]) / 1e9 if began else 0.0
    others = [each for each in absent(history, event.t) if each.role != role]
    return Wait(role, event.text("op"), since, index, "hang", frame(event), others)


def _others(history: History, span: Span) -> list[Absent]:
    gone = absent(history, history.events[span.end].t)
    return [each for each in gone if each.role != span.role]
