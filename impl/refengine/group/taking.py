"""Taking the next object out of an inbox: it is there until the call returns it (SPEC R9, X1)."""

from typing import Any

from ..errors import Busy
from .frames import Kind
from .opening import opened
from .seat import Seat


def take_next(seat: Seat, kind: Kind, src: int, timeout: float | None) -> Any:
    """The next object of this kind from rank `src`."""
    inbox = seat.member.inboxes[kind, src]
    guard = inbox.guard
    what = f"{'an object' if kind is Kind.LETTER else 'a broadcast'} from rank {src}"
    if guard.held:
        guard.raise_busy(what)
    taken: memoryview | None = None
    try:
        if not guard.acquire(False):
            raise Busy(what)
        guard.held = True
        seat.enter(what)
        seat.wait(inbox.any, lambda: seat.member.without(src, what), timeout, what)
        body = inbox.bodies[0]
        obj = opened(body, inbox.taken, inbox.drop)
        taken = body
        inbox.drop()
        guard.exit()
        return obj  # noqa: TRY300  an exception on the way out is one of those caught
    except BaseException:
        if taken is not None:
            inbox.restore(taken)  # nobody got it: the next call gives it
        guard.exit()
        raise
