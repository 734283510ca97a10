"""Ranks: unknown, duplicate or out of place, they are errors and harm no other party (Q17)."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Attach, Scenario, Send
from killpoint.systems.queue.checks.attached_again import attaching_again, refused_or_served
from killpoint.systems.queue.record import mismatches, sent
from killpoint.verdict import Violation


def check_q17_ranks(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q17: a claim of a rank that is not the role's to have, or a second writer, is refused."""
    if attaching_again(scenario):
        return refused_or_served(scenario, history)
    claims = [step for step in scenario.steps if isinstance(step, Attach) and step.rank is not None]
    strays = [s for s in scenario.steps if isinstance(s, Send) and s.role != "writer"]
    if not claims and not strays:
        raise Inconclusive("nobody claimed a rank, and nobody wrote besides the writer")
    made = history.first("end", role="writer")
    if made is None or made.text("outcome") != "ok":
        raise Inconclusive("there was no queue to claim a rank of")
    found = _shared(scenario, history, claims) or hangs(history)
    for step in claims:
        found = found or _claimed(scenario, history, step)
    for step in strays:
        found = found or _written(history, step.role)
    if any(message.ok for message in sent(history)):
        for reader in scenario.readers():
            found = found or mismatches(history, reader)
    return Finding(found[:1], {"claims": len(claims) + len(strays)})


def _shared(scenario: Scenario, history: History, claims: list[Attach]) -> list[Violation]:
    """Two readers of one rank, of whom neither was refused: which of them is makes no difference.

    One that still waits in its handshake has not been refused either.
    """
    for step in claims:
        owner = f"reader-{step.rank}"
        both = sorted({*scenario.named(step.roles), owner})
        if len(both) < 2 or owner not in scenario.readers():
            continue
        if all(_last_attach(scenario, role) in (None, step.rank) for role in both):
            lines = [line for role in both for line in _not_refused(history, role)]
            if all(_not_refused(history, role) for role in both):
                who = " and ".join(both)
                cause = f"{who} both attached as rank {step.rank}, and neither of them was refused"
                return [Violation("no-error", cause, evidence(history, lines))]
    return []


def _last_attach(scenario: Scenario, role: str) -> int | None:
    """Return the rank that a role claimed last; None: its own."""
    mine = [s for s in scenario.steps if isinstance(s, Attach) and role in scenario.named(s.roles)]
    return mine[-1].rank if mine else None


def _not_refused(history: History, role: str) -> list[Event]:
    """Return the role's attach and handshake, if neither of them failed; one that hangs has not."""
    calls = [e for e in history.of("end", role=role) if e.text("op") in ("attach", "ready")]
    hung = [e for e in history.of("hang") if e.text("target") == role and e.text("op") == "ready"]
    passed = [e for e in calls if e.text("outcome") == "ok"]
    through = len(passed) == len(calls) and len(passed) + len(hung) >= 2
    return [*passed, *hung] if through else []


def _claimed(scenario: Scenario, history: History, step: Attach) -> list[Violation]:
    """Check that a claim of an unknown rank fails at once, or with its claimant's handshake."""
    if step.rank is not None and 0 <= step.rank < scenario.shape.readers:
        return []
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
    count = scenario.shape.readers
    queue = f"a queue with {count} reader{'s' * (count != 1)}"
    also = ", nor in its handshake" if len(lines) > 1 else ""
    cause = f"{role} attached as rank {rank} of {queue} and was told of no error{also}"
    return Violation("no-error", cause, evidence(history, lines))


def _written(history: History, role: str) -> list[Violation]:
    for event in history.of("sent", role=role):
        if event.text("outcome") == "ok":
            cause = f"{role}, a reader, sent message {event.number('seq')} and was told of no error"
            return [Violation("no-error", cause, evidence(history, [event]))]
    return []
