"""Cases of the kill matrix: its cells, by the invariant that their ending belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from killpoint.cases.case import Case
from killpoint.cases.pool_cells import STARTING, Struck, needs_line
from killpoint.cases.pool_plays import DOWN, UP, WORKS, PoolStartMethod, pooled
from killpoint.explore.kills import chosen, count_lines
from killpoint.explore.trial import Trial
from killpoint.pool_matrix import JUDGED_BY, MATRIX, Cell
from killpoint.scenario import AnyStep, Point, Scenario

_LINES = 3
"""Lines of the handshake, or of a worker's idle time, that one cell is tried at with ``--full``."""


def _cells(invariant: str) -> list[Cell]:
    return [cell for cell, found in MATRIX.items() if JUDGED_BY.get(found.ending) == invariant]


def _by_start(cell: Cell) -> bool:
    """Whether what becomes of it depends on how the workers were started."""
    return cell.phase in STARTING or cell.victim == "executor"


class _Lines:
    """How many lines there are to strike at, counted once where a cell needs it."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._counts: dict[tuple[str, str], int] = {}

    def of(self, cell: Cell, start: PoolStartMethod) -> int:
        """Lines of the worker's handshake, or of what it does between two calls."""
        verb = "start" if cell.phase == "handshake" else "serve"
        key = (verb, start)
        if key not in self._counts:

            def around(step: AnyStep) -> Scenario:
                return pooled(self._trial.outcome.id, step, *UP, *WORKS, *DOWN, start=start)

            self._counts[key] = count_lines(
                self._trial, "worker-0", Point("start" if verb == "start" else "serve"), around, 1
            )
        return self._counts[key]


def _strike(trial: Trial, cells: Sequence[Cell], samples: int, start: PoolStartMethod) -> None:
    """Play a sample of these cells, each of which is struck in turn; all under ``--full``."""
    lines = _Lines(trial)
    for index in chosen(trial, len(cells), samples):
        cell = cells[index]
        for rank in (0, 1) if trial.full else (trial.random.randrange(2),):
            struck = Struck(cell, rank, start)
            if not needs_line(cell):
                trial.play(_seeded(struck, trial))
                continue
            count = lines.of(cell, start)
            for line in _some(trial, count // 4):
                trial.play(_seeded(msgspec.structs.replace(struck, line=line), trial))


def _some(trial: Trial, count: int) -> list[int]:
    """Of so many lines that every worker comes to; how often one looks about differs."""
    parts = _LINES if trial.full else 1
    edges = [count * part // parts for part in range(parts + 1)]
    stretches = itertools.pairwise(edges)
    return [trial.random.randrange(low, high) for low, high in stretches if low < high]


def _seeded(struck: Struck, trial: Trial) -> Scenario:
    return msgspec.structs.replace(struck.scenario(trial.outcome.id), seed=trial.seed)


def _matrix(name: str, summary: str, samples: int, start: PoolStartMethod = "default") -> Case:
    def run(trial: Trial) -> None:
        cells = _cells(name.split("/")[0])
        if start != "default":
            cells = [cell for cell in cells if _by_start(cell)]
        _strike(trial, cells, samples, start)

    return Case(name, summary, run, frozenset({"pool", "points"}))


CASES: tuple[Case, ...] = (
    _matrix("W3/matrix", "cells of the kill matrix in which a worker dies", 8),
    _matrix(
        "W3/matrix-spawn", "deaths during the handshake, of workers that are spawned", 1, "spawn"
    ),
    _matrix("W3/matrix-fork", "deaths during the handshake, of workers that are forked", 1, "fork"),
    _matrix("W4/matrix", "cells in which the executor ends", 6),
    _matrix("W4/matrix-spawn", "the same with workers that are spawned", 1, "spawn"),
    _matrix("W4/matrix-fork", "the same with workers that are forked", 2, "fork"),
    _matrix("W5/matrix", "cells in which somebody is stopped, or a shutdown is struck", 6),
    _matrix("W5/matrix-spawn", "stops while workers are spawned", 1, "spawn"),
    _matrix("W5/matrix-fork", "stops while workers are forked", 1, "fork"),
    _matrix("W6/matrix", "cells in which an exception strikes a call", 4),
    _matrix("W7/matrix", "cells in which the start of a worker fails", 3),
    _matrix("W7/matrix-spawn", "the same with workers that are spawned", 1, "spawn"),
    _matrix("W7/matrix-fork", "the same with workers that are forked", 1, "fork"),
    _matrix("W10/matrix", "starts that an exception cuts short, and the next one", 1),
)
