"""Harmed links of a pipe (K3): no wrong data, nothing owed, no wait beyond its time.

The ends of a link that was reset get an error. Where it fell silent no end can know what became of
the bytes: there it is enough that each call ends by its own deadline.
"""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, hangs
from killpoint.checkers.partition import network_faults
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.pipe.checks.transfers import misplaced
from killpoint.systems.pipe.record import Call, Lane, calls, lanes
from killpoint.verdict import Violation

_SECONDS = 1_000_000_000
_WITHIN = 2
"""Seconds within which both ends of a broken connection get an error; a close may take a little
longer."""
_CLOSES_WITHIN = 5
_ARRIVES = 50_000_000
"""Nanoseconds in which a call may still go well: the word of it is on its way."""


class _Harm(msgspec.Struct):
    """Fault done to the links, and its time."""

    word: str
    event: Event
    at: int
    """Monotonic ns."""
    healed: bool

    def words(self) -> str:
        """The fault for people."""
        return f"the {self.word} of {self.event.text('target')}'s links"


def links_told(scenario: Scenario, history: History) -> Finding:
    """K3, as far as a pipe's links are concerned."""
    harm, made = _harm(history), calls(history)
    ways = lanes(scenario, made)
    found = [v for lane in ways for v in misplaced(history, lane)]
    found = found or hangs(history) or _overdue(history, made) or _owed(history, harm)
    if harm.word == "reset":
        found = found or [v for lane in ways for v in _untold(history, lane, made, harm)]
        found = found or _late(history, made, harm)
    elif harm.healed:
        found = found or [v for lane in ways for v in _lost(history, lane, harm)]
    if not found and not any(c.ended and c.ended.t > harm.at for c in made):
        raise Inconclusive(f"nobody did anything after {harm.words()}")
    return Finding(found[:1], {"links harmed": 1})


def _harm(history: History) -> _Harm:
    """The first one, which may have waited for some bytes."""
    faults = network_faults(history)
    for fault in faults:
        word, role = fault.text("fault"), fault.text("target")
        if word in ("cut", "half-open", "reset"):
            said = [e for e in history.of("relay") if e.text("target") == role]
            sprung = max((e.number("sprung", 0) for e in said), default=0)
            healed = any(e.text("fault") == "heal" and e.t > fault.t for e in faults)
            return _Harm(word, fault, max(sprung, fault.t), healed)
    raise Inconclusive("no link was harmed")


def _overdue(history: History, made: list[Call]) -> list[Violation]:
    """A call that came back long after its own deadline."""
    for call in made:
        if call.ended is None or call.timeout is None:
            continue
        due = call.began.t + int((call.timeout + _WITHIN) * _SECONDS)
        if call.ended.t > due + history.allowance(call.began.t, call.ended.t):
            cause = f"{call.words()} took {call.seconds:.2f} s with a timeout of {call.timeout:g} s"
            return [Violation("late", cause, history.lines(call.events()))]
    return []


def _owed(history: History, harm: _Harm) -> list[Violation]:
    """Bytes that stay in an account."""
    for look in history.of("buffered"):
        if look.t > harm.at and look.number("bytes", 0):
            cause = f"{look.number('bytes')} bytes stay in the buffer of {look.role} after"
            return [Violation("leak", f"{cause} {harm.words()}", history.lines([look]))]
    return []


def _untold(history: History, lane: Lane, made: list[Call], harm: _Harm) -> list[Violation]:
    """Check that a lost tensor is an error at its sender, and at a rank that asked for it."""
    came = sum(call.ok for call in lane.got)
    accepted = [call for call in lane.sent if call.ok and call.carriable]
    if came >= len(accepted):
        return []
    for role in (lane.source, lane.taker):
        mine = [c for c in made if c.role == role and c.ended and c.ended.t > harm.at]
        later = [c for c in mine if c.op != "pipe-receive" and c.began.t > harm.at + _ARRIVES]
        asked = later if role == lane.source else lane.got[came:]
        if asked and not any(c.tells for c in mine):
            what = f"{accepted[came].words()} never came after {harm.words()}"
            lines = history.lines([harm.event, *accepted[came].events(), *asked[-1].events()])
            return [Violation("no-error", f"{what}, and {role} was not told", lines)]
    return []


def _late(history: History, made: list[Call], harm: _Harm) -> list[Violation]:
    """Check that calls which were pending, or began later, return soon."""
    for call in made:
        if call.ended is None or call.ended.t <= harm.at:
            continue
        since = max(call.began.t, harm.at)
        within = _CLOSES_WITHIN if call.op == "pipe-close" else _WITHIN
        due = since + within * _SECONDS + history.allowance(since, call.ended.t)
        if call.ended.t > due:
            took = (call.ended.t - since) / _SECONDS
            cause = f"{call.words()} came back ({call.outcome}) {took:.2f} s after {harm.words()}"
            return [Violation("late", cause, history.lines([harm.event, *call.events()]))]
    return []


def _lost(history: History, lane: Lane, harm: _Harm) -> list[Violation]:
    """A link that went on has lost nothing; calls that ran out of time had no effect (X1)."""
    for call in lane.got:
        if call.tells and call.outcome != "closed":
            cause = f"{call.words()} failed after {harm.words()}: {call.error}"
            return [Violation("lost", cause, history.lines([harm.event, *call.events()]))]
    came = sum(call.ok for call in lane.got)
    accepted = [call for call in lane.sent if call.ok and call.carriable]
    if came < len(accepted):
        cause = f"{accepted[came].words()} never came after {harm.words()}, which was healed"
        return [Violation("lost", cause, history.lines([harm.event, *accepted[came].events()]))]
    for call in lane.sent:
        if call.tells:
            cause = f"{call.words()} failed after {harm.words()}: {call.error}"
            return [Violation("lost", cause, history.lines([harm.event, *call.events()]))]
    return []
