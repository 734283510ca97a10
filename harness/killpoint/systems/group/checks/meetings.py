"""Meetings of ranks that come late, are dead or never come: who is blamed, and what is given (H2).

A rank blames others for a barrier that ends in vain: those that were there in time are not among
them. Of a gather that all living ranks have reached none waits for a dead one longer than it takes
to tell of a cut (SPEC G4): it ends with the objects of all, or with an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.checkers.error_names_rank import ranks_listed
from killpoint.checkers.finding import deaths, evidence, ordered_end
from killpoint.checkers.partition import bound, longest_cut, network_faults, silence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.group.checks.delivery import PROMPT, tells_of, unlike
from killpoint.systems.group.record import Call
from killpoint.verdict import Violation

_AWAY_MARGIN = 1.0
"""Seconds by which an absence must be shorter than the silence that ends a rank."""
_WITHIN = 2.0
"""Seconds beyond the silence within which all are told of a rank (SPEC G4)."""


def too_long_away(history: History) -> str:
    """Return why an absence may have ended its rank; empty: none may."""
    limit = silence(history) - _AWAY_MARGIN
    for what, seconds in (
        ("cut", longest_cut(network_faults(history))),
        ("stop", _longest_stop(history)),
    ):
        if seconds > limit:
            return f"a {what} lasted {seconds:.1f} s, too near to the silence"
    return ""


def _longest_stop(history: History) -> float:
    """Seconds for which a rank was stopped at most, and went on again."""
    since: dict[str, int] = {}
    longest = 0
    for event in history.of("fault"):
        role = event.text("target")
        if event.text("fault") == "stop":
            since[role] = event.t
        elif event.text("fault") == "continue" and role in since:
            longest = max(longest, event.t - since.pop(role))
    return longest / 1e9


def blamed(scenario: Scenario, history: History, made: Sequence[Call]) -> list[Violation]:
    """A barrier's error lists no rank that had come and still waited beside one that never came.

    Only a list that tells such ranks apart is read so: if another one that had come, with a lower
    number than the missing one, too, is not in it, it is no list of all ranks up to that one.
    """
    if deaths(history):
        return []
    met = [call for call in made if call.op == "barrier"]
    for call in met:
        same = [other for other in met if other.began.number("n") == call.began.number("n")]
        if call.outcome != "timeout" or call.ended is None:
            continue
        wrong = _blamed_of(scenario, history, call, same)
        if wrong is not None:
            cause = f"{call.words()} blamed {wrong.role}, which had come and still waited"
            lines = evidence(history, sorted([wrong.began, *call.events()], key=_time))
            return [Violation("no-error", f"{cause}: {call.error}", lines, level="SHOULD")]
    return []


def _blamed_of(
    scenario: Scenario, history: History, call: Call, same: Sequence[Call]
) -> Call | None:
    """Return the call of a rank that this one blames wrongly; None if it blames none so."""
    rank = {role: number for number, role in enumerate(scenario.roles())}
    never = set(rank.values()) - {rank[other.role] for other in same}
    for listed in ranks_listed(call.error):
        missed = max(listed & never, default=-1)
        there = {
            rank[other.role]: other
            for other in same
            if other.role != call.role
            and rank[other.role] < missed
            and _waits(history, other, call)
        }
        wrong = sorted(there.keys() & listed)
        if wrong and there.keys() - listed:
            return there[wrong[0]]
    return None


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
            wrong = _of_one(scenario, history, call, given, dead)
            if wrong:
                return [wrong]
    return []


def _of_one(
    scenario: Scenario,
    history: History,
    call: Call,
    given: Sequence[Call | None],
    dead: dict[str, Event],
) -> Violation | None:
    assert call.ended is not None
    lines = evidence(history, sorted([*dead.values(), *call.events()], key=_time))
    if call.ok:
        wrong = unlike(call, given)
        return Violation(wrong[0], f"{call.words()} {wrong[1]}", lines) if wrong else None
    struck = min(ordered_end(history, role) or dead[role].t for role in dead)
    if call.outcome != "timeout":
        if call.ended.t < struck:
            cause = f"{call.words()} ended with {call.outcome} before any rank was dead"
            return Violation("lost", f"{cause}: {call.error}", lines)
        if not tells_of(call, dead):
            cause = f"{call.words()} failed for a rank's death with an error that does not name it"
            return Violation("no-error", f"{cause}: {call.error}", lines, level="SHOULD")
        return None
    living = [each for role, each in zip(scenario.roles(), given, strict=True) if role not in dead]
    came = [each.began.t for each in living if each is not None]
    if len(came) < len(living):
        return None
    told = max(event.t for event in dead.values()) + int(silence(history) * 1e9)
    since = max(told, *came)
    late = call.ended.t - since - history.allowance(min(struck, since), call.ended.t)
    if late <= _WITHIN * 1e9:
        return None
    cause = f"{call.words()} only ran out of its own time: it was never told of a rank's death"
    return Violation("no-error", f"{cause} ({bound(history)[0]}): {call.error}", lines)


def _time(event: Event) -> int:
    return event.t
