"""Exceptions in a pipe's calls (R9): each is wholly done or not done, and the pipe goes on."""

from __future__ import annotations

from killpoint.checkers.finding import evidence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.pipe.checks.transfers import misplaced
from killpoint.systems.pipe.model import PipeLane, Sent
from killpoint.systems.pipe.record import Call, Lane, calls, lanes
from killpoint.verdict import Violation

_ENDS_WELL = ("ok", "injected")
_ENDS = {"pipe-receive": (*_ENDS_WELL, "closed", "failed")}
"""Outcomes that a call may have: a rank takes until there is nothing more to come, and gets, in the
place of a tensor, the error that its send was struck (K3)."""


def pipe_unharmed(scenario: Scenario, history: History) -> list[Violation]:
    """Return the differences from a pipe in which the struck calls were made, or were not."""
    opens = [e for e in history.of("end") if e.text("op") == "pipe-open"]
    struck = next((e for e in opens if e.text("outcome") == "injected"), None)
    made = calls(history)
    if struck is not None:  # an end that was not made is another end's trouble, and its close's
        made = [call for call in made if call.op != "pipe-close"]
    ways = lanes(scenario, made)
    return (
        _unmade(history, opens)
        or [v for call in made for v in _failed(history, call)]
        or [v for lane in ways for v in _more_than_struck(history, lane)]
        or [v for lane in ways for v in misplaced(history, lane)]
        or [v for lane in ways for v in _lost(history, lane)]
    )


def _unmade(history: History, opens: list[Event]) -> list[Violation]:
    """A rank whose last attempt at an end failed."""
    last = {event.role: event for event in opens}
    for event in last.values():
        if event.text("outcome") not in _ENDS_WELL:
            how = event.text("error") or event.text("outcome")
            cause = f"{event.role}'s end of the pipe could not be made after an exception had"
            return [Violation("lost", f"{cause} struck {_where(history)}: {how}", [])]
    return []


def _failed(history: History, call: Call) -> list[Violation]:
    if call.ended is None or not call.made:
        return []
    if call.outcome in _ENDS.get(call.op, _ENDS_WELL):
        return []
    cause = f"{call.words()} failed after an exception had struck {_where(history)}"
    lines = evidence(history, [*history.of("raised"), *call.events()])
    return [Violation("lost", f"{cause}: {call.outcome} {call.error}".rstrip(), lines)]


def _more_than_struck(history: History, lane: Lane) -> list[Violation]:
    """Return a violation if more receives report a failed send than sends were struck."""
    failed = [call for call in lane.got if call.outcome == "failed"]
    struck = sum(call.outcome == "injected" for call in lane.sent)
    if len(failed) <= struck:
        return []
    cause = f"{failed[-1].words()} failed, and no send of {lane.source} had been struck"
    lines = evidence(history, [*history.of("raised"), *failed[-1].events()])
    return [Violation("lost", f"{cause}: {failed[-1].error}", lines)]


def _lost(history: History, lane: Lane) -> list[Violation]:
    """Return a violation for a tensor that was accepted, asked for to the end, and never came."""
    if not lane.got or lane.got[-1].outcome != "closed":
        return []
    model = PipeLane([Sent(call.digest, call.ok) for call in lane.sent])
    for call in lane.got:
        if call.ok:
            model.take(call.digest)
    due = model.due()
    if due is None:
        return []
    cause = f"{lane.sent[due].words()} was accepted and never came: struck was {_where(history)}"
    lines = evidence(history, [*history.of("raised"), *lane.sent[due].events()])
    return [Violation("lost", cause, lines)]


def _where(history: History) -> str:
    return ", ".join(f"{e.role} at {e.text('where')}" for e in history.of("raised"))
