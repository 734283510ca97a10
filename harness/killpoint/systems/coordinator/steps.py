"""Steps of a coordinator's peers: its parent, engines and front ends."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from killpoint.systems.step import Seconds, Step

Counts = tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)]]
"""Numbers of requests that wait, and of requests that run."""
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
"""Malformed message of a broken engine. ``wrong-type``, ``far-wave`` and ``huge-number`` are one
bad field beside good counts; ``nobodys-topic`` is a subscription; ``not-text`` holds text that is
not UTF-8, ``deep`` arrays nested without end; ``fuzzed`` is many mutants of a message that are not
messages themselves."""
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
Awaited = Literal[
    "stepped",
    "without",
    "running",
    "paused",
    "counts",
    "gone",
    "back",
    "ranks",
    "state",
    "lost",
    "found",
]
"""Event that a role waits for. ``stepped``: all requests of this engine are; ``without``: the
engine is in a wave that a rank is not in; ``running``, ``paused``: an engine is in a wave, or in
none; a front end was told so of the engines; ``counts``, ``gone``, ``back``: a front end's news of
a rank; ``ranks``: a front end's news of the number of ranks; ``state``: any later message of the
coordinator; ``lost``, ``found``: this role begins, or ceases, to count the coordinator as gone."""


class CoordinatorStart(Step, tag="coordinator-start"):
    """The parent starts a coordinator, the first or the next; it goes on once that listens."""

    timeout: Seconds | None = None


class CoordinatorClose(Step, tag="coordinator-close"):
    """The parent closes the coordinator cleanly."""


class Connect(Step, tag="connect"):
    """Engines or front ends begin to listen to the coordinator, as if they had just come."""

    roles: tuple[str, ...] = ("engines", "front-ends")
    rank: Rank | None = None
    """Rank under which an engine connects; None: its own number."""


class Disconnect(Step, tag="disconnect"):
    """Engines or front ends close their connections, and live on."""

    roles: tuple[str, ...]


class ReportCounts(Step, tag="report-counts"):
    """An engine reports its counts."""

    role: str
    counts: Counts


class Request(Step, tag="request"):
    """A request arrives at engines, each of which is in a wave, or wants one."""

    roles: tuple[str, ...]


class EndWave(Step, tag="end-wave"):
    """Engines have agreed that nothing is left to do; one of them reports it.

    Which one does is the target's to say, if it can
    (:class:`killpoint.targets.coordinator_protocol.EndsWaves`); otherwise the first of these roles.
    """

    roles: tuple[str, ...]
    quiet: bool = False
    """True if another role, which ends the wave later, reports it where the target does not say."""


class BreakWave(Step, tag="break-wave"):
    """An all-reduce fails for want of some ranks; the engine reports it and wants the next wave."""

    role: str
    lost: tuple[Rank, ...] = ()


class Scale(Step, tag="scale"):
    """A front end requests another number of engines."""

    role: str
    engines: Annotated[int, msgspec.Meta(ge=1, le=256)]


class Forge(Step, tag="forge"):
    """An engine or a front end sends a malformed message."""

    role: str
    lie: EngineLie | FrontEndLie
    counts: Counts = (0, 0)
    """Counts beside the bad field of an engine's message, where they can still be read."""


class Flood(Step, tag="flood"):
    """Engines send their counts, or malformed messages, as fast as they can."""

    roles: tuple[str, ...]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=60)]
    lie: EngineLie | None = None


class WaitNews(Step, tag="wait-news"):
    """Roles wait for news of something; the play ends there if it does not come."""

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
    | ReportCounts
    | Request
    | EndWave
    | BreakWave
    | Scale
    | Forge
    | Flood
    | WaitNews
)
