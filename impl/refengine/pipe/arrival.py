"""What has come of the next transfer: the receiver's state, without any I/O.

It stays where it is between calls, so a call that gives up, or is struck, changes nothing, and
the next one goes on (SPEC X1, R9).
"""

from typing import Any, Protocol

from .frames import HEADER_BYTES, Header, Kind


class Inlet(Protocol):
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


class Filling:
    """Memory that fills from its beginning. `came` grows by what comes each time."""

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self.came: list[int] = []

    def missing(self) -> memoryview:
        """Where the next bytes belong; empty once all have come."""
        have = sum(self.came)
        self.came = [have]
        return self.memory[have:]


class Arrival:
    """Transfer `number`, as far as it has come."""

    def __init__(self, number: int, key: bytes, most: int) -> None:
        self.number = number
        self._key, self._most = key, most
        self._head = Filling(memoryview(bytearray(HEADER_BYTES)))
        self._body: Filling | None = None
        self.header: Header | None = None

    def filling(self, inlet: Inlet) -> Filling:
        """What fills now; if nothing of it is missing, all has come. May raise MetadataRefused."""
        if self._body is None:
            if len(self._head.missing()):
                return self._head
            header = Header.unpack(self._head.memory, self._key, self.number, self._most)
            self.header = header
            self._body = Filling(self._room(header, inlet))
        return self._body

    def _room(self, header: Header, inlet: Inlet) -> memoryview:
        if header.kind is Kind.TENSOR:
            return inlet.room(header)
        return memoryview(bytearray(header.follows))
