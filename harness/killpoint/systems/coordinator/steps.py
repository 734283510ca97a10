"""What the peers of a coordinator are told to do."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from killpoint.systems.step import Seconds, Step

Counts = tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)]]
"""Requests that wait, and requests that run."""
Rank = Annotated[int, msgspec.Meta(ge=0, le=4095)]

EngineLie = Literal[
    "empty",
    "truncated",
    "not-a-message",
    "unknown-tag",
    "wrong-type",
    "huge-number",
    "negative-counts",
    "far-wave",
    "unknown-rank",
    "several-frames",
    "nobodys-topic",
    "not-text",
    "deep",
    "fuzzed",
]
"""What a broken engine sends. ``wrong-type``, ``far-wave`` and ``huge-number`` are one bad field
beside good counts; ``nobodys-topic`` is a subscription; ``not-text`` holds a text that
is no UTF-8, ``deep`` arrays in arrays without end; ``fuzzed`` is many mutants of a message that are
none."""
FrontEndLie = Literal[
    "empty",
    "truncated",
    "not-a-message",
    "unknown-tag",
    "wrong-type",
    "scale-0",
    "scale-huge",
    "not-text",
    "deep",
    "fuzzed",
]
Awaited = Literal["stepped", "without", "counts", "gone", "back", "state", "lost", "found", "ranks"]
"""``stepped``: all requests of this engine are; ``without``: it is in a wave that a rank is not in;
``counts``, ``gone``, ``back``: what a front end
hears of a rank; ``ranks``: it hears of so many; ``state``: any word of the coordinator's from now
on; ``lost``, ``found``: the coordinator counts as gone here, or does no more."""


class CoordinatorStart(Step, tag="coordinator-start"):
    """The parent starts a coordinator, the first one or the next; it goes on once it listens."""

    timeout: Seconds | None = None


class CoordinatorClose(Step, tag="coordinator-close"):
    """The parent ends it cleanly."""


class Connect(Step, tag="connect"):
    """Engines or front ends begin to listen to the coordinator, as if they had just come."""

    roles: tuple[str, ...] = ("engines", "front-ends")
    rank: Rank | None = None
    """The rank that an engine comes as; None: its own number."""


class Disconnect(Step, tag="disconnect"):
    """They leave, and live on."""

    roles: tuple[str, ...]


class Tell(Step, tag="tell"):
    """An engine tells its counts."""

    role: str
    counts: Counts


class Request(Step, tag="request"):
    """A request comes to an engine: it is in a wave, or wants one."""

    roles: tuple[str, ...]


class EndWave(Step, tag="end-wave"):
    """Engines have agreed that nothing is left to do; the first of these roles says so."""

    roles: tuple[str, ...]


class BreakWave(Step, tag="break-wave"):
    """An engine's all-reduce fails for want of some ranks: it says so, and wants the next wave."""

    role: str
    lost: tuple[Rank, ...] = ()


class Scale(Step, tag="scale"):
    """A front end says how many engines there are to be."""

    role: str
    engines: Annotated[int, msgspec.Meta(ge=1, le=256)]


class Forge(Step, tag="forge"):
    """An engine or a front end sends what makes no sense."""

    role: str
    lie: EngineLie | FrontEndLie
    counts: Counts = (0, 0)
    """What a broken engine's message carries beside it, where that can be read."""


class Flood(Step, tag="flood"):
    """Engines repeat their counts as fast as they can be sent, or send what makes no sense."""

    roles: tuple[str, ...]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=60)]
    lie: EngineLie | None = None


class Hear(Step, tag="hear"):
    """Roles wait until they have heard of something; if they do not, the play ends there."""

    roles: tuple[str, ...]
    what: Awaited
    rank: Rank | None = None
    counts: Counts | None = None
    within: Seconds = 7.0


CoordinatorStep = (
    CoordinatorStart
    | CoordinatorClose
    | Connect
    | Disconnect
    | Tell
    | Request
    | EndWave
    | BreakWave
    | Scale
    | Forge
    | Flood
    | Hear
)
