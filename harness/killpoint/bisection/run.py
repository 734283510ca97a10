"""Both ends are verified, then candidates are asked until the two that differ are neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable

from killpoint.bisection.candidates import Candidates
from killpoint.bisection.probe import Question, Reply
from killpoint.bisection.result import Answer, Tried, answer, undecided
from killpoint.bisection.search import Bracket
from killpoint.errors import BadUsage, KillpointError

Tell = Callable[[str], None]
"""Called with a line as the search comes on."""


def bisect(question: Question, line: Candidates, *, good_is_older: bool, tell: Tell) -> Answer:
    """Find where along a line the outcome changes.

    Raises:
        BadUsage: the ends do not differ, or differ the other way round.
        KillpointError: an end cannot be had. Any other candidate is skipped for that.
    """
    oldest, newest = 0, len(line.names) - 1
    good, bad = (oldest, newest) if good_is_older else (newest, oldest)
    ends: list[Tried] = []
    for role, end in (("good", good), ("bad", bad)):
        ends.append(_tried(question, line, end))
        tell(f"{role}: {ends[-1].line()}")
        if ends[-1].outcome == "skipped":
            return undecided(question.name, ends[-1], ends)
    _differ(question.name, *ends)
    bracket = Bracket.around(len(line.names), "held" if good_is_older else "violated")
    tell(_remaining(bracket, line.unit, "between them"))
    tried = ends
    while (middle := bracket.middle()) is not None:
        asked = _tried_or_skipped(question, line, middle)
        bracket = bracket.told(middle, asked.outcome)
        tried = [*tried, asked]
        tell(f"{asked.line()}; {_remaining(bracket, line.unit)}")
    return answer(question.name, line.names, bracket, tried)


def _tried(question: Question, line: Candidates, candidate: int) -> Tried:
    began = time.monotonic()
    with line.at(candidate) as target:
        reply = question.ask(target)
    return Tried.of(line.names[candidate], reply, time.monotonic() - began)


def _tried_or_skipped(question: Question, line: Candidates, candidate: int) -> Tried:
    """Try a candidate; one that cannot be had is skipped, and its neighbours are asked instead."""
    began = time.monotonic()
    try:
        return _tried(question, line, candidate)
    except KillpointError as error:
        reply = Reply("skipped", cause=" ".join(str(error).split()))
        return Tried.of(line.names[candidate], reply, time.monotonic() - began)


def _differ(asked: str, good: Tried, bad: Tried) -> None:
    if good.outcome == bad.outcome:
        both = f"{good.name} and {bad.name}"
        raise BadUsage(f"{asked}: {good.outcome} by {both}; expected it to be violated by one")
    if good.outcome == "violated":
        raise BadUsage(f"{asked}: violated by {good.name}, given as good, and held by {bad.name}")


def _remaining(bracket: Bracket, unit: str, where: str = "left") -> str:
    left, steps = len(bracket.left), bracket.steps()
    if not left:
        return f"no {unit} {where}"
    units, more = f"{left} {unit}{'s' * (left != 1)}", f"{steps} step{'s' * (steps != 1)}"
    return f"{units} {where}, at most {more} without skips"
