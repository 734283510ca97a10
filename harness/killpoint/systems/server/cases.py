"""Cases of whole servers: each invariant that judges a named play, with that play."""

from __future__ import annotations

from functools import partial

from killpoint.case import Case
from killpoint.search.case_run import CaseRun
from killpoint.search.races import race
from killpoint.systems.server.generated import GENERATED
from killpoint.systems.server.plays.grid import FULL_PLAYS
from killpoint.systems.server.plays.named import PLAYS, NamedPlay

IN_FULL = 3
"""Number of plays of a race under ``--full``."""
SERVER = frozenset({"server"})


def _run(play: NamedPlay, id: str, case_run: CaseRun) -> None:
    """Play as often as the play says; a race often enough, under ``--full``, to give a rate."""
    plain = play.often if id == play.judges[0] else 1
    if play.races:
        count = IN_FULL if case_run.full else plain
        race(case_run, play.scenario(id, case_run.seed), f"plays in which {play.summary}", count)
    else:
        for _ in range(plain):
            case_run.play(play.scenario(id, case_run.seed))


def _cases(plays: tuple[NamedPlay, ...], *, full: bool) -> tuple[Case, ...]:
    return tuple(
        Case(
            f"{id}/{play.name}",
            play.summary,
            partial(_run, play, id),
            SERVER,
            full=full,
            play=play.name,
        )
        for play in plays
        for id in play.judges
    )


CASES: tuple[Case, ...] = (*_cases(PLAYS, full=False), *GENERATED)
FULL_CASES: tuple[Case, ...] = _cases(FULL_PLAYS, full=True)
"""Cases that run only under ``--full``, or if they are named."""
