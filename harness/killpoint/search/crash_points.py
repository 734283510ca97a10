"""Deaths placed at lines of an operation: count the lines once, then strike among them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from killpoint.checkers.held_up import full
from killpoint.scenario import AnyStep, Count, PlaceKind, Point, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.play_evidence import Unsupported

Around = Callable[[AnyStep], Scenario]
"""Builds the scenario around the step that declares the fault (or counts)."""


class TooLittleRoom(Unsupported):
    """The queue does not hold what a story leaves unread: its writer waits, as it should."""


def count_lines(
    case_run: CaseRun, role: str, at: Point, around: Around, plays: int = 2, *, some: bool = True
) -> int:
    """Count the lines of the target's code that the operation executes when nothing is wrong."""
    return count_places(case_run, role, at, around, "lines", plays, some=some)


def count_places(
    case_run: CaseRun,
    role: str,
    at: Point,
    around: Around,
    of: PlaceKind,
    plays: int = 2,
    *,
    some: bool = True,
) -> int:
    """Count the places of a kind that the operation passes when nothing is wrong.

    The lesser of the plays: a call may look at a clock, and does a little more in one of them.
    Without any the case is inconclusive, if there should be ``some``.

    Raises:
        TooLittleRoom: the story does not come to the operation, since no reader reads meanwhile.
    """
    scouted = [case_run.dry_run(around(Count(role, at, of))) for _ in range(plays)]
    refused = [full(play.history) for play in scouted]
    if refused and all(refused):
        raise TooLittleRoom(refused[0])
    counts = [
        event.number("count", 0)
        for play in scouted
        for event in play.history.of(of)
        if role in (event.role, event.text("target"))
    ]
    if some and not min(counts, default=0):
        case_run.inconclusive(
            f"no {of[:-1]} of {role}'s {at.op} was counted: nothing can be struck there"
        )
    return min(counts, default=0)


def ends_and(case_run: CaseRun, count: int, samples: int) -> list[int]:
    """Return the first of ``count`` places, the middle, the last, and a sample of the rest."""
    return sorted({0, count // 2, count - 1, *chosen(case_run, count, samples)} & {*range(count)})


def chosen(case_run: CaseRun, count: int, samples: int) -> list[int]:
    """Lines to strike: all of them under ``--full``, else one of each of so many equal stretches.

    Which one of its stretch is the seed's choice: no place stays unseen for long.
    """
    if case_run.full or samples >= count:
        return list(range(count))
    edges = [count * index // samples for index in range(samples + 1)]
    return [case_run.random.randrange(*stretch) for stretch in itertools.pairwise(edges)]
