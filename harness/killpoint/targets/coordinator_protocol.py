"""Capability ``coordinator_process``: a coordinator as a process, among peers that roles play."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import msgspec

from killpoint.targets.coordinator_messages import Published, Started

Heard = Started | Published
"""Message that comes down a link."""


class CoordinatorShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Coordinator to be started, and its peers."""

    engines: Annotated[int, msgspec.Meta(ge=1, le=256)] = 2
    """Number of replicas that it is started for."""
    spares: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0
    """Number of further roles that may come as an engine of any rank: one that returns, or that is
    added."""
    front_ends: Annotated[int, msgspec.Meta(ge=0, le=16)] = 1
    host: str = ""
    """Address to listen at; empty: the target's own way of reaching peers on this machine."""

    system: ClassVar[str] = "coordinator"

    def roles(self) -> list[str]:
        """Return the parent, which starts the coordinator, then that itself and its peers."""
        return ["parent", "coordinator", *self.connecting()]

    def collective(self) -> dict[str, list[str]]:
        """Return all engines, those of the spares last, and all front ends."""
        return {
            "engines": [f"engine-{n}" for n in range(self.engines + self.spares)],
            "front-ends": [f"front-end-{n}" for n in range(self.front_ends)],
        }

    def started_by_target(self) -> list[str]:
        """Return the coordinator's own role."""
        return ["coordinator"]

    def connecting(self) -> list[str]:
        """Return the engines and the front ends."""
        peers = self.collective()
        return [*peers["engines"], *peers["front-ends"]]


class Times(NamedTuple):
    """Intervals at which a coordinator publishes, in seconds."""

    interval: float
    """Longest time after a change."""
    idle: float
    """Interval while nothing changes."""


class Saying(msgspec.Struct, frozen=True, omit_defaults=True):
    """Report of an engine to the coordinator, in one message where its wire allows that."""

    counts: tuple[int, int] | None = None
    """Requests that wait, and that run."""
    wants: int | None = None
    """Wave for which it has requests and is ready."""
    done: int | None = None
    """Wave that all have agreed to end."""
    broke: int | None = None
    """Wave in which its all-reduce failed."""
    lost: tuple[int, ...] = ()
    """Ranks for want of which it failed."""


@runtime_checkable
class RunsCoordinator(Protocol):
    """Capability ``coordinator_process``.

    The first five are called in the role ``parent``, the others in roles of their own: a link is
    made, used and closed by one thread.
    """

    engines_begin: bool
    """True if an engine that wants a wave is in it at once; False if only once it was told."""

    def coordinator_start(self, shape: CoordinatorShape, timeout: float | None) -> Any:
        """Start a coordinator; return once it listens, or raise."""
        ...

    def coordinator_pid(self, end: Any) -> int:
        """Return the pid of its process."""
        ...

    def coordinator_handle(self, end: Any) -> Any:
        """Return a handle that links are made by; it can be pickled."""
        ...

    def coordinator_gone(self, end: Any) -> bool:
        """Return, without waiting, whether its parent has been told that it has ended."""
        ...

    def coordinator_close(self, end: Any) -> None:
        """End it cleanly. It may have ended before."""
        ...

    def coordinator_times(self) -> Times:
        """Return the intervals that the target promises."""
        ...

    def engine_link(self, handle: Any, rank: int) -> Any:
        """Link an engine that begins to listen; there may not be a coordinator any more."""
        ...

    def front_end_link(self, handle: Any) -> Any:
        """Link a front end that begins to listen."""
        ...

    def engine_says(self, link: Any, saying: Saying) -> bool:
        """Send a report; False if there is no room for it now, and nothing was sent.

        Raises:
            UnsupportedByTarget: its engines cannot report that.
        """
        ...

    def front_end_scales(self, link: Any, engines: int) -> None:
        """Ask for so many engines."""
        ...

    def link_hears(self, link: Any, seconds: float) -> Heard | None:
        """Return the coordinator's next message; None if none comes in that time."""
        ...

    def link_beats(self, link: Any) -> None:
        """Give a sign of life, where the target has such. Called several times a second."""
        ...

    def link_lost(self, link: Any) -> bool:
        """Return whether the coordinator counts as gone, as far as this end can tell."""
        ...

    def link_close(self, link: Any) -> None:
        """Close the link."""
        ...


@runtime_checkable
class ForgesReports(Protocol):
    """Beside ``coordinator_process``, if it can be done: peers that send malformed messages."""

    def engine_forges(self, link: Any, lie: str, counts: tuple[int, int]) -> bool:
        """Send a frame, or several, that a broken engine might.

        ``lie``: a word of :data:`killpoint.systems.coordinator.steps.EngineLie`;
        UnsupportedByTarget for one that its wire cannot express. Returns whether these counts
        were a valid part of the message beside it.
        """
        ...

    def front_end_forges(self, link: Any, lie: str) -> None:
        """Do so as a front end: :data:`killpoint.systems.coordinator.steps.FrontEndLie`."""
        ...


@runtime_checkable
class EndsWaves(Protocol):
    """Beside ``coordinator_process``, where a start tells the members: the target's own engines."""

    def engine_reports_end(self, rank: int, wave: int, members: tuple[int, ...]) -> bool:
        """Return whether it is this engine that reports the end which all members agreed upon."""
        ...
