"""Cases of a whole engine that is driven through its own interface."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.systems.engine.cases import faults, generated, load

CASES: tuple[Case, ...] = (
    *faults.CASES,
    *generated.CASES,
    *load.CASES,
)
