"""A pool's life: its states (W1), its descriptors (W9), and the next one's service (W10)."""

from __future__ import annotations

from collections import defaultdict
from typing import cast

from killpoint.checkers.finding import Finding, Inconclusive, Lacking, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pool.checks.replies import stale
from killpoint.systems.pool.checks.stalls import unaffected
from killpoint.systems.pool.model import PoolLife
from killpoint.systems.pool.record import Life, lives, pool_lines, strikes
from killpoint.verdict import Violation


def check_w1_lifecycle(_scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """W1: the states that were seen follow each other, agree with what happened, and end."""
    pools = lives(history)
    seen = [event for life in pools for event in life.states if event.text("state")]
    found = hangs(history)
    if not found and pools and not seen and any(life.states for life in pools):
        raise Lacking("the target's pools have no states")
    for life in pools:
        found = found or _moves(history, life) or _agrees(history, life)
    if not found and not seen:
        raise Inconclusive("no state of a pool was seen")
    return Finding(found[:1], {"states": len(seen)})


def _moves(history: History, life: Life) -> list[Violation]:
    model = PoolLife()
    for event in life.states:
        word = event.text("state")
        wrong = model.seen(word) if word else ""
        if wrong:
            return [Violation("bad-transition", wrong, history.lines(life.states[-8:]))]
    return []


def _agrees(history: History, life: Life) -> list[Violation]:
    """Check the states after a start, a call and a shutdown that succeeded."""
    for event in life.states:
        word = event.text("state")
        before = [a for a in life.acts if a.ended is not None and a.ended.t <= event.t]
        stopped = [a for a in before if a.op == "pool-stop" and a.ok]
        if stopped and word != "stopped":
            cause = f"the pool was {word} after its shutdown had ended; expected stopped"
        elif life.start.ok and word == "starting":
            cause = "the pool was starting after its start had ended"
        else:
            continue
        return [Violation("bad-transition", cause, history.lines(life.states[-8:]))]
    return []


def own_ends_alone(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """W9: the pool works, and no process holds an end that hides another one's death.

    By closing such an end others hear of a death. An end that several hold prevents that unless
    each of them, and no other process, holds the other end too: a pair that a library keeps for
    itself is copied whole by a fork, and joins no two processes.
    """
    found = hangs(history)
    pools = lives(history)
    if not pools:
        raise Inconclusive("no pool was started")
    found = found or unaffected(scenario, history, pools[0])
    looks = list(history.of("open-ends"))
    # What CPython keeps for each child, forked siblings have copies of, whoever starts them.
    before = {end for event in history.of("interpreters-ends") for end in _ends(event)}
    before |= {end for e in looks if e.t < pools[0].start.began.t for end in _ends(e)}
    during: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in looks:
        if event.t > pools[0].start.began.t:
            for end in _ends(event):
                if end not in before:
                    during[end][event.text("target")] = event
    shown = {event.text("target") for event in looks if event.t > pools[0].start.began.t}
    if not found and len(shown) < 1 + pools[0].workers:
        raise Inconclusive(f"the descriptors of {len(shown)} processes were seen")
    peers = _peers(looks)
    for end, holders in during.items():
        deaf = _kept_from(end, during, peers)
        if len(holders) > 1 and deaf and not found:
            who = " and ".join(sorted(holders))
            cause = f"{who} hold the same end of a {_named(end)}: {' and '.join(deaf)}, at its"
            cause += " other end, cannot hear of the death of one of them"
            lines = evidence(history, list(holders.values()))
            found = [Violation("leak", cause, [*lines, f"held by all of them: {end}"])]
    return Finding(found[:1], {"processes looked at": len(shown)})


def _ends(event: Event) -> list[str]:
    return [str(end) for end in cast("list[object]", event.data.get("ends") or [])]


def _peers(looks: list[Event]) -> dict[str, str] | None:
    """Return the other end of each joined socket that was seen; None if none is recorded."""
    told = [cast("dict[str, str]", e.data["peers"]) for e in looks if "peers" in e.data]
    return {end: peer for each in told for end, peer in each.items()} if told else None


def _kept_from(
    end: str, held: dict[str, dict[str, Event]], peers: dict[str, str] | None
) -> list[str]:
    """Return the pool's processes that hold the other end, unless they all hold both.

    The pipe that multiprocessing shares among all its children on purpose leads to a process of its
    own. Where a record does not show which sockets are joined, any process may hold the other end.
    """
    kind, inode, way = (*end.split(":"), "")[:3]
    if kind == "pipe":
        other = f"pipe:{inode}:{'r' if way == 'w' else 'w'}"
    elif peers is None:
        return ["whoever is"]
    else:
        other = peers.get(end, "")
    there = held.get(other, {}).keys()
    return [] if there == held[end].keys() else sorted(there)


def _named(end: str) -> str:
    kind, _, way = (*end.split(":"), "")[:3]
    side = {"r": ", the reading one", "w": ", the writing one"}.get(way, "")
    return f"{kind}{side}"


def next_works(_scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """W10: after what was done to the first pool, the next one starts and works."""
    pools = lives(history)
    found = hangs(history, "next-pool", "pool-start", "call")
    done = strikes(history) or any(history.of("fault"))
    if not found and (len(pools) < 2 or not done):
        raise Inconclusive("no pool was started after one that something was done to")
    for life in pools[1:]:
        found = found or next_pool(history, life)
    return Finding(found[:1], {"next pools": len(pools) - 1})


def next_pool(history: History, life: Life) -> list[Violation]:
    """Check that a pool which follows another one's end starts and serves."""
    if life.start.ended is None:
        raise Inconclusive("the next pool's start did not end")
    if not life.start.ok:
        cause = f"the next pool did not start: {life.start.outcome}: {life.start.error}"
        return [Violation("starved", cause, pool_lines(history, life.start))]
    served = life.served()
    bad = next((act for act in served if not act.ok), None)
    if bad is not None:
        cause = f"the next pool's {bad.words()} ended with {bad.outcome}: {bad.error}"
        return [Violation("starved", cause, pool_lines(history, bad))]
    if not served:
        raise Inconclusive("nothing was asked of the next pool")
    return stale(history, life)
