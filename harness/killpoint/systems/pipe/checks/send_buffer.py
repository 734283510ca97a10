"""The buffer of a pipe's sender (K2): empty after every outcome, and bounded in memory."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, deaths, hangs, hangs_of
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pipe.checks.transfers import misplaced
from killpoint.systems.pipe.record import Call, calls, lanes
from killpoint.verdict import Violation

_SLACK = 6 << 20
"""Bytes beside the payload that a run of sends may take: threads, queues, a heap's rounding."""


def check_k2_send_buffer(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K2: `buffer_size` returns to zero; what exceeds the limit passes; memory is bounded."""
    made = calls(history)
    asked = list(history.of("buffered"))
    bursts = list(history.of("burst"))
    found = (
        never_subtracted(history, made)
        or [v for lane in lanes(scenario, made) for v in misplaced(history, lane)]
        or _too_large(scenario, history, made)
        or hangs(history)
        or _refused(scenario, history, made)
    )
    if not found and not asked and not bursts:
        raise Inconclusive("no buffer was looked at")
    counts = {"looks": len(asked), "tensors": sum(c.ok for c in made if c.op == "pipe-receive")}
    return Finding(found[:1], {unit: count for unit, count in counts.items() if count})


def never_subtracted(history: History, made: list[Call]) -> list[Violation]:
    """Return a violation if bytes stay in the account, or keep a send waiting."""
    for look in history.of("buffered"):
        left = look.number("bytes", 0)
        if left <= 0:
            if left < 0:
                cause = f"the buffer of {look.role} holds {left} bytes: more was taken than given"
                return [Violation("leak", cause, _shown(history, look, made))]
            continue
        owed = f"{left} bytes stay in the buffer of {look.role} {_after(look, made)}"
        for hang in hangs_of(history, look.role):
            if any(call.op == "pipe-send" and call.ended is None for call in _of(made, look.role)):
                return [Violation("hang", f"{hang.cause}: {owed}", hang.evidence)]
        return [Violation("leak", owed, _shown(history, look, made))]
    return []


def _after(look: Event, made: list[Call]) -> str:
    failed = [c for c in _of(made, look.role) if c.op == "pipe-send" and not c.carriable]
    told = [c for c in _of(made, look.role) if c.op == "pipe-send" and c.tells]
    if failed:
        return f"after {failed[0].words()}, which failed"
    return f"after {told[0].words()}, which failed" if told else "although all of it was taken"


def _of(made: list[Call], role: str) -> list[Call]:
    return [call for call in made if call.role == role]


def _shown(history: History, look: Event, made: list[Call]) -> list[str]:
    sends = [e for c in _of(made, look.role) if c.op == "pipe-send" for e in c.events()]
    return history.lines([*sends[-6:], look])


def _too_large(scenario: Scenario, history: History, made: list[Call]) -> list[Violation]:
    """A run of sends may take as much as the limit, and one tensor more."""
    limit = scenario.pipe.buffer_bytes if scenario.pipe else 0
    for burst in history.of("burst"):
        sends = [call for call in _of(made, burst.role) if call.op == "pipe-send"]
        largest = max((call.began.number("bytes", 0) for call in sends), default=0)
        grown = burst.number("peak", 0) - burst.number("before", 0)
        if grown > limit + largest + _SLACK:
            cause = (
                f"{burst.role} took {grown >> 20} MiB of memory to send tensors of"
                f" {largest >> 20} MiB each through a buffer of {limit >> 20} MiB"
            )
            return [Violation("growth", cause, history.lines([burst]))]
    return []


def _refused(scenario: Scenario, history: History, made: list[Call]) -> list[Violation]:
    """Return a violation if a tensor that can be carried was refused with no rank dead."""
    if deaths(history) or any(not c.carriable for c in made if c.op == "pipe-send"):
        return []
    for lane in lanes(scenario, made):
        for call in [*lane.sent, *lane.got]:
            if call.tells:
                cause = f"{call.words()} failed: {call.error}"
                return [Violation("lost", cause, history.lines(call.events()))]
    return []
