"""Programs for all peers of a coordinator at once, drawn by Hypothesis (H5).

Front ends come and go while counts change, with and without their sum, and while the number of
ranks is set. Requests come to those that are added.
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
_NEWS = 9.0
"""Seconds in which news comes: longer than a loss or a return may take to be told (SPEC C6)."""
_SETTLED = 14.0


class Program:
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
        self.members: list[int] = []
        """Ranks in the wave that is on."""
        self.waiting: list[int] = []
        """Ranks with requests that are in no wave before the next one."""
        self.follows = False
        """True if a wave follows the one that is on, since some rank wanted it."""
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


def counts_change(program: Program) -> None:
    """Some ranks report new counts; when these are known, some do that keep their sum."""
    draw = program.draw
    for same_sum in (False, True):
        told = program.some(program.ranks())
        for _ in range(draw(st.sampled_from((1, 1, 2)))):
            for rank in told:
                program.report(rank, same_sum=same_sum)
            program.add(*draw(st.sampled_from(((), (Pause(0.03),)))))
        program.heard(*told)


def front_end_comes(program: Program) -> None:
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


def _front_end_goes(program: Program) -> None:
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


def scaled(program: Program) -> None:
    """The number of ranks is set; requests come to those that are added."""
    stepped(program, *numbered(program))


def numbered(program: Program) -> list[int]:
    """A front end sets the number of ranks: lower, or higher, where some may listen already.

    Ranks that are taken away leave, or stay linked. Return those that are added.
    """
    draw = program.draw
    sizes = [n for n in range(1, _RANKS + 1) if n != program.size and _filled(program, n)]
    if not sizes:
        return []
    size = draw(st.sampled_from(sizes))
    missing = [rank for rank in range(program.size, size) if rank not in program.holders]
    early = [rank for rank in missing if draw(st.booleans())]
    if early:
        roles = [program.comes(rank) for rank in early]
        program.report(draw(st.sampled_from(program.ranks())))
        program.news(*roles, what="state")
        program.settled()
    program.add(Scale(draw(st.sampled_from(program.fronts)), size))
    program.news(*program.fronts, what="ranks", rank=size)
    program.settled()
    added, removed = range(program.size, size), range(size, program.size)
    program.size = size
    left: list[int] = []
    program.waiting = [rank for rank in program.waiting if rank < size]
    for rank in removed:
        program.counts.pop(rank, None)
        if rank in program.holders and draw(st.booleans()):
            program.goes(program.holders.pop(rank))
            left.append(rank)
    broken(program, *left)
    for rank in added:
        if rank not in program.holders:
            program.comes(rank)
        program.report(rank)
    program.heard(*added)
    return [*added]


def _filled(program: Program, size: int) -> bool:
    """Return whether there is an engine for each rank that is added, and one rank is left."""
    added = [rank for rank in range(program.size, size) if rank not in program.holders]
    return len(added) <= len(program.free) and any(rank < size for rank in program.ranks())


# -- waves ------------------------------------------------------------------------------------


def stepped(program: Program, *ranks: int) -> None:
    """Requests come to these ranks of engines that are in no wave; all are in one, and end it."""
    if ranks:
        begun(program, *ranks)
        ended(program)


def begun(program: Program, *ranks: int) -> None:
    """Requests come to these ranks, and everybody knows of their wave."""
    asked = tuple(program.holders[rank] for rank in ranks)
    program.add(Request(asked))
    program.news(*asked, what="stepped")
    _known(program)


def _known(program: Program) -> None:
    """All ranks are in a wave, and front ends have been told of it."""
    program.members, program.waiting, program.follows = program.ranks(), [], False
    program.news(*(program.holders[rank] for rank in program.members), what="running")
    program.news(*program.fronts, what="running")
    program.settled()


def broken(program: Program, *lost: int) -> None:
    """Those of these lost ranks that are in the wave break it: the others are in the next one."""
    for rank in lost:
        if rank in program.members:
            others = [each for each in program.members if each in program.ranks()]
            program.news(*(program.holders[each] for each in others), what="without", rank=rank)
            program.news(*(program.holders[each] for each in program.waiting), what="stepped")
            _known(program)


def ended(program: Program) -> None:
    """All ranks end their wave; those that wait for the next one begin and end that, too."""
    first, *others = (program.holders[rank] for rank in program.members)
    if others:
        program.add(EndWave(tuple(others), quiet=True), Wait(within=_SETTLED))
    program.add(EndWave((first,)))
    program.members = []
    if program.follows:
        program.news(*(program.holders[rank] for rank in program.waiting), what="stepped")
        _known(program)
        ended(program)
    else:
        program.news(*program.fronts, what="paused")
        program.settled()


def _wave_of_some(program: Program) -> None:
    """Requests come to some ranks: in the wave counts change, or a front end comes."""
    begun(program, *program.some(program.ranks()))
    program.draw(st.sampled_from((counts_change, front_end_comes)))(program)
    ended(program)


# -- programs ---------------------------------------------------------------------------------


Stage = Callable[[Program], None]
_COMING: tuple[Stage, ...] = (
    *(counts_change, front_end_comes, scaled),
    *(_front_end_goes, front_end_comes, scaled),
)
_LASTING: tuple[Stage, ...] = (
    *(counts_change, front_end_comes, _wave_of_some, counts_change),
    *(_front_end_goes, front_end_comes, _wave_of_some, counts_change),
    *(_front_end_goes, front_end_comes, _wave_of_some, counts_change),
)


def drawn(
    draw: st.DrawFn, case: str, seed: int, ranks: tuple[int, ...], stages: tuple[Stage, ...]
) -> Scenario:
    """Draw a program of most of these stages, in some order."""
    shape = CoordinatorShape(
        engines=draw(st.sampled_from(ranks)),
        spares=_SPARES,
        front_ends=draw(st.sampled_from((2, 3))),
    )
    program = Program(draw, shape)
    for stage in draw(st.permutations(stages)):
        if draw(st.integers(0, _MOSTLY)):
            stage(program)
    return Scenario(case, [case.split("/")[0]], program.steps, coordinator=shape, seed=seed)


@st.composite
def programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which front ends come and go, counts change, and the number of ranks does."""
    return drawn(draw, case, seed, (2, 1, 3), _COMING)


@st.composite
def programs_without_losses(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which all ranks stay, as far as anybody beside a supervisor can tell."""
    return drawn(draw, case, seed, (2, 3, 1), _LASTING)
