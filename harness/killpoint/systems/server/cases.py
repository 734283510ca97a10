"""Cases of whole servers: each invariant that judges a named play, with that play."""

from __future__ import annotations

from functools import partial

from killpoint.cases.case import Case
from killpoint.explore.trial import Trial
from killpoint.systems.server.plays import PLAYS, NamedPlay

SERVER = frozenset({"server"})


def _run(play: NamedPlay, id: str, trial: Trial) -> None:
    trial.play(play.scenario(id, trial.seed))


CASES: tuple[Case, ...] = tuple(
    Case(f"{id}/{play.name}", play.summary, partial(_run, play, id), SERVER)
    for play in PLAYS
    for id in play.judges
)
