"""One session, without any I/O: numbers, messages to send again, messages had before (SPEC X2).

Messages have numbers 0, 1, 2, … in each direction. A message is kept until the peer confirms
it; after a break both sides say how many messages they have received, and go on from there.
"""

from collections import deque
from collections.abc import Iterator

Body = bytes | bytearray


class Session:
    """One end's view of both directions.

    Until it is `settled`, nothing is confirmed to the peer, which so keeps its messages: this end
    may still withdraw, and then the party that comes in its place gets all of them.
    """

    def __init__(self, *, settled: bool = True) -> None:
        self.settled = settled
        self.posted = 0
        self.received = 0
        self._kept: deque[Body] = deque()
        self._first = 0  # the number of the first one kept
        self._cursor = 0  # the number to be sent next on this connection
        self._told = 0  # the count that was confirmed to the peer last

    def post(self, body: Body) -> None:
        """Number a message and keep it. It must not change any more."""
        self._kept.append(body)
        self.posted += 1

    def due(self) -> Iterator[tuple[int, Body]]:
        """Yield messages not yet sent on this connection; each counts as sent once yielded."""
        while self._cursor < self.posted:
            number = self._cursor
            self._cursor += 1
            yield number, self._kept[number - self._first]

    def resume(self, had: int, told: int | None = None) -> bool:
        """Begin a new connection, whose peer has received `had`; return False if that cannot be.

        A hello may be overtaken: while it is on its way, messages and receipts still arrive by the
        connection before. So `had` may be less than what was confirmed since, and the peer knows no
        more than `told`, the count in the frame that it got (all that is had now, if None).
        """
        if had > self.posted:
            return False
        self.confirm(had)
        self._cursor = max(had, self._first)
        self._told = self.had if told is None else told
        return True

    def start_over(self) -> bool:
        """Start over for another peer; return False if this one has confirmed something."""
        if self._first:
            return False
        self.received = self._cursor = self._told = 0
        return True

    def confirm(self, had: int) -> None:
        """Drop messages that the peer has received: `had` in all."""
        while self._first < min(had, self.posted):
            self._kept.popleft()
            self._first += 1
        self._cursor = max(self._cursor, self._first)

    @property
    def had(self) -> int:
        """Number of received messages that may be confirmed to the peer."""
        return self.received if self.settled else 0

    @property
    def handed_over(self) -> bool:
        """True if the peer has received all that was posted."""
        return self._first == self.posted

    def take(self, number: int) -> bool:
        """Take message `number`; return False for a repeated one, and for one after a gap."""
        if number != self.received:
            return False
        self.received += 1
        return True

    def receipt(self) -> int | None:
        """Return the count to confirm, if the peer does not know it yet."""
        if self._told == self.had:
            return None
        self._told = self.had
        return self.had
