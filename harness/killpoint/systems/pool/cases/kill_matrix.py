"""Cases of the kill matrix: its cells, by the invariant that their ending belongs to."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence

import msgspec

from killpoint.case import Case
from killpoint.runner.stage import Play
from killpoint.scenario import AnyStep, Fault, Point, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import chosen, count_lines
from killpoint.search.play_evidence import Unsupported
from killpoint.systems.pool.cases.builders import (
    START_POOL,
    STOP_POOL,
    TWO_CALLS,
    PoolStartMethod,
    pool_scenario,
)
from killpoint.systems.pool.cases.kill_matrix_cells import STARTING, Struck, needs_line
from killpoint.systems.pool.kill_matrix import JUDGED_BY, MATRIX, Cell, Phase

_LINES = 3
"""Lines of the handshake, or of a worker's idle time, that one cell is tried at with ``--full``."""
_CAP = 60.0
"""Seconds after which a case strikes no further cell without ``--full``: it says how far it came.
Pools of the reference need a third of it on two busy cores; others may take seconds to start."""
_LEAST = 4
"""Plays that a case has whatever they take."""

PARTS: dict[str, tuple[Phase, ...]] = {
    "at-start": STARTING,
    "idle": ("idle",),
    "in-a-call": ("reading", "computing", "native", "collective"),
    "answering": ("replying", "replying-overflow", "output-thread"),
    "at-shutdown": ("grace", "stopping"),
}
"""The phases that one case plays, by the end of its name."""
_WHEN: dict[str, str] = {
    "at-start": "while workers start",
    "idle": "while nothing is asked of the workers",
    "in-a-call": "while a call is with the workers",
    "answering": "while replies are on their way",
    "at-shutdown": "while the pool is shut down",
}
_WHAT: dict[str, str] = {
    "W3": "a worker dies",
    "W4": "the executor ends",
    "W5": "somebody is stopped, or a shutdown is struck",
    "W6": "an exception strikes a call",
    "W7": "the start of a worker fails",
    "W10": "an exception cuts a start short, and the next one works",
}


def _cells(invariant: str) -> list[Cell]:
    return [cell for cell, found in MATRIX.items() if JUDGED_BY.get(found.ending) == invariant]


def cells_of(invariant: str, part: str) -> list[Cell]:
    """Return the cells that one case plays with the default start method."""
    return [cell for cell in _cells(invariant) if cell.phase in PARTS[part]]


def _by_start(cell: Cell) -> bool:
    """Return whether the cell's ending depends on how the workers were started."""
    return cell.phase in STARTING or cell.victim == "executor"


class _Lines:
    """Numbers of lines to strike at, each counted once where a cell needs it."""

    def __init__(self, case_run: CaseRun) -> None:
        self._trial = case_run
        self._counts: dict[tuple[str, str], int] = {}

    def of(self, cell: Cell, start: PoolStartMethod) -> int:
        """Return the lines of the worker's handshake, or of its code between two calls."""
        verb = "start" if cell.phase == "handshake" else "serve"
        key = (verb, start)
        if key not in self._counts:

            def around(step: AnyStep) -> Scenario:
                return pool_scenario(
                    self._trial.outcome.id, step, *START_POOL, *TWO_CALLS, *STOP_POOL, start=start
                )

            self._counts[key] = count_lines(
                self._trial, "worker-0", Point("start" if verb == "start" else "serve"), around, 1
            )
        return self._counts[key]


def _ranks(case_run: CaseRun) -> tuple[int, ...]:
    """Return the workers to strike, or to be in the phase: both under ``--full``.

    Without it the seed chooses one.
    """
    return (0, 1) if case_run.full else (case_run.random.randrange(2),)


def _placed(
    case_run: CaseRun, cells: Sequence[Cell], start: PoolStartMethod
) -> Iterator[tuple[Cell, Struck]]:
    """The plays of these cells."""
    lines = _Lines(case_run)
    for cell in case_run.with_progress(cells):
        for rank in _ranks(case_run):
            struck = Struck(cell, rank, start)
            if not needs_line(cell):
                yield cell, struck
                continue
            count = lines.of(cell, start)
            for line in _some(case_run, count // 4):
                yield cell, msgspec.structs.replace(struck, line=line)


def strike(
    case_run: CaseRun, cells: Sequence[Cell], start: PoolStartMethod, cap: float = _CAP
) -> None:
    """Play these cells, until it has taken too long; the strength says what was left out."""
    began = time.monotonic()
    told: set[Cell] = set()
    lacking: dict[Cell, Unsupported] = {}
    for count, (cell, struck) in enumerate(_placed(case_run, cells, start)):
        if count >= _LEAST and not case_run.full and time.monotonic() - began > cap:
            case_run.outcome.searched.append(f"{len(told)} of {len(cells)} cells in {cap:g} s")
            break
        try:
            play = case_run.play(_seeded(struck, case_run))
        except Unsupported as refusal:
            lacking[cell] = refusal
            continue
        told.add(cell)
        missed = missing(play)
        if missed:
            case_run.inconclusive(f"{cell.name()}, rank {struck.rank}: {missed} did not strike")
    if lacking and not told:
        raise next(iter(lacking.values()))
    for cell, refusal in lacking.items():
        case_run.outcome.searched.append(f"without {cell.name()}: {refusal}")
    case_run.outcome.counts["cells"] = len(told)
    if not case_run.full:
        case_run.outcome.searched.append("one of two workers in each cell")


def missing(play: Play) -> str:
    """Return a fault of the story that was not seen to act, in words; empty if each of them was."""
    seen = {(e.text("fault"), e.text("target")) for e in play.history.of("fault")}
    faults = [step for step in play.scenario.steps if isinstance(step, Fault)]
    missed = (f for f in faults if f.fault != "continue" and (f.fault, f.role) not in seen)
    return next((f"{fault.fault} of {fault.role}" for fault in missed), "")


def _some(case_run: CaseRun, count: int) -> list[int]:
    """Choose among so many lines that every worker reaches; how often one polls differs."""
    parts = _LINES if case_run.full else 1
    edges = [count * part // parts for part in range(parts + 1)]
    stretches = itertools.pairwise(edges)
    return [case_run.random.randrange(low, high) for low, high in stretches if low < high]


def _seeded(struck: Struck, case_run: CaseRun) -> Scenario:
    return msgspec.structs.replace(struck.scenario(case_run.outcome.id), seed=case_run.seed)


def _whole(invariant: str, part: str) -> Case:
    """Every cell of a part, in an order that is the seed's; pools start as they would."""

    def run(case_run: CaseRun) -> None:
        cells = cells_of(invariant, part)
        strike(case_run, case_run.random.sample(cells, len(cells)), "default")

    summary = f"cells of the kill matrix: {_WHAT[invariant]}, {_WHEN[part]}"
    return Case(f"{invariant}/matrix-{part}", summary, run, frozenset({"pool", "points"}))


def _sample(invariant: str, start: PoolStartMethod, samples: int) -> Case:
    """Cells that depend on the start method: so many of them, all under ``--full``."""

    def run(case_run: CaseRun) -> None:
        cells = [cell for cell in _cells(invariant) if _by_start(cell)]
        picked = [cells[index] for index in chosen(case_run, len(cells), samples)]
        strike(case_run, picked, start)

    how = {"spawn": "spawned", "fork": "forked", "forkserver": "from a fork server"}[start]
    summary = f"cells that depend on the start: {_WHAT[invariant]}, with workers {how}"
    return Case(f"{invariant}/matrix-{start}", summary, run, frozenset({"pool", "points"}))


def parts(invariant: str) -> list[str]:
    """The parts that an invariant has cells in."""
    phases = {cell.phase for cell in _cells(invariant)}
    return [part for part, own in PARTS.items() if phases & set(own)]


CASES: tuple[Case, ...] = (
    *(_whole(invariant, part) for invariant in _WHAT for part in parts(invariant)),
    _sample("W3", "spawn", 1),
    _sample("W3", "fork", 1),
    _sample("W4", "spawn", 1),
    _sample("W4", "fork", 2),
    _sample("W5", "spawn", 1),
    _sample("W5", "fork", 1),
    _sample("W7", "spawn", 1),
    _sample("W7", "fork", 1),
)
