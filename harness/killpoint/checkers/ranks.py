"""Ranks: unknown, duplicate or out of place, they are errors and harm nobody (Q17)."""

from __future__ import annotations

from killpoint.checkers.delivery import mismatches, sent
from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Attach, Scenario, Send
from killpoint.verdict import Violation


def ranks_are_checked(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q17: whoever claims a rank that is not its own to have, or a second pen, is refused."""
    claims = [step for step in scenario.steps if isinstance(step, Attach) and step.rank is not None]
    strays = [s for s in scenario.steps if isinstance(s, Send) and s.role != "writer"]
    if not claims and not strays:
        raise Inconclusive("nobody claimed a rank, and nobody wrote besides the writer")
    made = history.first("end", role="writer")
    if made is None or made.text("outcome") != "ok":
        raise Inconclusive("there was no queue to claim a rank of")
    found = hangs(history)
    for step in claims:
        found = found or _claimed(scenario, history, step)
    for step in strays:
        found = found or _written(history, step.role)
    if any(message.ok for message in sent(history)):
        for reader in scenario.readers():
            found = found or mismatches(history, reader)
    return Finding(found[:1], {"claims": len(claims) + len(strays)})


def _claimed(scenario: Scenario, history: History, step: Attach) -> list[Violation]:
    """A claim fails at once, or with the handshake of whoever made it."""
    for role in scenario.named(step.roles):
        calls = [e for e in history.of("end", role=role) if e.text("op") in ("attach", "ready")]
        place = _place(scenario, step, role)
        claim = [event for event in calls if event.text("op") == "attach"][place : place + 1]
        if not claim or claim[0].text("outcome") != "ok":
            continue
        after = [event for event in calls if event.t > claim[0].t][:1]
        if after and after[0].text("op") == "ready" and after[0].text("outcome") == "ok":
            return [_let_in(scenario, history, role, step.rank, [claim[0], after[0]])]
        if not after or after[0].text("op") == "attach":
            return [_let_in(scenario, history, role, step.rank, claim)]
    return []


def _place(scenario: Scenario, step: Attach, role: str) -> int:
    """The how-many-th attach of this role the step is."""
    mine = [s for s in scenario.steps if isinstance(s, Attach) and role in scenario.named(s.roles)]
    return next(index for index, each in enumerate(mine) if each is step)


def _let_in(
    scenario: Scenario, history: History, role: str, rank: int | None, lines: list[Event]
) -> Violation:
    shape = scenario.shape
    taken = rank is not None and 0 <= rank < shape.readers
    why = "which another reader has" if taken else f"of a queue with {shape.readers} readers"
    ready = " and its handshake succeeded" if len(lines) > 1 else ""
    cause = f"{role} attached as rank {rank}, {why},{ready} and was told of no error"
    return Violation("no-error", cause.replace(",,", ","), evidence(history, lines))


def _written(history: History, role: str) -> list[Violation]:
    for event in history.of("sent", role=role):
        if event.text("outcome") == "ok":
            cause = f"{role}, a reader, sent message {event.number('seq')} and was told of no error"
            return [Violation("no-error", cause, evidence(history, [event]))]
    return []
