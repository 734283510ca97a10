"""Coming to a meeting, and coming back with what all gave, or as if one had never come (X1, G3)."""

from typing import Any

from ..base.clock import Deadline
from ..errors import BarrierFailed, Busy, DeadlinePassed, RefengineError
from .frames import Channel, Frame, Kind, pack, pack_object, unpack_bodies
from .member import Attendance
from .opening import opened
from .seat import Seat

_WAITING_FOR = {
    Channel.START: "the other ranks",
    Channel.BARRIER: "the other ranks at the barrier",
    Channel.GATHER: "the other ranks' objects",
}


def meet(seat: Seat, channel: Channel, obj: object, timeout: float | None) -> list[Any]:
    """Every rank's contribution to a gather; nothing from other meetings.

    Whoever does not come back with it withdraws. If the host had released all before it read
    that, the next call finds the release and returns at once.
    """
    attendance, rank = seat.member.attendances[channel], seat.member.rank
    guard, what = attendance.guard, _WAITING_FOR[channel]
    if guard.held:
        guard.raise_busy(what)
    came, taken = False, None
    try:
        if not guard.acquire(False):
            raise Busy(what)
        guard.held = True
        if channel is Channel.START:
            seat.check()
        else:
            seat.enter(what)
        met = attendance.result()
        if met is None:
            contribution = _contribution(channel, rank, attendance.number, obj)
            came = True
            seat.link.post(contribution)
            met = _await_all(seat, channel, timeout)
        objects = _opened(channel, attendance, met)
        taken = met
        attendance.finish()
        guard.exit()
        return objects  # noqa: TRY300  an exception on the way out is one of those caught
    except BaseException:
        if taken is not None:
            attendance.resume(taken)  # nobody got it: the next call gives it
        elif came:
            seat.link.post(pack(Kind.WITHDRAW, rank, channel, attendance.number))
        guard.exit()
        raise


def _contribution(channel: Channel, rank: int, number: int, obj: object) -> bytes | bytearray:
    if channel is Channel.GATHER:
        return pack_object(Kind.COME, rank, channel, number, obj)
    return pack(Kind.COME, rank, channel, number)


def _opened(channel: Channel, attendance: Attendance, met: Frame) -> list[Any]:
    if channel is not Channel.GATHER:
        return []
    bodies = unpack_bodies(met.body)
    return [opened(body, attendance.number, attendance.finish) for body in bodies]


def _await_all(seat: Seat, channel: Channel, timeout: float | None) -> Frame:
    """Half way to the deadline, ask who is absent: the error shall name them."""
    member, what = seat.member, _WAITING_FOR[channel]
    attendance = member.attendances[channel]
    left = Deadline(timeout, seat.clock).remaining

    def obstacle() -> RefengineError | None:
        return member.unable_to_meet(channel, what)

    try:
        seat.wait(attendance.is_met, obstacle, None if timeout is None else timeout / 2, what)
    except DeadlinePassed:
        seat.link.post(pack(Kind.ASK, member.rank, channel, attendance.number))
        try:
            seat.wait(attendance.is_met, obstacle, left(), what)
        except DeadlinePassed:
            raise _too_late(seat, channel, timeout or 0) from None
    met = attendance.result()
    assert met is not None
    return met


def _too_late(seat: Seat, channel: Channel, seconds: float) -> DeadlinePassed:
    member = seat.member
    absent = member.attendances[channel].absent(member.world_size, member.rank)
    if not seat.link.reached():
        return DeadlinePassed(_host_to_answer(seat, channel, absent), seconds)
    if channel is Channel.BARRIER:
        return BarrierFailed(absent, seconds)
    purpose = "to join the group" if channel is Channel.START else "to give an object"
    return DeadlinePassed(f"{_ranks(absent)} {purpose}", seconds)


def _host_to_answer(seat: Seat, channel: Channel, absent: list[int]) -> str:
    """It may have been there, have told who else was missing, and have given up itself."""
    what = f"rank 0 at {seat.link.address} to answer"
    others = [rank for rank in absent if rank != 0]
    if seat.member.attendances[channel].who is None or not others:
        return what
    return f"{what}; before it gave up it missed {_ranks(others)}"


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
