"""What a judge is given, what it finds, and how it says that it cannot tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import msgspec

from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.verdict import Violation


class Inconclusive(Exception):
    """The record says nothing of the invariant: what was to happen did not."""


class Finding(msgspec.Struct):
    """The violations in one play, and how much the play is worth as evidence."""

    violations: list[Violation] = []
    counts: dict[str, int] = {}


_LIBRARY = re.compile(r"\((zmq|multiprocessing|threading|contextlib|queue|selectors|<frozen)")
"""Frames that say how something waits; the first one outside them says what for."""

Checker = Callable[[Scenario, History, Ledger], Finding]


def hangs(history: History, *ops: str) -> list[Violation]:
    """A violation for each role that was still inside one of these operations (any, if none)."""
    found: list[Violation] = []
    for event in history.of("hang"):
        if not ops or event.text("op") in ops:
            found.append(Violation("hang", _who_waits(history, event), _near(history, event)))
    return found


def crashes(history: History) -> list[Violation]:
    """A violation for each role that died although nobody ended it."""
    ended = {e.text("target") for e in history.of("intent") if e.text("fault") in ("kill", "exit")}
    found: list[Violation] = []
    for event in history.of("exit"):
        signal, role = event.number("signal", 0), event.text("target")
        if signal and role not in ended:
            cause = f"{role} died of signal {signal}, which nobody sent"
            found.append(Violation("crash", cause, _near(history, event)))
    return found


def deaths(history: History) -> dict[str, Event]:
    """The roles that a fault of the scenario ended, with the event of their end."""
    teardown = {e.text("target") for e in history.of("intent") if e.data.get("teardown")}
    return {
        event.text("target"): event
        for event in history.of("exit")
        if event.number("signal", 0) and event.text("target") not in teardown
    }


def evidence(history: History, events: list[Event]) -> list[str]:
    """Up to ten lines that show a violation."""
    return history.lines(events[-10:])


def _near(history: History, event: Event) -> list[str]:
    role = event.text("target")
    own = [e for e in history.events if e.role == role and e.t <= event.t][-4:]
    faults = list(history.of("fault", "exit", "reached"))
    return evidence(history, sorted({id(e): e for e in [*faults, *own, event]}.values(), key=_time))


def _time(event: Event) -> int:
    return event.t


def _who_waits(history: History, event: Event) -> str:
    role, op = event.text("target"), event.text("op")
    began = [e for e in history.events if e.role == role and e.t <= event.t]
    since = (event.t - began[-1].t) / 1e9 if began else 0.0
    stack = event.data.get("stack")
    frames = [str(frame) for frame in cast("list[object]", stack)] if stack else []
    own = [frame for frame in frames if not _LIBRARY.search(frame)] or frames
    where = f" in {own[0]}" if own else ""
    others: list[str] = []
    for name, end in deaths(history).items():
        at = history.first("reached", role="director")
        place = f" at {at.text('where')}" if at is not None else ""
        others.append(f"{name}, dead by signal {end.number('signal')}{place}")
    held = [e.text("target") for e in history.of("fault") if e.text("fault") == "stop"]
    others += [f"{name}, stopped" for name in held if name not in deaths(history)]
    waits = f"waits for {'; '.join(others)}" if others else "waits for nobody that is gone"
    return f"{role} still waited in {op} after {since:.1f} s{where}: it {waits}"
