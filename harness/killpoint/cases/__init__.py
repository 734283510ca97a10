"""Cases: the named ways to test each invariant; one file per chapter."""

from __future__ import annotations

from killpoint.cases import (
    calls,
    coordinator,
    deadlines,
    deaths,
    delivery,
    engine,
    engine_faults,
    every_schedule,
    exposure,
    fuzz,
    group,
    growth,
    interruptions,
    large,
    lifecycle,
    native_code,
    network,
    pages,
    pipe,
    pipe_blocks,
    pipe_buffer,
    pipe_cuda,
    pipe_deaths,
    pipe_links,
    pipe_sweeps,
    pool_deaths,
    pool_matrix_cases,
    pool_service,
    pool_succession,
    pool_sweeps,
    pool_terminal,
    ranks,
    remote,
    remote_life,
    ring,
    scarcity,
    stores,
    sweeps,
    wakeups,
    waves,
    weak_memory,
)
from killpoint.cases.case import Case
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
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
"""Cases of implementations whose parts are driven from inside."""

SERVER_CASES: tuple[Case, ...] = servers.CASES
"""Cases of whole servers, which are judged from outside."""

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
