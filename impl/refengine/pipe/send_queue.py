"""The sender's state, without I/O: transfers that have room, and the order in which they leave.

A transfer asks for room; is granted it, in the order of asking; is handed in, with a snapshot of
its bytes; leaves; and its room is free again, whatever came of it (SPEC K2). Any thread asks,
hands in and withdraws, each by one append; all else belongs to the sender's thread. Every step
may be done again, so an exception between two of them loses nothing (SPEC R9).
"""

from collections import deque
from queue import SimpleQueue
from typing import Protocol

from .protocol import TEXT_MOST, Header, Kind

AT_ONCE_MOST = 1024
"""Most transfers under way, so that those without bytes are bounded, too."""


class Snapshot(Protocol):
    """A tensor's bytes as they were when it was sent, ready to go."""

    def header(self, number: int) -> Header:
        """Return the header that announces it as that transfer; raise if it cannot go."""
        ...

    def follows(self) -> memoryview:
        """Return the bytes that go by the link after the header."""
        ...

    def beside(self) -> bool:
        """Begin to send what does not go by the link; called once its header has left.

        Returns whether the receiver must confirm receipt before its memory is free.
        """
        ...

    def free(self) -> None:
        """Free its memory. May be called twice."""
        ...


class Failure:
    """Carries, in a tensor's place, the reason why there is none (SPEC K3)."""

    def __init__(self, reason: str) -> None:
        self._text = memoryview(reason.encode()[:TEXT_MOST])

    def header(self, number: int) -> Header:
        """Return the header of the reason."""
        return Header(Kind.FAILED, number, follows=len(self._text))

    def follows(self) -> memoryview:
        """Return the reason."""
        return self._text

    def beside(self) -> bool:
        """Return False: all goes by the link."""
        return False

    def free(self) -> None:
        """Do nothing: it holds no memory."""


class Transfer:
    """One tensor on its way through the sender."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.news: SimpleQueue[None] = SimpleQueue()
        """Gets an item when room was considered, when it was granted, and when it never will be."""
        self.considered = False
        """True once the sender's thread has found no room for it."""
        self.withdrawn = False
        self.snapshot: Snapshot | None = None


class SendQueue:
    """The transfers of one sender."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._asked: deque[Transfer] = deque()
        self._granted: dict[Transfer, None] = {}
        self._handed_in: deque[Transfer] = deque()
        self._withdrawn: deque[Transfer] = deque()
        self.current: Transfer | None = None
        self.number = 0
        """Number of the next transfer to leave; also how many have left or failed."""

    # -- any thread -------------------------------------------------------------------------

    def nbytes(self) -> int:
        """Return the bytes of all transfers that have room."""
        return sum(transfer.nbytes for transfer in list(self._granted))

    def unsent(self) -> int:
        """Return the number of transfers that were handed in and have not left."""
        return len(self._handed_in) + (self.current is not None)

    def ask(self, transfer: Transfer) -> None:
        """Queue for room."""
        self._asked.append(transfer)

    def has(self, transfer: Transfer) -> bool:
        """Return whether a transfer has room."""
        return transfer in self._granted

    def hand_in(self, transfer: Transfer, snapshot: Snapshot) -> None:
        """Pass a transfer to the sender's thread."""
        transfer.snapshot = snapshot
        self._handed_in.append(transfer)

    def withdraw(self, transfer: Transfer) -> None:
        """Ask for a transfer not to be sent, unless it is leaving already."""
        transfer.withdrawn = True
        self._withdrawn.append(transfer)

    # -- the sender's thread ----------------------------------------------------------------

    def advance(self) -> Transfer | None:
        """Grant what there is room for; return the transfer that leaves now, if there is one."""
        while self._withdrawn:
            if self._withdrawn[0] is not self.current:
                self._let_go(self._withdrawn[0])
            self._withdrawn.popleft()
        while self._asked:
            first = self._asked[0]
            if not first.withdrawn:
                if not self.has(first) and not self._fits(first):
                    break
                self._granted[first] = None
                first.news.put(None)
            self._asked.popleft()
        for transfer in list(self._asked):
            if not transfer.considered:
                transfer.considered = True
                transfer.news.put(None)
        while self.current is None and self._handed_in:
            first = self._handed_in[0]
            if self.has(first) and not first.withdrawn:
                self.current = first
            self._handed_in.popleft()
        return self.current

    def done(self) -> None:
        """Free the room of the current transfer: it has left, or failed."""
        current = self.current
        if current is not None:
            self._let_go(current)
            self.current = None
            self.number += 1

    def end(self) -> None:
        """Drop all transfers and wake their callers: nothing leaves any more."""
        for transfer in [*self._asked, *self._granted, *self._handed_in]:
            self._let_go(transfer)
            transfer.news.put(None)
        self._asked.clear()
        self._handed_in.clear()
        self._withdrawn.clear()
        self.current = None

    def _fits(self, transfer: Transfer) -> bool:
        held = self._granted
        if len(held) >= AT_ONCE_MOST:
            return False
        used = self.nbytes()
        return used == 0 or used + transfer.nbytes <= self._limit

    def _let_go(self, transfer: Transfer) -> None:
        if transfer.snapshot is not None:
            transfer.snapshot.free()
        self._granted.pop(transfer, None)


class PartialWrite:
    """A header and its payload on their way into a link, without I/O.

    `written` grows by the bytes that the link took each time; nothing else changes (SPEC R9).
    """

    def __init__(self, header: bytes, follows: memoryview) -> None:
        self._header, self._follows = memoryview(header), follows
        self.written: list[int] = []

    def rest(self) -> memoryview:
        """Return what goes next, header and payload apart; empty once all has gone."""
        written = sum(self.written)
        self.written = [written]
        head = len(self._header)
        return self._header[written:] if written < head else self._follows[written - head :]
