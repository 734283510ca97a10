"""R5: delivery on memory that reorders, in every schedule up to a bound (simulated tier)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from killpoint.case import Case
from killpoint.scenario import (
    Attach,
    Make,
    MemoryModel,
    Message,
    Receive,
    Scenario,
    Send,
    Simulated,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.schedule_run import search
from killpoint.search.simulated import Ask
from killpoint.targets.shapes import QueueShape

_CHUNK = 80
"""A message of sixteen bytes fits in any of the formats."""
_FULL = 60_000


class _Size(NamedTuple):
    """Size of the ring and number of messages that are played."""

    readers: int
    chunks: int
    messages: int


ONE_SLOT = _Size(1, 1, 3)
"""One slot, reused twice: the smallest there is."""
TWO_SLOTS = _Size(1, 2, 6)
TWO_READERS = _Size(2, 2, 6)
FRESH = _Size(1, 2, 2)
"""No slot is reused: what fails has to do with the order of data and flag."""
FRESH_FOR_TWO = _Size(2, 2, 2)


def _scenario(case: str, memory: MemoryModel, size: _Size) -> Scenario:
    steps = [Make(), Attach(), Send([Message(size=16, repeat=size.messages)], mutate=False)]
    return Scenario(
        case=case,
        judges=["R5"],
        steps=[*steps, Receive(size.messages), Wait()],
        shape=QueueShape(readers=size.readers, chunk_bytes=_CHUNK, chunks=size.chunks),
        simulated=Simulated(memory, "readers" if size.readers > 1 else "writer"),
    )


_Play = tuple[MemoryModel, _Size, list[Ask]]


def _case(name: str, summary: str, *plays: _Play, fully: Sequence[_Play] = ()) -> Case:
    """``fully``: what only ``--full`` has the time for."""

    def run(case_run: CaseRun) -> None:
        for memory, size, asks in (*plays, *fully) if case_run.full else plays:
            wide = [_wide(ask) for ask in asks] if case_run.full else asks
            search(case_run, _scenario(name, memory, size), wide)

    return Case(name, summary, run, frozenset({"queue", "sim_memory"}))


def _wide(ask: Ask) -> Ask:
    runs = 10 * ask.cap if ask.way in ("pct", "random") else _FULL
    return Ask(ask.way, ask.bound, runs)


def _preemptions(cap: int, bound: int = 2) -> Ask:
    return Ask("preemptions", bound, cap)


def _delays(cap: int) -> Ask:
    return Ask("delays", 2, cap)


def _beside(count: int) -> list[Ask]:
    """A search that found nothing says nothing of what lies beyond its bound."""
    return [Ask("pct", 3, count), Ask("random", cap=count)]


CASES: tuple[Case, ...] = (
    _case(
        "R5/every-order",
        "each message once, whole, in order, in every order of steps on plain memory",
        ("sequential", ONE_SLOT, [_preemptions(8_000, 3)]),
        ("sequential", TWO_SLOTS, [_preemptions(15_000)]),
        ("sequential", TWO_READERS, [_delays(1_000), *_beside(150)]),
        fully=[("sequential", TWO_SLOTS, [_preemptions(_FULL, 3)])],
    ),
    _case(
        "R5/store-buffers",
        "each message once, whole, in order, with store buffers that drain late, as on x86",
        ("tso", ONE_SLOT, [_delays(5_000)]),
        ("tso", TWO_SLOTS, [_delays(6_000)]),
        ("tso", TWO_READERS, [_delays(700), *_beside(150)]),
        fully=[("tso", TWO_SLOTS, [_preemptions(_FULL)])],
    ),
    _case(
        "R5/data-before-flag",
        "a flag is never seen before the data that it stands for (relaxed store order)",
        ("relaxed", FRESH, [_delays(3_000), *_beside(400)]),
        ("relaxed", FRESH_FOR_TWO, [_delays(1_200), *_beside(200)]),
    ),
    _case(
        "R5/slot-reuse",
        "a slot that is reused is never read twice, nor overwritten unread (stale loads)",
        ("view", ONE_SLOT, [_delays(5_000), *_beside(1_500)]),
        ("view", TWO_SLOTS, [_delays(6_000)]),
        ("view", TWO_READERS, [_delays(600), *_beside(150)]),
        ("relaxed", TWO_SLOTS, [_delays(1_200), *_beside(150)]),
    ),
)
