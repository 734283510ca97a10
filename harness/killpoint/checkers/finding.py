"""Interface of the judges: findings of a play, and the exceptions of one that shows nothing."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable
from typing import cast

import msgspec

from killpoint.checkers.held_up import held_up
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.verdict import Violation

ACCIDENT = re.compile(r"(AttributeError|NameError|UnboundLocalError|TypeError|IndexError)\b")
"""Errors of code that did not check: they name nothing of what went wrong."""


_DRAWN = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\bipc://[^\s,;'\")\]]+", "ipc://…"),
        (r"((?:\d{1,3}\.){3}\d{1,3}|\[[0-9a-fA-F:]+\]|\blocalhost):\d+\b", r"\1:…"),
        (r"\b(pid|port|process)([ =]+)\d+\b", r"\1\2…"),
        (r"(?<![\w.])(/tmp|/var/tmp|/dev/shm)/[^\s,;:'\")\]]+", r"\1/…"),
        (r"\b(psm_|0x)[0-9a-f]{6,}\b", r"\1…"),
    )
)
"""Patterns of what differs from process to process or machine to machine, and their
replacements."""


class Inconclusive(Exception):
    """The record says nothing of the invariant: what was to happen did not."""


class Lacking(Inconclusive):
    """The target has nothing of what is judged, as the record shows: `unsupported`."""


class JudgedElsewhere(Inconclusive):
    """What was to happen did not, which another invariant judges: a further play says no more."""


class Finding(msgspec.Struct):
    """The violations in one play, and how much the play is worth as evidence."""

    violations: list[Violation] = []
    counts: dict[str, int] = {}
    told: list[str] = []
    """Further measurements, as lines for people."""


class Absent(msgspec.Struct, frozen=True):
    """Role that is not there for those who wait for it."""

    role: str
    how: str

    def words(self) -> str:
        """Return a description of the absence, for people."""
        return f"{self.role}, {self.how}"


_LIBRARY = re.compile(
    r"\((zmq|multiprocessing|threading|concurrent|contextlib|queue|selectors|<frozen)"
)
"""Frames of libraries, which show how a role waits; the first frame outside them shows for what."""
_TURN = re.compile(r"sched_yield\b")
"""Frame of a loop that waits, which its process is in by chance; its caller shows for what."""

_STOPS, _CUTS = ("stop", "hold"), ("cut", "half-open")
_ENDS = ("kill", "exit", "sigterm", "sigint", "ctrl-c", "hang-up")

Checker = Callable[[Scenario, History, Ledger], Finding]


def graver(found: list[Violation], more: Iterable[Violation]) -> list[Violation]:
    """Return the findings so far, or ``more`` if graver: a MUST where it was a SHOULD."""
    if found and found[0].level != "SHOULD":
        return found
    others = list(more)
    return others if others and (not found or others[0].level != "SHOULD") else found


def hangs(history: History, *ops: str) -> list[Violation]:
    """A violation for each role that was still inside one of these operations (any, if none)."""
    found = [event for event in _hung(history) if not ops or event.text("op") in ops]
    return [_hang(history, event) for event in found]


def hangs_of(history: History, role: str) -> list[Violation]:
    """A violation for each operation that this role never came back from."""
    return [_hang(history, event) for event in _hung(history) if event.text("target") == role]


def _hung(history: History) -> list[Event]:
    """Return the hangs, but for a send that waits for a reader which does not receive."""
    return [event for event in history.of("hang") if not _waits_rightly(history, event)]


def _waits_rightly(history: History, event: Event) -> bool:
    if event.text("op") != "send" or absent(history, event.t):
        return False
    holder = held_up(history, _last_step(history, event), event.t)
    return holder is not None and not holder.by_queue


def _last_step(history: History, event: Event) -> int:
    """Return the time of the last event in a role's own log, ns."""
    own = [e.t for e in history.events if e.role == event.text("target") and e.t <= event.t]
    return own[-1] if own else event.t


def crash_first(id: str, judge: Checker) -> Checker:
    """Wrap the judge of an invariant so that plays with a crash are not judged by it.

    L1 judges the plays of every case: the crash is reported by the case's own invariant.
    """

    def look(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
        crashed = crashes(history) if id != "L1" or "L1" in scenario.judges else []
        found = Finding(crashed[:1]) if crashed else judge(scenario, history, ledger)
        found.violations = [
            msgspec.structs.replace(each, cause=steadied(each.cause)) for each in found.violations
        ]
        return found

    return look


def crashes(history: History) -> list[Violation]:
    """Return a violation for each role that died of a signal that no fault had sent."""
    ended = {e.text("target") for e in history.of("intent") if e.text("fault") in _ENDS}
    found: list[Violation] = []
    for event in history.of("exit"):
        if event.number("signal", 0) and event.text("target") not in ended:
            found.append(Violation("crash", _how_it_crashed(event), _near(history, event)))
    return found


def _how_it_crashed(exit: Event) -> str:
    role, number = exit.text("target"), exit.number("signal")
    if number == signal.SIGABRT:  # a process sends it to itself: its library has said why
        said = exit.text("said")
        return f"{role} aborted (signal {number}) and wrote{': ' + said if said else ' nothing'}"
    return f"{role} died of signal {number}, which nobody sent"


def deaths(history: History) -> dict[str, Event]:
    """The roles that a fault of the scenario ended, with the event of their end."""
    ordered = _ordered_ends(history)
    return {
        event.text("target"): event
        for event in history.of("exit", "gone")
        if event.number("signal", 0) and event.text("target") in ordered
    }


def ordered_end(history: History, role: str) -> int | None:
    """Return when the scenario began to end this role, ns: it may have been dead from then on."""
    intent = _ordered_ends(history).get(role)
    return None if intent is None else intent.t


def _ordered_ends(history: History) -> dict[str, Event]:
    return {
        event.text("target"): event
        for event in history.of("intent")
        if event.text("fault") in _ENDS and not event.data.get("teardown")
    }


def steadied(cause: str) -> str:
    """Return a cause without what differs in each play: a target's own errors contain such things.

    Ports, process numbers, addresses of objects and names in temporary folders become ``…``.
    """
    for pattern, by in _DRAWN:
        cause = pattern.sub(by, cause)
    return cause


def evidence(history: History, events: list[Event]) -> list[str]:
    """Up to ten lines that show a violation."""
    return history.lines(events[-10:])


def _hang(history: History, event: Event) -> Violation:
    return Violation("hang", _who_waits(history, event), _near(history, event))


def _near(history: History, event: Event) -> list[str]:
    role = event.text("target")
    own = [e for e in history.events if e.role == role and e.t <= event.t][-4:]
    faults = list(history.of("fault", "exit", "reached"))
    return evidence(history, sorted({id(e): e for e in [*faults, *own, event]}.values(), key=_time))


def _time(event: Event) -> int:
    return event.t


def frame(event: Event) -> str:
    """Return the first frame of a hanging role's stack that shows what it waits for."""
    stack = event.data.get("stack")
    frames = [str(frame) for frame in cast("list[object]", stack)] if stack else []
    frames = [frame for frame in frames if not _TURN.match(frame)] or frames
    own = [frame for frame in frames if not _LIBRARY.search(frame)] or frames
    return own[0] if own else ""


def _who_waits(history: History, event: Event) -> str:
    role, op = event.text("target"), event.text("op")
    began = _last_step(history, event)
    since = (event.t - began) / 1e9
    stood = frame(event)
    where = f" in {stood}" if stood else ""
    others = [each.words() for each in absent(history, event.t)]
    waits = (
        f"waits for {'; '.join(others)}"
        if others
        else "waits, and nobody is dead, stopped or cut off"
    )
    if op == "send" and not others:
        holder = held_up(history, began, event.t)
        waits = f"waits for room: {holder.words}" if holder is not None else waits
    beside = "".join(f"; {_stands(each)}" for each in history.of("seen") if _is_beside(each, event))
    return f"{role} still waited in {op} after {since:.1f} s{where}: it {waits}{beside}"


def _is_beside(seen: Event, hang: Event) -> bool:
    """Return whether a role was looked at because another one hung."""
    return seen.text("beside") == hang.text("target") and seen.t >= hang.t


def _stands(event: Event) -> str:
    """Return a description of what a worker was doing as its executor hung."""
    stack = [str(frame) for frame in cast("list[object]", event.data.get("stack") or [])]
    where = next((frame for frame in stack if not _TURN.match(frame)), "nothing that can be seen")
    state = {"T": "is stopped", "R": "runs"}.get(event.text("state"), "waits")
    return f"{event.text('target')} {state} in {where}"


def _placed(where: str) -> str:
    """Return the place of a fault in words: at a line, or before or after a store."""
    return f" {where}" if where.startswith(("before ", "after ")) else f" at {where}"


def absent(history: History, until: int) -> list[Absent]:
    """Return the roles that were dead, stopped or cut off at a time, and where they stood."""
    dead = {name: end for name, end in deaths(history).items() if end.t <= until}
    places = {e.text("target"): _placed(e.text("where")) for e in history.of("reached")}
    gone = [
        Absent(name, f"dead by signal {end.number('signal')}{places.get(name, '')}")
        for name, end in dead.items()
    ]
    stopped, cut = _in_force(history, until)
    gone += [Absent(name, "stopped") for name in stopped if name not in dead]
    return gone + [Absent(name, "cut off") for name in cut if name not in dead]


def _in_force(history: History, until: int) -> tuple[list[str], list[str]]:
    """Return the roles that were stopped, and those cut off, whatever else befell them since."""
    stopped, cut = dict[str, None](), dict[str, None]()
    for event in history.of("fault"):
        if event.t > until:
            break
        for held, begin, end in ((stopped, _STOPS, "continue"), (cut, _CUTS, "heal")):
            if event.text("fault") in begin:
                held[event.text("target")] = None
            elif event.text("fault") == end:
                held.pop(event.text("target"), None)
    return list(stopped), list(cut)
