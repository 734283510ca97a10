"""What replicas, coordinator and front ends say to each other; on the wire it is MessagePack."""

import msgspec

Counts = tuple[int, int]
"""Of one replica: requests that wait, and requests that run."""


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """From a replica to the coordinator: any of these at once."""

    rank: int
    wants: int | None = None
    """It does not step, and is ready for this wave."""
    work: bool = False
    """Whether it has requests for that wave; without any it only asks whether the wave is on."""
    done: int | None = None
    """All agreed to end this wave. The lowest rank in it says so."""
    broke: int | None = None
    """Its all-reduce failed in this wave."""
    lost: tuple[int, ...] = ()
    """Ranks for want of which it failed."""
    counts: Counts | None = None


class Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """From the coordinator to all replicas: this wave is on. Hearing it again changes nothing."""

    wave: int
    members: tuple[int, ...]
    """The ranks that step together in it."""


class State(msgspec.Struct, frozen=True, array_like=True, tag="state"):
    """From the coordinator to all front ends."""

    wave: int
    running: bool
    counts: tuple[Counts | None, ...] | None = None
    """By rank, None for a replica that is gone. None for all: they are as they were."""


class Scale(msgspec.Struct, frozen=True, array_like=True, tag="scale"):
    """From a front end to the coordinator: there are to be so many replicas."""

    engines: int
