"""Cases of a worker pool."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.systems.pool.cases import (
    deaths,
    generated,
    kill_matrix,
    restart,
    service,
    sweeps,
    terminal,
)

CASES: tuple[Case, ...] = (
    *service.CASES,
    *deaths.CASES,
    *kill_matrix.CASES,
    *restart.CASES,
    *sweeps.CASES,
    *terminal.CASES,
    *generated.CASES,
)
