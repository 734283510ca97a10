"""Memory, sockets and time of one run after another, as a target's code is given them."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from killpoint.interfaces import Chooser
from killpoint.simulation.buffer import Buffer
from killpoint.simulation.memory import MODELS
from killpoint.simulation.memory.model import Model, Namer
from killpoint.simulation.scheduler import STEP_LIMIT, World


class Surroundings:
    """A target is put into these once; ``begin`` gives it a fresh world.

    Args:
        memory: the name of a memory model.
        sockets: makes what stands in for sockets in a world, whose fence is given; None: nothing.
        limit: steps of a run.
        threads: whether tasks are threads (for code that is traced), and not greenlets.
    """

    def __init__(
        self,
        memory: str = "sequential",
        sockets: Callable[[World, Callable[[], None]], Any] | None = None,
        limit: int = STEP_LIMIT,
        threads: bool = False,
    ) -> None:
        self._threads = threads
        self.is_own: Callable[[CodeType], bool] = lambda _: False
        """Whether code is the target's: a play that traces lines asks for it."""
        self._make, self._make_sockets, self._limit = MODELS[memory], sockets, limit
        self.begin(_First())

    def begin(
        self,
        chooser: Chooser,
        *,
        recording: bool = False,
        early: bool = False,
        late: bool = False,
    ) -> World:
        """A fresh world; whatever was made in an earlier one is of no use in it."""
        world = World(
            chooser,
            limit=self._limit,
            recording=recording,
            early=early,
            late=late,
            threads=self._threads,
        )
        self.world = world
        self.memory = self._make(world)
        self.sockets: Any = None
        self._segments: dict[str, SimSegment] = {}
        self.fence, self.spin = self.memory.fence, world.spin
        if self._make_sockets is not None:
            self.sockets = self._make_sockets(world, self.fence)
        return world

    def create(self, nbytes: int) -> SimSegment:
        """A new segment, zeroed."""
        name = f"simulated-{len(self._segments)}"
        segment = SimSegment(self.memory, name, self.memory.reserve(nbytes), nbytes)
        self._segments[name] = segment
        return segment

    def attach(self, name: str) -> SimSegment:
        """One of this run."""
        if name not in self._segments:
            raise FileNotFoundError(name)
        return self._segments[name]

    def sleep(self, seconds: float) -> None:
        """Sleep in simulated time."""
        if seconds <= 0:
            self.spin("its turn")
        else:
            self.world.wait(_never, seconds, "the end of its sleep")

    def now(self) -> float:
        """Simulated seconds."""
        return self.world.now


class SimSegment:
    """Some bytes of a run's memory."""

    def __init__(self, memory: Model, name: str, at: int, size: int) -> None:
        self.name, self.size = name, size
        self._memory, self._at = memory, at
        self.buf = Buffer(memory, at, size)

    @property
    def plain(self) -> memoryview:
        """A real buffer over what is visible to everybody."""
        return memoryview(self._memory.data)[self._at : self._at + self.size]

    def call(self, namer: Namer) -> None:
        """Names for whoever reads a schedule."""
        self._memory.name(self._at, self.size, namer)


class _First:
    """The chooser of the world that nobody runs."""

    def choose(self, options: object) -> int:
        """The default."""
        del options
        return 0


def _never() -> bool:
    return False
