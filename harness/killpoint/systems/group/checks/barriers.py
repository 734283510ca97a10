"""Barriers: no rank passes before all have come; one that waits in vain learns for whom (G3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from killpoint.checkers.error_names_rank import names_one_of
from killpoint.checkers.finding import (
    Finding,
    Inconclusive,
    deaths,
    evidence,
    graver,
    hangs,
    ordered_end,
)
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.group.model import BarrierModel
from killpoint.systems.group.record import Call, calls, has_left
from killpoint.verdict import Violation

_EARLY = 0.001
_KNOWN = 2.0
"""Seconds after which a group must know of a death."""
_MAKING = 1.0
"""Seconds more for a join: keys, threads and connections are made in it, which is no waiting."""
_COMES = 100_000_000
"""ns within which those who wait hear of a rank that has come."""
_ALLOWED = 0.25
"""Seconds beyond a deadline that are tolerated, on top of what the control wait was late."""


def check_g3_barriers(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """G3: with a rank dead or absent, every live rank's barrier fails in time and names it."""
    made = calls(history)
    found = broken_barriers(scenario, history, made)
    found = graver(graver(found, _joins(scenario, history)), hangs(history))
    dead = deaths(history)
    vain = [
        call
        for call in made
        if call.op == "barrier"
        and call.role not in dead
        and call.ended
        and not call.ok
        and call.made
    ]
    joins = [event for event in history.of("end") if _failed_join(event)]
    if not found and not vain and not joins and not _struck_in_join(history, dead):
        raise Inconclusive("no live rank's barrier had a rank to miss")
    return Finding(found[:1], {"barriers": len(vain)})


def broken_barriers(scenario: Scenario, history: History, made: Sequence[Call]) -> list[Violation]:
    """Return what is wrong with the barriers of the live ranks."""
    dead = deaths(history)
    met = [call for call in made if call.op == "barrier"]
    numbered: dict[int, list[Call]] = {}
    for call in met:
        numbered.setdefault(call.began.number("n"), []).append(call)
    wrong: list[Violation] = []
    for call, same in ((call, turn) for turn in _by_turn(met) for call in turn):
        if call.ended is None or call.role in dead or not call.made:
            continue
        also = numbered[call.began.number("n")]
        found = _judge(scenario, history, call, same, also, dead)
        if found:
            lines = [*dead.values(), call.began, call.ended]
            shown = evidence(history, sorted(lines, key=lambda event: event.t))
            wrong = graver(wrong, [msgspec.structs.replace(found, evidence=shown)])
    return wrong


def _judge(
    scenario: Scenario,
    history: History,
    call: Call,
    same: Sequence[Call],
    numbered: Sequence[Call],
    dead: dict[str, Event],
) -> Violation | None:
    """Judge one call; ``numbered``: those for the same barrier if who gave up is one further."""
    assert call.ended is not None
    absent = _absent(scenario, call, [*same, *numbered] if call.ok else same)
    gone = [role for role in dead if _struck(history, role, dead) <= call.ended.t]
    who = sorted({*absent, *gone})
    if call.ok:
        if absent:
            cause = f"{call.words()} ended well although {' and '.join(absent)} had not come"
            return Violation("no-error", cause)
        before = [
            role
            for role in gone
            if _long_before(history, dead[role], call) and not _passed([*same, *numbered], role)
        ]
        if before:
            cause = f"{call.words()} ended well although {before[0]} was dead before it began"
            return Violation("no-error", cause)
        return None
    if not who and (_absent(scenario, call, numbered) or _not_together(history, call, same)):
        return _late(history, call)
    if not who:
        cause = f"{call.words()} ended with {call.outcome} although every rank came: {call.error}"
        return Violation("lost", cause)
    late = _late(history, call)
    if late:
        return late
    due = call.timeout
    left = [role for role in absent if has_left(history, role, call)]
    if due is not None and not gone and not left and call.seconds < due - _EARLY:
        cause = f"{call.words()} with timeout {due:g} s gave up after {call.seconds:.3f} s"
        return Violation("late", f"{cause}: too early, {who[0]} might still have come")
    if not names_one_of(call.error, [int(role.split("-")[1]) for role in who]):
        why = "dead" if gone else "absent"
        cause = f"{call.words()} failed for {who[0]}, {why}, with an error that does not name it"
        return Violation("no-error", f"{cause}: {call.error}", level="SHOULD")
    return None


def _long_before(history: History, death: Event, call: Call) -> bool:
    """Return whether the group must have known of the death when this rank came.

    A rank that died inside the barrier had come to it: for a moment the message of its arrival may
    be there, and that of its death not yet.
    """
    allowed = _KNOWN + history.allowance(death.t, call.began.t) / 1e9
    return (call.began.t - death.t) / 1e9 > allowed


def _struck(history: History, role: str, dead: dict[str, Event]) -> int:
    """Return from when on a role may have been dead, ns: its end is logged only when reaped."""
    return ordered_end(history, role) or dead[role].t


def _absent(scenario: Scenario, call: Call, same: Sequence[Call]) -> list[str]:
    """Return the ranks that had not come to this barrier when the call ended."""
    assert call.ended is not None
    roles = scenario.roles()
    meeting = BarrierModel(len(roles))
    for other in same:
        if other.made and other.began.t <= call.ended.t:
            meeting.come(roles.index(other.role))
    return [roles[rank] for rank in meeting.missing()]


def _not_together(history: History, call: Call, same: Sequence[Call]) -> bool:
    """Return whether a rank had given up before this call ended, or came as its time ran out.

    All have come at some time, and perhaps never waited at once.
    """
    assert call.ended is not None
    until = call.ended.t
    by_role: dict[str, list[Call]] = {}
    for other in same:
        if other.made and other.role != call.role and other.began.t <= until:
            by_role.setdefault(other.role, []).append(other)
    ran_out = call.timeout is not None and call.seconds >= call.timeout - _EARLY
    for others in by_role.values():
        there = [o.began.t for o in others if o.ok or o.ended is None or o.ended.t > until]
        if not there:
            return True
        since = max(call.began.t, min(there))
        if ran_out and until - since <= _COMES + history.allowance(since, until):
            return True
    return False


def _by_turn(met: Sequence[Call]) -> list[list[Call]]:
    """Return the calls for each barrier; a rank that gave up calls again for the same one (X1)."""
    failed: dict[str, list[int]] = {}
    turns: dict[int, list[Call]] = {}
    for call in met:
        mine = failed.setdefault(call.role, [])
        before = sum(t < call.began.t for t in mine)
        turns.setdefault(call.began.number("n") - before, []).append(call)
        if call.ended is not None and not call.ok:
            mine.append(call.ended.t)
    return list(turns.values())


def _passed(same: Sequence[Call], role: str) -> bool:
    """Return whether the role had passed this very barrier."""
    return any(other.role == role and other.ok for other in same)


def _late(history: History, call: Call) -> Violation | None:
    due = call.timeout
    if due is None or call.ended is None:
        return None
    allowed = due + _ALLOWED + history.allowance(call.began.t, call.ended.t) / 1e9
    if call.seconds <= allowed:
        return None
    cause = f"{call.words()} with timeout {due:g} s took {call.seconds:.2f} s"
    return Violation("late", f"{cause} and ended with: {call.error}")


def _failed_join(event: Event) -> bool:
    return event.text("op") == "join" and event.text("outcome") not in ("ok", "")


def _struck_in_join(history: History, dead: Collection[str]) -> bool:
    """Return whether a rank died in its join, late enough perhaps for all others to be complete."""
    ended = {event.role for event in history.of("end") if event.text("op") == "join"}
    begun = {event.role for event in history.of("begin") if event.text("op") == "join"}
    return bool((begun - ended) & set(dead))


def _joins(scenario: Scenario, history: History) -> list[Violation]:
    """Check that a join without one of the ranks ends by its timeout, the host's with an error.

    A member may be let in before all have come: its next call will report it. Where a rank died in
    its join, it may or may not have come: a join that fails then names it, or one that gave up.
    """
    dead = deaths(history)
    failed = [event.role for event in history.of("end") if _failed_join(event)]
    gone = {role: scenario.roles().index(role) for role in (*dead, *failed)}
    asked = {e.role: e.data.get("timeout") for e in history.of("begin") if e.text("op") == "join"}
    whole = asked.keys() == set(scenario.roles()) and not dead
    found: list[Violation] = []
    for event in history.of("end"):
        if event.text("op") != "join":
            continue
        lines = evidence(history, [event])
        if whole and event.text("outcome") != "ok":
            return [Violation("lost", f"{event.role}'s join failed: {event.text('error')}", lines)]
        others = [rank for role, rank in gone.items() if role != event.role]
        if dead and event.role in failed and not names_one_of(event.text("error"), others):
            cause = f"{event.role}'s join failed, and its error does not name {' or '.join(dead)}"
            error = event.text("error")
            found = graver(found, [Violation("no-error", f"{cause}: {error}", lines, "SHOULD")])
        here = event.role == scenario.roles()[0] and event.text("outcome") == "ok"
        if here and not whole and not dead:
            cause = f"{event.role} made a group of which a rank never came"
            return [Violation("no-error", cause, lines)]
        due, took = asked.get(event.role), event.data.get("s")
        if not whole and isinstance(due, (int, float)) and isinstance(took, (int, float)):
            since = event.t - int(took * 1e9)
            if took > due + _MAKING + history.allowance(since, event.t) / 1e9:
                cause = f"{event.role}'s join with timeout {due:g} s took {took:.2f} s"
                return [Violation("late", cause, lines)]
    return found
