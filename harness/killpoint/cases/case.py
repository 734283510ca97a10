"""A case: one named way to test one invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from killpoint.scenario import AnyStep, Attach, Make, Message, Ready, Scenario, Wait
from killpoint.search.case_run import CaseRun
from killpoint.targets.protocol import QueueShape

Run = Callable[[CaseRun], None]
Tier = Literal["process", "simulated", "model"]
SIMULATED = frozenset({"sim_memory", "sim_sockets"})
"""Capabilities that only simulated worlds ask for."""


class Case(msgspec.Struct, frozen=True):
    """A named test of an invariant: what it does to the target, and what it needs of it."""

    id: str
    summary: str
    run: Run
    needs: frozenset[str] = frozenset({"queue"})
    """Capabilities. ``deadlines``: the story needs a call that expires; a timeout that only bounds
    a healthy call is left out for a target that has none."""
    full: bool = False
    """True if the case is played only under ``--full``, and when it is named."""
    play: str = ""
    """Name of the play that several cases share: it is played once, and each of them judges it."""

    @property
    def invariant(self) -> str:
        """The id of the invariant that it tests."""
        return self.id.split("/")[0]

    @property
    def tier(self) -> Tier:
        """Tier of the case: real processes, a simulated world, or pure state machines."""
        if "waves" in self.needs:
            return "model"
        return "simulated" if self.needs & SIMULATED else "process"


OPEN: list[AnyStep] = [Make(), Attach(), Ready(timeout=10.0), Wait(within=15.0)]
"""A queue is made, every reader attaches, and the handshake is done."""

MIB = 1 << 20


def scenario(
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


def fixed(id: str, summary: str, scenarios: Callable[[], list[Scenario]], *needs: str) -> Case:
    """A case whose scenarios are always the same."""

    def run(case_run: CaseRun) -> None:
        for each in scenarios():
            case_run.play(msgspec.structs.replace(each, seed=case_run.seed))

    return Case(id, summary, run, frozenset({"queue", *needs}))


def small(count: int, size: int = 64) -> Message:
    """A run of small inline messages."""
    return Message(repeat=count, size=size)
