"""Histories of many parties at once, against the specification of a queue (H1).

Each reader owns a position in one sequence of messages. A history is explained if every operation
can have taken effect at some time between its begin and its end: a send appends its message, or
none if it failed; a receive takes the reader's next message, or none if it failed. An operation
that never returned may have taken effect or not. What cannot be explained is shown with the
operations that contradict each other, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, deaths, evidence, hangs, ordered_end
from killpoint.checkers.overlap import overlap, span
from killpoint.checkers.partition import network_faults, through
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.queue.checks.deadlines import PROMPT, late_or_early
from killpoint.systems.queue.checks.delivery import check_r6_no_aliasing
from killpoint.systems.queue.checks.lifecycle import numbers_in
from killpoint.systems.queue.record import (
    Got,
    Sent,
    got,
    may_overflow,
    mismatches,
    sent,
    wrong_data,
)
from killpoint.verdict import Violation

_Kind = Literal["lost", "starved", "late"]
_OF_AN_END = ("peer-died", "closed", "lost")
_GOES_ON = 1_000_000_000
"""ns within which a send that waits goes on, and ends, once a slot is free: ten times what a party
that waits has to hear of it, since a message may be long and a wait be made of naps."""
_TRIED = 1.0
"""Seconds of a close after which a connection that was harmed may have kept it from delivering."""
_MENDED = 3_000_000_000
"""ns for which a connection that was reset, or healed, may still carry nothing."""


class Facts(msgspec.Struct):
    """Operations of a play, as the rules ask for them."""

    scenario: Scenario
    history: History
    sends: list[Sent]
    received: dict[str, list[Got]]
    """Receive calls by reader, in the order of their ends."""
    left: dict[str, int]
    """Time at which each role that closed its end began to, ns."""
    gone: dict[str, int]
    """Time at which that close had ended, ns: until then it may hold slots."""
    deaths: dict[str, int]
    """Time before the first fault of each role that died, ns."""
    harmed: dict[str, list[tuple[int, int]]]
    """Begin and end of the times in which each remote reader's connection carried little, ns."""

    @classmethod
    def of(cls, scenario: Scenario, history: History) -> Facts:
        """Read the operations off a history."""
        readers = scenario.readers()
        ended = {role: ordered_end(history, role) or 0 for role in deaths(history)}
        closes = [e for e in history.of("begin") if e.text("op") == "close"]
        left = {e.role: e.t for e in reversed(closes)}
        closed = [e for e in history.of("end") if e.text("op") == "close"]
        gone = {e.role: e.t for e in reversed(closed)}
        received = {name: got(history, name) for name in readers}
        harmed = _harmed(scenario, history)
        return cls(scenario, history, sent(history), received, left, gone, ended, harmed)

    def is_harmed(self, since: int, until: int, readers: Iterable[str]) -> bool:
        """Return whether a connection of these readers carried little in some of that time."""
        times = [each for reader in readers for each in self.harmed.get(reader, ())]
        return any(began <= until and ended >= since for began, ended in times)

    def spans(self) -> list[tuple[int, int]]:
        """Return the begin and the end of every operation, ns."""
        received = [call for calls in self.received.values() for call in calls]
        return [span(each.began, each.ended) for each in (*self.sends, *received)]


def _harmed(scenario: Scenario, history: History) -> dict[str, list[tuple[int, int]]]:
    faults, times = network_faults(history), dict[str, list[tuple[int, int]]]()
    for fault in faults:
        if fault.text("fault") == "heal":
            continue
        role = fault.text("target")
        ended = fault.t
        if fault.text("fault") != "reset":
            heals = [e for e in faults if e.text("fault") == "heal" and e.t > fault.t]
            ended = next((e.t for e in heals if e.text("target") in (role, "writer")), 1 << 62)
        for reader in scenario.remote() if role == "writer" else [role]:
            times.setdefault(reader, []).append((fault.t, ended + _MENDED))
    return times


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
        for found in mismatches(facts.history, reader, tail_may_miss=True):
            yield _at(facts, reader, found)


def _at(facts: Facts, reader: str, found: Violation) -> Violation:
    """Return what was found at a reader, with what was done to its connection, if anything."""
    if reader not in facts.harmed:
        return found
    done = [e for e in network_faults(facts.history) if e.text("target") in (reader, "writer")]
    return through([e for e in done if e.text("fault") != "heal"], found)


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
                due = _due(facts, reader, last, call)
                last = due.seq if due is not None else last
            elif call.outcome == "timeout" and call.ended is not None:
                due = _due(facts, reader, last, call)
                if due is not None and _long_since(facts, reader, due, call.ended):
                    yield _at(facts, reader, _unread(facts, reader, call, due))


def _due(facts: Facts, reader: str, last: int, call: Got) -> Sent | None:
    """Return the message that this call is to get after the last one; None: that cannot be told."""
    for message in facts.sends:
        if message.seq <= last:
            continue
        if message.uncertain or _may_have_died_with_the_writer(facts, reader, message, call):
            return None
        if message.ok:
            return message
    return None


def _may_have_died_with_the_writer(facts: Facts, reader: str, message: Sent, call: Got) -> bool:
    """Return whether a sent message may still have been in the writer's memory at its death (Q6).

    What is in a slot outlives its writer. What goes beside the ring, or to a remote reader, is the
    writer's until its own thread has written it to the socket.
    """
    death = facts.deaths.get("writer")
    if death is None or (call.ended is not None and call.ended.t < death):
        return False
    if facts.gone.get("writer", death) < death:
        return False
    beside = may_overflow(message, facts.scenario.shape.chunk_bytes)
    return beside or reader in facts.scenario.remote()


def _long_since(facts: Facts, reader: str, message: Sent, ended: Event) -> bool:
    """Return whether a message had been published for so long that a receive had to see it."""
    published = message.ended
    if published is None:
        return False
    allowed = PROMPT + facts.history.allowance(published.t, ended.t)
    if facts.is_harmed(ended.t - allowed, ended.t, [reader]):
        return False
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
            free = _free_since(facts, message, message.ended)
            bound = PROMPT + facts.history.allowance(message.began.t - PROMPT, message.ended.t)
            if free is not None and message.ended.t - free > bound:
                how = f"found no room, and {_why_room(facts, message.ended)}"
                yield _unsent(facts, message, "starved", how)
        elif not (outcome in _OF_AN_END and _readers_ended(facts, message.ended.t)):
            said = f"{outcome} {message.ended.text('error')}".rstrip()
            yield _unsent(facts, message, "lost", f"was not sent, and no party was gone: {said}")


def _sends_that_slept_on(facts: Facts) -> Iterator[Violation]:
    """A send that waits for a slot goes on when there is one, and not at its deadline."""
    for message in facts.sends:
        if not message.ok or message.ended is None:
            continue
        free = _free_since(facts, message, message.ended)
        bound = _GOES_ON + facts.history.allowance(message.began.t, message.ended.t)
        waited = message.ended.t - max(free or 0, message.began.t)
        if free is not None and waited > bound:
            why = _why_room(facts, message.ended)
            how = f"was sent only {waited / 1e6:.0f} ms after it could have been: {why}"
            yield _unsent(facts, message, "late", how)


def _free_since(facts: Facts, message: Sent, ended: Event) -> int | None:
    """Return the time since which a slot was free for a message, ns; None: that cannot be told.

    What becomes of the slots of the dead cannot be told. With remote readers a queue may let fewer
    messages be under way than it has slots, but one.
    """
    shape = facts.scenario.shape
    remote = facts.scenario.remote()
    if facts.deaths or facts.is_harmed(message.began.t, ended.t, remote):
        return None
    published = sum(m.ok for m in facts.sends if m.seq < message.seq)
    needed = published + 1 - (1 if shape.remote else shape.chunks)
    since = 0
    for reader, calls in facts.received.items():
        taken = [c.ended.t for c in calls if _took(c) and c.ended is not None]
        gone = facts.gone.get(reader, 1 << 62)
        due = taken[needed - 1] if 0 < needed <= len(taken) else (gone if needed > 0 else 0)
        since = max(since, min(due, gone))
    return since if since <= ended.t else None


def _why_room(facts: Facts, ended: Event) -> str:
    """Return the words for the slot that was free: who had left, if it waits for them."""
    gone = [r for r in facts.received if facts.gone.get(r, 1 << 62) <= ended.t]
    return (
        f"nobody else but {', '.join(gone)}, who had left, was behind"
        if gone
        else ("a slot was free")
    )


def _took(call: Got) -> bool:
    """Return whether a receive took a message, though perhaps one that cannot be decoded."""
    return call.outcome in ("ok", "error")


def _unsent(facts: Facts, message: Sent, kind: _Kind, how: str) -> Violation:
    events = [e for e in (message.began, message.ended) if e]
    cause = f"message {message.seq} ({message.form}, {message.size} bytes) {how}"
    return Violation(kind, cause, evidence(facts.history, events))


def _receives_that_failed(facts: Facts) -> Iterator[Violation]:
    """A receive fails only of the writer's end, once all that it had published is read.

    After a clean end it may instead say how many messages are lost (Q16).
    """
    for reader, calls in facts.received.items():
        last = -1
        for call in calls:
            last = call.seq if call.outcome == "ok" else last
            due = _due(facts, reader, last, call)
            if call.outcome == "error" and due is not None and due.form == "undecodable":
                last = due.seq
                continue
            if call.outcome in ("ok", "timeout", "injected", "never returned"):
                continue
            assert call.ended is not None
            said = f"{call.outcome} {call.ended.text('error')}".rstrip()
            if not (call.outcome in _OF_AN_END and _writer_ended(facts, call.ended.t)):
                cause = f"{reader}'s receive failed, and no party was gone: {said}"
                yield Violation("lost", cause, evidence(facts.history, [call.began, call.ended]))
            elif due is not None and due.ended is not None and due.ended.t < call.began.t:
                if call.outcome == "lost" and _missed(facts, last) & numbers_in(call):
                    return  # what is lost was told: no more is due
                if reader in facts.harmed and _tried_to_the_end(facts):
                    return
                cause = f"{reader} was told of the writer's end before message {due.seq}: {said}"
                events = [due.ended, call.began, call.ended]
                yield _at(facts, reader, Violation("lost", cause, evidence(facts.history, events)))


def _missed(facts: Facts, last: int) -> set[int]:
    """Return the numbers of messages that a reader may say it missed after this one."""
    certain = sum(m.ok for m in facts.sends if m.seq > last)
    return set(range(certain, certain + sum(m.uncertain for m in facts.sends) + 1))


def _tried_to_the_end(facts: Facts) -> bool:
    """Return whether the writer's close took so long that its time for delivery was up (Q11)."""
    ends = [e for e in facts.history.of("end", role="writer") if e.text("op") == "close"]
    took = ends[0].data.get("s") if ends else None
    return isinstance(took, float) and took >= _TRIED


def _writer_ended(facts: Facts, by: int) -> bool:
    """Return whether the writer had begun to leave, or was struck dead, by then."""
    return min(facts.deaths.get("writer", by + 1), facts.left.get("writer", by + 1)) <= by


def _readers_ended(facts: Facts, by: int) -> bool:
    """Return whether a reader was struck dead by then, or all had begun to leave."""
    died = any(t <= by for role, t in facts.deaths.items() if role != "writer")
    return died or all(facts.left.get(reader, by + 1) <= by for reader in facts.received)


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
    _sends_that_slept_on,
    _receives_that_took_nothing,
    _held,
    _deadlines,
)
