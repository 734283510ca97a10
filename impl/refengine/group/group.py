"""The stateless process group: objects from rank to rank, by way of rank 0 (SPEC 4).

Each rank: `with Group.create(host, port, rank, world_size, key=key) as group: ...`, where `key` is
what `new_key()` gave to one of them, and only members have. Rank 0 listens at `host`, an address
of its own machine, and only there; the others connect to it.

A member takes in at once what is sent to it, so no send ever waits for anybody, and what a
program does not take stays in its memory. Any number of threads may send; two that receive from
one source, or meet for the same thing, at once: one of them raises Busy. If a signal handler
raises inside a call, it had no effect, or all of it. That goes for `create`, too: to the others
it is as if this rank had not come yet.
"""

import os
from functools import partial
from multiprocessing.util import Finalize
from typing import Any, Self, TypedDict, Unpack

from ..base.cleanup import ReleaseStack, append_atomically, close_collected
from ..base.clock import Clock, monotonic
from ..base.security import Keys, SocketFactory
from .barrier import wait_all
from .call_context import CallContext, OrphanedGroups
from .connection import Link, MemberConnection
from .host import HostServer
from .inbox import pop
from .member import Member
from .protocol import Channel, Kind, pack_object

_EXIT_SECONDS = 2.0
_PEER_TIMEOUT = 10.0


def new_key() -> bytes:
    """A key for one group. Hand it to its members only; it never shows in a repr or an error."""
    return Keys.fresh().secret


class Overrides(TypedDict, total=False):
    """Seconds that a rank may be cut off; sockets and clock of tests and simulations."""

    peer_timeout: float
    sockets: SocketFactory
    clock: Clock


class Group:
    """One rank's membership, made by `create`; or in two steps, so that port 0 can be used.

    Rank 0: `group = Group(host, 0, 0, n, key=key)`, pass the port in `group.address` to the others,
    then `group.wait_until_ready(60)`.

    Objects sent before a rank left or died arrive; after that, calls that need that rank raise:
    RankDied (killed), PeerSilent (cut off), GroupClosed (left). The others go on, unless it is
    rank 0, by way of which everything goes. A sender learns of it at its next call.
    """

    def __init__(
        self,
        host: str,
        port: int,
        rank: int,
        world_size: int,
        *,
        key: bytes,
        **overrides: Unpack[Overrides],
    ) -> None:
        _check(port, rank, world_size)
        peer_timeout, clock = (
            overrides.get("peer_timeout", _PEER_TIMEOUT),
            overrides.get("clock", monotonic),
        )
        parts = Keys.from_secret(key), Member(rank, world_size)
        bare = host.removeprefix("[").removesuffix("]")
        sockets = overrides.get("sockets") or SocketFactory()
        if rank == 0:
            make = partial(HostServer, bare, port)
        else:
            address = f"tcp://[{bare}]:{port}" if ":" in bare else f"tcp://{bare}:{port}"
            make = partial(MemberConnection, address)
        make = partial(make, *parts, sockets=sockets, clock=clock, peer_timeout=peer_timeout)
        undo = ReleaseStack()
        try:
            self._context = CallContext(parts[1], undo.acquire(_drop, make), clock)
            # Runs at collection, at exit, and in multiprocessing children, which skip atexit.
            closing = self._context.close, _EXIT_SECONDS
            self._finalizer = Finalize(self, close_collected, closing, exitpriority=20)
        except BaseException:
            undo.close()  # its threads would listen, or connect, for ever (R9)
            raise

    @classmethod
    def create(
        cls,
        host: str,
        port: int,
        rank: int,
        world_size: int,
        *,
        key: bytes,
        timeout: float | None = 300.0,
        **overrides: Unpack[Overrides],
    ) -> Self:
        """Become a member; returns once all ranks are. DeadlinePassed names the absent ones.

        If it raises, it can be called again, at any time before all ranks have come. Once they
        have, and others may be at work, they wait for a rank whose call was interrupted at its
        very end for `peer_timeout` seconds: then it has left.
        """
        place = os.getpid(), cls, host, port, rank, world_size, key
        made: list[Self] = []
        try:
            group = _orphaned.find(place)
            if group is None:
                append_atomically(
                    made, partial(cls, host, port, rank, world_size, key=key, **overrides)
                )
                group = made[0]
            group.wait_until_ready(timeout)
            _orphaned.remove(place)
            return group  # noqa: TRY300  an exception on the way out is one of those caught
        except BaseException:
            for group in made:
                if not group._take_back():
                    _orphaned.add(place, group)
            _orphaned.start_timer(place, overrides.get("peer_timeout", _PEER_TIMEOUT))
            raise

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return self._context.member.rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._context.member.world_size

    @property
    def address(self) -> str:
        """Address at which rank 0 listens, such as `tcp://127.0.0.1:4242`."""
        return self._context.link.address

    def wait_until_ready(self, timeout: float | None = 300.0) -> None:
        """Wait until every rank has joined (collective); may be called again after a deadline."""
        context = self._context
        if not context.ready:
            if not context.member.tickets[Channel.START].number:  # it can be struck after that
                wait_all(context, Channel.START, None, timeout)
            context.begin()

    def send_obj(self, obj: object, dst: int) -> None:
        """Send to rank `dst`, without waiting for it."""
        self._check_other(dst)
        self._context.enter("send_obj")
        self._send(pack_object(Kind.LETTER, self.rank, dst, 0, obj), dst)

    def recv_obj(self, src: int, timeout: float | None = None) -> Any:
        """Return the next object that rank `src` sent to this one."""
        self._check_other(src)
        return pop(self._context, Kind.LETTER, src, timeout)

    def broadcast_obj(self, obj: object, src: int, timeout: float | None = None) -> Any:
        """At rank `src`: send `obj` to all others. Elsewhere: return the next object it sent so."""
        if src != self.rank:
            self._check_other(src)
            return pop(self._context, Kind.CAST, src, timeout)
        self._context.enter("broadcast_obj")
        self._send(pack_object(Kind.CAST, src, 0, 0, obj), None)
        return obj

    def all_gather_obj(self, obj: object, timeout: float | None = None) -> list[Any]:
        """Return every rank's object, in rank order.

        A rank that gives up takes its object back, unless the others have received it already: then
        its next call returns what they got.
        """
        return wait_all(self._context, Channel.GATHER, obj, timeout)

    def barrier(self, timeout: float | None = 30.0) -> None:
        """Return once every rank has called it; BarrierFailed names those that have not.

        After that it can be called again, for the same barrier. If the others were released
        while this rank gave up, that call returns at once.
        """
        wait_all(self._context, Channel.BARRIER, None, timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Leave, within about `timeout`: hand over what was sent, say goodbye. Idempotent.

        Rank 0 lingers until the others have taken in what was sent to them, by it or through it.
        """
        self._context.close(timeout)
        self._finalizer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take_back(self) -> bool:
        """Leave as if this rank had never joined; False once all ranks have joined."""
        if not self._context.take_back():
            return False
        self._finalizer.cancel()
        return True

    def _send(self, frame: bytearray, dst: int | None) -> None:
        """Check before and after: rank 0 may have left just before it could pass the frame on."""
        member = self._context.member
        error = member.unable_to_send(dst, "a way to send")
        if error is None:
            self._context.link.post(frame)
            error = member.unable_to_send(None, "a way to send")
        if error is not None:
            raise error

    def _check_other(self, rank: int) -> None:
        if not 0 <= rank < self.world_size or rank == self.rank:
            raise ValueError(
                f"{rank} is no other rank: this is {self.rank} of 0 to {self.world_size - 1}"
            )


_orphaned: OrphanedGroups[Any] = OrphanedGroups()


def _drop(link: Link) -> None:
    link.take_back()


def _check(port: int, rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not below the world size {world_size}")
    if not 0 <= port < 1 << 16 or (port == 0 and rank != 0):
        raise ValueError(f"{port} is no port that rank {rank} can use; only rank 0 can have 0")
