"""Cases of a data-parallel coordinator, and of its wave protocol."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.systems.coordinator.cases import generated, publication, waves

CASES: tuple[Case, ...] = (
    *waves.CASES,
    *publication.CASES,
    *generated.CASES,
)
