"""Plan of a run: its rows and cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from killpoint.bench.workload import KINDS, SIZES, Kind, Payload, show_size

Row = Literal["roundtrip", "throughput", "wake", "cpu"]
ROWS: tuple[Row, ...] = ("roundtrip", "throughput", "wake", "cpu")
READERS = (1, 2, 4)


class Repetitions(msgspec.Struct, frozen=True):
    """Repetitions and durations of a measurement."""

    groups: int
    """Times that every process of a cell is started afresh."""
    rounds: int
    """Samples of each peer in a group; each round's are taken side by side."""
    seconds: float
    """About how long a sample takes."""
    idle: float
    wakes: int
    settle: float = 3.0
    """Idle or blocked seconds before processor time is counted."""
    count: float = 5.0
    """Seconds for which it is counted."""
    together: bool = False
    """True if the processor time of all peers is counted at the same time."""


FULL = Repetitions(groups=4, rounds=3, seconds=0.15, idle=2.0, wakes=9)
QUICK = Repetitions(groups=3, rounds=2, seconds=0.05, idle=1.2, wakes=5, together=True)


class Cell(msgspec.Struct, frozen=True):
    """One place of the table in which all peers are measured side by side."""

    row: Row
    payload: Payload | None = None
    readers: int = 1

    def title(self) -> str:
        """Return the cell's title, for progress and messages."""
        if self.payload is None:
            return self.row
        size = show_size(self.payload.size)
        return f"{self.row} {self.payload.kind} {size}, readers: {self.readers}"


_QUICK: tuple[Cell, ...] = (
    Cell("roundtrip", Payload("bytes", 64)),
    Cell("roundtrip", Payload("array", 64)),
    Cell("roundtrip", Payload("array", 4 << 20)),
    Cell("throughput", Payload("bytes", 64), 1),
    Cell("throughput", Payload("bytes", 64), 2),
    Cell("throughput", Payload("array", 64), 1),
    Cell("throughput", Payload("array", 4 << 20), 1),
    Cell("throughput", Payload("array", 4 << 20), 2),
    Cell("throughput", Payload("array", 23 << 20), 1),
    Cell("throughput", Payload("array", 32 << 20), 1),
)


def plan(
    rows: Sequence[Row] = ROWS,
    kinds: Sequence[Kind] = KINDS,
    sizes: Sequence[int] | None = None,
    readers: Sequence[int] | None = None,
    *,
    quick: bool = False,
) -> list[Cell]:
    """Return every cell, in the order of rows; ``quick``: a short list where nothing was chosen."""
    if quick and sizes is None and readers is None:
        cells = [cell for cell in _QUICK if cell.row in rows and _kind_of(cell) in kinds]
    else:
        chosen = sizes or SIZES
        cells = [
            Cell(row, Payload(kind, size), count)
            for row in rows
            if row in ("roundtrip", "throughput")
            for kind in kinds
            for size in chosen
            for count in ((1,) if row == "roundtrip" else readers or READERS)
        ]
    return cells + [Cell(row) for row in rows if row in ("wake", "cpu")]


def _kind_of(cell: Cell) -> Kind | None:
    return cell.payload.kind if cell.payload else None
