"""What everybody does first: traffic, and a SIGKILL at a time that nobody chose."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from detection.found import Found
from killpoint.cases.case import OPEN, scenario, small
from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive
from killpoint.explore.trial import Player
from killpoint.scenario import (
    AnyStep,
    Close,
    Fault,
    Message,
    Pause,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.stage.stage import Play
from killpoint.verdict import Violation

_ROUNDS = 12
_MIX = [small(8), Message("array", 100_000), small(4), Message("nested", 3000)]
_ENDLESS = 100 * _ROUNDS
_VICTIMS = {"writer": "Q6", "reader-0": "Q7"}
"""Who is killed, and the invariant that says what the others are owed then."""


def traffic(victim: str, after: float) -> Scenario:
    """Two readers and a stream of all kinds; the victim dies so many seconds into it."""
    steps: list[AnyStep] = [
        *OPEN,
        Send(_MIX * _ROUNDS, timeout=3.0),
        Receive(_ENDLESS, timeout=3.5),
        Pause(after),
        Fault("kill", victim),
        Wait(("readers",) if victim == "writer" else ("writer",), within=6.0),
        Close(("writer",)),
        Wait(within=8.0),
    ]
    if victim == "writer":
        del steps[-2:]
    return scenario(f"{_VICTIMS[victim]}/random-killing", *steps, chunks=8)


def kill_at_random(player: Player, seconds: float, seed: int) -> Found:
    """Play until something is violated, or for so many seconds."""
    began = time.monotonic()
    choose = random.Random(seed)
    span, plays = 0.05, 0
    while time.monotonic() - began < seconds:
        victim = choose.choice(list(_VICTIMS))
        play = player.play(traffic(victim, choose.uniform(0, span)))
        plays += 1
        try:
            span = max(span, _lasted(play))
            for id, violation in _violations(play, victim):
                took = round(time.monotonic() - began, 1)
                return Found(violation.kind, id, plays, seconds=took)
        finally:
            player.forget(play)
    return Found(plays=plays, seconds=round(time.monotonic() - began, 1))


def _violations(play: Play, victim: str) -> Iterator[tuple[str, Violation]]:
    if play.stalled or play.unreached:
        return
    for id in (_VICTIMS[victim], "L1"):
        try:
            finding = CHECKERS[id](play.scenario, play.history, play.ledger)
        except Inconclusive:
            continue
        for violation in finding.violations[:1]:
            yield id, violation


def _lasted(play: Play) -> float:
    """Seconds from the first send that began to the last that came back."""
    began = [event.t for event in play.history.of("send")]
    ended = [event.t for event in play.history.of("sent")]
    return (max(ended) - min(began)) / 1e9 if began and ended else 0.0
