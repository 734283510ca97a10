"""Cases of a KV-transfer pipe."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.systems.pipe.cases import (
    blocks,
    cuda,
    deaths,
    generated,
    links,
    send_buffer,
    sweeps,
    transfers,
)

CASES: tuple[Case, ...] = (
    *transfers.CASES,
    *send_buffer.CASES,
    *deaths.CASES,
    *links.CASES,
    *sweeps.CASES,
    *blocks.CASES,
    *cuda.CASES,
    *generated.CASES,
)
