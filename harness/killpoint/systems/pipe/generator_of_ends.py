"""Programs in which calls wait at a pipe as a rank dies or closes, drawn by Hypothesis (H4)."""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    BlocksReceive,
    BlocksSend,
    Fault,
    Pause,
    PipeClose,
    PipeMeet,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.systems.pipe.generator import ids
from killpoint.systems.pipe.generator_of_tensors import LIMIT, LITTLE, MUCH, TOO_MUCH
from killpoint.targets.shapes import PipeShape

_ROLES = ("pipe-0", "pipe-1")
_OUTLIVED = 5.0
"""Seconds that a call may wait: longer than all are to be told of an end in."""
_BRIEF = 1.0
_CLOSED_WITHIN = 0.2
_BLOCK = Tensor("float16", (16, 64), repeat=2)
_ENDED_WITHIN = 10.0


@st.composite
def _blocks(draw: st.DrawFn) -> tuple[list[AnyStep], list[AnyStep]]:
    """Transfers that nobody asks for and requests that nobody sends, both ways; and what follows.

    What follows are the calls of both ranks after the end; those of a dead one are not made.
    """
    wait: list[AnyStep] = []
    then: list[AnyStep] = []
    known = ids(draw(st.sampled_from((36, 8))))
    for source in _ROLES:
        sends = draw(st.sampled_from((3, 2, 1, 0)))
        leases = [draw(st.sampled_from((_OUTLIVED, _OUTLIVED, 0.3))) for _ in range(sends)]
        wait += [
            BlocksSend(source, id, [_BLOCK], lease, beside=True)
            for id, lease in zip(known, leases, strict=False)
        ]
        asks = draw(st.sampled_from((1, 2, 0)))
        wait += [BlocksReceive((source,), f"{id}?", _OUTLIVED, beside=True) for id in known[:asks]]
        then.append(BlocksReceive((source,), f"{known[0]}!", _BRIEF))
        then.append(BlocksSend(source, f"{known[0]}!", [_BLOCK], _BRIEF))
    return wait, then


@st.composite
def _tensors(draw: st.DrawFn) -> tuple[list[AnyStep], list[AnyStep]]:
    """Threads of one rank that wait for room, and one that receives; and what follows."""
    source = draw(st.sampled_from(_ROLES))
    waiting = draw(st.lists(st.sampled_from((TOO_MUCH, LITTLE)), min_size=1, max_size=3))
    wait: list[AnyStep] = [PipeSend(source, [MUCH], timeout=_BRIEF)]
    wait += [PipeSend(source, [each], timeout=_OUTLIVED, beside=True) for each in waiting]
    wait.append(PipeReceive((source,), timeout=_OUTLIVED, beside=True))
    then: list[AnyStep] = []
    for role in _ROLES:
        then += [PipeSend(role, [LITTLE], timeout=_BRIEF), PipeReceive((role,), timeout=_BRIEF)]
    return wait, then


@st.composite
def programs_with_ends(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which a rank dies or closes while calls of both wait; then both go on."""
    wait, then = draw(st.one_of(_blocks(), _blocks(), _tensors()))
    who, how = draw(st.sampled_from(_ROLES)), draw(st.sampled_from(("kill", "close")))
    end: AnyStep = Fault("kill", who) if how == "kill" else PipeClose((who,), _CLOSED_WITHIN)
    steps: list[AnyStep] = [
        *(PipeOpen(), Wait(within=30.0)),
        *(*wait, Wait(within=_ENDED_WITHIN)),
        *(end, Pause(draw(st.sampled_from((0.05, 0.0))))),
        *(*then, Wait(within=_ENDED_WITHIN)),
        *(PipeMeet(), Wait(within=_ENDED_WITHIN)),
    ]
    shape = PipeShape(buffer_bytes=LIMIT)
    return Scenario(case, [case.split("/")[0]], steps, pipe=shape, seed=seed)
