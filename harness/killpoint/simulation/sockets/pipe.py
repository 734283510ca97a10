"""A bounded one-way queue of messages, with the accounting of room that libzmq has.

The sender knows the number of messages taken only from the receiver's reports, of which there is
one for every half of the limit. So a pipe may be empty while its sender takes it for full.
"""

from __future__ import annotations

from collections import deque

from killpoint.simulation.sockets.parts import Parts


class Pipe:
    """Pipe of one direction between two parties; ``high_water`` 0: no limit.

    ``conflate``: it keeps the newest message only, and is never full.
    """

    def __init__(self, high_water: int, conflate: bool = False) -> None:
        self._messages: deque[Parts] = deque(maxlen=1 if conflate else None)
        self._high = 0 if conflate else high_water
        self._low = (high_water + 1) // 2
        self._put = 0
        self._taken = 0
        self._told = 0
        """Number of messages that the receiver has reported as taken."""
        self._heard = 0
        """Number of those of which the sender has processed the report."""

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def head(self) -> Parts:
        """Oldest message."""
        return self._messages[0]

    def has_room(self) -> bool:
        """Return whether there is room, as far as the sender knows."""
        return not self._high or self._put - self._heard < self._high

    def has_news(self) -> bool:
        """Return whether a report that the sender has not processed would make room."""
        return not self.has_room() and self._told > self._heard

    def listen(self) -> None:
        """Process the receiver's reports at the sender."""
        self._heard = self._told

    def put(self, parts: Parts) -> None:
        """Add a message; the caller has made sure that there is room."""
        self._messages.append(parts)
        self._put += 1

    def take(self) -> Parts:
        """Remove and return the oldest message."""
        self._taken += 1
        if self._low and self._taken % self._low == 0:
            self._told = self._taken
        return self._messages.popleft()

    def clear(self) -> None:
        """Drop all messages."""
        self._messages.clear()
