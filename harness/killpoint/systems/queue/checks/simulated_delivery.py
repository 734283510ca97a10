"""Delivery in a simulated run of a queue, compared with what was sent (R2 to R4, under R5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from killpoint.verdict import Kind, Violation


class Delivered(msgspec.Struct):
    """Result of one simulated run: bytes and not digests, since it is judged at once."""

    sent: list[bytes]
    """Every message, in order; each is different."""
    got: dict[str, list[bytes]]
    """Messages that each reader received, in order."""
    failed: dict[str, str] = {}
    """Parties whose call raised, and the error."""
    how: str = "done"
    waiting: dict[str, str] = {}
    """Object that each party that was not done waited for, when no task could go on."""


_STUCK: dict[str, tuple[Kind, str]] = {
    "deadlock": ("hang", "nobody could go on"),
    "livelock": ("hang", "everybody ran, and nobody got anything done"),
    "starvation": ("starved", "others got things done"),
}


def delivered(run: Delivered) -> Violation | None:
    """Check that each reader got each message once, whole and in order, and no party waits."""
    for reader, got in run.got.items():
        for place, content in enumerate(got):
            if place >= len(run.sent) or content != run.sent[place]:
                return _wrong(reader, run.sent, place, content)
        if reader in run.failed:
            cause = f"{reader} could not decode message {len(got)}: {run.failed[reader]}"
            return Violation("wrong-data", f"{cause}; torn or old data were handed to it")
    for party, error in run.failed.items():
        return Violation("crash", f"{party}'s call raised {error}")
    if run.how in _STUCK:
        return _stuck(run.how, run.waiting)
    for reader, got in run.got.items():
        if len(got) < len(run.sent):
            return Violation("lost", f"{reader} got {len(got)} of {len(run.sent)} messages")
    return None


def _wrong(reader: str, sent: Sequence[bytes], place: int, content: bytes) -> Violation:
    meant = f"in the place of message {place}"
    if content not in sent:
        what = f"{reader} got what nobody sent, {meant}: torn or old data"
        return Violation("wrong-data", what)
    number = sent.index(content)
    if number < place:
        return Violation("duplicate", f"{reader} got message {number} again, {meant}")
    return Violation("lost", f"{reader} got message {number} {meant}, which it never got")


def _stuck(how: str, waiting: Mapping[str, str]) -> Violation:
    kind, words = _STUCK[how]
    who = "; ".join(f"{name} waited for {what}" for name, what in waiting.items())
    return Violation(kind, f"{words} ({how}): {who}")
