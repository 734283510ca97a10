"""Cases of whole servers: each invariant that judges a named play, with that play."""

from __future__ import annotations

from functools import partial

from killpoint.case import Case
from killpoint.search.case_run import CaseRun
from killpoint.search.races import race
from killpoint.systems.server.plays.grid import FULL_PLAYS
from killpoint.systems.server.plays.named import PLAYS, NamedPlay

IN_FULL = 3
"""Number of plays, under ``--full``, of what a plain check plays once: races differ between
plays."""
SERVER = frozenset({"server"})


def _run(play: NamedPlay, often: int, id: str, case_run: CaseRun) -> None:
    """Play as often as the play says; under ``--full`` often enough to give a rate of failure."""
    plain = play.often if id == play.judges[0] else 1
    if play.races or (case_run.full and often > 1):
        count = often if case_run.full else plain
        race(case_run, play.scenario(id, case_run.seed), f"plays in which {play.summary}", count)
    else:
        for _ in range(plain):
            case_run.play(play.scenario(id, case_run.seed))


def _cases(plays: tuple[NamedPlay, ...], often: int, *, full: bool) -> tuple[Case, ...]:
    return tuple(
        Case(
            f"{id}/{play.name}",
            play.summary,
            partial(_run, play, often, id),
            SERVER,
            full=full,
            play=play.name,
        )
        for play in plays
        for id in play.judges
    )


CASES: tuple[Case, ...] = _cases(PLAYS, IN_FULL, full=False)
FULL_CASES: tuple[Case, ...] = _cases(FULL_PLAYS, 1, full=True)
"""Cases that run only under ``--full``, or if they are named."""
