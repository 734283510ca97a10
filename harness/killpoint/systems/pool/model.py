"""Specification of a worker pool's life: six states, forward only (SPEC W1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

PoolState = Literal["starting", "ready", "running", "failed", "stopping", "stopped"]

STATES: tuple[PoolState, ...] = get_args(PoolState)

MOVES: dict[PoolState, tuple[PoolState, ...]] = {
    "starting": ("ready", "failed", "stopping"),
    "ready": ("running", "failed", "stopping"),
    "running": ("failed", "stopping"),
    "failed": ("stopping",),
    "stopping": ("stopped",),
    "stopped": (),
}
"""Transitions in one step. An observer that looks now and then sees some of the states, in their
order."""


def reachable(state: PoolState) -> set[PoolState]:
    """Return the states in which such a pool may be seen later, its present one included."""
    found: set[PoolState] = {state}
    for each in MOVES[state]:
        found |= reachable(each)
    return found


class PoolLife:
    """State of one pool, observed from time to time."""

    def __init__(self) -> None:
        """Begin in the state ``starting``."""
        self.state: PoolState = "starting"

    def seen(self, word: str) -> str:
        """Record that the pool is in this state now; return why that cannot be, empty if it can."""
        state = next((each for each in STATES if each == word), None)
        if state is None:
            return f"{word!r} is no state of a pool; expected one of: {', '.join(STATES)}"
        if state not in reachable(self.state):
            return f"{self.state} was followed by {state}: a pool's life goes forward only"
        self.state = state
        return ""


class PoolModel:
    """Replies that a pool owes: in rank order, each to its own call, until the pool fails."""

    def __init__(self, workers: int) -> None:
        """Begin as a ready pool of so many workers."""
        self._workers = workers
        self._alive = True
        self._asked: list[int] = []

    def ask(self, call: int) -> bool:
        """Make a call; return whether it is accepted."""
        if self._alive:
            self._asked.append(call)
        return self._alive

    def fail(self) -> list[int]:
        """Record a worker's death; return the calls that fail with it."""
        self._alive = False
        pending, self._asked = self._asked, []
        return pending

    def answer(self, call: int, replies: Sequence[tuple[int, int]], rank: int | None = None) -> str:
        """Take a call's (rank, call) pairs; return what is wrong with them, empty if nothing is."""
        if call not in self._asked:
            return "unasked"
        self._asked.remove(call)
        if any(of != call for _, of in replies):
            return "stale"
        ranks = [who for who, _ in replies]
        owed = list(range(self._workers)) if rank is None else [rank]
        if sorted(ranks) != owed:
            return "incomplete"
        return "" if ranks == owed else "disordered"
