"""Programs for tensors around a ring, drawn by Hypothesis (H4).

The ranks of a ring come one after another, in any order. Then some of them send more than their
pipe keeps, from several threads, while nobody takes anything: one that waits for room gives up, and
those behind it may fit. At the end everything is taken.
"""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Pause,
    PipeDrain,
    PipeMeet,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.targets.shapes import PipeShape

MIB = 1 << 20
LIMIT = 24 * MIB
"""Bytes that a rank keeps."""
MUCH = Tensor("uint8", (16 * MIB,))
"""More than a connection takes while nobody receives."""
TOO_MUCH = Tensor("uint8", (12 * MIB,))
"""It does not fit beside the former."""
LITTLE = Tensor("float32", (4096,), repeat=1)
_SIZES = (4, 5, 3, 2)
_BETWEEN = (0.05, 0.0, 0.02)
"""Seconds between two ranks that come."""
_OPENED_WITHIN = 8.0
_BRIEF, _PATIENT = 0.15, 1.6
"""Seconds that a send waits for room: for less time than nobody receives, and for longer."""
_NOBODY_TAKES = 0.85
"""Seconds for which nobody receives."""
_TAKEN_WITHIN = 0.6
"""Seconds of a receive: what was sent before lies ready."""
_FIRST = ((TOO_MUCH, _BRIEF), (TOO_MUCH, _PATIENT), (LITTLE, _BRIEF), (TOO_MUCH, 0.0))
_NEXT = ((LITTLE, _PATIENT), (LITTLE, _BRIEF), (TOO_MUCH, _BRIEF), (TOO_MUCH, _PATIENT))
_ENDED_WITHIN = 8.0


@st.composite
def orders(draw: st.DrawFn, size: int) -> list[int]:
    """An order in which ranks come: mostly the first one, which listens, before the others."""
    others = draw(st.permutations(range(size - 1, 0, -1)))
    first = draw(st.sampled_from((0, 0, 0, *range(size))))
    return [*others[:first], 0, *others[first:]]


@st.composite
def _crowded(draw: st.DrawFn, source: str) -> tuple[list[AnyStep], int]:
    """A rank has sent much, and waits in some threads; the number of its sends."""
    waiting = [draw(st.sampled_from(_FIRST))]
    waiting += [draw(st.sampled_from(_NEXT)) for _ in range(draw(st.sampled_from((1, 2))))]
    steps: list[AnyStep] = [PipeSend(source, [MUCH], timeout=2.0)]
    steps += [PipeSend(source, [tensor], timeout=time, beside=True) for tensor, time in waiting]
    return steps, 1 + len(waiting)


@st.composite
def programs_of_tensors(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program of a ring: its ranks come, some of them wait for room, and all is taken."""
    size = draw(st.sampled_from(_SIZES))
    roles = [f"pipe-{rank}" for rank in range(size)]
    steps: list[AnyStep] = []
    for rank in draw(orders(size)):
        steps += [PipeOpen((roles[rank],), timeout=_OPENED_WITHIN)]
        steps += [Pause(draw(st.sampled_from(_BETWEEN)))]
    steps.append(Wait(within=2 * _OPENED_WITHIN))
    crowded = draw(st.permutations(range(size)))[: draw(st.sampled_from((1, 2)))]
    counts = dict.fromkeys(range(size), 1)
    for rank in range(size):
        if rank in crowded:
            sends, counts[rank] = draw(_crowded(roles[rank]))
            steps += sends
        else:
            counts[rank] = draw(st.integers(1, 3))
            steps.append(PipeSend(roles[rank], [Tensor(repeat=counts[rank])], timeout=2.0))
    steps += [Wait(within=_ENDED_WITHIN), Pause(_NOBODY_TAKES)]
    for rank, count in counts.items():
        taker = roles[(rank + 1) % size]
        steps.append(PipeReceive((taker,), count, timeout=_TAKEN_WITHIN))
    steps += [Wait(within=_ENDED_WITHIN), PipeMeet(), Wait(within=_ENDED_WITHIN)]
    steps += [PipeDrain(), Wait(within=_ENDED_WITHIN)]
    shape = PipeShape(size=size, buffer_bytes=LIMIT)
    return Scenario(case, [case.split("/")[0]], steps, pipe=shape, seed=seed)
