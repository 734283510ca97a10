"""Wake-ups in a simulated run (Q8), where the clock stands still while any task runs.

So a message that waits is not late by the machine's load: time has passed because nothing was left
that could wake its reader, but a time-out of the reader's own.
"""

from __future__ import annotations

import msgspec

from killpoint.verdict import Violation

PROMPT = 0.1
"""Seconds within which a sleeper must wake."""


class WakeupRun(msgspec.Struct):
    """Times of a run, in simulated seconds."""

    published: list[float]
    """Time at which each message had been published."""
    taken: dict[str, list[float]]
    """Times at which each reader received each message."""
    wrong: str = ""
    """Content received instead of what was sent, or a call that raised."""
    hurried: list[tuple[float, float]] = []
    """Intervals in which time passed by choice while something was on its way, which may be the
    cause."""
    how: str = "done"
    waiting: dict[str, str] = {}


def check_prompt_wakeups(run: WakeupRun) -> Violation | None:
    """Each message was taken within 100 ms of its publication."""
    if run.wrong:
        return Violation("wrong-data", run.wrong)
    for reader, times in run.taken.items():
        for number, (published, taken) in enumerate(zip(run.published, times, strict=False)):
            slow = any(begun < taken and ended > published for begun, ended in run.hurried)
            if taken - published > PROMPT and not slow:
                late = f"it woke {taken - published:g} s later, with nothing on its way to wake it"
                return Violation("late", f"{reader} slept through message {number}: {late}")
    if run.how != "done":
        return Violation("hang", _stuck(run))
    return None


def _stuck(run: WakeupRun) -> str:
    who = "; ".join(f"{name} waits for {what}" for name, what in run.waiting.items())
    for reader, times in run.taken.items():
        if len(times) < len(run.published) and reader in run.waiting:
            number = len(times)
            return f"{reader} never wakes for message {number}, which is there: {who}"
    return f"nobody can go on ({run.how}): {who}"
