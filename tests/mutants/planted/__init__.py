"""Bugs planted in the reference, by system: `mutated:NAME` is a target like any mutant."""

from __future__ import annotations

from planted import (
    coordinator_bugs,
    engine_bugs,
    group_bugs,
    pipe_bugs,
    pool_bugs,
    queue_bugs,
    server_bugs,
)
from planted.bug import PlantedBug

PLANTED: tuple[PlantedBug, ...] = (
    *queue_bugs.BUGS,
    *group_bugs.BUGS,
    *pool_bugs.BUGS,
    *pipe_bugs.BUGS,
    *coordinator_bugs.BUGS,
    *engine_bugs.BUGS,
    *server_bugs.BUGS,
)
