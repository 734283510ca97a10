"""Metadata that lie (K6): refused before anything is allocated for them."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, hangs_of
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pipe.record import Call, calls
from killpoint.verdict import Violation

_MUCH = 1 << 30
"""Bytes of address space: no honest tensor of these plays is anywhere near."""


def check_k6_forged_frames(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K6: hostile metadata is refused before allocation."""
    made = calls(history)
    # A lie may be refused so soon that its own call hears of it.
    lies = [c for c in made if c.op == "forge" and c.made]
    if not lies:
        raise Inconclusive("nobody lied")
    roles, found = scenario.roles(), list[Violation]()
    for lie in lies:
        taker = roles[(roles.index(lie.role) + 1) % len(roles)]
        taken = [
            call
            for call in made
            if call.role == taker
            and call.op == "pipe-receive"
            and (call.ended is None or call.ended.t > lie.began.t)
        ]
        if not taken:
            raise Inconclusive(f"{taker} took nothing after the lie")
        honest = {c.digest for c in made if c.op == "pipe-send" and c.role == lie.role}
        found = found or _of(history, lie, taker, taken, honest)
    return Finding(found[:1], {"lies": len(lies)})


def _of(
    history: History, lie: Call, taker: str, taken: list[Call], honest: set[str]
) -> list[Violation]:
    word = lie.began.text("lie")
    for call in taken:
        if call.ok and call.digest not in honest:
            what = f"{taker} took a tensor that nobody sent, after metadata that lied ({word})"
            return [Violation("wrong-data", what, _shown(history, lie, call))]
    for call in taken:
        grown = call.ended.number("grew", 0) if call.ended else 0
        if grown > _MUCH:
            what = f"{taker} allocated {grown >> 20} MiB for metadata that lied ({word})"
            return [Violation("growth", what, _shown(history, lie, call))]
    if not any(call.tells for call in taken):
        hung = hangs_of(history, taker)
        if hung:
            cause = f"{hung[0].cause}: the metadata before it lied ({word})"
            return [Violation("hang", cause, hung[0].evidence)]
        what = f"{taker} was never told that metadata lied ({word})"
        return [Violation("no-error", what, _shown(history, lie, taken[-1]))]
    return hangs_of(history, taker)[:1]


def _shown(history: History, lie: Call, call: Call) -> list[str]:
    events: list[Event] = [*lie.events(), *call.events()]
    return history.lines(events)
