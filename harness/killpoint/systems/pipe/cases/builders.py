"""Building blocks of plays of pipes."""

from __future__ import annotations

from typing import Any

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    BlocksForge,
    BlocksReceive,
    BlocksSend,
    Fault,
    PipeForge,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.targets.shapes import PipeShape

OPEN_PIPE: list[AnyStep] = [PipeOpen(), Wait(within=30.0)]
"""Every rank's end is made."""
HANG_AFTER_S = 4.0
"""Seconds after which a call that should have ended is a hang."""
SMALL = Tensor(repeat=3)
LARGE = Tensor("uint8", (3 << 20,))
FIRST, SECOND = "pipe-0", "pipe-1"


def count(tensors: list[Tensor]) -> int:
    """Return the number of tensors in these entries."""
    return sum(tensor.repeat for tensor in tensors)


def transfer(source: str, taker: str, tensors: list[Tensor], **how: Any) -> list[AnyStep]:
    """One rank sends, the next one takes all of it."""
    return [PipeSend(source, tensors, **how), PipeReceive((taker,), count(tensors))]


def pipe_scenario(id: str, *steps: AnyStep, seed: int = 0, **shape: Any) -> Scenario:
    """A scenario of a pipe of two ranks, judged by the invariant that its case belongs to."""
    judges = [id.split("/")[0]]
    return Scenario(case=id, judges=judges, steps=list(steps), pipe=PipeShape(**shape), seed=seed)


def pipe_case(
    id: str, summary: str, *stories: list[AnyStep], restart: bool = False, **shape: Any
) -> Case:
    """A case of some scenarios, all on pipes of the same shape."""

    def run(case_run: CaseRun) -> None:
        for story in stories:
            found = pipe_scenario(id, *story, seed=case_run.seed, **shape)
            found.restart = restart
            case_run.play(found)

    return Case(id, summary, run, needs([step for story in stories for step in story], **shape))


def needs(steps: list[AnyStep], **shape: Any) -> frozenset[str]:
    """Return the capabilities that a target must have for these steps."""
    placed = any(isinstance(step, Fault) and step.at is not None for step in steps)
    blocks = any(isinstance(step, BlocksSend | BlocksReceive | BlocksForge) for step in steps)
    words = {"pipe", *(["points"] if placed else []), *(["blocks"] if blocks else [])}
    if shape.get("device") == "cuda":
        words.add("cuda")
    return frozenset(words)


def forged(*lies: PipeForge) -> list[list[AnyStep]]:
    """A story for each lie: an honest tensor, the lie, and another honest one."""
    return [
        [
            *OPEN_PIPE,
            *transfer(FIRST, SECOND, [Tensor()]),
            Wait(within=HANG_AFTER_S),
            lie,
            PipeSend(FIRST, [Tensor()], keep_on=True),
            PipeReceive((SECOND,), 1),
            Wait(within=HANG_AFTER_S),
        ]
        for lie in lies
    ]
