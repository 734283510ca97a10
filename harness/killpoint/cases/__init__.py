"""The named ways to test each invariant; one file a chapter."""

from __future__ import annotations

from killpoint.cases import exposure, interruptions, sweeps
from killpoint.cases.case import Case
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
from killpoint.systems.coordinator.cases import publication as coordinator
from killpoint.systems.coordinator.cases import waves
from killpoint.systems.engine.cases import faults as engine_faults
from killpoint.systems.engine.cases import load as engine
from killpoint.systems.group.cases import operations as group
from killpoint.systems.pipe.cases import blocks as pipe_blocks
from killpoint.systems.pipe.cases import cuda as pipe_cuda
from killpoint.systems.pipe.cases import deaths as pipe_deaths
from killpoint.systems.pipe.cases import links as pipe_links
from killpoint.systems.pipe.cases import send_buffer as pipe_buffer
from killpoint.systems.pipe.cases import sweeps as pipe_sweeps
from killpoint.systems.pipe.cases import transfers as pipe
from killpoint.systems.pool.cases import deaths as pool_deaths
from killpoint.systems.pool.cases import kill_matrix as pool_matrix_cases
from killpoint.systems.pool.cases import restart as pool_succession
from killpoint.systems.pool.cases import service as pool_service
from killpoint.systems.pool.cases import sweeps as pool_sweeps
from killpoint.systems.pool.cases import terminal as pool_terminal
from killpoint.systems.queue.cases import (
    deadlines,
    deaths,
    delivery,
    every_schedule,
    fuzz,
    growth,
    lifecycle,
    native_code,
    network,
    pages,
    remote,
    ring,
    scarcity,
    stores,
    wakeups,
    weak_memory,
)
from killpoint.systems.queue.cases import large_messages as large
from killpoint.systems.queue.cases import rank_checks as ranks
from killpoint.systems.queue.cases import remote_lifecycle as remote_life
from killpoint.systems.queue.cases import syscalls as calls
from killpoint.systems.server import cases as servers

CASES: tuple[Case, ...] = (
    *ring.CASES,
    *pages.CASES,
    *interruptions.CASES,
    *sweeps.CASES,
    *delivery.CASES,
    *fuzz.CASES,
    *deaths.CASES,
    *large.CASES,
    *stores.CASES,
    *calls.CASES,
    *native_code.CASES,
    *deadlines.CASES,
    *wakeups.CASES,
    *every_schedule.CASES,
    *lifecycle.CASES,
    *remote.CASES,
    *remote_life.CASES,
    *network.CASES,
    *group.CASES,
    *scarcity.CASES,
    *growth.CASES,
    *ranks.CASES,
    *exposure.CASES,
    *pool_service.CASES,
    *pool_deaths.CASES,
    *pool_matrix_cases.CASES,
    *pool_succession.CASES,
    *pool_sweeps.CASES,
    *pool_terminal.CASES,
    *pipe.CASES,
    *pipe_buffer.CASES,
    *pipe_deaths.CASES,
    *pipe_links.CASES,
    *pipe_sweeps.CASES,
    *pipe_blocks.CASES,
    *pipe_cuda.CASES,
    *engine_faults.CASES,
    *engine.CASES,
    *weak_memory.CASES,
    *waves.CASES,
    *coordinator.CASES,
)
"""Of implementations whose parts are driven from inside."""

SERVER_CASES: tuple[Case, ...] = servers.CASES
"""Of whole servers, which are judged from outside."""

EVERY_CASE = (*CASES, *SERVER_CASES, *servers.FULL_CASES)


def asked_of(*, server: bool, full: bool = False) -> tuple[Case, ...]:
    """The cases that a target is asked unless others are named: a whole server's, or all others.

    ``full``: those that are asked under ``--full`` alone are among them.
    """
    if server:
        return (*SERVER_CASES, *servers.FULL_CASES) if full else SERVER_CASES
    return CASES


def select(only: list[str], *, server: bool = False, full: bool = False) -> list[Case]:
    """Cases by invariant id or by name; for an empty list all that a target of the kind is asked.

    A case that is named is among them whatever the target is; of an invariant those that a target
    of the kind is asked.

    Raises:
        BadUsage: an id that no invariant or case has.
    """
    asked = asked_of(server=server, full=full)
    if not only:
        return list(asked)
    chosen: dict[str, Case] = {}
    for word in only:
        found = [case for case in asked if word == case.invariant]
        found += [case for case in EVERY_CASE if word == case.id]
        if not found and word not in BY_ID:
            known = [c.id for c in EVERY_CASE if c.invariant == word.split("/")[0]] or list(BY_ID)
            raise BadUsage(f"no invariant or case {word!r}; expected one of: {', '.join(known)}")
        chosen |= {case.id: case for case in found}
    return list(chosen.values())
