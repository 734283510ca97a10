"""What one method made of one mutant."""

from __future__ import annotations

import msgspec


class Found(msgspec.Struct, omit_defaults=True):
    """How a search ended."""

    kind: str = ""
    """The kind of violation; empty: nothing was found."""
    by: str = ""
    """The case or the judge that found it."""
    plays: int = 0
    unit: str = "plays"
    seconds: float = 0.0
    doubt: str = ""
    """Why it says nothing, if it could not be tried."""

    def __str__(self) -> str:
        """For a cell of the table."""
        if self.doubt:
            return f"not tried: {self.doubt}"
        unit = self.unit.removesuffix("s") if self.plays == 1 else self.unit
        cost = f"{self.plays} {unit}, {self.seconds:.1f} s"
        return f"**{self.kind}**, {cost}" if self.kind else f"no ({cost})"


class Row(msgspec.Struct):
    """One mutant with what each method found."""

    mutant: str
    case: str
    """The case that is meant to catch it."""
    found: dict[str, Found] = {}
