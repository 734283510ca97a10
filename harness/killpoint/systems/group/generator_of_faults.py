"""Programs for a group whose ranks stand still, lose a connection, die and leave (H2).

Objects pile up in lanes, and are taken at the end. Between that lie stages. In programs with
faults a rank stands still, or its connection breaks, while the others meet with it; ranks come to a
barrier one after another and one never does; one leaves when all have sent, though something is
still on its way. In programs with deaths a rank dies inside a gather.
"""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Barrier,
    Fault,
    Gather,
    Join,
    Leave,
    Message,
    Pause,
    ReceiveFrom,
    Scenario,
    SendTo,
    Wait,
    WaitBlocked,
)
from killpoint.targets.shapes import GroupShape

_RANKS = 4
"""Ranks of a program with faults: beside one that never comes and one that waits, two may come."""
_MOSTLY = 20
"""A stage is there in so many programs of one more."""
_MET_WITHIN = 6.0
"""Seconds within which ranks meet that all come."""
_VAIN = 0.8
"""Seconds that a barrier may take for which a rank never comes."""
_TAKEN_WITHIN = 5.0
"""Seconds within which an object comes that was sent: a link may be slow."""
_KNOWN_OF = 1.9
"""Seconds after which a death is known to a group that tells of it within 2 s (SPEC G4)."""
_SILENCE = 4.0
"""Seconds of silence that a group bears in whose programs a rank dies."""
_OUTLIVED = 8.0
"""Seconds that a gather may take in which a rank dies: longer than all are to be told in."""
_ENDED_WITHIN = 14.0
_SLOW = 0.3
"""Seconds that objects take on a slow way."""
_PILES = (1, 40, 1100, 1500)
"""Objects that wait in a lane at once: below and above the capacities that buffers have."""
_ARRIVALS = ("first", "second", "last")
"""When a rank comes to a barrier: at once, after a third of the time of the first, after two."""


class _Program:
    """A program under construction: its steps, the ranks that are left, and what they are owed."""

    def __init__(self, draw: st.DrawFn, count: int) -> None:
        """Begin with the joining of all."""
        self.draw = draw
        self.roles = [f"rank-{rank}" for rank in range(count)]
        self.steps: list[AnyStep] = [Join(), Wait(within=30.0)]
        self.owed: dict[tuple[str, str], int] = {}

    def add(self, *steps: AnyStep) -> None:
        """Append steps."""
        self.steps += steps

    def member(self) -> str:
        """Draw a rank that is not the host."""
        return self.draw(st.sampled_from(self.roles[1:]))

    def settled(self) -> None:
        """Wait until everybody that is left has done what it was to do."""
        self.add(Wait(tuple(self.roles), within=_ENDED_WITHIN))

    def pile(self, size: int, counts: tuple[int, ...], leaves: str = "", how: str = "") -> str:
        """One rank sends another some objects, which are taken later; none is for who ``leaves``.

        The way of a member's objects to the host may be long (``delay``) or shut (``cut``), unless
        it leaves. Return the rank that sends.
        """
        to = self.draw(st.sampled_from([role for role in self.roles if role != leaves]))
        source = self.draw(st.sampled_from([role for role in self.roles if role != to]))
        count = self.draw(st.sampled_from(counts))
        if how == "delay" and source not in ("rank-0", leaves):
            self.add(Fault("delay", source, pause=_SLOW))
        elif how == "cut" and source not in ("rank-0", leaves):
            self.add(Fault("cut", source, toward="peer"))
        self.add(SendTo(source, to, [Message(size=size, repeat=count)]))
        self.owed[source, to] = self.owed.get((source, to), 0) + count
        return source

    def taken(self) -> None:
        """Everybody that is left takes what was sent to it."""
        for (source, to), count in sorted(self.owed.items()):
            if to in self.roles:
                self.add(ReceiveFrom((to,), source, count, timeout=_TAKEN_WITHIN))
        self.owed = {}
        self.settled()


def _disturbed(program: _Program) -> None:
    """A rank that has come to a meeting is away as the last one comes, and then goes on."""
    draw = program.draw
    away = program.member()
    last = draw(st.sampled_from([role for role in program.roles if role != away]))
    early = tuple(role for role in program.roles if role != last)
    how = draw(st.sampled_from(("break", "break", "break", "stop", "cut")))
    meets = draw(st.sampled_from(("barrier", "barrier", "gather")))

    def meet(*roles: str) -> AnyStep:
        if meets == "gather":
            return Gather(roles=roles, timeout=_MET_WITHIN)
        return Barrier(roles, timeout=_MET_WITHIN)

    program.settled()
    program.add(meet(*early), WaitBlocked(early))
    program.add(Fault("stop" if how == "stop" else "cut", away))
    if how == "break":
        program.add(Fault("reset", away))
    program.add(Pause(0.05), meet(last), Pause(draw(st.sampled_from((0.05, 0.15)))))
    program.add(Fault("continue" if how == "stop" else "heal", away))
    program.settled()


def _in_vain(program: _Program) -> None:
    """Ranks come to a barrier one after another, and one never does, or two."""
    draw = program.draw
    never = draw(st.sampled_from((*program.roles[-1:] * 8, *program.roles)))
    early, late, *others = draw(st.permutations([r for r in program.roles if r != never]))
    when = {early: "first", late: "last"}
    when |= {
        role: draw(st.sampled_from(("first", "second", "first", "second", ""))) for role in others
    }
    program.settled()
    for turn in _ARRIVALS:
        come = tuple(role for role in program.roles if when.get(role) == turn)
        if come:
            program.add(Barrier(come, timeout=_VAIN / 2 if turn == "last" else _VAIN))
        program.add(Pause(_VAIN / 3))
    program.settled()


def _died(program: _Program) -> None:
    """A rank that waits in a gather dies; the last one comes when that is known, or at once."""
    dead = program.member()
    last = program.draw(st.sampled_from([role for role in program.roles if role != dead]))
    early = tuple(role for role in program.roles if role != last)
    program.settled()
    known_of = program.draw(st.sampled_from((_KNOWN_OF, _KNOWN_OF, 0.0)))
    program.add(Gather(roles=early, timeout=_OUTLIVED), WaitBlocked(early), Pause(0.15))
    program.add(Fault("kill", dead), Pause(known_of))
    program.add(Gather(roles=(last,), timeout=_OUTLIVED))
    program.roles.remove(dead)
    program.settled()


def _left(program: _Program) -> None:
    """A rank leaves when all has been sent; some of it may not have come to the host yet."""
    draw = program.draw
    leaves = draw(st.sampled_from((*program.roles[:1] * 8, *program.roles)))
    shut: list[str] = []
    for _ in range(draw(st.integers(2, 3))):
        size = draw(st.sampled_from((64, 200_000)))
        how = draw(st.sampled_from(("cut", "cut", "delay")))
        source = program.pile(size, (1, 3), leaves, how)
        if how == "cut" and source not in ("rank-0", leaves, *shut):
            shut.append(source)
    program.settled()
    program.add(Leave((leaves,)), Pause(0.2))
    for role in shut:
        if draw(st.sampled_from((True, True, True, False))):
            program.add(Fault("reset", role))
        program.add(Fault("heal", role))
    program.roles.remove(leaves)


def _begun(draw: st.DrawFn, count: int) -> _Program:
    """Return a program of so many ranks with one or two piles of objects."""
    program = _Program(draw, count)
    for _ in range(draw(st.integers(1, 2))):
        program.pile(64, _PILES)
    return program


@st.composite
def programs_with_faults(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which ranks stand still, break off, come late or never, and leave."""
    program = _begun(draw, _RANKS)
    for stage in (_disturbed, _disturbed, _in_vain, _left):
        if draw(st.integers(0, _MOSTLY)):
            stage(program)
    program.taken()
    shape = GroupShape(ranks=_RANKS)
    return Scenario(case, [case.split("/")[0]], program.steps, group=shape, seed=seed)


@st.composite
def programs_with_deaths(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which a rank dies inside a gather."""
    count = draw(st.sampled_from((3, 4)))
    program = _begun(draw, count)
    _died(program)
    if draw(st.booleans()):
        program.pile(64, _PILES)
    program.taken()
    shape = GroupShape(ranks=count, silence=_SILENCE)
    return Scenario(case, [case.split("/")[0]], program.steps, group=shape, seed=seed)
