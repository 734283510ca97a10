"""Builders of a queue's cases: an opened queue, scenarios, runs of small messages."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from killpoint.case import Case
from killpoint.scenario import AnyStep, Attach, Make, Message, Ready, Scenario, Wait
from killpoint.search.case_run import CaseRun
from killpoint.targets.shapes import QueueShape

OPEN_QUEUE: list[AnyStep] = [Make(), Attach(), Ready(timeout=10.0), Wait(within=15.0)]
"""A queue is made, every reader attaches, and the handshake is done."""

MIB = 1 << 20


def queue_scenario(
    case: str,
    *steps: AnyStep,
    readers: int = 2,
    chunk_bytes: int = 64 * 1024,
    chunks: int = 4,
    remote: int = 0,
    silence: float | None = None,
) -> Scenario:
    """A scenario judged by the invariant that its case belongs to."""
    return Scenario(
        case=case,
        judges=[case.split("/")[0]],
        steps=list(steps),
        shape=QueueShape(
            readers=readers,
            chunk_bytes=chunk_bytes,
            chunks=chunks,
            remote=remote,
            silence=silence,
        ),
    )


def queue_case(id: str, summary: str, scenarios: Callable[[], list[Scenario]], *needs: str) -> Case:
    """A case whose scenarios are always the same."""

    def run(case_run: CaseRun) -> None:
        for each in scenarios():
            case_run.play(msgspec.structs.replace(each, seed=case_run.seed))

    return Case(id, summary, run, frozenset({"queue", *needs}))


def small(count: int, size: int = 64) -> Message:
    """A run of small inline messages."""
    return Message(repeat=count, size=size)
