"""What has come of the next transfer: the receiver's state, without any I/O.

It stays where it is between calls, so a call that gives up, or is struck, changes nothing, and
the next one goes on (SPEC X1, R9).
"""

from typing import Any, Protocol

from .frames import HEADER_BYTES, TEXT_MOST, Header, Kind


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


class Arrival:
    """Transfer `number`, as far as it has come."""

    def __init__(self, number: int, key: bytes, most: int) -> None:
        self.number = number
        self._key, self._most = key, most
        self._head = memoryview(bytearray(HEADER_BYTES))
        self.header: Header | None = None
        self.follows: memoryview | None = None
        self.came: list[int] = []
        """How many bytes came at a time, of the header or of what follows it."""

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return bool(self.came) or self.header is not None

    def wanted(self, inlet: Inlet) -> memoryview:
        """Where the next bytes belong; empty once all has come. May raise MetadataRefused."""
        if self.header is None:
            missing = self._missing(self._head)
            if len(missing):
                return missing
            header = Header.unpack(self._head, self._key, self.number, self._most)
            self.came = []
            self.header = header
        if self.follows is None:
            self.follows = self._room(self.header, inlet)
        return self._missing(self.follows)

    def _missing(self, whole: memoryview) -> memoryview:
        have = sum(self.came)
        self.came = [have]
        return whole[have:]

    def _room(self, header: Header, inlet: Inlet) -> memoryview:
        if header.kind is Kind.TENSOR:
            return inlet.room(header)
        return memoryview(bytearray(min(header.follows, TEXT_MOST)))
