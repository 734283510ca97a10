"""Groups that their caller did not get, and that cannot be undone any more (SPEC R9).

When rank 0 is interrupted at the very end of `create`, the others may be at work already, by way
of it. So its group stands, and the next call for the same place gives it. If none comes in time
it is closed, and the others are told that rank 0 has left.
"""

import threading
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Closes(Protocol):
    """What can stand."""

    def close(self) -> None:
        """Leave."""
        ...


Thing = TypeVar("Thing", bound=Closes)


class Standing(Generic[Thing]):
    """At most one at each place, each with a clock that runs while nobody has asked for it."""

    def __init__(self) -> None:
        self._things: dict[Hashable, Thing] = {}
        self._clocks: dict[Hashable, threading.Timer] = {}

    def add(self, place: Hashable, thing: Thing) -> None:
        """Let it stand."""
        self._things[place] = thing

    def wind(self, place: Hashable, seconds: float) -> None:
        """Let the clock of what stands there run, if something does."""
        if place in self._things:
            clock = threading.Timer(seconds, self._lapse, (place,))
            clock.daemon = True
            self._clocks[place] = clock
            clock.start()

    def find(self, place: Hashable) -> Thing | None:
        """What stands there; its clock is stopped."""
        clock = self._clocks.pop(place, None)
        if clock is not None:
            clock.cancel()
        return self._things.get(place)

    def give(self, place: Hashable) -> None:
        """Its caller has it."""
        self._things.pop(place, None)

    def _lapse(self, place: Hashable) -> None:
        self._clocks.pop(place, None)
        thing = self._things.pop(place, None)
        if thing is not None:
            thing.close()
