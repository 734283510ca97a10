"""Histories of many parties at once, against the specification of a queue (H1).

Each reader owns a position in one sequence of messages. A history is explained if every operation
can have taken effect at some time between its begin and its end: a send appends its message, or
none if it failed; a receive takes the reader's next message, or none if it failed. An operation
that never returned may have taken effect or not. What cannot be explained is shown with the
operations that contradict each other, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, deaths, evidence, hangs, ordered_end
from killpoint.checkers.overlap import overlap, span
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.queue.checks.deadlines import PROMPT, late_or_early
from killpoint.systems.queue.checks.delivery import check_r6_no_aliasing
from killpoint.systems.queue.record import Got, Sent, got, mismatches, sent, wrong_data
from killpoint.verdict import Violation

_Kind = Literal["lost", "starved", "reordered"]
_OF_A_DEATH = ("peer-died", "closed")


class Facts(msgspec.Struct):
    """Operations of a play, as the rules ask for them."""

    scenario: Scenario
    history: History
    sends: list[Sent]
    received: dict[str, list[Got]]
    """Receive calls by reader, in the order of their ends."""
    left: dict[str, int]
    """Time at which each reader that closed its end began to, ns."""
    deaths: dict[str, int]
    """Time before the first fault of each role that died, ns."""

    @classmethod
    def of(cls, scenario: Scenario, history: History) -> Facts:
        """Read the operations off a history."""
        readers = scenario.readers()
        ended = {role: ordered_end(history, role) or 0 for role in deaths(history)}
        left = {e.role: e.t for e in history.of("begin") if e.text("op") == "close"}
        received = {name: got(history, name) for name in readers}
        return cls(scenario, history, sent(history), received, left, ended)

    def spans(self) -> list[tuple[int, int]]:
        """Return the begin and the end of every operation, ns."""
        received = [call for calls in self.received.values() for call in calls]
        return [span(each.began, each.ended) for each in (*self.sends, *received)]


def check_h1_queue_history(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """H1: what the parties saw of the queue could have been."""
    facts = Facts.of(scenario, history)
    found = hangs(history)
    if not found and history.first("hang") is not None:
        raise Inconclusive("a party waited for one that was not told to go on")
    for rule in _RULES:
        found = found or list(rule(facts))[:1]
    if not found and not facts.spans():
        raise Inconclusive("nothing was sent, and nothing received")
    states, transitions = _states(facts)
    return Finding(
        found[:1],
        {
            "messages": sum(c.outcome == "ok" for calls in facts.received.values() for c in calls),
            **overlap(facts.spans()),
            "states": states,
            "transitions": transitions,
        },
    )


def _states(facts: Facts) -> tuple[int, int]:
    """Return the numbers of states, and of steps between two of them, that the play came through.

    A state is how far each reader is behind the writer.
    """
    steps = [(m.ended.t, "") for m in facts.sends if m.ok and m.ended]
    for reader, calls in facts.received.items():
        steps += [(c.ended.t, reader) for c in calls if c.outcome == "ok" and c.ended]
    behind = dict.fromkeys(facts.received, 0)
    states, transitions = {tuple(behind.values())}, set[tuple[tuple[int, ...], str]]()
    for _, who in sorted(steps):
        transitions.add((tuple(behind.values()), who))
        for reader in behind:
            behind[reader] += {"": 1, reader: -1}.get(who, 0)
        states.add(tuple(behind.values()))
    return len(states), len(transitions)


# -- rules: each yields what it cannot explain -----------------------------------------------


def _order(facts: Facts) -> Iterator[Violation]:
    """Each reader's messages are the sequence's, each once, with none left out between two."""
    for reader in facts.received:
        yield from mismatches(facts.history, reader, tail_may_miss=True)


def _content(facts: Facts) -> Iterator[Violation]:
    """A message arrives as it was sent."""
    for reader, message, call in wrong_data(facts.history, facts.scenario.readers()):
        what = f"message {call.seq}" if message is not None else "something that no party sent"
        events = [e for e in (message.began if message else None, call.ended) if e]
        cause = f"{what} arrived at {reader} different from what was sent"
        yield Violation("wrong-data", cause, evidence(facts.history, events))


def _not_before_it_was_sent(facts: Facts) -> Iterator[Violation]:
    by_seq = {message.seq: message for message in facts.sends}
    for reader, calls in facts.received.items():
        for call in calls:
            message = by_seq.get(call.seq)
            if call.outcome == "ok" and message and call.ended and call.ended.t < message.began.t:
                cause = f"{reader} had received message {call.seq} before its send began"
                yield Violation(
                    "wrong-data", cause, evidence(facts.history, [call.ended, message.began])
                )


def _receives_that_took_nothing(facts: Facts) -> Iterator[Violation]:
    """A receive may time out only while no message was due to its reader."""
    for reader, calls in facts.received.items():
        last = -1
        for call in calls:
            if call.outcome == "ok":
                last = call.seq
            elif call.outcome == "error":
                due = _due(facts, last)
                last = due.seq if due is not None else last
            elif call.outcome == "timeout" and call.ended is not None:
                due = _due(facts, last)
                if due is not None and _long_since(facts.history, due, call.ended):
                    yield _unread(facts, reader, call, due)


def _due(facts: Facts, last: int) -> Sent | None:
    """Return the message that a reader is to get after this one; None: that cannot be told."""
    after = [message for message in facts.sends if message.seq > last]
    for message in after:
        if message.uncertain:
            return None
        if message.ok:
            return message
    return None


def _long_since(history: History, message: Sent, ended: Event) -> bool:
    """Return whether a message had been published for so long that a receive had to see it."""
    published = message.ended
    if published is None:
        return False
    allowed = PROMPT + history.allowance(published.t, ended.t)
    return ended.t - published.t > allowed


def _unread(facts: Facts, reader: str, call: Got, due: Sent) -> Violation:
    published, ended = due.ended, call.ended
    assert published is not None
    assert ended is not None
    timeout = call.began.data.get("timeout")
    cause = (
        f"{reader}'s receive with timeout {timeout} s took nothing, though message {due.seq} had"
        f" been published {(ended.t - published.t) / 1e6:.0f} ms before it gave up"
    )
    events = [due.began, published, call.began, ended]
    return Violation("starved", cause, evidence(facts.history, events))


def _sends_that_failed(facts: Facts) -> Iterator[Violation]:
    """A send may time out only while a live reader keeps it from a slot, and fail of a death."""
    for message in facts.sends:
        outcome = message.ended.text("outcome") if message.ended else ""
        if message.form == "unencodable" and message.ok:
            yield _unsent(facts, message, "lost", "cannot be encoded, and its send ended well")
        if message.ended is None or message.ok or outcome == "injected":
            continue
        if message.form == "unencodable" and outcome == "error":
            continue
        if outcome == "timeout":
            if _had_room(facts, message, message.ended):
                yield _unsent(facts, message, "starved", "found no room, and a slot was free")
        elif not (outcome in _OF_A_DEATH and _died_before(facts, message.ended, "reader-")):
            said = f"{outcome} {message.ended.text('error')}".rstrip()
            yield _unsent(facts, message, "lost", f"was not sent, and no party was gone: {said}")


def _had_room(facts: Facts, message: Sent, ended: Event) -> bool:
    """Return whether a slot had been free for so long that a send had to find it.

    What becomes of the slots of the dead cannot be told. With remote readers a queue may let fewer
    messages be under way than it has slots, but one.
    """
    if facts.deaths:
        return False
    shape = facts.scenario.shape
    seen = ended.t - PROMPT - facts.history.allowance(message.began.t - PROMPT, ended.t)
    published = sum(m.ok for m in facts.sends if m.seq < message.seq)
    taken = [
        sum(_took(c) and c.ended is not None and c.ended.t <= seen for c in calls)
        for reader, calls in facts.received.items()
        if facts.left.get(reader, ended.t) >= ended.t
    ]
    return published - min(taken, default=published) < (1 if shape.remote else shape.chunks)


def _took(call: Got) -> bool:
    """Return whether a receive took a message, though perhaps one that cannot be decoded."""
    return call.outcome in ("ok", "error")


def _unsent(facts: Facts, message: Sent, kind: _Kind, how: str) -> Violation:
    events = [e for e in (message.began, message.ended) if e]
    cause = f"message {message.seq} ({message.form}, {message.size} bytes) {how}"
    return Violation(kind, cause, evidence(facts.history, events))


def _receives_that_failed(facts: Facts) -> Iterator[Violation]:
    """A receive fails only of the writer's death, once all that it had published is read."""
    for reader, calls in facts.received.items():
        last = -1
        for call in calls:
            last = call.seq if call.outcome == "ok" else last
            due = _due(facts, last)
            if call.outcome == "error" and due is not None and due.form == "undecodable":
                last = due.seq
                continue
            if call.outcome in ("ok", "timeout", "injected", "never returned"):
                continue
            assert call.ended is not None
            said = f"{call.outcome} {call.ended.text('error')}".rstrip()
            if not (call.outcome in _OF_A_DEATH and _died_before(facts, call.ended, "writer")):
                cause = f"{reader}'s receive failed, and no party was gone: {said}"
                yield Violation("lost", cause, evidence(facts.history, [call.began, call.ended]))
            elif due is not None and due.ended is not None and due.ended.t < call.began.t:
                cause = f"{reader} was told of the writer's end before message {due.seq}: {said}"
                events = [due.ended, call.began, call.ended]
                yield Violation("lost", cause, evidence(facts.history, events))


def _died_before(facts: Facts, event: Event, roles: str) -> bool:
    return any(t <= event.t for role, t in facts.deaths.items() if role.startswith(roles))


def _held(facts: Facts) -> Iterator[Violation]:
    """What a reader holds stays as it came."""
    if next(facts.history.of("recheck"), None) is not None:
        yield from check_r6_no_aliasing(facts.scenario, facts.history, Ledger()).violations


def _deadlines(facts: Facts) -> Iterator[Violation]:
    """A call ends at its own deadline, neither early nor late."""
    yield from late_or_early(facts.scenario, facts.history)


_RULES: tuple[Callable[[Facts], Iterator[Violation]], ...] = (
    _order,
    _content,
    _not_before_it_was_sent,
    _receives_that_failed,
    _sends_that_failed,
    _receives_that_took_nothing,
    _held,
    _deadlines,
)
