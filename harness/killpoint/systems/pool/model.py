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


class TransferVotes:
    """Transfers that each rank of a pool names once it has finished them, and which are due.

    One is due when every rank has named its id, and is told by the next result that there is. An
    id that is used again is due once more when every rank has named it again.
    """

    def __init__(self, workers: int) -> None:
        """Begin without a vote."""
        self._workers = workers
        self._named: dict[str, list[int]] = {}
        self._due: set[str] = set()

    def step(self, named: Sequence[Sequence[str]], *, told: bool) -> set[str]:
        """Take a step's votes, by rank; return what its result tells, nothing without one."""
        for rank, ids in enumerate(named):
            for id in ids:
                self._named.setdefault(id, [0] * self._workers)[rank] += 1
        for id, votes in self._named.items():
            if min(votes) > 0:
                self._due.add(id)
                self._named[id] = [count - 1 for count in votes]
        if not told:
            return set()
        due, self._due = self._due, set()
        return due


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
