"""Programs for a coordinator's peers of which ranks are lost, return, and are in waves (H5).

In programs with losses the number of ranks is set while some are gone, and ranks come by a new link
before the end of the old one is seen. In programs with waves those begin, break and end, often
with rank 0 gone, and requests come to ranks that are not in the wave.
"""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import Fault, Request, Scenario
from killpoint.systems.coordinator.generator import (
    Program,
    Stage,
    begun,
    broken,
    counts_change,
    drawn,
    ended,
    front_end_comes,
    numbered,
    scaled,
    stepped,
)


def _lost(program: Program) -> None:
    """A rank is lost, mostly the first, whose counts had been told; front ends are told."""
    ranks = program.ranks()
    if len(ranks) > 1:
        for rank in ranks:
            program.report(rank)
        program.heard(*ranks)
        _gone(program, program.draw(st.sampled_from((*ranks[:1] * 4, *ranks))))


def _gone(program: Program, rank: int) -> None:
    program.goes(program.holders.pop(rank))
    program.counts.pop(rank, None)
    program.news(*program.fronts, what="gone", rank=rank)
    program.settled()


def _returned(program: Program) -> None:
    """An engine comes as a rank that is gone; its counts are heard, and its request is stepped."""
    if program.gone() and program.free:
        rank = program.draw(st.sampled_from(program.gone()))
        _back(program, rank)
        stepped(program, rank)


def _back(program: Program, rank: int) -> None:
    program.comes(rank)
    program.news(*program.fronts, what="back", rank=rank)
    program.settled()
    program.report(rank)
    program.heard(rank)


def _scaled_while_gone(program: Program) -> None:
    """The number of ranks is set while one is gone, which mostly comes back."""
    _lost(program)
    scaled(program)
    if program.draw(st.integers(0, 3)):
        _returned(program)


def _taken_over(program: Program) -> None:
    """An engine comes as a rank whose old link is there still, and whose end is seen later."""
    draw = program.draw
    if not program.free:
        return
    rank = draw(st.sampled_from(program.ranks()))
    old = program.holders[rank]
    stopped = draw(st.booleans())
    if stopped:
        program.add(Fault("stop", old))
    new = program.comes(rank)
    program.report(draw(st.sampled_from(program.ranks())))
    program.news(new, what="state")
    program.settled()
    if stopped and draw(st.booleans()):
        program.add(Fault("kill", old))
    else:
        program.add(*([Fault("continue", old)] if stopped else []))
        program.goes(old)
    program.report(rank)
    program.heard(*program.counts)
    stepped(program, rank)


def _wave(program: Program) -> None:
    """A wave, while counts or the number of ranks change, front ends or ranks come, one is lost."""
    draw = program.draw
    begun(program, *program.some(program.ranks()))
    for _ in range(draw(st.integers(0, 2))):
        members = [rank for rank in program.members if rank in program.ranks()]
        added: list[int] = []
        what = draw(st.sampled_from(("counts", "front end", "number", "loss", "return", "return")))
        if what == "counts":
            counts_change(program)
        elif what == "front end":
            front_end_comes(program)
        elif what == "number":
            added = numbered(program)
        elif what == "loss" and len(members) > 1:
            rank = draw(st.sampled_from(members))
            _gone(program, rank)
            broken(program, rank)
        elif what == "return" and program.gone() and program.free:
            added = [draw(st.sampled_from(program.gone()))]
            _back(program, added[0])
        for rank in added:
            program.add(Request((program.holders[rank],)))
            if rank not in program.members:  # it is again, if it was taken away and never left
                program.waiting.append(rank)
                program.follows = True
    ended(program)


def _wave_without_one(program: Program) -> None:
    """A wave of which a rank is lost before, which mostly comes back after it."""
    _lost(program)
    _wave(program)
    if program.draw(st.integers(0, 3)):
        _returned(program)


_LOSSES: tuple[Stage, ...] = (
    *(_scaled_while_gone, _taken_over, front_end_comes),
    *(_lost, _returned, _taken_over),
)
_WAVES: tuple[Stage, ...] = (_wave, _wave_without_one, _wave_without_one, scaled)


@st.composite
def programs_with_losses(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which ranks are lost, return, and are taken over."""
    return drawn(draw, case, seed, (3, 2), _LOSSES)


@st.composite
def programs_with_waves(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which waves begin, break and end, with all ranks or without some."""
    return drawn(draw, case, seed, (2, 3), _WAVES)
