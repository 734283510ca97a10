"""Barriers and gathers: a rank's call, and the host's record of each (SPEC G2, G3, X1).

`wait_all` runs in the caller's thread: a call that raises leaves its rank as if it had not come.
`BarrierState` belongs to the host, without I/O. The barriers of a channel are numbered; one is
open at a time, and nothing is kept of those that all ranks have passed. A rank that gave up
counts as absent until it comes again.
"""

from collections.abc import Collection
from typing import Any

from ..base.clock import Deadline
from ..errors import BarrierFailed, Busy, DeadlinePassed, RefengineError
from .call_context import CallContext
from .inbox import decode_body
from .member import BarrierTicket
from .protocol import (
    Channel,
    Frame,
    Kind,
    pack,
    pack_bodies,
    pack_object,
    pack_ranks,
    unpack_bodies,
)

_WAITING_FOR = {
    Channel.START: "the other ranks",
    Channel.BARRIER: "the other ranks at the barrier",
    Channel.GATHER: "the other ranks' objects",
}


def wait_all(
    context: CallContext, channel: Channel, obj: object, timeout: float | None
) -> list[Any]:
    """Wait until all ranks have come; return their objects for a gather, nothing for the others.

    A call that raises withdraws. If the host had released all ranks before it read the withdrawal,
    the next call finds the release and returns at once.
    """
    ticket, rank = context.member.tickets[channel], context.member.rank
    guard, what = ticket.guard, _WAITING_FOR[channel]
    if guard.held:
        guard.raise_busy(what)
    came, taken = False, None
    try:
        if not guard.acquire(False):
            raise Busy(what)
        guard.held = True
        if channel is Channel.START:
            context.check()
        else:
            context.enter(what)
        met = ticket.result()
        if met is None:
            contribution = _contribution(channel, rank, ticket.number, obj)
            came = True
            context.link.post(contribution)
            met = _await_all(context, channel, timeout)
        objects = _decode_all(channel, ticket, met)
        taken = met
        ticket.finish()
        guard.exit()
        return objects  # noqa: TRY300  an exception on the way out is one of those caught
    except BaseException:
        if taken is not None:
            ticket.resume(taken)  # it was not returned: the next call returns it
        elif came:
            context.link.post(pack(Kind.WITHDRAW, rank, channel, ticket.number))
        guard.exit()
        raise


def _contribution(channel: Channel, rank: int, number: int, obj: object) -> bytes | bytearray:
    if channel is Channel.GATHER:
        return pack_object(Kind.COME, rank, channel, number, obj)
    return pack(Kind.COME, rank, channel, number)


def _decode_all(channel: Channel, ticket: BarrierTicket, met: Frame) -> list[Any]:
    if channel is not Channel.GATHER:
        return []
    bodies = unpack_bodies(met.body)
    return [decode_body(body, ticket.number, ticket.finish) for body in bodies]


def _await_all(context: CallContext, channel: Channel, timeout: float | None) -> Frame:
    """Wait for the release; half way to the deadline, ask which ranks are absent, to name them."""
    member, what = context.member, _WAITING_FOR[channel]
    ticket = member.tickets[channel]
    left = Deadline(timeout, context.clock).remaining

    def obstacle() -> RefengineError | None:
        return member.unable_to_meet(channel, what)

    try:
        context.wait(ticket.is_met, obstacle, None if timeout is None else timeout / 2, what)
    except DeadlinePassed:
        context.link.post(pack(Kind.ASK, member.rank, channel, ticket.number))
        try:
            context.wait(ticket.is_met, obstacle, left(), what)
        except DeadlinePassed:
            raise _too_late(context, channel, timeout or 0) from None
    met = ticket.result()
    assert met is not None
    return met


def _too_late(context: CallContext, channel: Channel, seconds: float) -> DeadlinePassed:
    member = context.member
    absent = member.tickets[channel].absent(member.world_size, member.rank)
    if not context.link.reached():
        return DeadlinePassed(_host_to_answer(context, channel, absent), seconds)
    if channel is Channel.BARRIER:
        return BarrierFailed(absent, seconds)
    purpose = "to join the group" if channel is Channel.START else "to give an object"
    return DeadlinePassed(f"{_ranks(absent)} {purpose}", seconds)


def _host_to_answer(context: CallContext, channel: Channel, absent: list[int]) -> str:
    """Describe a silent host; it may have answered earlier, naming absent ranks, and given up."""
    what = f"rank 0 at {context.link.address} to answer"
    others = [rank for rank in absent if rank != 0]
    if context.member.tickets[channel].who is None or not others:
        return what
    return f"{what}; before it gave up it missed {_ranks(others)}"


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


Post = tuple[int, bytes | bytearray]
"""Rank, and the frame to post to it."""


class BarrierState:
    """State of a channel's open barrier or gather. Each method returns the frames to post."""

    def __init__(self, channel: Channel, world_size: int) -> None:
        self.channel, self.number = channel, 0
        self._world = range(world_size)
        self._came: dict[int, memoryview] = {}
        self._gave_up: set[int] = set()
        self._away: set[int] = set()
        self._curious: set[int] = set()

    @property
    def came(self) -> Collection[int]:
        """Ranks that have come."""
        return self._came.keys()

    def come(self, rank: int, number: int, body: memoryview) -> list[Post]:
        """Record a rank; the last one releases all. A number already released needs no answer."""
        if number != self.number:
            return []
        self._came[rank] = body
        self._gave_up.discard(rank)
        return self._released() or self._news()

    def _released(self) -> list[Post]:
        """Return the release, if all ranks have come and, at a barrier, are known to live."""
        if len(self._came) < len(self._world) or self._away:
            return []
        bodies = pack_bodies([self._came[rank] for rank in self._world])
        released = pack(Kind.MET, 0, self.channel, self.number, bodies)
        self.number += 1
        self._came.clear()
        self._gave_up.clear()
        self._curious.clear()
        return [(rank, released) for rank in self._world]

    def withdraw(self, rank: int, number: int) -> list[Post]:
        """Record that a rank waits no longer; too late once all were released."""
        if number != self.number:
            return []
        self._curious.discard(rank)
        if self._came.pop(rank, None) is None:
            return []
        self._gave_up.add(rank)
        return self._news()

    def ask(self, rank: int, number: int) -> list[Post]:
        """Subscribe a rank to the list of the ranks that have come; answer with it now."""
        if number != self.number:
            return []
        self._curious.add(rank)
        return [(rank, self._who())]

    def unsaid(self, rank: int) -> list[Post]:
        """Withdraw a rank that has taken back its joining of the group."""
        self._away.discard(rank)
        return self.withdraw(rank, self.number)

    def away(self, rank: int) -> list[Post]:
        """Record a broken connection: a barrier counts the rank as absent until it is back."""
        if self.channel is Channel.GATHER:
            return []
        self._away.add(rank)
        return self._news()

    def back(self, rank: int) -> list[Post]:
        """Record that the connection is back; what the rank had come with still stands."""
        self._away.discard(rank)
        return self._released() or self._news()

    def leave(self, rank: int) -> list[Post]:
        """Remove a rank that has ended; its object for a gather stands, its barrier does not."""
        self._curious.discard(rank)
        self._gave_up.discard(rank)
        self._away.discard(rank)
        if self.channel is not Channel.GATHER:
            self._came.pop(rank, None)
        return []

    def _news(self) -> list[Post]:
        who = self._who() if self._curious else b""
        return [(rank, who) for rank in self._curious]

    def _who(self) -> bytes:
        ranks = pack_ranks(self._came.keys() - self._away), pack_ranks(self._gave_up)
        return pack(Kind.WHO, 0, self.channel, self.number, pack_bodies(ranks))
