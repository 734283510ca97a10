"""The space-time diagram of a play, as data that the page draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.report.html.arrows import Arrow, arrows
from killpoint.report.html.spans import Span, spans
from killpoint.report.html.waits import Wait, waits
from killpoint.scenario import Scenario, load

_STRUCK = (
    "fault",
    "reached",
    "not-reached",
    "relay",
    "raised",
    "jumped",
    "starved",
    "intrude",
    "exiting",
)
_ENDED = ("exit", "gone")
_QUIET = (
    "intent",
    "begin",
    "end",
    "late-tick",
    "settled",
    "mapped",
    "lines",
    "stores",
    "calls",
    "pages",
    "weight",
    "phase",
    "segment",
    "segment-made",
    "looked",
    "request",
    "first",
    "answer",
    "entries",
    "store",
    "silence",
    "pool-state",
    "open-ends",
)
"""Kinds that are drawn only when asked for, unless the violation rests on one."""


class Ring(msgspec.Struct, frozen=True):
    """The ring whose flags the play's stores change."""

    slots: int
    readers: list[str]
    flags: list[list[int]]
    """Flags of each slot before the first event shown: written, then read by each reader."""


class Diagram(msgspec.Struct):
    """A play; places are indexes into ``events``."""

    title: str
    lanes: list[str]
    kinds: list[tuple[str, str]]
    """Name of each kind, and its role in the drawing: fault, ended, hang, quiet or act."""
    events: list[tuple[int, int, int, dict[str, object]]]
    """Time in µs since the play's first event, lane, kind, data."""
    arrows: list[Arrow]
    spans: list[tuple[int, int, int, str, bool, str]]
    """Spans, as :class:`Span`, each with its lane."""
    waits: list[Wait]
    evidence: list[int]
    violation: int
    """The event at which the violation shows; -1: none is known."""
    ring: Ring | None
    total: int
    """Number of events in the whole record."""
    folder: str


def diagram(folder: Path, evidence: Sequence[str] = (), most: int | None = None) -> Diagram:
    """Build the diagram of a play from its record.

    Args:
        folder: the play's own, in a run's folder.
        evidence: the lines that convict, as ``verdict.json`` has them.
        most: show no more events than so many, around the violation if one is known.

    Raises:
        OSError: the record cannot be read.
    """
    history = History.read(folder)
    scenario = _scenario(folder)
    shown = _shown(history, evidence)
    violation = _violation(history.events, shown)
    whole = _drawn(history, scenario, shown, violation, str(folder))
    return whole if most is None or len(whole.events) <= most else _window(whole, most)


def _scenario(folder: Path) -> Scenario | None:
    try:
        return load(folder / "scenario.toml")
    except BadUsage:  # of another release: its roles are read off the record
        return None


def _shown(history: History, evidence: Sequence[str]) -> list[int]:
    """The events that the lines which convict are of."""
    if not evidence:
        return []
    lines = {line: n for n, line in reversed(list(enumerate(history.lines(history.events))))}
    return sorted({lines[line] for line in evidence if line in lines})


def _violation(events: Sequence[Event], shown: Sequence[int]) -> int:
    """The first hang among the events that convict, else the last of them."""
    hangs = [index for index in shown if events[index].kind == "hang"]
    return hangs[0] if hangs else shown[-1] if shown else -1


def _drawn(
    history: History,
    scenario: Scenario | None,
    evidence: list[int],
    violation: int,
    folder: str,
) -> Diagram:
    events, start = history.events, history.start()
    lanes = _lanes(events, scenario)
    kinds = list(dict.fromkeys(event.kind for event in events))
    number = {kind: n for n, kind in enumerate(kinds)}
    lane = {name: n for n, name in enumerate(lanes)}
    inside = spans(events)
    return Diagram(
        title=scenario.title if scenario else "",
        lanes=lanes,
        kinds=[(kind, _class(kind)) for kind in kinds],
        events=[
            (
                (event.t - start) // 1000,
                lane[_whose(event)],
                number[event.kind],
                {key: value for key, value in event.data.items() if value not in (None, "")},
            )
            for event in events
        ],
        arrows=arrows(events),
        spans=[_with_lane(span, lanes) for span in inside],
        waits=waits(history, inside),
        evidence=evidence,
        violation=violation,
        ring=_ring(events, scenario),
        total=len(events),
        folder=folder,
    )


def _whose(event: Event) -> str:
    """The lane that an event is drawn on: what is done to a role is on the role's own."""
    return (
        event.text("target") if event.role == "director" and "target" in event.data else event.role
    )


def _lanes(events: Sequence[Event], scenario: Scenario | None) -> list[str]:
    seen = list(dict.fromkeys(_whose(event) for event in events))
    known = [role for role in (scenario.roles() if scenario else []) if role in seen]
    rest = [role for role in seen if role not in known and role != "director"]
    return [*known, *rest, *(["director"] if "director" in seen else [])]


def _class(kind: str) -> str:
    groups = {"fault": _STRUCK, "ended": _ENDED, "hang": ("hang", "seen"), "quiet": _QUIET}
    return next((word for word, kinds in groups.items() if kind in kinds), "act")


def _with_lane(span: Span, lanes: Sequence[str]) -> tuple[int, int, int, str, bool, str]:
    return lanes.index(span.role), span.begin, span.end, span.op, span.order, span.outcome


def _ring(events: Sequence[Event], scenario: Scenario | None) -> Ring | None:
    stores = [event for event in events if event.kind == "store"]
    if not stores:
        return None
    slots = max(event.number("slot") for event in stores) + 1
    flags = max(event.number("flag") for event in stores) + 1
    readers = [f"reader-{rank}" for rank in range(flags - 1)]
    if scenario is not None:
        slots = max(slots, scenario.shape.chunks)
        readers = scenario.readers() if len(scenario.readers()) >= flags - 1 else readers
    return Ring(slots, readers, [[0] * (1 + len(readers)) for _ in range(slots)])


def _window(whole: Diagram, most: int) -> Diagram:
    """A part of a diagram: up to and just behind the violation, or from the beginning."""
    shown = [place for place in whole.evidence if place < whole.violation + most // 2]
    until = max(shown) + 1 + most // 10 if shown else most
    low = max(0, min(until, len(whole.events)) - most)
    high = low + most

    def inside(*places: int) -> bool:
        return all(place < 0 or low <= place < high for place in places)

    def at(place: int) -> int:
        return place - low if place >= 0 else place

    return msgspec.structs.replace(
        whole,
        events=whole.events[low:high],
        arrows=[
            Arrow(at(arrow.source), at(arrow.to), arrow.label, arrow.odd)
            for arrow in whole.arrows
            if inside(arrow.source, arrow.to)
        ],
        spans=[
            (lane, max(0, begin - low), -1 if end >= high else at(end), *rest)
            for lane, begin, end, *rest in whole.spans
            if begin < high and (end < 0 or end >= low)
        ],
        waits=[
            msgspec.structs.replace(wait, at=at(wait.at)) for wait in whole.waits if inside(wait.at)
        ],
        evidence=[at(place) for place in whole.evidence if inside(place)],
        violation=at(whole.violation) if inside(whole.violation) else -1,
        ring=_advanced(whole, low),
    )


def _advanced(whole: Diagram, low: int) -> Ring | None:
    """The ring as the stores before the window left it."""
    if whole.ring is None:
        return None
    flags = [list(slot) for slot in whole.ring.flags]
    stores = [data for _, _, kind, data in whole.events[:low] if whole.kinds[kind][0] == "store"]
    for data in sorted(stores, key=lambda store: _int(store.get("turn"))):
        flags[_int(data.get("slot"))][_int(data.get("flag"))] = _int(data.get("value"))
    return msgspec.structs.replace(whole.ring, flags=flags)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
