"""Cases of a process group."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.systems.group.cases import generated, operations

CASES: tuple[Case, ...] = (*operations.CASES, *generated.CASES)
