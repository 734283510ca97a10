"""Programs for the blocks of many requests, both ways at once, drawn by Hypothesis (H4).

A program has rounds. In each, both ranks send the blocks of some requests whose ids differ at their
ends alone; some are asked for before, some soon, some late, some again and again without time, some
never and some when their lease is over; in other programs some are harmed on their way. The next
round takes ids of the same few again.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    BlocksForge,
    BlocksReceive,
    BlocksSend,
    Pause,
    PipeMeet,
    PipeOpen,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.systems.pipe.steps import Forgery
from killpoint.targets.shapes import PipeShape

_RANKS = ("pipe-0", "pipe-1")
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
    harmed: bool = False
    """True if the blocks are harmed on their way."""


_POLLS = tuple((phase, 0.0) for phase in range(_PHASES))
_LAST = _PHASES - 1
_FATES = (
    *(_Fate(_SHORT), _Fate(_LONG, asks=((_LAST, _IN_TIME),))),
    *(_Fate(_POLLED, asks=_POLLS), _Fate(_LONG, asks=((0, _IN_TIME),))),
    *(_Fate(_LONG, before=True), _Fate(_SHORT, asks=((_LAST, 0.02),))),
    _Fate(_LONG, asks=((1, 0.0), (_LAST, _IN_TIME))),
)
"""Requests one after the other have these in turn, some steps further: so that the simplest program
has all of them."""
_HARMED = (
    _Fate(_LONG, before=True, harmed=True),
    _Fate(_POLLED, asks=_POLLS, harmed=True),
    _Fate(_SHORT, harmed=True),
)
_HARMS: tuple[Forgery, ...] = ("swapped", "lost", "repeated", "mismatched")
_HARMED_BLOCKS = Tensor("float16", (16, 64), repeat=3)


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


class _Rounds:
    """The rounds of a program under construction."""

    def __init__(self, draw: st.DrawFn, known: list[str], fates: tuple[_Fate, ...]) -> None:
        self._draw, self._known, self._fates = draw, known, fates
        self._place = 0

    def steps(self) -> list[AnyStep]:
        """Return the steps of one more round."""
        draw, requests = self._draw, self._requests()
        steps: list[AnyStep] = [
            each.ask(_IN_TIME, beside=True) for each in requests if each.fate.before
        ]
        for each in requests:
            blocks = draw(st.sampled_from(_BLOCKS))
            if each.fate.harmed:
                steps.append(BlocksForge(each.source, draw(st.sampled_from(_HARMS))))
                blocks = _HARMED_BLOCKS
            steps.append(BlocksSend(each.source, each.id, [blocks], each.fate.lease, beside=True))
        steps.append(Wait(within=_ENDED_WITHIN))
        for phase in range(_PHASES):
            asked = [
                each.ask(timeout)
                for each in requests
                for when, timeout in each.fate.asks
                if when == phase
            ]
            steps += [*([Pause(_APART)] if phase else []), *draw(st.permutations(asked))]
        return [*steps, Wait(within=_ENDED_WITHIN), PipeMeet(), Wait(within=_ENDED_WITHIN)]

    def _requests(self) -> list[_Request]:
        """Return the requests of a round: those of both ranks take turns."""
        count = self._draw(st.sampled_from((3, 2, 4, 1)))
        ways = [
            (source, taker, self._draw(st.permutations(self._known)))
            for source, taker in (_RANKS, _RANKS[::-1])
        ]
        return [
            _Request(source, taker, ids[turn], self._fate())
            for turn in range(count)
            for source, taker, ids in ways
        ]

    def _fate(self) -> _Fate:
        further = self._draw(st.integers(0, len(self._fates) - 1))
        self._place += 1
        return self._fates[(self._place - 1 + further) % len(self._fates)]


@st.composite
def _programs(draw: st.DrawFn, case: str, seed: int, fates: tuple[_Fate, ...]) -> Scenario:
    rounds = _Rounds(draw, ids(draw(st.sampled_from(_BEGINNINGS))), fates)
    steps: list[AnyStep] = [PipeOpen(), Wait(within=30.0)]
    for _ in range(draw(st.sampled_from((3, 2, 4)))):
        steps += rounds.steps()
    return Scenario(case, [case.split("/")[0]], steps, pipe=PipeShape(), seed=seed)


def programs(case: str, seed: int) -> st.SearchStrategy[Scenario]:
    """Programs of rounds of requests."""
    return _programs(case, seed, _FATES)


def programs_with_harm(case: str, seed: int) -> st.SearchStrategy[Scenario]:
    """The same, and the blocks of some requests are harmed on their way."""
    return _programs(case, seed, (*_HARMED, *_FATES))
