"""One line, without any I/O: numbering, what must be sent again, what was had before (SPEC X2).

Messages have numbers 0, 1, 2, … in each direction. A message is kept until the far end says that
it has received it; after a break both sides say how many they have had, and go on from there.
"""

from collections import deque
from collections.abc import Iterator

Body = bytes | bytearray


class Line:
    """One end's view of both directions.

    Until it is `settled`, the far end is told of nothing as received, and so keeps it: our coming
    may still be taken back, and then whoever comes in our place gets all of it.
    """

    def __init__(self, *, settled: bool = True) -> None:
        self.settled = settled
        self.posted = 0
        self.received = 0
        self._kept: deque[Body] = deque()
        self._first = 0  # the number of the first one kept
        self._cursor = 0  # the number to be sent next on this connection
        self._told = 0  # the count that the far end was told last

    def post(self, body: Body) -> None:
        """Number a message and keep it. It must not change any more."""
        self._kept.append(body)
        self.posted += 1

    def due(self) -> Iterator[tuple[int, Body]]:
        """What has not been sent on this connection; sent once it was asked for."""
        while self._cursor < self.posted:
            number = self._cursor
            self._cursor += 1
            yield number, self._kept[number - self._first]

    def resume(self, had: int) -> bool:
        """A new connection, whose far end has had so many; False if that cannot be."""
        if not self._first <= had <= self.posted:
            return False
        self.confirm(had)
        self._cursor = had
        self._told = self.had
        return True

    def start_over(self) -> bool:
        """The far end never came, and another may; False if it has confirmed something."""
        if self._first:
            return False
        self.received = self._cursor = self._told = 0
        return True

    def confirm(self, had: int) -> None:
        """The far end has had so many; they are not kept any longer."""
        while self._first < min(had, self.posted):
            self._kept.popleft()
            self._first += 1
        self._cursor = max(self._cursor, self._first)

    @property
    def had(self) -> int:
        """How many the far end may be told we have had."""
        return self.received if self.settled else 0

    @property
    def handed_over(self) -> bool:
        """Whether the far end has had all that was posted."""
        return self._first == self.posted

    def take(self, number: int) -> bool:
        """Whether this is the next message; a repeated one is not, nor one after a gap."""
        if number != self.received:
            return False
        self.received += 1
        return True

    def receipt(self) -> int | None:
        """The count to tell the far end, if it does not know it yet."""
        if self._told == self.had:
            return None
        self._told = self.had
        return self.had
