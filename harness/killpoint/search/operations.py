"""Operation of a system in one role, with the story around it, so that sweeps can strike it.

A system gets its sweeps by naming its operations: what leads to one, the steps during which the
role makes the call, and what shows afterwards that nothing was lost.
"""

from __future__ import annotations

import msgspec

from killpoint.scenario import AnyStep, Message, Receive, Scenario, Send, Verb, Wait
from killpoint.targets.shapes import GroupShape, PipeShape, PoolShape, QueueShape

LARGE, SMALL = Message("array", 100_000), Message(repeat=2)
"""A message by the overflow path, and two that are not."""
ENDLESS = 60
"""More receives than there are messages: each reader goes on until it is asked to stop."""
UNREAD_WITHIN = 4.0
"""Seconds for messages to be taken that no reader receives yet: a wait for that lasts longer."""
HANG_AFTER_S = 8.0
"""Seconds after which a wait that should have ended is a hang."""


class Operation(msgspec.Struct, frozen=True):
    """One call of one role, and the story around it."""

    name: str
    """Such as ``send-inline``; the same call in another role has another name."""
    role: str
    verb: Verb
    lead: list[AnyStep]
    """Steps before the call: the parties are there, and something to work on."""
    during: list[AnyStep]
    """The call itself, and the steps of others at the same time."""
    rest: list[AnyStep]
    """Steps after the call: every message is taken, and all parties leave."""
    remote: int = 0
    """Number of its two readers that are reached over TCP."""
    ranks: int = 0
    """Number of ranks of a group, instead of a queue."""
    joint: bool = False
    """True if others wait in ``during`` for this role to come (again)."""
    waits: bool = False
    """True if the call may have to wait for something that is on its way."""
    paced: bool = False
    """True if the readers' pace decides how often the call polls: a count may be of a slow one."""
    chunk_bytes: int = 64 * 1024
    pool: PoolShape | None = None
    """Shape of a worker pool, instead of a queue."""
    pipe: PipeShape | None = None
    """Shape of a pipe, instead of a queue."""

    @property
    def steady(self) -> bool:
        """True if the call runs through the same lines every time.

        With parties beyond this machine's memory, how often a call polls differs.
        """
        return not (self.remote or self.ranks or self.joint or self.waits or self.pool or self.pipe)

    @property
    def departs(self) -> bool:
        """True if a target may have no code for the call: the object may simply be dropped."""
        return self.verb in ("close", "leave")

    def surely(self, count: int) -> int:
        """Return how many of the counted lines every such call reaches.

        Any call may look at a clock, and do a little less another time.
        """
        if self.paced:
            return 0
        return count * 3 // 4 if self.steady else count // 2

    def worth(self, count: int) -> int:
        """Return how many of the counted lines a sweep may choose: of threads, not the last."""
        return count * 2 // 3 if self.verb == "carry" else count

    def scenario(self, id: str, *steps: AnyStep) -> Scenario:
        """A scenario of these steps, judged by the invariant that the case belongs to."""
        shape = QueueShape(2, self.chunk_bytes, chunks=8, remote=self.remote)
        group = GroupShape(ranks=self.ranks) if self.ranks else None
        judges, told = [id.split("/")[0]], list(steps)
        if self.pool is not None:
            return Scenario(id, judges, told, pool=self.pool)
        if self.pipe is not None:
            return Scenario(id, judges, told, pipe=self.pipe)
        return Scenario(id, judges, told, shape=shape, group=group)

    def plainly(self, id: str, step: AnyStep) -> Scenario:
        """Return the scenario with a harmless step before the call: a count, or an undone stop."""
        rest = [Wait(within=HANG_AFTER_S), *self.counted()]
        if self.verb == "carry":  # such a point is declared before there is any thread
            return self.scenario(id, step, *self.lead, *self.during, *rest)
        return self.scenario(id, *self.lead, step, *self.during, *rest)

    def counted(self) -> list[AnyStep]:
        """The rest where nothing is lost: readers receive what is sent and not taken yet, no more.

        One more would wait for ever where a queue has neither deadlines nor a notice of the end.
        """
        before = [*self.lead, *self.during]
        sends = [step for step in (*before, *self.rest) if isinstance(step, Send)]
        sent = sum(message.repeat for step in sends for message in step.messages)
        counted: list[AnyStep] = []
        for step in self.rest:
            if not isinstance(step, Receive) or step.count != ENDLESS:
                counted.append(step)
                continue
            for role in ("reader-0", "reader-1") if step.roles == ("readers",) else step.roles:
                count = sent - _taken(before, role)
                counted.append(msgspec.structs.replace(step, count=count, roles=(role,)))
        return counted


def _taken(steps: list[AnyStep], role: str) -> int:
    return sum(step.count for step in steps if isinstance(step, Receive) and role in step.roles)
