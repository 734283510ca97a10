"""A play as Chrome trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing.

The format's own rules that hold here: spans are complete events (``X``), and two of one thread lie
beside or inside one another; each arrow is a pair ``s`` and ``f`` of one id, both within a span;
times are µs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.report.timeline import SpanPoint, Timeline, timeline
from killpoint.scenario import load

_EVERYWHERE = frozenset({"fault"})
"""Marks that are drawn across all roles."""
_OF_A_PROCESS = frozenset({"hang", "exit", "gone", "reached", "not-reached", "starved"})


class TraceEvent(msgspec.Struct, omit_defaults=True):
    """One object of ``traceEvents``; the names are the format's."""

    ph: str
    name: str
    pid: int
    tid: int
    ts: float
    cat: str = ""
    dur: float | None = None
    id: int | None = None
    bp: str | None = None
    s: str | None = None
    """Scope of an instant: ``g`` global, ``p`` process, ``t`` thread."""
    args: dict[str, object] = {}


class Trace(msgspec.Struct, rename="camel"):
    """A whole file."""

    trace_events: list[TraceEvent]
    display_time_unit: str
    other_data: dict[str, object]


def read(play: Path) -> Trace:
    """The trace of a recorded play.

    Args:
        play: its folder: ``RUN/plays/CASE``.

    Raises:
        BadUsage: nothing is recorded there, or it is damaged.
    """
    if not play.is_dir() or not any(play.glob("*.jsonl")):
        raise BadUsage(f"{play}: no play is recorded there; {_instead(play)}")
    scenario = load(play / "scenario.toml")
    try:
        history = History.read(play)
    except OSError as error:
        raise BadUsage(f"{play}: {error.strerror}; expected the record of a play") from error
    if history.damaged:
        raise BadUsage(f"{history.damaged[0]}: not an event; expected a line as a role wrote it")
    trace = trace_of(history)
    trace.other_data |= {"case": scenario.case, "title": scenario.title, "target": scenario.target}
    return trace


def trace_of(history: History) -> Trace:
    """The trace of a history; its times are µs since the first event."""
    drawn = timeline(history)
    # Names first; and of two spans that begin together the one around the other.
    events = sorted(
        _Drawing(drawn, history.start()).events(),
        key=lambda e: (e.ph != "M", e.ts, -(e.dur or 0.0)),
    )
    clock: dict[str, object] = {"clock": "CLOCK_MONOTONIC", "began_ns": history.start()}
    return Trace(events, "ms", clock)


def text(trace: Trace) -> str:
    """The file's text."""
    return msgspec.json.encode(trace).decode() + "\n"


class _Drawing:
    """Roles are processes of the trace, numbered as they come; lanes are their threads."""

    def __init__(self, drawn: Timeline, start: int) -> None:
        self._drawn = drawn
        self._start = start
        self._pids = {role: number for number, role in enumerate(drawn.roles, start=1)}

    def events(self) -> Iterator[TraceEvent]:
        yield from self._names()
        for span in self._drawn.spans:
            args = span.data if span.ended else span.data | {"ended": False}
            name = str(span.data["op"]) if "op" in span.data else span.name
            yield TraceEvent(
                "X",
                name if span.ended else f"{name} (never ended)",
                self._pids[span.role],
                span.lane + 1,
                self._us(span.start),
                "order" if "op" in span.data else "call",
                (span.stop - span.start) / 1000,
                args=args,
            )
        yield from map(self._mark, self._drawn.marks)
        yield from self._arrows()
        for sample in self._drawn.samples:
            args: dict[str, object] = dict(sample.values)
            pid, ts = self._pids[sample.role], self._us(sample.t)
            yield TraceEvent("C", sample.name, pid, 1, ts, "sample", args=args)

    def _names(self) -> Iterator[TraceEvent]:
        lanes = {(span.role, span.lane) for span in self._drawn.spans}
        for role, pid in self._pids.items():
            yield TraceEvent("M", "process_name", pid, 1, 0.0, args={"name": role})
            yield TraceEvent("M", "process_sort_index", pid, 1, 0.0, args={"sort_index": pid})
            for lane in sorted({0} | {lane for name, lane in lanes if name == role}):
                named: dict[str, object] = {"name": role if not lane else f"{role}, beside"}
                yield TraceEvent("M", "thread_name", pid, lane + 1, 0.0, args=named)

    def _mark(self, event: Event) -> TraceEvent:
        """Return a mark on the role that an event befell; an intention stays with the runner."""
        role = event.text("target") if event.kind != "intent" else ""
        scope = "g" if event.kind in _EVERYWHERE else "p" if event.kind in _OF_A_PROCESS else "t"
        words = [event.kind, event.text("fault") or event.text("op") or event.text("name")]
        return TraceEvent(
            "i",
            " ".join(word for word in words if word),
            self._pids[role or event.role],
            1,
            self._us(event.t),
            "fault" if event.text("fault") else "event",
            s=scope,
            args=event.data,
        )

    def _arrows(self) -> Iterator[TraceEvent]:
        for number, arrow in enumerate(self._drawn.arrows, start=1):
            yield self._end("s", arrow.name, number, arrow.source)
            yield self._end("f", arrow.name, number, arrow.taker)

    def _end(self, phase: str, name: str, number: int, place: SpanPoint) -> TraceEvent:
        pid, tid = self._pids[place.role], place.lane + 1
        ts = self._us(place.t)
        bound = "e" if phase == "f" else None
        return TraceEvent(phase, name, pid, tid, ts, "flow", id=number, bp=bound)

    def _us(self, t: int) -> float:
        return (t - self._start) / 1000


def _instead(folder: Path) -> str:
    """Return the folders that could have been meant, in words."""
    plays = sorted(path.parent.name for path in (folder / "plays").glob("*/scenario.toml"))
    if not plays:
        return "expected the folder of a play: RUN/plays/CASE"
    return f"expected one of its plays: {', '.join(f'plays/{name}' for name in plays[:5])}" + (
        f" and {len(plays) - 5} more" if len(plays) > 5 else ""
    )
