"""What a waiting strategy is given, and what it must do."""

from collections.abc import Callable
from typing import Protocol

from ..errors import RefengineError

Fault = Callable[[str], RefengineError]
"""Makes a fresh error for the thing waited for."""


class Post(Protocol):
    """The place where a party waits: its sleeper flag, its bell, its peers."""

    waiting_for: str

    def arm(self) -> None:
        """Store the sleeper flag, then fence; look once more before blocking."""
        ...

    def block(self, seconds: float | None) -> None:
        """Sleep until the bell, a peer's end, a cancel, or that long; zero only looks."""
        ...

    def fault(self) -> Fault | None:
        """Why waiting is pointless, as last seen by `block`."""
        ...


class Waiting(Protocol):
    """Waits until `look()` is true.

    Returns False once `timeout` seconds have passed (never earlier; zero or less: one look).
    Raises the post's fault, but only after a look that came later than the fault.
    """

    def wait(self, look: Callable[[], bool], post: Post, timeout: float | None) -> bool:
        """See the class."""
        ...


def last_look(look: Callable[[], bool], post: Post) -> bool:
    """The look at a deadline: news of peers first, then the slot, then the fault."""
    post.block(0)
    if look():
        return True
    raise_fault(post)
    return False


def raise_fault(post: Post) -> None:
    """Raise the post's fault, if any."""
    fault = post.fault()
    if fault is not None:
        raise fault(post.waiting_for)
