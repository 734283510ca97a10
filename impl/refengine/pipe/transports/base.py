"""A transport: the interface of its two halves, and the payload of None, which needs no transport."""

from typing import Any, Protocol

from ..protocol import Header, Kind
from ..send_queue import Snapshot


class SendTransport(Protocol):
    """The sending half. Called in the threads that send."""

    def nbytes(self, tensor: Any) -> int:
        """What its snapshot will take of the buffer."""
        ...

    def snapshot(self, tensor: Any, label: bytes) -> Snapshot:
        """Its bytes as they are now, whatever happens to it later (SPEC K5). None: no bytes.

        TensorRefused if it cannot be sent.
        """
        ...

    def close(self) -> None:
        """No more. May be said twice."""
        ...


class ReceiveTransport(Protocol):
    """Where the bytes of tensors are put, and how they become tensors."""

    def room(self, header: Header) -> memoryview:
        """For what follows this header by the link. Its metadata has been judged."""
        ...

    def tensor(self, header: Header, follows: memoryview) -> Any:
        """The tensor; called once all has come."""
        ...

    def close(self) -> None:
        """No more."""
        ...


_NOTHING = memoryview(b"")


class NonePayload:
    """A parcel without bytes."""

    def __init__(self, label: bytes) -> None:
        self._label = label

    def header(self, number: int) -> Header:
        """All there is to say."""
        return Header(Kind.NOTHING, number, label=self._label)

    def follows(self) -> memoryview:
        """No bytes."""
        return _NOTHING

    def beside(self) -> bool:
        """Nothing else is carried."""
        return False

    def free(self) -> None:
        """Nothing is held."""
