"""Messages between the processes of two nodes, inside their encrypted session.

Both ends have the secret, so each decodes what the other pickles, as the workers of a pool do.
"""

import pickle
from dataclasses import dataclass
from typing import Any

from ..settings import PoolSettings, WorkerSpec
from ..workers import PoolShape
from .settings import SumLink

FOLLOWER = 1
"""Rank of the follower in the session; the head is 0."""


@dataclass(frozen=True)
class StartWorkers:
    """To the follower: start your ranks. `sum_links` are theirs, in the order of the ranks."""

    shape: PoolShape
    spec: WorkerSpec
    settings: PoolSettings
    sum_links: tuple[SumLink, ...]


@dataclass(frozen=True)
class RequestQueue:
    """To the follower: the handle of the queue of requests, for each of its workers."""

    handle: Any


@dataclass(frozen=True)
class Leave:
    """To the follower: the pool shuts down; end your workers, and leave."""


@dataclass(frozen=True)
class WorkersReady:
    """To the head: every worker is READY; the handles of their queues of replies, by rank."""

    replies: tuple[Any, ...]


@dataclass(frozen=True)
class StartRefused:
    """To the head: a worker did not become READY."""

    rank: int
    pid: int
    reason: str


@dataclass(frozen=True)
class WorkerEnded:
    """To the head: a worker ended while the pool needed it."""

    rank: int
    pid: int
    signal: int | None
    status: int | None
    exit_reason: str


@dataclass(frozen=True)
class Left:
    """To the head: the follower leaves, for this reason, though the pool needs it."""

    reason: str


ToFollower = StartWorkers | RequestQueue | Leave
ToHead = WorkersReady | StartRefused | WorkerEnded | Left


def encode(message: ToFollower | ToHead) -> bytes:
    """Return a message as the body of a session's message."""
    return pickle.dumps(message)


def decode(body: memoryview) -> Any:
    """Return the message of a body, or the error that its decoding raised."""
    try:
        return pickle.loads(body)
    except Exception as error:
        return error
