"""Programs for a group whose ranks stand still, lose a connection, die and leave (H2).

Objects pile up in a lane. Then follow stages, each of which may be there or not: a rank stands
still, or its connection breaks, while the others meet with it; ranks come to a barrier one
after another and some never; one dies inside a gather; one leaves as soon as all have sent. What
was piled up is taken at the end.
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

_MET_WITHIN = 6.0
"""Seconds within which ranks meet that all come."""
_VAIN = 0.5
"""Seconds that a barrier may take for which a rank never comes."""
_TAKEN_WITHIN = 5.0
"""Seconds within which an object comes that was sent: a link may be slow."""
_KNOWN_OF = 1.9
"""Seconds after which a death is known to a group that tells of it at all (SPEC G4)."""
_OUTLIVED = 3.0
"""Seconds that a gather may take in which a rank dies."""
_ENDED_WITHIN = 14.0
_PILES = (1, 3, 40, 300, 1100, 1500)
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

    def pile(self, size: int, counts: tuple[int, ...], slow: float = 0.0, leaves: str = "") -> None:
        """One rank sends another some objects, which are taken later.

        If ``slow``, the way of a member's objects to the host takes so many seconds more. None is
        for a rank that ``leaves``.
        """
        to = self.draw(st.sampled_from([role for role in self.roles if role != leaves]))
        source = self.draw(st.sampled_from([role for role in self.roles if role != to]))
        count = self.draw(st.sampled_from(counts))
        if slow and source != "rank-0":
            self.add(Fault("delay", source, pause=slow))
        self.add(SendTo(source, to, [Message(size=size, repeat=count)]))
        self.owed[source, to] = self.owed.get((source, to), 0) + count

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
    how = draw(st.sampled_from(("stop", "cut", "break", "break")))
    meets = draw(st.sampled_from(("gather", "barrier", "barrier")))

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
    """Ranks come to a barrier one after another, and some never do."""
    draw = program.draw
    _never, early, late, *others = draw(st.permutations(program.roles))
    when = {early: "first", late: "last"}
    when |= {role: draw(st.sampled_from(("", *_ARRIVALS))) for role in others}
    program.settled()
    for turn in _ARRIVALS:
        come = tuple(role for role in program.roles if when.get(role) == turn)
        if come:
            program.add(Barrier(come, timeout=_VAIN))
        program.add(Pause(_VAIN / 3))
    program.settled()


def _died(program: _Program) -> None:
    """A rank that waits in a gather dies; then the last one comes."""
    dead = program.member()
    last = program.draw(st.sampled_from([role for role in program.roles if role != dead]))
    early = tuple(role for role in program.roles if role != last)
    program.settled()
    known_of = program.draw(st.sampled_from((0.0, _KNOWN_OF)))
    program.add(Gather(roles=early, timeout=_OUTLIVED), WaitBlocked(early), Pause(0.3))
    program.add(Fault("kill", dead), Pause(known_of))
    program.add(Gather(roles=(last,), timeout=_OUTLIVED))
    program.roles.remove(dead)
    program.settled()


def _left(program: _Program) -> None:
    """Links may be slow; all that is to be sent has been sent when a rank leaves."""
    draw = program.draw
    leaves = draw(st.sampled_from((*program.roles, *program.roles[:1] * 3)))
    for _ in range(draw(st.integers(1, 3))):
        slow = draw(st.sampled_from((0.0, 0.3, 0.3)))
        program.pile(draw(st.sampled_from((64, 200_000))), (1, 3), slow, leaves)
    program.settled()
    program.add(Leave((leaves,)))
    program.roles.remove(leaves)


@st.composite
def programs_with_faults(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program of these stages."""
    count = draw(st.integers(3, 4))
    program = _Program(draw, count)
    program.pile(64, _PILES)
    for stage in (_disturbed, _disturbed, _in_vain, _died, _left):
        if draw(st.integers(0, 2)):
            stage(program)
    program.taken()
    shape = GroupShape(ranks=count)
    return Scenario(case, [case.split("/")[0]], program.steps, group=shape, seed=seed)
