"""What a transport gives a pipe: an outlet that takes snapshots, an inlet that makes tensors."""

from typing import Any, Protocol

from ..arrival import Inlet
from ..outgoing import Parcel


class Outlet(Protocol):
    """The sending half. Called in the threads that send."""

    def nbytes(self, tensor: Any) -> int:
        """What its snapshot will take of the buffer."""
        ...

    def snapshot(self, tensor: Any, label: bytes) -> Parcel:
        """Its bytes as they are now, whatever happens to it later (SPEC K5). None: no bytes.

        TensorRefused if it cannot be sent.
        """
        ...

    def close(self) -> None:
        """No more. May be said twice."""
        ...


__all__ = ["Inlet", "Outlet"]
