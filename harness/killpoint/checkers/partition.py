"""Connections that were harmed, and how long a party must bear silence (Q18 of every system)."""

from __future__ import annotations

import msgspec

from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.invariant import Level
from killpoint.scenario import NETWORK_FAULTS
from killpoint.verdict import Violation

DEFAULT_SILENCE = 10.0
"""Seconds; for targets whose silence is not set."""


def network_faults(history: History) -> list[Event]:
    """Return the faults done to connections, in order."""
    return [e for e in history.of("fault") if e.text("fault") in NETWORK_FAULTS]


def silence(history: History) -> float:
    """Return the seconds of silence that the target was configured to bear, or its default."""
    told = history.first("silence")
    seconds = told.data.get("seconds") if told else None
    return float(seconds) if isinstance(seconds, (int, float)) else DEFAULT_SILENCE


def bound(history: History) -> tuple[str, Level | None]:
    """The limit of a verdict about silence in words, and how firm it is.

    It is the target's own where it can be set. Elsewhere it is this project's: to notice later
    breaks a SHOULD, never to notice the clause.
    """
    limit = f"{silence(history):g} s"
    if history.first("silence") is not None:
        return f"the peer timeout was set to {limit}", None
    return f"the target has no peer timeout, and {limit} are granted to it", "SHOULD"


def longest_cut(faults: list[Event]) -> float:
    """Seconds of the longest cut that was healed again, among these faults."""
    longest = 0.0
    for fault in faults:
        if fault.text("fault") == "cut":
            heals = [
                e.t
                for e in faults
                if e.text("fault") == "heal"
                and e.t > fault.t
                and e.text("target") in (fault.text("target"), "writer")
            ]
            longest = max(longest, (min(heals, default=fault.t) - fault.t) / 1e9)
    return longest


def through(faults: list[Event], found: Violation) -> Violation:
    """Return a loss or a hang with what was done to the connections meanwhile: ``reset``, say."""
    words = dict.fromkeys(fault.text("fault") for fault in faults)
    cause = f"{found.cause} (connections: {', '.join(words)})"
    return msgspec.structs.replace(found, cause=cause)
