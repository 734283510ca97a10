"""Second attachments: a rank whose reader has closed its end, or died, is claimed again (Q17).

The reader that attaches again is refused, or gets exactly the messages that are sent from then on.
"""

from __future__ import annotations

from collections.abc import Callable

from killpoint.checkers.finding import ACCIDENT, Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Attach, Close, Drop, Scenario
from killpoint.systems.queue.record import Got, Sent, got, sent, torn
from killpoint.verdict import Kind, Violation, counted


def attaching_again(scenario: Scenario) -> list[str]:
    """The readers that attach after they have closed, or dropped, an end of theirs."""
    found: list[str] = []
    for reader in scenario.readers():
        ended = False
        for step in scenario.steps:
            if isinstance(step, (Close, Drop)) and reader in scenario.named(step.roles):
                ended = True
            elif ended and isinstance(step, Attach) and reader in scenario.named(step.roles):
                found.append(reader)
                break
    return found


def refused_or_served(scenario: Scenario, history: History) -> Finding:
    """Q17: a second attachment fails with an error, or gives what is sent after it, once each."""
    found = hangs(history)
    asked = 0
    for reader in attaching_again(scenario):
        begun = [e for e in history.of("begin", role=reader) if e.text("op") == "attach"]
        ended = [e for e in history.of("end", role=reader) if e.text("op") == "attach"]
        if len(begun) < 2 or len(ended) < len(begun):
            continue
        asked += 1
        if ended[-1].text("outcome") == "ok":
            found = found or _served(scenario, history, reader, begun[-1], ended[-1])
        elif accident := ACCIDENT.match(ended[-1].text("error")):
            cause = f"{reader}'s second attach ended in an {accident[1]}, which does not say why"
            lines = evidence(history, [ended[-1]])
            found = found or [Violation("no-error", cause, lines, level="SHOULD")]
    if not found and not asked:
        raise Inconclusive("nobody attached a second time")
    return Finding(found[:1], {"claims": asked})


def _served(
    scenario: Scenario, history: History, reader: str, begun: Event, attached: Event
) -> list[Violation]:
    calls = [call for call in got(history, reader) if call.began.t >= begun.t]
    if any(call.ended is None for call in calls):
        raise Inconclusive(f"{reader} never came back from its last receive")

    def wrong(kind: Kind, what: str) -> list[Violation]:
        cause = f"{reader} attached again, was not refused, and {what}"
        lines = [attached, *(call.ended for call in calls if call.ended is not None)]
        return [Violation(kind, cause, evidence(history, lines[:8]))]

    for _, _, call in torn(history, [reader], scenario.shape.chunk_bytes):
        if call in calls:
            return wrong("wrong-data", f"received message {call.seq} torn or altered")
    later = [m for m in sent(history) if m.began.t > attached.t]
    arrived = [call.seq for call in calls if call.outcome == "ok"]
    numbers = {message.seq for message in later}
    for place, seq in enumerate(arrived):
        if seq not in numbers:
            return wrong("duplicate", f"received message {seq}, which was sent before")
        if seq in arrived[:place]:
            return wrong("duplicate", f"received message {seq} a second time")
        if place and seq < arrived[place - 1]:
            return wrong("reordered", f"received message {seq} after {arrived[place - 1]}")
    return _complete(later, calls, wrong)


def _complete(
    later: list[Sent], calls: list[Got], wrong: Callable[[Kind, str], list[Violation]]
) -> list[Violation]:
    """Return a violation if a reader that saw no error lacks a message sent since it attached."""
    told = next((c for c in calls if c.outcome not in ("ok", "timeout")), None)
    arrived = {call.seq for call in calls if call.outcome == "ok"}
    last = max(arrived, default=-1)
    missing = [
        m.seq for m in later if m.ok and m.seq not in arrived and (told is None or m.seq < last)
    ]
    if not missing:
        return []
    what = counted(len(missing), "messages")
    return wrong("lost", f"never got {what} sent after that, first message {missing[0]}")
