"""An engine's health (is it alive, ready, making progress?) and its counts (SPEC E4)."""

from dataclasses import dataclass, field
from typing import Literal

ReplicaStatus = Literal["starting", "ready", "stuck", "dead"]
STUCK_AFTER = 2.0
"""Seconds without a step, or without a sign of life, after which a replica makes no progress."""


@dataclass(frozen=True)
class ReplicaHealth:
    """One replica as the front end knows it, at one instant."""

    name: str
    pid: int
    """0 while it has no process."""
    state: ReplicaStatus
    waiting: int
    running: int
    since_step: float
    """Seconds since its last step, while it has unfinished requests; else 0."""


@dataclass(frozen=True)
class Health:
    """Answers to three questions, none of which follows from another."""

    alive: bool
    """True if the front end's threads turn."""
    ready: bool
    """True if a new request would be taken: at least one replica is there for it."""
    progressing: bool
    """True if no replica with unfinished requests has been without a step for more than 2 s."""
    replicas: tuple[ReplicaHealth, ...] = ()


@dataclass(frozen=True)
class EngineCounts:
    """Counts since the engine was made; values per replica are current."""

    requests: dict[str, int]
    """Ended requests by outcome: "stop", "length", "cancelled", "failed", "refused"."""
    open: int
    """Number of requests that have not ended."""
    prompt_tokens: int
    """Prompt tokens of all requests that were taken."""
    tokens: int
    """Tokens delivered to streams."""
    retries: int
    """Number of times that a request was begun anew on another replica."""
    restarts: dict[str, int]
    """Restarts by the name of the part: "core-0", "coordinator"…"""
    waiting: dict[str, int]
    running: dict[str, int]
    steps: dict[str, int]
    """Model steps by replica, since that process started."""
    wave: int = 0
    """Wave of the data-parallel replicas."""
    imported: int = 0
    """Number of prompts whose KV blocks came from a prefill replica."""
    own: dict[str, int] = field(default_factory=lambda: dict[str, int]())
    """Other counts, by name."""
