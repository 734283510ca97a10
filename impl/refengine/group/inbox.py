"""Receiving: the next object stays in its inbox until the call returns it (SPEC R9, X1)."""

from collections.abc import Callable
from typing import Any

from ..base.cleanup import reproduce_error
from ..base.serialization import decode, read_message
from ..errors import Busy, Undecodable
from .call_context import CallContext
from .protocol import Kind


def pop(context: CallContext, kind: Kind, src: int, timeout: float | None) -> Any:
    """Take and return the next object of this kind from rank `src`."""
    inbox = context.member.inboxes[kind, src]
    guard = inbox.guard
    what = f"{'an object' if kind is Kind.LETTER else 'a broadcast'} from rank {src}"
    if guard.held:
        guard.raise_busy(what)
    taken: memoryview | None = None
    try:
        if not guard.acquire(False):
            raise Busy(what)
        guard.held = True
        context.enter(what)
        context.wait(inbox.any, lambda: context.member.without(src, what), timeout, what)
        body = inbox.bodies[0]
        obj = decode_body(body, inbox.taken, inbox.drop)
        taken = body
        inbox.drop()
        guard.exit()
        return obj  # noqa: TRY300  an exception on the way out is one of those caught
    except BaseException:
        if taken is not None:
            inbox.restore(taken)  # it was not returned: the next call returns it
        guard.exit()
        raise


def decode_body(body: memoryview, number: int, consume: Callable[[], None]) -> Any:
    """Return the object of a body, decoded in the caller's own thread.

    Undecodable is raised once: then the object was consumed, and the next call gets the next one.
    An error that does not recur came from outside, and leaves the object where it is (R9).
    """
    try:
        return decode(read_message(body))
    except BaseException as error:
        if reproduce_error(lambda: decode(read_message(body))) is not type(error):
            raise
        consume()
        if isinstance(error, Exception):
            raise Undecodable(number) from error
        raise
