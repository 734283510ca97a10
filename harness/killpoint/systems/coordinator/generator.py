"""Programs for all peers of a coordinator at once, drawn by Hypothesis (H5).

Front ends come and go while counts change, with and without their sum, and while the number of
ranks is set. In programs with losses ranks are gone meanwhile, come back, or come by a new link
before the end of the old one is seen. In programs with waves those begin, break and end, often
with rank 0 gone, and requests come to ranks that are not in the wave.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Connect,
    CoordinatorStart,
    Counts,
    Disconnect,
    EndWave,
    Fault,
    Pause,
    ReportCounts,
    Request,
    Scale,
    Scenario,
    Wait,
    WaitNews,
)
from killpoint.systems.coordinator.steps import Awaited
from killpoint.targets.coordinator_protocol import CoordinatorShape

_RANKS, _SPARES = 4, 2
"""Most ranks that there are at a time, and roles beyond those there are at the beginning."""
_MOSTLY = 12
"""A stage is there in so many programs of one more."""
_LEAST = 4
"""Least sum of new counts: it can be split in several ways."""
_NEWS = 7.5
"""Seconds in which news comes: longer than a loss or a return may take to be told (SPEC C6)."""
_SETTLED = 12.0


class _Program:
    """A program under construction: its steps, who is linked, and what front ends are to hear."""

    def __init__(self, draw: st.DrawFn, shape: CoordinatorShape) -> None:
        """Begin with a coordinator, the engines of all ranks, and one front end or all."""
        self.draw = draw
        self.size = shape.engines
        peers = shape.collective()
        engines, fronts = peers["engines"], peers["front-ends"]
        self.holders = dict(enumerate(engines[: shape.engines]))
        """The role that came last as each rank, and is linked."""
        self.free = engines[shape.engines :]
        """Engines that are not linked, and live."""
        first = draw(st.integers(1, len(fronts)))
        self.fronts, self.away = fronts[:first], fronts[first:]
        self.counts: dict[int, Counts] = {}
        """Counts of each rank as front ends are to hear of them."""
        self._sum = _LEAST
        self.steps: list[AnyStep] = [CoordinatorStart(timeout=30.0), Wait(within=40.0)]
        self.add(Connect((*self.holders.values(), *self.fronts)))
        self.news(*self.fronts, what="ranks", rank=self.size)
        self.settled()

    def add(self, *steps: AnyStep) -> None:
        """Append steps."""
        self.steps += steps

    def news(
        self, *roles: str, what: Awaited, rank: int | None = None, counts: Counts | None = None
    ) -> None:
        """Have these roles wait for something."""
        if roles:
            self.add(WaitNews(roles, what, rank=rank, counts=counts, within=_NEWS))

    def settled(self) -> None:
        """Wait until everybody has done what it was to do."""
        self.add(Wait(within=_SETTLED))

    def ranks(self) -> list[int]:
        """Return the ranks that are linked and in range."""
        return sorted(rank for rank in self.holders if rank < self.size)

    def gone(self) -> list[int]:
        """Return the ranks in range that are not linked."""
        return [rank for rank in range(self.size) if rank not in self.holders]

    def some(self, ranks: list[int]) -> list[int]:
        """Draw some of these ranks, one at least."""
        return self.draw(st.lists(st.sampled_from(ranks), min_size=1, max_size=3, unique=True))

    def report(self, rank: int, *, same_sum: bool = False) -> None:
        """An engine reports new counts: of another sum than all before, or of its own last one."""
        before = self.counts.get(rank)
        if before is not None and same_sum:
            split = self.draw(st.integers(0, sum(before) - 1))
            waiting, total = split + (split >= before[0]), sum(before)
        else:
            total, self._sum = self._sum, self._sum + 1
            waiting = self.draw(st.integers(0, total))
        self.counts[rank] = waiting, total - waiting
        self.add(ReportCounts(self.holders[rank], self.counts[rank]))

    def heard(self, *ranks: int, fronts: tuple[str, ...] = ()) -> None:
        """Front ends, all if none is named, hear the counts that these ranks reported last."""
        for rank in ranks:
            if rank in self.counts:
                to = fronts or tuple(self.fronts)
                self.news(*to, what="counts", rank=rank, counts=self.counts[rank])
        self.settled()

    def comes(self, rank: int) -> str:
        """An engine that is free comes as a rank; return it."""
        role = self.draw(st.sampled_from(self.free))
        self.free.remove(role)
        self.holders[rank] = role
        self.add(Connect((role,), rank=rank))
        return role

    def goes(self, role: str) -> None:
        """An engine leaves, or is killed."""
        if self.draw(st.booleans()):
            self.add(Fault("kill", role))
        else:
            self.add(Disconnect((role,)))
            self.free.append(role)


# -- stages of front ends and counts ----------------------------------------------------------


def _counts_change(program: _Program) -> None:
    """Some ranks report new counts; when these are known, some do that keep their sum."""
    draw = program.draw
    for same_sum in (False, True):
        told = program.some(program.ranks())
        for _ in range(draw(st.sampled_from((1, 1, 2)))):
            for rank in told:
                program.report(rank, same_sum=same_sum)
            program.add(*draw(st.sampled_from(((), (Pause(0.03),)))))
        program.heard(*told)


def _front_end_comes(program: _Program) -> None:
    """A front end comes to others that are there, and is told all; now and then beside a change."""
    draw = program.draw
    if not program.away:
        return
    front = draw(st.sampled_from(program.away))
    program.away.remove(front)
    program.add(Connect((front,)))
    if draw(st.integers(0, 3)) == 3:
        program.report(draw(st.sampled_from(program.ranks())))
    program.news(front, what="ranks", rank=program.size)
    program.heard(*sorted(program.counts), fronts=(front,))
    program.fronts.append(front)


def _front_end_goes(program: _Program) -> None:
    """A front end that is not the last one leaves, or is killed."""
    draw = program.draw
    if len(program.fronts) < 2:
        return
    front = draw(st.sampled_from(program.fronts))
    program.fronts.remove(front)
    if draw(st.booleans()):
        program.add(Fault("kill", front))
    else:
        program.add(Disconnect((front,)))
        program.away.append(front)


def _scaled(program: _Program) -> None:
    """A front end sets the number of ranks: lower, or higher, where some may listen already."""
    draw = program.draw
    sizes = [n for n in range(1, _RANKS + 1) if n != program.size and _filled(program, n)]
    if not sizes:
        return
    size = draw(st.sampled_from(sizes))
    early: list[str] = []
    late: list[int] = []
    for rank in range(program.size, size):
        if rank not in program.holders and draw(st.booleans()):
            early.append(program.comes(rank))
        elif rank not in program.holders:
            late.append(rank)
    if early:
        program.report(draw(st.sampled_from(program.ranks())))
        program.news(*early, what="state")
        program.settled()
    program.add(Scale(draw(st.sampled_from(program.fronts)), size))
    program.news(*program.fronts, what="ranks", rank=size)
    program.settled()
    added = range(program.size, size)
    for rank in range(size, program.size):
        program.counts.pop(rank, None)
        if rank in program.holders and draw(st.booleans()):
            program.goes(program.holders.pop(rank))
    program.size = size
    for rank in late:
        program.comes(rank)
    for rank in added:
        program.report(rank)
    program.heard(*added)
    _stepped(program, *added)


def _filled(program: _Program, size: int) -> bool:
    """Return whether there is an engine for each rank that is added, and one rank is left."""
    added = [rank for rank in range(program.size, size) if rank not in program.holders]
    return len(added) <= len(program.free) and any(rank < size for rank in program.ranks())


# -- waves ------------------------------------------------------------------------------------


def _stepped(program: _Program, *ranks: int) -> None:
    """Requests come to these ranks of engines that are in no wave; all are in one, and end it."""
    if ranks:
        _begun(program, *ranks)
        _ended(program)


def _begun(program: _Program, *ranks: int) -> None:
    """Requests come to these ranks, and everybody knows of their wave."""
    asked = tuple(program.holders[rank] for rank in ranks)
    program.add(Request(asked))
    program.news(*asked, what="stepped")
    _known(program)


def _known(program: _Program) -> None:
    """All ranks are in a wave, and front ends have been told of it."""
    program.news(*(program.holders[rank] for rank in program.ranks()), what="running")
    program.news(*program.fronts, what="running")
    program.settled()


def _ended(program: _Program, *waiting: int) -> None:
    """All ranks end their wave; requests of ``waiting``, which were not in it, begin the next."""
    first, *others = (program.holders[rank] for rank in program.ranks() if rank not in waiting)
    if others:
        program.add(EndWave(tuple(others), quiet=True), Wait(within=_SETTLED))
    program.add(EndWave((first,)))
    if waiting:
        program.news(*(program.holders[rank] for rank in waiting), what="stepped")
        _known(program)
        _ended(program)
    else:
        program.news(*program.fronts, what="paused")
        program.settled()


def _wave(program: _Program) -> None:
    """A wave, in which counts change, a front end or a rank comes, or one is lost."""
    draw = program.draw
    _begun(program, *program.some(program.ranks()))
    waiting: list[int] = []
    for _ in range(draw(st.integers(0, 2))):
        what = draw(st.sampled_from(("counts", "front end", "loss", "return", "return")))
        if what == "counts":
            _counts_change(program)
        elif what == "front end":
            _front_end_comes(program)
        elif what == "loss" and len(program.ranks()) - len(waiting) > 1:
            members = [rank for rank in program.ranks() if rank not in waiting]
            rank = draw(st.sampled_from(members))
            others = [program.holders[each] for each in members if each != rank]
            _gone(program, rank)
            program.news(*others, what="without", rank=rank)
            program.settled()
            if waiting:  # their requests are in the wave that followed
                program.news(*(program.holders[each] for each in waiting), what="stepped")
                program.settled()
                waiting = []
        elif what == "return" and program.gone() and program.free:
            waiting.append(draw(st.sampled_from(program.gone())))
            _back(program, waiting[-1])
            program.add(Request((program.holders[waiting[-1]],)))
    _ended(program, *waiting)


# -- stages of losses and returns -------------------------------------------------------------


def _lost(program: _Program) -> None:
    """A rank is lost, mostly the first, whose counts had been told; front ends are told."""
    ranks = program.ranks()
    if len(ranks) > 1:
        for rank in ranks:
            program.report(rank)
        program.heard(*ranks)
        _gone(program, program.draw(st.sampled_from((*ranks[:1] * 4, *ranks))))


def _gone(program: _Program, rank: int) -> None:
    program.goes(program.holders.pop(rank))
    program.counts.pop(rank, None)
    program.news(*program.fronts, what="gone", rank=rank)
    program.settled()


def _returned(program: _Program) -> None:
    """An engine comes as a rank that is gone; its counts are heard, and its request is stepped."""
    if program.gone() and program.free:
        rank = program.draw(st.sampled_from(program.gone()))
        _back(program, rank)
        _stepped(program, rank)


def _back(program: _Program, rank: int) -> None:
    program.comes(rank)
    program.news(*program.fronts, what="back", rank=rank)
    program.settled()
    program.report(rank)
    program.heard(rank)


def _scaled_while_gone(program: _Program) -> None:
    """The number of ranks is set while one is gone, which mostly comes back."""
    _lost(program)
    _scaled(program)
    if program.draw(st.integers(0, 3)):
        _returned(program)


def _taken_over(program: _Program) -> None:
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
    _stepped(program, rank)


# -- programs ---------------------------------------------------------------------------------


_Stage = Callable[[_Program], None]
_COMING: tuple[_Stage, ...] = (
    *(_counts_change, _front_end_comes, _scaled),
    *(_front_end_goes, _front_end_comes, _scaled),
)
_LOSSES: tuple[_Stage, ...] = (
    *(_scaled_while_gone, _taken_over, _front_end_comes),
    *(_lost, _returned, _taken_over),
)
_WAVES: tuple[_Stage, ...] = (_wave, _lost, _wave, _returned, _wave, _scaled)


def _program(
    draw: st.DrawFn, case: str, seed: int, ranks: tuple[int, ...], stages: tuple[_Stage, ...]
) -> Scenario:
    """Draw a program of most of these stages, in some order."""
    shape = CoordinatorShape(
        engines=draw(st.sampled_from(ranks)),
        spares=_SPARES,
        front_ends=draw(st.sampled_from((2, 3))),
    )
    program = _Program(draw, shape)
    for stage in draw(st.permutations(stages)):
        if draw(st.integers(0, _MOSTLY)):
            stage(program)
    return Scenario(case, [case.split("/")[0]], program.steps, coordinator=shape, seed=seed)


@st.composite
def programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which front ends come and go, counts change, and the number of ranks does."""
    return _program(draw, case, seed, (2, 1, 3), _COMING)


@st.composite
def programs_with_losses(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which ranks are lost, return, and are taken over."""
    return _program(draw, case, seed, (3, 2), _LOSSES)


@st.composite
def programs_with_waves(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which waves begin, break and end, with all ranks or without some."""
    return _program(draw, case, seed, (2, 3), _WAVES)
