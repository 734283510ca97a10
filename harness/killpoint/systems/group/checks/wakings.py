"""Calls of one rank that wait at once, each in a thread: each ends when it can (H2).

What comes for one of them may wake another. A call that slept on ends with the next news, at its
own deadline, or never: it is late by its own wait, though it had what it asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from killpoint.checkers.finding import evidence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Fault, Scenario
from killpoint.systems.group.record import Call, at_once
from killpoint.verdict import Violation

_WOKEN = 1_000_000_000
"""ns within which a call ends once what it waits for is there (SPEC H2)."""
_MEETINGS = ("gather", "barrier")


def overslept(scenario: Scenario, history: History, made: Sequence[Call]) -> list[Violation]:
    """A call beside another of its rank ended long after what it had waited for was there.

    Where faults hold objects and ranks up, nothing is said.
    """
    if any(isinstance(step, Fault) for step in scenario.steps):
        return []
    beside = _beside(made)
    if not beside:
        return []
    causes = _Causes(scenario, made)
    for call, others in beside:
        cause = causes.of(call)
        if cause is None or call.ended is None:
            continue
        since = max([call.began.t, cause.t, *(_first_of_lane(call, each) for each in others)])
        if call.ended.t - since - history.allowance(since, call.ended.t) > _WOKEN:
            too = " and ".join(dict.fromkeys(each.words() for each in others))
            late = (call.ended.t - since) / 1e9
            text = f"{call.words()} ended {late:.2f} s after it could: {too} waited, too"
            near = {id(e): e for each in (call, *others) for e in (*each.events(), cause)}
            lines = evidence(history, sorted(near.values(), key=lambda event: event.t))
            return [Violation("late", text, lines)]
    return []


def _beside(made: Sequence[Call]) -> list[tuple[Call, list[Call]]]:
    """Return the calls that succeeded beside others of their rank, with these."""
    of_rank: dict[str, list[Call]] = defaultdict(list)
    for call in made:
        of_rank[call.role].append(call)
    return [
        (call, others)
        for own in of_rank.values()
        if any(call.thread for call in own)
        for call in own
        if call.ok
        and (others := [each for each in own if each is not call and at_once(call, each)])
    ]


def _first_of_lane(call: Call, other: Call) -> int:
    """Return when another call for the same thing ended, if it was served first; else 0."""
    same = (call.op, call.began.text("source")) == (other.op, other.began.text("source"))
    if not same or other.ended is None or call.ended is None or other.ended.t > call.ended.t:
        return 0
    return other.ended.t


class _Causes:
    """Events from which on each call could end: its object was sent, or the last rank had come."""

    def __init__(self, scenario: Scenario, made: Sequence[Call]) -> None:
        self._ranks = len(scenario.roles())
        self._sent: dict[tuple[str, str, int], Event] = {}
        self._came: dict[tuple[str, int], list[Event]] = defaultdict(list)
        self._turn: dict[int, int] = {}
        turns: dict[tuple[str, str], int] = defaultdict(int)
        for call in made:
            if call.sends and call.ended is not None:
                self._sent[call.role, call.began.text("to"), call.seq] = call.ended
            elif call.op in _MEETINGS:
                turn = self._turn[id(call)] = turns[call.role, call.op]
                turns[call.role, call.op] += 1
                self._came[call.op, turn].append(call.began)

    def of(self, call: Call) -> Event | None:
        """Return the event; None if the call waited for nobody, or if that is not known."""
        if call.op in _MEETINGS:
            came = self._came[call.op, self._turn[id(call)]]
            return max(came, key=lambda event: event.t) if len(came) == self._ranks else None
        if call.sends:
            return None
        to = call.role if call.op == "receive-from" else ""
        return self._sent.get((call.began.text("source"), to, call.seq))
