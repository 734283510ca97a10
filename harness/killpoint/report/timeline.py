"""Timeline of a play's history: spans, marks, arrows and samples of roles."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.report.html.arrows import arrows

ENDS = {
    "begin": ("end", "order"),
    "send": ("sent", "seq"),
    "receive": ("got", ""),
    "send-to": ("sent-to", "seq"),
    "receive-from": ("got-from", "source"),
    "broadcast": ("broadcast-done", "source"),
    "gather": ("gathered", ""),
    "barrier": ("barrier-done", "n"),
    "pool-start": ("pool-started", ""),
    "call": ("call-done", "n"),
    "submit": ("submitted", "n"),
    "result": ("result-done", "n"),
    "health": ("health-done", ""),
    "execute": ("executed", "n"),
    "pool-stop": ("pool-stopped", ""),
    "serving": ("served", "call"),
    "pipe-send": ("pipe-sent", "seq"),
    "pipe-receive": ("pipe-got", ""),
    "pipe-close": ("pipe-closed", ""),
    "blocks-send": ("blocks-sent", "request"),
    "blocks-receive": ("blocks-got", "request"),
    "forge": ("forged", "lie"),
    "coordinator-start": ("coordinator-started", ""),
    "coordinator-close": ("coordinator-closed", ""),
    "hear": ("hear-done", "what"),
    "flood": ("flooded", ""),
    "engine-start": ("engine-started", ""),
    "engine-stop": ("engine-stopped", ""),
    "request": ("answer", "n"),
}
"""Kind of the event that ends a span, by the kind that begins it, and the field that both have."""
MAY_END_ELSEWHERE = frozenset({"request"})
"""Kinds that are a mark where they have no end, and not a span that never ended."""
ONE_AT_A_TIME = frozenset({"serving"})
"""Kinds of which the next one's begin is the end of one without an end: its work raised."""
_SAMPLES = {
    "weight": ("rss", "pss"),
    "late-tick": ("ns",),
    "entries": ("count",),
    "buffered": ("bytes",),
    "looked": ("tokens", "open", "replicas"),
}
"""Fields that are measured again and again, by kind."""


class Span(msgspec.Struct):
    """Something that a role was doing."""

    role: str
    name: str
    start: int
    """Time as in the history, ns."""
    stop: int
    data: dict[str, object]
    ended: bool = True
    """True if the span came to its own end; false if its role or the play ended before."""
    lane: int = 0
    """Spans of one role and lane lie beside or inside one another, never across."""


class SpanPoint(msgspec.Struct):
    """A point on the axis, inside a span if there is one."""

    role: str
    lane: int
    t: int


class Arrow(msgspec.Struct):
    """Something that went from one role to another."""

    name: str
    source: SpanPoint
    taker: SpanPoint


class Sample(msgspec.Struct):
    """Numbers that were measured in a role, or of it."""

    role: str
    name: str
    t: int
    values: dict[str, int]


class Timeline(msgspec.Struct):
    """A play on a time axis."""

    roles: list[str]
    spans: list[Span]
    marks: list[Event]
    """Events that are no span's begin or end, no sample."""
    arrows: list[Arrow]
    samples: list[Sample]


def timeline(history: History) -> Timeline:
    """The axis of a history; what was never ended lasts as long as its role did."""
    spans, inside = _spans(history)
    _spread(spans)
    marks = [e for e in history.events if id(e) not in inside and _sample(e) is None]
    samples = [sample for e in history.events if (sample := _sample(e)) is not None]
    told = [*(e.role for e in history.events), *(e.text("target") for e in marks)]
    roles = [role for role in dict.fromkeys([*told, *(s.role for s in samples)]) if role]
    return Timeline(roles, spans, marks, list(_arrows(history, inside)), samples)


def _spans(history: History) -> tuple[list[Span], dict[int, Span]]:
    """Return all spans, and by ``id`` of an event the one that it begins or ends."""
    ends = {end: (kind, key) for kind, (end, key) in ENDS.items()}
    open: dict[tuple[str, str, str], list[tuple[Event, Span]]] = {}
    spans: list[Span] = []
    inside: dict[int, Span] = {}
    for event in history.events:
        if event.kind in ENDS:
            key = ENDS[event.kind][1]
            if event.kind in ONE_AT_A_TIME:
                _cut(open, event)
            span = Span(event.role, event.kind, event.t, -1, dict(event.data))
            waiting = open.setdefault((event.role, event.kind, event.text(key)), [])
            waiting.append((event, span))
            inside[id(event)] = span
            spans.append(span)
        elif event.kind in ends:
            kind, key = ends[event.kind]
            waiting = open.get((event.role, kind, event.text(key)))
            if waiting:
                _, span = waiting.pop(0)
                span.stop, inside[id(event)] = event.t, span
                span.data |= event.data
    for waiting in open.values():
        for event, span in waiting:
            if event.kind in MAY_END_ELSEWHERE:
                spans.remove(span)
                del inside[id(event)]
            elif span.stop < 0:
                span.stop, span.ended = _end_of(history, event), False
    for span in spans:
        span.stop = max(span.stop, span.start + 1)
    return spans, inside


def _cut(open: dict[tuple[str, str, str], list[tuple[Event, Span]]], event: Event) -> None:
    for (role, kind, _), waiting in open.items():
        if (role, kind) == (event.role, event.kind):
            for _, span in waiting:
                span.stop, span.ended = event.t, False
            waiting.clear()


def _end_of(history: History, event: Event) -> int:
    """Return when the role of an event ended after it, or the play did."""
    for each in history.of("exit", "gone"):
        if each.text("target") == event.role and each.t >= event.t:
            return each.t
    return history.events[-1].t


def _spread(spans: list[Span]) -> None:
    """Give each span a lane in which it crosses no other."""
    lanes: dict[str, list[list[int]]] = {}
    for span in sorted(spans, key=lambda span: (span.start, -span.stop)):
        mine = lanes.setdefault(span.role, [])
        for number, around in enumerate(mine):
            while around and around[-1] <= span.start:
                around.pop()
            if not around or span.stop <= around[-1]:
                span.lane = number
                around.append(span.stop)
                break
        else:
            span.lane = len(mine)
            mine.append([span.stop])


def _arrows(history: History, inside: dict[int, Span]) -> Iterator[Arrow]:
    """Yield an arrow for each message whose ends lie in spans."""
    for way in arrows(history.events):
        source, taker = history.events[way.source], history.events[way.to]
        if way.to >= 0 and id(source) in inside and id(taker) in inside:
            words = [source.kind, way.label, way.odd and f"({way.odd})"]
            name = " ".join(word for word in words if word)
            yield Arrow(name, _place(source, inside), _place(taker, inside))


def _place(event: Event, inside: dict[int, Span]) -> SpanPoint:
    """A nanosecond before the end that an event makes, which is within."""
    span = inside[id(event)]
    return SpanPoint(event.role, span.lane, min(event.t, span.stop - 1))


def _sample(event: Event) -> Sample | None:
    values = {
        field: number
        for field in _SAMPLES.get(event.kind, ())
        if isinstance(number := event.data.get(field), int) and not isinstance(number, bool)
    }
    if not values:
        return None
    return Sample(event.text("target") or event.role, event.kind, event.t, values)
