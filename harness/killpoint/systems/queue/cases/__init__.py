"""Cases of a queue and of the ring below it."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.systems.queue.cases import (
    deadlines,
    deaths,
    delivery,
    every_schedule,
    fuzz,
    generated,
    growth,
    large_messages,
    lifecycle,
    native_code,
    network,
    pages,
    rank_checks,
    remote,
    remote_lifecycle,
    ring,
    scarcity,
    stores,
    syscalls,
    wakeups,
    weak_memory,
)

CASES: tuple[Case, ...] = (
    *ring.CASES,
    *pages.CASES,
    *delivery.CASES,
    *fuzz.CASES,
    *generated.CASES,
    *deaths.CASES,
    *large_messages.CASES,
    *stores.CASES,
    *syscalls.CASES,
    *native_code.CASES,
    *deadlines.CASES,
    *wakeups.CASES,
    *every_schedule.CASES,
    *weak_memory.CASES,
    *lifecycle.CASES,
    *remote.CASES,
    *remote_lifecycle.CASES,
    *network.CASES,
    *scarcity.CASES,
    *growth.CASES,
    *rank_checks.CASES,
)
