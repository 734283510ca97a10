"""What everybody does first: traffic, and a SIGKILL at a time that nobody chose."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

from detection.found import Found
from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive
from killpoint.runner.stage import Play
from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Call,
    Close,
    Fault,
    Gather,
    Message,
    Pause,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.search.player import Player
from killpoint.systems.group.cases.builders import JOIN_GROUP, group_scenario, ranks
from killpoint.systems.pool.cases.builders import (
    HANG_AFTER_S,
    LONG,
    START_POOL,
    STOP_POOL,
    pool_scenario,
)
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario, small
from killpoint.verdict import Violation

_ROUNDS = 12
_MIX = [small(8), Message("array", 100_000), small(4), Message("nested", 3000)]
_ENDLESS = 100 * _ROUNDS
VICTIMS = {
    "": {"writer": "Q6", "reader-0": "Q7"},
    "G": {"rank-0": "G4", "rank-1": "G4"},
    "W": {"worker-0": "W3", "executor": "W4"},
}
"""Who is killed of a queue, a group, a pool, and the invariant that says what others are owed."""


def traffic(victim: str, after: float) -> Scenario:
    """Messages or calls of all kinds; the victim dies so many seconds into them."""
    killed = Pause(after), Fault("kill", victim)
    if victim.startswith("rank"):
        return _of_group(victim, *killed)
    if victim in VICTIMS["W"]:
        return _of_pool(victim, *killed)
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Send(_MIX * _ROUNDS, timeout=3.0),
        Receive(_ENDLESS, timeout=3.5),
        *killed,
        Wait(("readers",) if victim == "writer" else ("writer",), within=6.0),
        Close(("writer",)),
        Wait(within=8.0),
    ]
    if victim == "writer":
        del steps[-2:]
    return queue_scenario(f"{_owed(victim)}/random-killing", *steps, chunks=8)


def _of_group(victim: str, *killed: AnyStep) -> Scenario:
    """Three ranks broadcast, gather and meet again and again."""
    others = tuple(rank for rank in ranks(3) if rank != victim)
    rounds: list[AnyStep] = [
        Broadcast("rank-0", _MIX, timeout=3.0),
        Gather(Message("bytes", 3000), times=4, timeout=3.0),
        Barrier(times=4, timeout=3.0),
    ]
    steps = [*JOIN_GROUP, *rounds * 6, *killed, Wait(others, within=8.0)]
    return group_scenario(f"{_owed(victim)}/random-killing", *steps)


def _of_pool(victim: str, *killed: AnyStep) -> Scenario:
    """Calls, one after the other; forked workers, since they come quickest."""
    calls = [Call("compute", times=1000, timeout=LONG, keep_on=True)]
    steps: list[AnyStep] = [*START_POOL, *calls, *killed]
    if victim != "executor":
        steps += [Wait(within=HANG_AFTER_S), *STOP_POOL]
    return pool_scenario(f"{_owed(victim)}/random-killing", *steps, start="fork")


def _owed(victim: str) -> str:
    return next(victims[victim] for victims in VICTIMS.values() if victim in victims)


def kill_at_random(
    player: Player, seconds: float, seed: int, victims: Mapping[str, str] = VICTIMS[""]
) -> Found:
    """Play until something is violated, or for so many seconds."""
    began = time.monotonic()
    choose = random.Random(seed)
    span, plays = 0.05, 0
    while time.monotonic() - began < seconds:
        victim = choose.choice(list(victims))
        play = player.play(traffic(victim, choose.uniform(0, span)))
        plays += 1
        try:
            span = max(span, _lasted(play))
            for id, violation in _violations(play, victims[victim]):
                took = round(time.monotonic() - began, 1)
                return Found(violation.kind, id, plays, seconds=took)
        finally:
            player.forget(play)
    return Found(plays=plays, seconds=round(time.monotonic() - began, 1))


def _violations(play: Play, owed: str) -> Iterator[tuple[str, Violation]]:
    if play.stalled or play.unreached:
        return
    for id in (owed, "L1"):
        try:
            finding = CHECKERS[id](play.scenario, play.history, play.ledger)
        except Inconclusive:
            continue
        for violation in finding.violations[:1]:
            yield id, violation


def _lasted(play: Play) -> float:
    """Seconds from the first call of the traffic that began to the last that came back."""
    began = [event.t for event in play.history.of("send", "broadcast", "call")]
    ended = [event.t for event in play.history.of("sent", "barrier-done", "call-done")]
    return (max(ended) - min(began)) / 1e9 if began and ended else 0.0
