"""The states of a pool, which only go forward (SPEC W1)."""

from enum import IntEnum


class State(IntEnum):
    """In the order in which they may follow each other."""

    STARTING = 0
    READY = 1
    """Every worker is; nobody has called yet."""
    RUNNING = 2
    FAILED = 3
    STOPPING = 4
    STOPPED = 5


_FROM = {
    State.READY: {State.STARTING},
    State.RUNNING: {State.READY},
    State.FAILED: {State.STARTING, State.READY, State.RUNNING},
    State.STOPPING: {State.STARTING, State.READY, State.RUNNING, State.FAILED},
    State.STOPPED: {State.STOPPING},
}


class Lifecycle:
    """Says who was the first to take a step. Any thread, a signal handler too, may ask.

    It has no lock, which an exception could leave held (SPEC R9): a mark in a dict is made whole
    or not at all, and the state is the furthest mark.
    """

    def __init__(self) -> None:
        self._marks: dict[State, object] = {State.STARTING: self}
        self.history = [State.STARTING]
        """Every state it has been in."""

    @property
    def state(self) -> State:
        """Where it stands."""
        return max(self._marks)

    def advance(self, to: State) -> bool:
        """Go there if it is a step forward; True for the one caller that took it."""
        mine = object()
        if self.state not in _FROM[to] or self._marks.setdefault(to, mine) is not mine:
            return False
        self.history.append(to)
        return True

    @property
    def over(self) -> bool:
        """Whether no call can be made any more."""
        return self.state >= State.FAILED
