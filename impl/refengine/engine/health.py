"""What an engine says of itself: alive, ready, making progress, and how much it did (SPEC E4)."""

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
    """Three different things, none of which follows from another."""

    alive: bool
    """The front end's threads turn."""
    ready: bool
    """A new request would be taken: at least one replica is there for it."""
    progressing: bool
    """No replica with unfinished requests has been without a step for more than 2 s."""
    replicas: tuple[ReplicaHealth, ...] = ()


@dataclass(frozen=True)
class EngineCounts:
    """Since the engine was made; what stands per replica is of now."""

    requests: dict[str, int]
    """By outcome: "stop", "length", "cancelled", "failed", "refused"."""
    open: int
    """Requests that have not ended."""
    prompt_tokens: int
    """Of all requests that were taken."""
    tokens: int
    """Given to streams."""
    retries: int
    """How often a request was begun anew elsewhere."""
    restarts: dict[str, int]
    """By the name of the part that was started again: "core-0", "coordinator"…"""
    waiting: dict[str, int]
    running: dict[str, int]
    steps: dict[str, int]
    """Of the model, by replica, since that process started."""
    wave: int = 0
    """Of the data-parallel replicas."""
    imported: int = 0
    """Prompts whose KV blocks came from a prefill replica."""
    own: dict[str, int] = field(default_factory=lambda: dict[str, int]())
    """Whatever else is counted, by name."""
