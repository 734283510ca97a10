"""Programs for the blocks of many requests, both ways at once, drawn by Hypothesis (H4).

A program has rounds. In each, both ranks send the blocks of some requests whose ids differ at their
ends alone; some are asked for before, some soon, some late, some again and again without time, some
never and some when their lease is over. The next round takes ids of the same few again.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    BlocksReceive,
    BlocksSend,
    Pause,
    PipeMeet,
    PipeOpen,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.targets.shapes import PipeShape

_UUID = "5f0c2d1e-7b3a-4c6d-9e8f-0a1b2c3d4e5f"
_BEGINNINGS = (36, 64, 255, 8, 0)
"""Characters in which the ids of a round are alike: as many as a UUID has, more, and fewer."""
_ENDS = ("-0", "-1", "-é", "")
_PHASES = 4
_APART = 0.13
"""Seconds between two phases of a round."""
_SHORT, _POLLED, _LONG = 0.35, 1.5, 3.0
"""Leases in seconds: over before the last phase; of who looks now and then; longer than a round."""
_IN_TIME = 1.5
"""Seconds that a receive is given whose blocks lie ready, or are about to be sent."""
_BLOCKS = (
    Tensor("float16", (16, 64), repeat=3),
    Tensor("uint8", (1,)),
    Tensor("float16", (256, 512), repeat=2),
)
_ENDED_WITHIN = 8.0


class _Fate(NamedTuple):
    """When a request's blocks are asked for, with how much time, and how long their lease is."""

    lease: float
    before: bool = False
    """True if they are asked for before they are sent."""
    asks: tuple[tuple[int, float], ...] = ()
    """Phase and timeout of each further receive."""


_POLLS = tuple((phase, 0.0) for phase in range(_PHASES))
_LAST = _PHASES - 1
_FATES = {
    "late": _Fate(_LONG, asks=((_LAST, _IN_TIME),)),
    "never": _Fate(_SHORT),
    "polled": _Fate(_POLLED, asks=_POLLS),
    "soon": _Fate(_LONG, asks=((0, _IN_TIME),)),
    "first": _Fate(_LONG, before=True),
    "over": _Fate(_SHORT, asks=((_LAST, 0.02),)),
    "looked-at": _Fate(_LONG, asks=((1, 0.0), (_LAST, _IN_TIME))),
}


class _Request(NamedTuple):
    source: str
    taker: str
    id: str
    fate: _Fate

    def ask(self, timeout: float, *, beside: bool = False) -> BlocksReceive:
        """Return the step by which the blocks are asked for."""
        return BlocksReceive((self.taker,), self.id, timeout, beside=beside)


def ids(length: int) -> list[str]:
    """Return ids that are alike in so many characters, and differ behind them."""
    begins = (_UUID * (length // len(_UUID) + 1))[:length]
    return [begins + end for end in _ENDS]


@st.composite
def _requests(draw: st.DrawFn, known: list[str]) -> list[_Request]:
    """Requests of one round: those of both ranks take turns."""
    roles = ("pipe-0", "pipe-1")
    count = draw(st.sampled_from((3, 2, 4, 1)))
    lanes = [
        [
            _Request(source, taker, id, _FATES[draw(st.sampled_from(sorted(_FATES)))])
            for id in draw(st.permutations(known))[:count]
        ]
        for source, taker in (roles, roles[::-1])
    ]
    return [request for pair in zip(*lanes, strict=True) for request in pair]


def _round(draw: st.DrawFn, requests: list[_Request]) -> list[AnyStep]:
    steps: list[AnyStep] = [
        each.ask(_IN_TIME, beside=True) for each in requests if each.fate.before
    ]
    for each in requests:
        blocks = [draw(st.sampled_from(_BLOCKS))]
        steps.append(BlocksSend(each.source, each.id, blocks, each.fate.lease, beside=True))
    steps.append(Wait(within=_ENDED_WITHIN))
    for phase in range(_PHASES):
        asked = [
            each.ask(timeout)
            for each in requests
            for when, timeout in each.fate.asks
            if when == phase
        ]
        steps += [*draw(st.permutations(asked)), Pause(_APART)]
    return [*steps, Wait(within=_ENDED_WITHIN), PipeMeet(), Wait(within=_ENDED_WITHIN)]


@st.composite
def programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program of rounds of requests."""
    known = ids(draw(st.sampled_from(_BEGINNINGS)))
    steps: list[AnyStep] = [PipeOpen(), Wait(within=30.0)]
    for _ in range(draw(st.sampled_from((3, 2, 4)))):
        steps += _round(draw, draw(_requests(known)))
    return Scenario(case, [case.split("/")[0]], steps, pipe=PipeShape(), seed=seed)
