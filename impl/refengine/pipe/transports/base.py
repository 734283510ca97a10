"""Interface of a transport's two halves, and the snapshot of None, which needs no transport."""

from typing import Any, Protocol

from ..protocol import Header, Kind
from ..send_queue import Snapshot


class SendTransport(Protocol):
    """The sending half. Called in the threads that send."""

    def nbytes(self, tensor: Any) -> int:
        """Return the bytes that a tensor's snapshot will take of the buffer."""
        ...

    def snapshot(self, tensor: Any, label: bytes) -> Snapshot:
        """Return a tensor's bytes as they are now, whatever happens to it later (SPEC K5).

        None has no bytes. TensorRefused if it cannot be sent.
        """
        ...

    def close(self) -> None:
        """Release everything. May be called twice."""
        ...


class ReceiveTransport(Protocol):
    """The receiving half: memory for the bytes of tensors, and tensors made of them."""

    def room(self, header: Header) -> memoryview:
        """Return memory for what follows this header by the link; its metadata has been checked."""
        ...

    def tensor(self, header: Header, follows: memoryview) -> Any:
        """Return the tensor; called once all has come."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


_NOTHING = memoryview(b"")


class NonePayload:
    """Snapshot of None: no bytes."""

    def __init__(self, label: bytes) -> None:
        self._label = label

    def header(self, number: int) -> Header:
        """Return the header, which is all."""
        return Header(Kind.NOTHING, number, label=self._label)

    def follows(self) -> memoryview:
        """Return no bytes."""
        return _NOTHING

    def beside(self) -> bool:
        """Return False: all goes by the link."""
        return False

    def free(self) -> None:
        """Do nothing: it holds no memory."""
