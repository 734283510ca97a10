"""Deaths in a pipe (K4): the dead rank's peers get an error in time, and their close returns."""

from __future__ import annotations

from killpoint.checkers.finding import (
    Finding,
    Inconclusive,
    deaths,
    hangs,
    hangs_of,
    ordered_end,
)
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pipe.checks.transfers import misplaced
from killpoint.systems.pipe.record import Call, calls, lanes, neighbours
from killpoint.verdict import Violation, counted

_SECONDS = 1_000_000_000
_WITHIN = {"cpu": 2, "cuda": 10}
"""Seconds within which a survivor must get an error, by the device of the tensors."""
_CLOSES_WITHIN = 5
_ROUNDING = 200_000_000


def check_k4_deaths(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K4: a peer killed at any instant: an error within 2 s (CPU), and `close` returns."""
    ends = deaths(history)
    if not ends:
        raise Inconclusive("nobody was killed")
    made = calls(history)
    found: list[Violation] = []
    asked = 0
    for dead, end in ends.items():
        for role in sorted(neighbours(scenario, dead) - ends.keys()):
            mine = _since(made, role, end)
            asked += len(mine)
            within = _WITHIN[scenario.pipe.device if scenario.pipe else "cpu"]
            found = found or _told(history, scenario, mine, role, dead, end, within)
    found = found or _opens(history, ends) or hangs(history)
    found = found or [v for lane in lanes(scenario, made) for v in misplaced(history, lane)]
    if not found and not asked and not _opened_after(history, ends):
        raise Inconclusive("no survivor did anything after the death")
    return Finding(found[:1], {"deaths": len(ends)})


def _since(made: list[Call], role: str, end: Event) -> list[Call]:
    """Return the calls of a survivor that were pending when the other died, or came afterwards."""
    mine = [c for c in made if c.role == role and c.made]
    return [c for c in mine if c.ended is None or c.ended.t > end.t]


def _told(
    history: History,
    scenario: Scenario,
    mine: list[Call],
    role: str,
    dead: str,
    end: Event,
    within: int,
) -> list[Violation]:
    hung = hangs_of(history, role)
    if hung:
        return hung[:1]
    roles = scenario.roles()
    upstream = roles[roles.index(role) - 1]
    about = [
        call
        for call in mine
        if (call.op == "pipe-receive" and upstream == dead)
        or (call.op == "pipe-send" and roles[(roles.index(role) + 1) % len(roles)] == dead)
        or call.op == "pipe-close"
    ]
    for call in about:
        late = _late(history, call, end, _CLOSES_WITHIN if call.op == "pipe-close" else within)
        if late is not None:
            what = f"{call.words()} came back ({call.outcome}) {late:.2f} s after the death of"
            cause = f"{what} {dead}; an error was due within {within} s"
            return [Violation("late", cause, history.lines([end, *call.events()]))]
    if any(call.tells for call in about) or all(call.op == "pipe-close" for call in about):
        return []
    sends = [c for c in about if c.op != "pipe-close"]
    cause = (
        f"{role} was never told of the death of {dead}: {counted(len(sends), 'calls')} to or from"
        f" it ended well, the last of them {sends[-1].words()}"
    )
    return [Violation("no-error", cause, history.lines([end, *sends[-1].events()]))]


def _late(history: History, call: Call, end: Event, within: int) -> float | None:
    """Seconds that a call took from the death, or from its begin, if they were too many."""
    if call.ended is None:
        return None
    since = max(call.began.t, end.t)
    due = since + within * _SECONDS + history.allowance(since, call.ended.t)
    return (call.ended.t - since) / _SECONDS if call.ended.t > due else None


def _opens(history: History, ends: dict[str, Event]) -> list[Violation]:
    """The making of an end comes back by its own deadline, or 2 s after the death."""
    first = min(end.t for end in ends.values())
    for event in history.of("begin"):
        if event.text("op") != "pipe-open" or event.role in ends:
            continue
        limit = event.data.get("timeout")
        back = next(
            (e for e in history.of("end", role=event.role) if e.text("op") == "pipe-open"), None
        )
        if back is None or not isinstance(limit, (int, float)):
            continue
        due = max(event.t + int(limit * _SECONDS), first + _WITHIN["cpu"] * _SECONDS)
        due += _ROUNDING + history.allowance(event.t, back.t)
        if back.t > due:
            late = (back.t - event.t) / _SECONDS
            cause = f"{event.role} made its end for {late:.2f} s with a timeout of {limit:g} s"
            return [Violation("late", cause, history.lines([event, back]))]
    return []


def _opened_after(history: History, ends: dict[str, Event]) -> bool:
    """Return whether a survivor's open returned after the fault of the first death was begun."""
    first = min(ordered_end(history, role) or end.t for role, end in ends.items())
    return any(e.text("op") == "pipe-open" and e.t > first for e in history.of("end"))
