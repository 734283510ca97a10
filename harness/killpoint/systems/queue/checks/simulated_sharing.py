"""Messages of two threads on one object in a simulated run (Q13)."""

from __future__ import annotations

from collections import Counter

import msgspec

from killpoint.verdict import Violation


class Shared(msgspec.Struct):
    """Messages that were accepted, and those that were received at the other end."""

    accepted: list[int]
    """Messages whose sending call returned."""
    refused: list[int]
    """Messages whose sending call raised."""
    got: list[int]
    """Messages that all receiving calls returned, those made afterwards included."""
    broken: str = ""
    """Content received instead of a message, or the reader's error for a message that it took."""
    how: str = "done"
    waiting: dict[str, str] = {}


def exactly_once(run: Shared) -> Violation | None:
    """Each message whose call did not raise came out once, none of the others more than once."""
    if run.how != "done":
        who = "; ".join(f"{name} waits for {what}" for name, what in run.waiting.items())
        return Violation("hang", f"two threads on one object: nobody can go on ({run.how}): {who}")
    counts = Counter(run.got)
    twice = [number for number, times in counts.items() if times > 1]
    if twice:
        return Violation("duplicate", f"two threads on one object: message {twice[0]} came twice")
    if run.broken:
        return Violation("wrong-data", f"two threads on one object: {run.broken}")
    lost = [number for number in run.accepted if number not in counts]
    if lost:
        which = f"message {lost[0]} never came, and no call raised"
        return Violation("lost", f"two threads on one object: {which}")
    alien = sorted(counts.keys() - {*run.accepted, *run.refused})
    if alien:
        which = f"something came that nobody sent: {alien[0]}"
        return Violation("wrong-data", f"two threads on one object: {which}")
    return None
