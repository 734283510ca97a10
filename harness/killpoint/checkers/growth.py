"""Memory under a steady stream: flat, or growing with every message (Q12)."""

from __future__ import annotations

import itertools

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.verdict import Violation

_WARM_UP = 2
"""Windows with messages that are not judged: caches, arenas and first touches fill in them."""
_WINDOWS = 5
_A_MESSAGE = 512
"""Bytes a message that count as flat: a page now and then is no leak."""
_PARTS = 3
"""What grows does so in each of these parts of a play; what settles does not."""


class Sample(msgspec.Struct):
    """A role's weight after so many messages."""

    messages: int
    rss: int
    event: Event


def flat(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q12: the weight does not follow the number of messages.

    The control is how much the weight moved between two looks without a message in between.
    """
    found = hangs(history)
    judged = 0
    for role in scenario.roles():
        idle, busy = _apart(samples(history, role))
        windows = busy[_WARM_UP:]
        if len(windows) <= _WINDOWS or not idle:
            continue
        judged += 1
        found = found or _growth(history, role, windows, max(idle))
    if not judged and not found:
        raise Inconclusive(
            f"no role was weighed over {_WINDOWS} windows after {_WARM_UP} to warm up,"
            " and once more while idle"
        )
    return Finding(found[:1], {"roles weighed": judged})


def samples(history: History, role: str) -> list[Sample]:
    """The weights of a role, each with the number of messages it had handled by then."""
    found: list[Sample] = []
    for event in history.of("weight"):
        if event.text("target") == role:
            calls = history.of("sent", "got", role=role)
            done = sum(e.text("outcome") == "ok" and e.t <= event.t for e in calls)
            found.append(Sample(done, event.number("rss", 0), event))
    return found


def _apart(found: list[Sample]) -> tuple[list[int], list[Sample]]:
    """How far idle weights moved, and one sample a window of messages."""
    idle: list[int] = []
    busy: list[Sample] = found[:1]
    for sample in found[1:]:
        if sample.messages == busy[-1].messages:
            idle.append(abs(sample.rss - busy[-1].rss))
        else:
            busy.append(sample)
    return idle, busy


def _growth(history: History, role: str, windows: list[Sample], control: int) -> list[Violation]:
    ends = [windows[(len(windows) - 1) * part // _PARTS] for part in range(_PARTS + 1)]
    for sooner, later in itertools.pairwise(ends):
        flat_by = control + _A_MESSAGE * (later.messages - sooner.messages)
        if later.rss - sooner.rss <= flat_by:
            return []
    count = windows[-1].messages - windows[0].messages
    grown = windows[-1].rss - windows[0].rss
    cause = (
        f"{role}'s memory grew by {grown / count:.0f} bytes a message, {grown / 1024:.0f} KiB"
        f" over {count} messages in {len(windows) - 1} windows (idle: {control / 1024:.0f} KiB)"
    )
    return [Violation("growth", cause, evidence(history, [sample.event for sample in windows]))]
