"""The host's side: lines to all others, and one thread that routes, its own member's frames too.

Callers and lines only put into a queue whose `put` is one step, so that an exception that strikes
a caller anywhere leaves the router whole (SPEC R9).
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from ..base.cleanup import ReleaseStack
from ..base.clock import Clock
from ..base.security import Keys, SocketFactory
from ..transport import Gone, Server
from .meeting import Post
from .member import Member
from .router import Router

_log = logging.getLogger(__name__)
_STOPPED = 1.0
_ANSWERED = 10.0


class Hosting:
    """The link of rank 0. Feeds `member`, and everybody else's through the hub."""

    def __init__(
        self,
        host: str,
        port: int,
        keys: Keys,
        member: Member,
        *,
        sockets: SocketFactory,
        clock: Clock,
        silence: float,
    ) -> None:
        self._member, self._clock = member, clock
        self._router = Router(member.world_size)
        self._work: SimpleQueue[Callable[[], list[Post]] | None] = SimpleQueue()
        self._quiet = threading.Event()
        ranks = range(1, member.world_size)
        seams = {"sockets": sockets, "clock": clock, "silence": silence, "unsaid": self.unsaid}
        hub = partial(Server, host, port, ranks, keys, self, **seams)
        undo = ReleaseStack()
        try:
            undo.callback(self._work.put, None)
            self._hub = undo.acquire(Server.take_back, hub)
            self.address = self._hub.address
            self._thread = threading.Thread(target=self._serve, name="Hosting", daemon=True)
            self._thread.start()
        except BaseException:
            undo.close()
            raise

    def post(self, frame: bytes | bytearray) -> None:
        """A frame of our own member."""
        self._work.put(lambda: self._router.hear(0, frame))

    def reached(self) -> bool:
        """We are here."""
        return True

    def settle(self, within: float) -> None:
        """See `Link`: we are, with the last rank to come."""

    def take_back(self) -> bool:
        """See `Link`: not once all had come, for some may go on from that."""
        answer: SimpleQueue[bool] = SimpleQueue()

        def withdraw() -> list[Post]:
            posts = self._router.unsaid(0)
            answer.put(self._router.whole)
            return posts

        self._work.put(withdraw)
        try:
            whole = answer.get(timeout=_ANSWERED)
        except Empty:
            whole = False
        if not whole:
            self._hub.take_back()
            self._work.put(None)
            self._thread.join(_STOPPED)
        return not whole

    def close(self, seconds: float) -> None:
        """Linger until all was passed on that others sent before they knew (SPEC G4)."""
        by = self._clock() + seconds
        self._work.put(self._router.leave)
        self._quiet.wait(seconds * 0.75)
        self._hub.close(max(0.0, by - self._clock()))
        self._work.put(None)
        self._thread.join(_STOPPED)

    # -- from the lines ---------------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """A member's line."""
        self._work.put(lambda: self._router.arrived(rank))

    def unsaid(self, rank: int) -> None:
        """A member has not come after all."""
        self._work.put(lambda: self._router.unsaid(rank))

    def message(self, rank: int, body: memoryview) -> None:
        """A frame from a member."""
        self._work.put(lambda: self._router.hear(rank, body))

    def gone(self, rank: int, how: Gone) -> None:
        """A member's end."""
        self._work.put(lambda: self._router.gone(rank, how))

    def broken(self, rank: int) -> None:
        """A member that may be dead already, or come back."""
        self._work.put(lambda: self._router.broken(rank))

    def back(self, rank: int) -> None:
        """It has come back."""
        self._work.put(lambda: self._router.back(rank))

    def refused(self, rank: int, reason: str) -> None:
        """Somebody with the key wanted what is not to be had; it was told so."""
        _log.warning("rank %d was refused: %s", rank, reason)

    # -- the thread -------------------------------------------------------------------------

    def _serve(self) -> None:
        leaving = settled = False
        while (step := self._work.get()) is not None:
            leaving = leaving or step == self._router.leave
            try:
                for rank, frame in step():
                    if rank == 0:
                        self._member.hear(frame)
                    else:
                        self._hub.post(rank, frame)
            except Exception:
                _log.exception("a frame could not be passed on")
            if self._router.whole and not settled:
                self._hub.settle()
                settled = True
            if leaving and self._router.quiet:
                self._quiet.set()
