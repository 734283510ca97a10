"""Process groups: objects and their order (G1), whatever the wall clock says (G5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from killpoint.checkers.error_names_rank import names_one_of
from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.checkers.partition import network_faults, through
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Fault, Scenario
from killpoint.systems.group.checks.barriers import broken_barriers
from killpoint.systems.group.model import Lane
from killpoint.systems.group.record import Call, Stream, calls, has_left, streams
from killpoint.verdict import Kind, Violation

PROMPT = 100_000_000
"""ns within which an object that was sent comes to a rank that receives."""


def check_g1_order(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """G1: each pair its own order; broadcasts once at every rank; gathers in rank order."""
    found = undisturbed(scenario, history)
    arrived, met = arrivals(history), _met(history)
    if not found and not arrived and not met:
        raise Inconclusive("no object arrived anywhere and nobody met")
    return Finding(found[:1], {"messages": arrived})


def check_g5_clock(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """G5: nothing changes when the wall clock jumps, or when the host has an IPv6 address."""
    jumps = [step for step in scenario.steps if isinstance(step, Fault) and step.hours]
    struck = [
        event
        for event in history.of("jumped")
        if any(abs(_moved(event.data.get("s")) - step.hours * 3600) < 60 for step in jumps)
    ]
    if len(struck) < len(jumps):
        raise Inconclusive(f"{len(jumps)} clocks were to jump, {len(struck)} did")
    found = undisturbed(scenario, history)
    arrived, met = arrivals(history), _met(history)
    if not found and not arrived and not met:
        raise Inconclusive("no object arrived anywhere and nobody met")
    return Finding(found[:1], {"jumps": len(struck), "messages": arrived})


def _moved(seconds: object) -> float:
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0


def undisturbed(
    scenario: Scenario, history: History, dead: Collection[str] = ()
) -> list[Violation]:
    """Return what went wrong between ranks although none but the ``dead`` gave cause for it."""
    made = calls(history)
    return (
        _outsiders(history, dead)
        or [v for stream in streams(scenario, made) for v in _judge(history, stream, dead)]
        or _gathers(scenario, history, made, dead)
        or broken_barriers(scenario, history, made)
        or hangs(history)
    )


def arrivals(history: History) -> int:
    """Return the number of objects that arrived at any rank."""
    taken = [call for call in calls(history) if call.ok and not call.sends]
    return sum(call.op in ("receive-from", "broadcast", "gather") for call in taken)


def _met(history: History) -> int:
    return sum(call.ok for call in calls(history) if call.op == "barrier")


def _outsiders(history: History, dead: Collection[str]) -> list[Violation]:
    """A rank that could not join, or not leave, where nothing was wrong."""
    for event in history.of("end"):
        if (
            event.role not in dead
            and event.text("op") in ("join", "leave")
            and event.text("outcome") != "ok"
        ):
            cause = f"{event.role}'s {event.text('op')} failed: {event.text('error')}"
            return [Violation("lost", cause, evidence(history, [event]))]
    return []


def _judge(history: History, stream: Stream, dead: Collection[str]) -> list[Violation]:
    lane = Lane([call.seq for call in stream.sent])
    by_seq = {call.seq: call for call in stream.sent}
    for call in stream.sent:
        if call.ok or not call.ended or stream.taker in dead or stream.source in dead:
            continue
        if not tells_of(call, dead) and not has_left(history, stream.taker, call):
            return [_says(history, stream, call, "lost", f"{call.words()} failed: {call.error}")]
    taken = stream.taken()
    for index, call in enumerate(taken):
        if not call.ok:
            wrong = _why_not(history, stream, call, lane, dead)
            if wrong:
                return [wrong]
            continue
        due, step = lane.due(), lane.take(call.seq)
        source = by_seq.get(call.seq)
        if step == "skipped" and due is not None:
            later = any(other.seq == due for other in taken[index:])
            kind: Kind = "reordered" if later else "lost"
            how = "came before" if later else "came, and never"
            cause = f"{call.words()}: object {call.seq} {how} object {due}, which was sent first"
            return [_says(history, stream, call, kind, cause)]
        if step == "duplicate":
            cause = f"{call.words()}: object {call.seq} came a second time"
            return [_says(history, stream, call, "duplicate", cause)]
        if step:
            late = f"which {stream.source} had sent before others that came"
            how = late if step == "reordered" else _stranger(history, call)
            cause = f"{call.words()} gave object {call.seq}, {how}"
            kind = "wrong-data" if step == "unknown" else "reordered"
            return [_says(history, stream, call, kind, cause)]
        if source and call.digest != source.digest:
            cause = f"{call.words()}: object {call.seq} arrived different from what was sent"
            return [_says(history, stream, call, "wrong-data", cause)]
    return []


def tells_of(call: Call, dead: Collection[str]) -> bool:
    """Return whether a call's error names one of the dead."""
    return names_one_of(call.error, [int(role.split("-")[1]) for role in dead])


def _stranger(history: History, call: Call) -> str:
    """Return the origin of an object that was not sent to the rank that got it."""
    for other in calls(history):
        if other.seq == call.seq and other.sends:
            to = other.began.text("to")
            return f"which {other.role} sent to {to}" if to else f"which {other.role} broadcast"
    return "which nobody sent"


def _why_not(
    history: History, stream: Stream, call: Call, lane: Lane, dead: Collection[str]
) -> Violation | None:
    """A call that brought nothing: right if there was nothing to bring, or its source is dead."""
    if call.ended is None or stream.source in dead or stream.taker in dead:
        return None
    if tells_of(call, dead):
        return None  # a group may end with one of its ranks, if it says whose death it was
    due = lane.due()
    waiting = next((sent for sent in stream.sent if sent.seq == due), None)
    if waiting is None and has_left(history, stream.source, call):
        return None  # it had all there was, and was to be told that no more comes
    if call.outcome == "timeout" and not (waiting and _long_since(history, waiting, call.ended)):
        return None  # nothing had been sent, or just now: it was to run out
    what = f"object {due} was sent" if waiting else f"{stream.source} was there"
    cause = f"{call.words()} ended with {call.outcome} although {what}: {call.error}"
    found = _says(history, stream, call, "lost", cause)
    faults = [each for each in network_faults(history) if each.t <= call.ended.t]
    done = [each for each in faults if each.text("fault") != "heal"]
    return through(done, found) if done else found


def _long_since(history: History, waiting: Call, ended: Event) -> bool:
    """Return whether an object had been sent for so long that a receive had to get it."""
    if waiting.ended is None:
        return waiting.began.t <= ended.t
    allowed = PROMPT + history.allowance(waiting.ended.t, ended.t)
    return ended.t - waiting.ended.t > allowed


def _says(history: History, stream: Stream, call: Call, kind: Kind, cause: str) -> Violation:
    near = [
        event
        for each in (*stream.sent[-3:], *stream.got)
        for event in (each.began, each.ended)
        if event is not None and (call.ended is None or event.t <= call.ended.t)
    ]
    return Violation(kind, cause, evidence(history, sorted(near, key=lambda e: e.t)))


def _gathers(
    scenario: Scenario, history: History, made: Sequence[Call], dead: Collection[str]
) -> list[Violation]:
    """The k-th gather of each rank has the k-th object of every rank, in rank order."""
    if dead:
        return []
    by_role = {role: [c for c in made if c.role == role and c.op == "gather"] for role in _of(made)}
    for turns in by_role.values():
        for number, call in enumerate(turns):
            if call.ended is None:
                continue
            lines = evidence(history, [call.began, call.ended])
            parts = [by_role.get(role, []) for role in scenario.roles()]
            if not call.ok:
                never = [
                    r for r, p in zip(scenario.roles(), parts, strict=True) if len(p) <= number
                ]
                if any(has_left(history, role, call) for role in never):
                    continue  # it needs who is not there any more
                cause = f"{call.words()} ended with {call.outcome}: {call.error}"
                return [Violation("lost", cause, lines)]
            want = [part[number] if number < len(part) else None for part in parts]
            wrong = unlike(call, want)
            if wrong:
                return [
                    Violation(wrong[0], f"{call.words()}, its {number + 1}th, {wrong[1]}", lines)
                ]
    return []


def _of(made: Sequence[Call]) -> list[str]:
    return list(dict.fromkeys(call.role for call in made))


def unlike(call: Call, want: Sequence[Call | None]) -> tuple[Kind, str] | None:
    """Return how a gather's objects differ from those that the ranks gave, in rank order."""
    data = call.ended.data if call.ended else {}
    seqs, digests = data.get("seqs"), data.get("digests")
    expected = [each.began.number("seq") if each else -1 for each in want]
    if seqs != expected:
        same = isinstance(seqs, list) and sorted(map(str, seqs)) == sorted(map(str, expected))  # pyright: ignore[reportUnknownArgumentType] # out of a log
        return "reordered" if same else "lost", f"gave objects {seqs} where {expected} were given"
    if digests != [each.began.text("digest") if each else "" for each in want]:
        return "wrong-data", "gave objects that differ from what was given"
    return None
