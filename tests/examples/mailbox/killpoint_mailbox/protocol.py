"""What a target has to have for the capability ``mailbox``."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class HasMailbox(Protocol):
    """A mailbox, its owner's end and its posters'."""

    def mailbox_open(self) -> Any:
        """Return the owner's end."""
        ...

    def mailbox_handle(self, end: Any) -> bytes:
        """Return what another process needs to connect."""
        ...

    def mailbox_connect(self, handle: bytes) -> Any:
        """Return a poster's end."""
        ...

    def mailbox_post(self, end: Any, letter: bytes) -> None:
        """Post a letter."""
        ...

    def mailbox_take(self, end: Any, timeout: float) -> bytes:
        """Return the next letter.

        Raises:
            TimeoutError: none came; ConnectionError: a poster died.
        """
        ...

    def mailbox_close(self, end: Any) -> None:
        """Close an end of either kind."""
        ...
