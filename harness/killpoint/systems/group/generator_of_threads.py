"""Programs for a group whose ranks wait in several calls at once, drawn by Hypothesis (H2).

In each stage a rank waits for several things in threads of its own: for objects and broadcasts of
others, for nothing that comes, at a gather, at a barrier. Other ranks that take part in these do
the same. Then all of it comes, in another order. Two calls at once never ask for the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Gather,
    GroupRejoin,
    Join,
    Message,
    Pause,
    ReceiveFrom,
    Scenario,
    SendTo,
    Wait,
)
from killpoint.systems.group.fuzz import objects
from killpoint.targets.shapes import GroupShape

_RANKS = (3, 2, 4)
_STAGES = 2, 4
_AT_ONCE = 2, 4
"""Fewest and most things that a rank waits for at once."""
_COME_WITHIN = 6.0
"""Seconds within which all comes that ranks wait for."""
_VAIN = (0.06, 0.15)
"""Seconds that a receive waits for which nothing comes."""
_LATE = 20.0
_ENDED_WITHIN = 20.0


@dataclass(frozen=True)
class _Wait:
    """What a rank waits for: the objects or broadcasts of a source, or all ranks, the last one."""

    what: Literal["objects", "broadcast", "barrier", "gather"]
    other: str
    """The source, or the rank that comes to a meeting last."""
    batch: tuple[Message, ...] = (Message(),)

    def begun(self, who: str, roles: list[str]) -> AnyStep:
        """Return the step of those that wait."""
        waiting = tuple(role for role in roles if role != self.other)
        if self.what == "objects":
            count, within = len(self.batch), _COME_WITHIN
            return ReceiveFrom((who,), self.other, count, timeout=within, beside=True)
        if self.what == "broadcast":
            return Broadcast(self.other, [*self.batch], waiting, _COME_WITHIN, beside=True)
        if self.what == "gather":
            return Gather(roles=waiting, timeout=_COME_WITHIN, beside=True)
        return Barrier(waiting, timeout=_COME_WITHIN, beside=True)

    def come(self, who: str) -> AnyStep:
        """Return the step by which it comes."""
        only = (self.other,)
        if self.what == "objects":
            return SendTo(self.other, who, [*self.batch])
        if self.what == "broadcast":
            return Broadcast(self.other, [*self.batch], only, _COME_WITHIN)
        if self.what == "gather":
            return Gather(self.batch[0], only, timeout=_COME_WITHIN)
        return Barrier(only, timeout=_COME_WITHIN)


@st.composite
def _waits(draw: st.DrawFn, who: str, roles: list[str]) -> list[_Wait]:
    """Different things, in the order in which the rank begins to wait for them."""
    others = [role for role in roles if role != who]
    last = st.sampled_from(others)
    choice = [_Wait("objects", role) for role in others]
    choice += [_Wait("barrier", draw(last)), _Wait("gather", draw(last))]
    choice += [_Wait("broadcast", role) for role in others]
    fewest, most = _AT_ONCE
    chosen = draw(st.lists(st.sampled_from(choice), min_size=fewest, max_size=most, unique=True))
    batches = st.lists(objects(), min_size=1, max_size=2).map(tuple)
    return [_Wait(each.what, each.other, draw(batches)) for each in chosen]


@st.composite
def _stage(draw: st.DrawFn, roles: list[str]) -> list[AnyStep]:
    """A rank waits for several things at once, which then come in another order."""
    who = draw(st.sampled_from(roles))
    waits = draw(_waits(who, roles))
    begun = [each.begun(who, roles) for each in waits]
    lanes = {each.other for each in waits if each.what == "objects"}
    empty = [role for role in roles if role not in (who, *lanes)]
    if empty and draw(st.booleans()):
        timeout, place = draw(st.sampled_from(_VAIN)), draw(st.integers(0, len(begun)))
        begun.insert(place, ReceiveFrom((who,), empty[0], timeout=timeout, beside=True))
    steps = [*begun, Wait(within=_ENDED_WITHIN)]
    for each in draw(st.permutations(waits[::-1])):
        steps.append(each.come(who))
        if draw(st.booleans()):
            steps.append(Pause(0.02))
    return [*steps, GroupRejoin(), Wait(within=_ENDED_WITHIN)]


@st.composite
def programs_with_threads(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program in which ranks wait in several calls at once."""
    count = draw(st.sampled_from(_RANKS))
    roles = [f"rank-{rank}" for rank in range(count)]
    steps: list[AnyStep] = [Join(), Wait(within=30.0)]
    fewest, most = _STAGES
    for _ in range(draw(st.integers(fewest, most))):
        steps += draw(_stage(roles))
    steps += [Gather(timeout=_LATE), Wait(within=_ENDED_WITHIN)]
    shape = GroupShape(ranks=count)
    return Scenario(case, [case.split("/")[0]], steps, group=shape, seed=seed)
