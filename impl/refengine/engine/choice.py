"""Which replica a request goes to: the least loaded one, and ties take turns (SPEC 8)."""

from collections.abc import Mapping

_WAITING = 4  # times as much as one that runs: it will run, and it says that others do


def load(waiting: int, running: int, on_the_way: int = 0) -> int:
    """Of one replica: what it says it has, and what was sent to it since."""
    return _WAITING * (waiting + on_the_way) + running


class Choice:
    """Sans I/O. Of equals the one is taken that was not taken for longest."""

    def __init__(self) -> None:
        self._turn = 0
        self._taken: dict[str, int] = {}

    def of(self, loads: Mapping[str, int]) -> str | None:
        """The name of one of these; None if there is none."""
        name = min(loads, key=lambda name: (loads[name], self._taken.get(name, 0)), default=None)
        if name is not None:
            self._turn += 1
            self._taken[name] = self._turn
        return name
