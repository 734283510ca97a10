"""Meetings of ranks that come late, are dead or never come: who is blamed, and what is given (H2).

A rank blames others for a barrier that ends in vain: those that were there in time are not among
them. A gather that every rank reached is one, though a rank died in it afterwards: it gives the
objects of all or reports the death, and runs out of nobody's time.
"""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.checkers.error_names_rank import ranks_named
from killpoint.checkers.finding import deaths, evidence, ordered_end
from killpoint.checkers.partition import longest_cut, network_faults, silence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.group.checks.delivery import PROMPT, unlike
from killpoint.systems.group.record import Call
from killpoint.verdict import Violation

_BREAK_MARGIN = 1.0
"""Seconds by which a cut must be shorter than the silence that ends a rank."""


def too_long_cut(history: History) -> str:
    """Return why a cut may have ended its rank; empty: none may."""
    longest = longest_cut(network_faults(history))
    if longest <= silence(history) - _BREAK_MARGIN:
        return ""
    return f"a cut lasted {longest:.1f} s, too near to the silence"


def blamed(scenario: Scenario, history: History, made: Sequence[Call]) -> list[Violation]:
    """A barrier's error names no rank that had come in time and still waited."""
    roles = scenario.roles()
    met = [call for call in made if call.op == "barrier"]
    for call in met:
        if call.outcome != "timeout" or call.ended is None or deaths(history):
            continue
        number = call.began.number("n")
        same = [other for other in met if other.began.number("n") == number]
        there = [
            other for other in same if other.role != call.role and _waits(history, other, call)
        ]
        named = {roles[rank] for rank in ranks_named(call.error) if rank < len(roles)}
        missed = named - {other.role for other in same} - {call.role}
        wrong = [other for other in there if other.role in named]
        if wrong and missed:
            cause = f"{call.words()} blamed {wrong[0].role}, which had come and still waited"
            lines = [*wrong[0].events()[:1], *call.events()]
            shown = evidence(history, sorted(lines, key=_time))
            return [Violation("no-error", f"{cause}: {call.error}", shown, level="SHOULD")]
    return []


def _waits(history: History, other: Call, call: Call) -> bool:
    """Return whether the other call had begun well before this one ended, and ended no earlier."""
    assert call.ended is not None
    until = call.ended.t
    if other.ended is not None and other.ended.t <= until:
        return False
    return until - other.began.t > PROMPT + history.allowance(other.began.t, until)


def gathered_with_dead(
    scenario: Scenario, history: History, made: Sequence[Call]
) -> list[Violation]:
    """A gather in which a rank died has every rank's object, or its callers hear of the death."""
    dead = deaths(history)
    if not dead:
        return []
    turns = {
        role: [call for call in made if call.role == role and call.op == "gather"]
        for role in scenario.roles()
    }
    for role, own in turns.items():
        for number, call in enumerate(own):
            if call.ended is None or role in dead:
                continue
            given = [each[number] if number < len(each) else None for each in turns.values()]
            wrong = _of_one(history, call, given, dead)
            if wrong:
                return [wrong]
    return []


def _of_one(
    history: History, call: Call, given: Sequence[Call | None], dead: dict[str, Event]
) -> Violation | None:
    lines = evidence(history, sorted([*dead.values(), *call.events()], key=_time))
    if call.ok:
        wrong = unlike(call, given)
        return Violation(wrong[0], f"{call.words()} {wrong[1]}", lines) if wrong else None
    if call.outcome != "timeout":
        return None
    came = [each for each in given if each is not None]
    if len(came) < len(given) or not all(_given(history, each, call) for each in came):
        return None
    cause = f"{call.words()} ran out of time, though every rank had given its object"
    return Violation("starved", f"{cause}, and one died only then: {call.error}", lines)


def _given(history: History, other: Call, call: Call) -> bool:
    """Return whether an object had been there for a while, before its rank's death if it died."""
    assert call.ended is not None
    until = min(call.ended.t, ordered_end(history, other.role) or call.ended.t)
    return until - other.began.t > PROMPT + history.allowance(other.began.t, until)


def _time(event: Event) -> int:
    return event.t
