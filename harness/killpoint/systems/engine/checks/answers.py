"""Every request ends: with tokens, or with an error that names the cause (E1)."""

from __future__ import annotations

import re

from killpoint.checkers.finding import Finding, Inconclusive, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.engine.record import SECOND, Life, Request, Strike, life, slack, some
from killpoint.verdict import Violation, counted

_FINISHES = ("stop", "length", "cancelled")
_CANCELS_WITHIN = 2 * SECOND
_BLAMELESS = ("closed", "cancelled", "refused")
"""Outcomes with an error that has nothing to do with a fault done to a part."""


def check_e1_every_request_ends(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """E1, whatever else is judged of the play."""
    del ledger
    found = hangs(history)
    if found:
        return Finding(found[:1])
    of = life(scenario, history)
    if not of.strikes:
        found += unasked_deaths(history, of)
    for request in of.requests:
        found += _lost(history, of, request) or _ended(history, of, request)
        if found:
            break
    ends = sum(request.answer is not None for request in of.requests)
    told = sum(request.failed for request in of.requests)
    return Finding(found[:1], {"requests": ends, "errors that name a cause": told})


def unasked_deaths(history: History, of: Life) -> list[Violation]:
    """Return a violation if a part ended although nothing had been done to the engine."""
    for gone in history.of("gone"):
        if gone.t < of.until:
            how = f"of signal {gone.number('signal')}" if "signal" in gone.data else "by itself"
            cause = f"{gone.text('target')} died {how}, and nobody had done anything to it"
            return [Violation("crash", cause, some(history, of, gone, around=gone.t))]
    return []


def _lost(history: History, of: Life, request: Request) -> list[Violation]:
    """Return a violation if the request never ended, or only long after its limit.

    The engine's stop may be what ended it.
    """
    if _front_end_gone(history):
        return []
    calm, stop = history.first("calm"), history.first("engine-stop")
    if request.answer is None:
        end = history.first("engine-stopped") or calm or history.events[-1]
    elif calm is not None and stop is not None and request.answer.t > stop.t:
        end = stop
    else:
        return []
    age = end.t - request.asked.t
    within = _within(request) + slack(history, request.asked.t, end.t)
    if end.kind != "engine-stopped" and age < within:
        if request.answer is not None:
            return []
        raise Inconclusive(f"request {request.n} was given too little time to end")
    where = "has no token" if request.first is None else "had begun to come"
    how = "never ended" if request.answer is None else "ended only as the engine was stopped"
    cause = f"request {request.n} {how}; it {where}, {age / 1e9:.1f} s after it was asked"
    cause += _what_was_done(of, request)
    return [Violation("lost", cause, some(history, of, request.asked, around=request.asked.t))]


def _front_end_gone(history: History) -> bool:
    return any(event.text("target") == "front-end" for event in history.of("fault"))


def _within(request: Request) -> int:
    found = request.asked.data.get("within")
    return int(found * SECOND) if isinstance(found, int | float) else 30 * SECOND


def _ended(history: History, of: Life, request: Request) -> list[Violation]:
    """Return a violation if the request ended too late, or in a way that it may not."""
    answer = request.answer
    if answer is None:
        return []
    lines = some(history, of, request.asked, answer, around=answer.t)
    took = answer.t - request.asked.t
    late = slack(history, request.asked.t, answer.t)
    if took > _within(request) + late:
        limit = f"the limit is {_within(request) / 1e9:g} s"
        cause = f"request {request.n} took {took / 1e9:.1f} s; {limit}" + _what_was_done(
            of, request
        )
        return [Violation("late", cause, lines)]
    if request.cancelled is not None and answer.t - request.cancelled.t > _CANCELS_WITHIN + late:
        after = (answer.t - request.cancelled.t) / 1e9
        cause = f"request {request.n} ended only {after:.1f} s after it was cancelled; the limit"
        cause += f" is {_CANCELS_WITHIN / 1e9:g} s"
        if not of.strikes:
            return [Violation("late", cause, lines)]
    if request.well:
        return _finished(request, lines)
    unnamed = _unnamed(of, request)
    if unnamed:
        cause = f"request {request.n} failed with {unnamed}: {answer.text('error')!r}"
        return [Violation("no-error", cause, lines)]
    return []


def _finished(request: Request, lines: list[str]) -> list[Violation]:
    assert request.answer is not None
    finish, count = request.answer.text("finish"), request.answer.number("count", 0)
    most = request.asked.number("max")
    wrong = ""
    if finish not in _FINISHES:
        wrong = f"an unknown finish {finish!r}"
    elif finish == "cancelled" and request.cancelled is None:
        wrong = "the finish cancelled, which nobody had asked for"
    elif finish == "length" and count != most:
        wrong = f"{counted(count, 'tokens')} for {most}, and the finish length"
    elif count > most:
        wrong = f"{counted(count, 'tokens')} where {most} were asked for"
    if not wrong:
        return []
    return [Violation("wrong-data", f"request {request.n} ended with {wrong}", lines)]


def _unnamed(of: Life, request: Request) -> str:
    """Return the description of what the request's error lacks; empty if it names a cause."""
    assert request.answer is not None
    text, word = request.answer.text("error"), request.answer.text("outcome")
    said = text.partition(":")[2]
    if not re.search(r"[A-Za-z]{3}", said):
        return "no cause at all"
    if word in _BLAMELESS or request.key < 0:
        return ""
    guilty = _done_before(of, request)
    if not guilty:
        return "a cause, although nothing had been done to the engine" if not of.strikes else ""
    if any(each.part in said or each.replica in said for each in guilty):
        return ""
    return f"an error that does not name {guilty[-1].replica}"


def _done_before(of: Life, request: Request) -> list[Strike]:
    """Return the faults done to the engine before the request had ended."""
    end = request.answer.t if request.answer is not None else of.until
    return [strike for strike in of.strikes if strike.t < end]


def _what_was_done(of: Life, request: Request) -> str:
    done = _done_before(of, request)
    return f", after {done[-1].fault} of {done[-1].part}" if done else ""
