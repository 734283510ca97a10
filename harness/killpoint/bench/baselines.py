"""Opponents of a comparison: the target, other targets, and what every machine has."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from killpoint.bench.peers import posix_queue
from killpoint.bench.plan import Row
from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.registry import resolve

NEWEST_VLLM = "vllm==0.33.0"
NEWEST_SGLANG = "sglang==0.5.23"
LIMIT = "limit"
CONTROL = "control"
"""The target once more, with processes of its own: its ratio should be 1."""
OTHERS = ("pipe", "posix-mq", LIMIT, CONTROL)
DEFAULT = (NEWEST_VLLM, NEWEST_SGLANG, *OTHERS)


class Opponent(msgspec.Struct, frozen=True):
    """One column of the table."""

    name: str
    spec: str
    """Spec that the zygote loads; for ``limit`` it depends on the row."""
    has_ring: bool
    """True for a target, which takes memory as its shape says."""
    largest: int | None = None
    """Payloads above this size it does not take, in bytes."""

    def spec_for(self, row: Row) -> str:
        """Return the spec to load for a row."""
        if self.name != LIMIT:
            return self.spec
        return "limit-copy" if row == "throughput" else "limit-wake"

    def refusal(self, row: Row, size: int) -> str | None:
        """Return why this opponent has no figure there; None if it may have one."""
        if self.name == LIMIT and row == "cpu":
            return "nothing to count"
        if self.largest is not None and size > self.largest:
            return f"takes {self.largest} bytes at most here"
        return None


def opponent(name: str) -> Opponent:
    """Return the opponent of that name; it is fetched if it must be.

    Raises:
        BadUsage: no opponent has that name.
        CannotWork: it cannot be had on this machine.
    """
    if name == "posix-mq":
        if reason := posix_queue.unavailable():
            raise CannotWork(reason)
        return Opponent(name, name, has_ring=False, largest=posix_queue.largest())
    if name in OTHERS:
        return Opponent(name, name, has_ring=False)
    return Opponent(name, resolve(name), has_ring=True)


def opponents(
    target: str, names: Sequence[str], asked_for: Sequence[str]
) -> tuple[list[Opponent], dict[str, str]]:
    """Return the target followed by the opponents found, and why the others are missing.

    Raises:
        BadUsage: the target, or an opponent that was asked for by name, does not exist.
        CannotWork: one of these cannot be had on this machine.
    """
    found, missing = [opponent(target)], dict[str, str]()
    for name in names:
        if name == CONTROL:
            found.append(Opponent(CONTROL, found[0].spec, has_ring=True))
            continue
        if name == target:
            missing[name] = "it is the target"
            continue
        try:
            found.append(opponent(name))
        except (BadUsage, CannotWork) as error:
            if name in asked_for:
                raise
            missing[name] = " ".join(str(error).split())
    return found, missing
