"""Cases of whole servers: each invariant that judges a named play, with that play."""

from __future__ import annotations

from functools import partial

from killpoint.cases.case import Case
from killpoint.explore.races import race
from killpoint.explore.trial import Trial
from killpoint.systems.server.plays import PLAYS, NamedPlay

_IN_FULL = 5
"""Plays: how the processes of a server race is another in each."""
SERVER = frozenset({"server"})


def _run(play: NamedPlay, id: str, trial: Trial) -> None:
    """Once; under ``--full`` so often that it can be told how often it goes wrong."""
    if trial.full:
        race(trial, play.scenario(id, trial.seed), f"plays in which {play.summary}", _IN_FULL)
    else:
        trial.play(play.scenario(id, trial.seed))


CASES: tuple[Case, ...] = tuple(
    Case(f"{id}/{play.name}", play.summary, partial(_run, play, id), SERVER)
    for play in PLAYS
    for id in play.judges
)
