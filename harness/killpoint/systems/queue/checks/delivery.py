"""Delivery: every message whole, once, in order (R2, R3, R6, R7, Q1 to Q4, Q13, Q14)."""

from __future__ import annotations

from collections import Counter

from killpoint.checkers.finding import Finding, Inconclusive, deaths, evidence, hangs
from killpoint.checkers.held_up import held_up
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Close, Drop, Exit, Scenario
from killpoint.systems.queue.record import (
    Got,
    Sent,
    got,
    mismatches,
    planned,
    sent,
    torn,
    wrong_data,
)
from killpoint.verdict import Violation, counted

_PICKLED = 1024
"""More bytes than pickling adds to a body that it does not keep apart."""


def check_r2_whole_messages(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """R2: what arrived under a number is, byte for byte, what was sent under it."""
    found = _torn_beyond_q3(scenario, history)
    for reader in scenario.readers():
        for call in got(history, reader):
            if call.outcome == "error" and call.ended is not None and not found:
                error = call.ended.text("error")
                cause = f"{reader} could not decode a message that was sent whole: {error}"
                found = [Violation("wrong-data", cause, evidence(history, [call.ended]))]
        if not found:
            found = [v for v in mismatches(history, reader) if v.kind == "duplicate"]
    return _weighed(found, {"messages": _arrived(scenario, history)})


def check_q1_all_in_order(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q1, Q14: every reader gets every message, equal, once, in order, with no error."""
    wrong = [_torn(history, *each) for each in wrong_data(history, scenario.readers())]
    return _in_order(scenario, history, wrong)


def check_r3_ring_order(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """R3: the same of the ring, which answers for its slots and not for the caller's memory."""
    wrong = _torn_beyond_q3(scenario, history) or _taken_for_dead(history)
    return _in_order(scenario, history, wrong)


def _taken_for_dead(history: History) -> list[Violation]:
    """Return a violation if a death was reported where none had occurred.

    The party that was taken for dead may have been stopped.
    """
    for event in history.of("sent", "got", "end"):
        if event.text("outcome") == "peer-died" and not deaths(history):
            cause = f"{event.role} was told of a death, and nobody had died: {event.text('error')}"
            return [Violation("lost", cause, evidence(history, [event]))]
    return []


def _in_order(scenario: Scenario, history: History, wrong: list[Violation]) -> Finding:
    found = _failed_steps(history) or wrong
    differ = [
        violation
        for reader in scenario.readers()
        for violation in mismatches(history, reader, tail_may_miss=_leaves(scenario, reader))
    ]
    found = found or [v for v in differ if v.kind != "lost"] or hangs(history)
    found = found or _unsent(history) or differ
    sizes = len({(m.form, m.size) for m in sent(history) if m.ok})
    return _weighed(found, {"messages": _arrived(scenario, history), "sizes": sizes})


def _leaves(scenario: Scenario, reader: str) -> bool:
    """Return whether the reader leaves while others stay: then it need not take everything."""
    steps = [step for step in scenario.steps if isinstance(step, (Close, Drop, Exit))]
    return any(reader in step.roles for step in steps)


def _unsent(history: History) -> list[Violation]:
    """Sends that failed, but for those that timed out while a reader did not receive."""
    for message in sent(history):
        if message.ok or message.form == "unencodable":
            continue
        outcome = message.ended.text("outcome") if message.ended else "never returned"
        if message.ended is not None and outcome == "timeout":
            holder = held_up(history, message.began.t, message.ended.t)
            if holder is not None and holder.by_queue:
                what = f"message {message.seq} ({message.form}, {message.size} bytes)"
                cause = f"{what} found no room by the timeout of its send: {holder.words}"
                return [Violation("starved", cause, evidence(history, [message.ended]))]
            continue
        return [Violation("lost", _as_unsent(message))]
    return []


def _as_unsent(message: Sent) -> str:
    what = f"message {message.seq} ({message.form}, {message.size} bytes) was not sent"
    if message.ended is None:
        return f"{what}: its send never returned"
    return f"{what}: {message.ended.text('outcome')} {message.ended.text('error')}".rstrip()


def check_r6_no_aliasing(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """R6: what a reader holds is still what it received."""
    found: list[Violation] = []
    checked = 0
    by_seq = {message.seq: message for message in sent(history)}
    for event in history.of("recheck"):
        checked += 1
        if event.data.get("same") is not True:
            seq = event.number("seq")
            message = by_seq.get(seq)
            form = message.form if message is not None else "message"
            what = f"the {form} of message {seq} that {event.role} holds changed after"
            if message is not None and message.mutated and event.text("digest") == message.mutated:
                cause = f"{what} its sender had changed the object: they share its memory"
            else:
                cause = f"{what} later messages arrived: the queue wrote to its memory again"
            lines = list(history.of("got", "recheck", role=event.role))
            found.append(Violation("wrong-data", cause, evidence(history, [*lines[:5], event])))
    if not found and not checked:
        raise Inconclusive("no reader held a message to the end")
    return Finding(found[:1], {"messages": checked})


def check_q3_as_enqueued(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q3: an object changed right after enqueue arrives as it was at enqueue."""
    changed = {message.seq for message in sent(history) if message.mutated}
    if not changed:
        refused = next((m for m in sent(history) if not m.ok), None)
        unsent = f": {_as_unsent(refused)}" if refused is not None else ""
        raise Inconclusive(f"no object was changed after its enqueue{unsent}")
    found = [_torn(history, *wrong) for wrong in wrong_data(history, scenario.readers())]
    arrived = sum(
        call.seq in changed for reader in scenario.readers() for call in got(history, reader)
    )
    if not found and not arrived:
        raise Inconclusive("no changed object arrived")
    return Finding(found[:1], {"messages": arrived})


def check_r7_failures_consumed(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """R7 (queue level): a message that cannot be encoded or decoded harms no other."""
    if any(message.form == "ring" for message in sent(history)):
        return _ring_failures(scenario, history)
    found: list[Violation] = []
    for message in sent(history):
        if message.form == "unencodable" and message.ok:
            found.append(Violation("no-error", f"unencodable message {message.seq} was accepted"))
    found += hangs(history)
    for reader in scenario.readers():
        found = found or mismatches(history, reader)
    found = found or _torn_beyond_q3(scenario, history)
    return _weighed(found, {"messages": _arrived(scenario, history)})


def check_q2_one_order(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q2: inline and overflow messages in one order, whatever failed or came late."""
    shifted = _torn_beyond_q3(scenario, history)
    for reader in scenario.readers():
        shifted = shifted or mismatches(history, reader)
    return _weighed(shifted or hangs(history), {"messages": _arrived(scenario, history)})


def check_q4_carried_or_refused(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """Q4: a message beyond a format limit arrives whole or is refused; the next ones arrive."""
    found = hangs(history)
    found += [_torn(history, *wrong) for wrong in wrong_data(history, scenario.readers())]
    for reader in scenario.readers():
        found = found or mismatches(history, reader)
    refused = sum(_was_refused(message) for message in sent(history))
    found = found or [
        _not_carried(history, message)
        for message in sent(history)
        if not message.ok and not (_was_refused(message) and _beyond(scenario, message))
    ]
    return _weighed(found, {"messages": _arrived(scenario, history), "refused": refused})


def _was_refused(message: Sent) -> bool:
    return message.ended is not None and message.ended.text("outcome") in ("refused", "error")


def _beyond(scenario: Scenario, message: Sent) -> bool:
    """Return whether a format limit may lie below this message: its main pickle is a buffer too."""
    shape, plan = scenario.shape, planned(scenario).get(message.seq)
    if shape.max_buffer_bytes is not None and message.size + _PICKLED > shape.max_buffer_bytes:
        return True
    if message.form != "buffers":
        return False
    return plan is None or shape.max_buffers is None or plan[1].buffers >= shape.max_buffers


def _not_carried(history: History, message: Sent) -> Violation:
    how = message.ended.text("outcome") if message.ended else "never returned"
    cause = (
        f"message {message.seq} ({message.form}, {message.size} bytes) is within the limits and"
        f" was not carried: {how}"
    )
    return Violation("lost", cause, evidence(history, [message.ended or message.began]))


def check_q13_exactly_once(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q13: with two threads on one object, each message once at each reader, or an error."""
    found: list[Violation] = []
    accepted = {message.seq for message in sent(history) if message.ok}
    maybe = {message.seq for message in sent(history) if not message.ok}
    for reader in scenario.readers():
        calls = got(history, reader)
        counts = Counter(call.seq for call in calls if call.outcome == "ok")
        twice = [seq for seq, times in counts.items() if times > 1]
        raised = any(call.outcome not in ("ok", "timeout", "never returned") for call in calls)
        lost = sorted(accepted - counts.keys())
        alien = sorted(counts.keys() - accepted - maybe)
        if twice:
            lines = _of(history, calls, twice[0])
            found.append(Violation("duplicate", "a reader received a message twice", lines))
        elif alien:
            lines = _of(history, calls, alien[0])
            found.append(Violation("wrong-data", "a reader got a message that nobody sent", lines))
        elif lost and not raised and not any(m.ended is None for m in sent(history)):
            began = [m.ended or m.began for m in sent(history) if m.seq == lost[0]]
            cause = "a message that was sent never reached a reader, and nobody was told"
            found.append(Violation("lost", cause, evidence(history, began)))
    found = found or _torn_beyond_q3(scenario, history) or hangs(history)
    return _weighed(found, {"messages": _arrived(scenario, history)})


def _of(history: History, calls: list[Got], seq: int) -> list[str]:
    """The lines of the calls that a message came by; which message it was is drawn by a race."""
    return evidence(history, [call.ended or call.began for call in calls if call.seq == seq])


def _ring_failures(scenario: Scenario, history: History) -> Finding:
    published = [message for message in sent(history) if message.ok]
    reads = [
        event
        for event in history.of("end", role="reader-0")
        if event.text("op") == "ring-read" and event.text("outcome") != "timeout"
    ]
    digests = [event.text("digest") for event in history.of("got", role="reader-0")]
    failed = {i for i, event in enumerate(reads) if event.text("outcome") != "ok"}
    expected = [
        message.ended.text("digest")
        for place, message in enumerate(published)
        if message.ended and place not in failed
    ]
    found = hangs(history)
    if not found and digests != expected:
        how = (
            "after a fill that raised"
            if len(published) < len(sent(history))
            else ("after a decode that raised")
        )
        cause = (
            f"{how}, reader-0 read {counted(len(digests), 'slots')} where"
            f" {counted(len(expected), 'slots')} had been published besides, or not the same ones:"
            " the failed slot was published or read again"
        )
        found.append(Violation("wrong-data", cause, evidence(history, reads)))
    if not found and not digests:
        raise Inconclusive("no slot was read")
    return Finding(found[:1], {"slots": len(digests)})


def _weighed(found: list[Violation], counts: dict[str, int]) -> Finding:
    if not found and not counts["messages"]:
        raise Inconclusive("no message arrived anywhere")
    return Finding(found[:1], counts)


def _torn_beyond_q3(scenario: Scenario, history: History) -> list[Violation]:
    wrong = torn(history, scenario.readers(), scenario.shape.chunk_bytes)
    return [_torn(history, *each, late_write=False) for each in wrong]


def _torn(
    history: History, reader: str, message: Sent | None, _call: Got, *, late_write: bool = True
) -> Violation:
    lines = evidence(history, list(history.of("got", role=reader))[-3:])
    if message is None:
        return Violation("wrong-data", f"{reader} received something that nobody sent", lines)
    what = f"message {message.seq} ({message.form}, {message.size} bytes) arrived at {reader}"
    if message.mutated and late_write:
        cause = (
            f"{what} with bytes that its sender wrote after enqueue had returned: the queue sends"
            " from the caller's memory"
        )
    else:
        cause = f"{what} different from what was sent: a torn or misplaced read"
    return Violation("wrong-data", cause, lines)


def _failed_steps(history: History) -> list[Violation]:
    """An error where nothing was wrong: in making, attaching, or the handshake."""
    for event in history.of("end"):
        if event.text("op") in ("make", "attach", "ready") and event.text("outcome") != "ok":
            cause = f"{event.role}'s {event.text('op')} failed: {event.text('error')}"
            return [Violation("lost", cause, evidence(history, [event]))]
    return []


def _arrived(scenario: Scenario, history: History) -> int:
    return sum(
        call.outcome == "ok" for reader in scenario.readers() for call in got(history, reader)
    )
