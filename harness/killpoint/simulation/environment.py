"""Memory, sockets and time of one run after another, as the target's code receives them."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from killpoint.interfaces import Chooser
from killpoint.simulation.buffer import Buffer
from killpoint.simulation.memory import MODELS
from killpoint.simulation.memory.model import Model, Namer
from killpoint.simulation.scheduler import STEP_LIMIT, Scheduler


class SimulatedEnvironment:
    """Environment that a target is loaded into once; ``begin`` gives it a fresh world.

    Args:
        memory: the name of a memory model.
        sockets: makes the stand-in for sockets in a world, from that and its fence; None: none.
        limit: steps of a run.
        threads: whether tasks are threads (for code that is traced), and not greenlets.
    """

    def __init__(
        self,
        memory: str = "sequential",
        sockets: Callable[[Scheduler, Callable[[], None]], Any] | None = None,
        limit: int = STEP_LIMIT,
        threads: bool = False,
    ) -> None:
        self._threads = threads
        self.is_own: Callable[[CodeType], bool] = lambda _: False
        """Predicate that is true for the target's code; a play that traces lines calls it."""
        self._make, self._make_sockets, self._limit = MODELS[memory], sockets, limit
        self.begin(_First())

    def begin(
        self,
        chooser: Chooser,
        *,
        recording: bool = False,
        early: bool = False,
        late: bool = False,
    ) -> Scheduler:
        """Return a fresh world; objects made in an earlier one must not be used in it."""
        world = Scheduler(
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
        if self._make_sockets is None and not self._threads:
            world.shared = self.memory.state
        if self._make_sockets is not None:
            self.sockets = self._make_sockets(world, self.fence)
        return world

    def create(self, nbytes: int) -> SimSegment:
        """Make a new segment, zeroed."""
        name = f"simulated-{len(self._segments)}"
        segment = SimSegment(self.memory, name, self.memory.reserve(nbytes), nbytes)
        self._segments[name] = segment
        return segment

    def attach(self, name: str) -> SimSegment:
        """Return a segment of this run by its name."""
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
        """Return the simulated time, in seconds."""
        now = self.world.now
        self.world.saw(now)
        return now


class SimSegment:
    """Segment of a run's memory."""

    def __init__(self, memory: Model, name: str, at: int, size: int) -> None:
        self.name, self.size = name, size
        self._memory, self._at = memory, at
        self.buf = Buffer(memory, at, size)

    @property
    def plain(self) -> memoryview:
        """Real buffer over the bytes that are visible to all tasks."""
        return memoryview(self._memory.data)[self._at : self._at + self.size]

    def call(self, namer: Namer) -> None:
        """Name the segment's bytes for readers of a schedule."""
        self._memory.name(self._at, self.size, namer)


class _First:
    """Chooser of the first world, which is not run."""

    def choose(self, options: object) -> int:
        """Return the default."""
        del options
        return 0


def _never() -> bool:
    return False
