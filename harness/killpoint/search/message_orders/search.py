"""Every state that any order of messages leads to, the nearest first; each is visited once."""

from __future__ import annotations

import itertools
import time
from collections import deque

import msgspec

from killpoint.search.message_orders.protocol_state import Found, ProtocolState, State
from killpoint.verdict import Violation


class Diverged(Exception):
    """An order that was written down asks for something that cannot happen."""


class Searched(msgspec.Struct):
    """Extent of a search, and the violation that it found first."""

    states: int
    moves: int
    whole: bool
    """True if every order was covered; False if the search was capped."""
    seconds: float
    violation: Violation | None = None
    lines: list[str] = []
    """Order that leads to the violation, one of the shortest."""

    def __str__(self) -> str:
        """Return a description of the search's extent, for people."""
        how = "all orders" if self.whole else "capped"
        return f"{how}: {self.states} states, {self.moves} moves"


def search(world: ProtocolState, id: str, seconds: float) -> Searched:
    """Breadth first, up to the first state that breaks this invariant, or so many seconds."""
    began = time.monotonic()
    first = world.begin()
    parents: dict[State, State | None] = {first: None}
    waiting = deque([first])
    moves = 0
    while waiting:
        state = waiting.popleft()
        for move in world.moves(state):
            moves += 1
            after = world.after(state, move)
            if after in parents:
                continue
            parents[after] = state
            for broken, violation in world.judge(state, move, after):
                if broken == id:
                    took = time.monotonic() - began
                    lines = _told(world, parents, after)
                    return Searched(len(parents), moves, False, took, violation, lines)
            if not world.ends(after):
                waiting.append(after)
        if not moves & 255 and time.monotonic() - began > seconds:
            return Searched(len(parents), moves, False, time.monotonic() - began)
    return Searched(len(parents), moves, True, time.monotonic() - began)


def play(world: ProtocolState, id: str, lines: list[str]) -> Violation | None:
    """Play one order that was written down; what is first broken in it.

    Raises:
        Diverged: at some place what it asks for cannot happen.
    """
    state = world.begin()
    for number, line in enumerate(lines):
        for move in world.moves(state):
            if world.text(state, move) == line:
                break
        else:
            there = "; ".join(world.text(state, each) for each in world.moves(state))
            raise Diverged(
                f"move {number}, {line!r}, cannot happen; what can: {there or 'nothing'}"
            )
        after = world.after(state, move)
        found = _of(world, state, move, after, id)
        if found is not None:
            return found
        state = after
    return None


def _of(
    world: ProtocolState, state: State, move: tuple[str, int], after: State, id: str
) -> Violation | None:
    broken: list[Found] = [each for each in world.judge(state, move, after) if each[0] == id]
    return broken[0][1] if broken else None


def _told(world: ProtocolState, parents: dict[State, State | None], last: State) -> list[str]:
    path: list[State] = [last]
    while (before := parents[path[-1]]) is not None:
        path.append(before)
    path.reverse()
    lines: list[str] = []
    for state, after in itertools.pairwise(path):
        move = next(each for each in world.moves(state) if world.after(state, each) == after)
        lines.append(world.text(state, move))
    return lines
