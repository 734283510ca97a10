"""Two nodes on this machine: a follower in a process of its own, and a pool as its head."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from refengine.executor import Executor, NodeSettings, PoolSettings
from refengine.executor.nodes.follower import Follower

from ...roles import Role
from .. import workers

SECRET = b"known to both nodes"
WORKER = f"{workers.__name__}:Worker"
SOON = 6.0
"""Seconds for an end to be noticed, and for the processes to be gone, on a busy machine."""


def nodes(**given: Any) -> NodeSettings:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return NodeSettings("127.0.0.1", free.getsockname()[1], SECRET, **given)


def follow(say: Any, settings: NodeSettings) -> None:
    logging.disable()
    say(Follower(settings, 15.0).run())


def settings_of(settings: NodeSettings, **given: Any) -> PoolSettings:
    times = {"grace": workers.GRACE, "term_grace": workers.GRACE, "start_timeout": 15.0}
    return PoolSettings(start="fork", nodes=settings, **(times | given))


@contextlib.contextmanager
def two_nodes(
    settings: NodeSettings | None = None, reached_at: int = 0, **options: Any
) -> Iterator[tuple[Executor, Role]]:
    """A pool of two workers on two nodes, and the follower's process.

    Args:
        reached_at: port at which the follower reaches the head, if not at the head's own.
    """
    settings = settings or nodes()
    follower = Role(follow, replace(settings, port=reached_at or settings.port))
    try:
        with Executor(WORKER, 2, options=options, settings=settings_of(settings)) as made:
            yield made, follower
    finally:
        follower.kill()


def run_head(say: Any, settings: NodeSettings) -> None:
    """Be a head in a process of its own, until it is killed."""
    with Executor(WORKER, 2, settings=settings_of(settings)) as made:
        say(made.collective_rpc("pid", 5.0))
        made.collective_rpc("sit", SOON * 4)
