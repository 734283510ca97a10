"""A bounded one-way queue of messages, with the accounting of room that libzmq has.

Whoever fills a pipe knows how much was taken out of it only from what the other side says, and
that speaks once for every half of the limit. So a pipe may be empty, and its sender think it
full.
"""

from __future__ import annotations

from collections import deque

from killpoint.simulation.sockets.parts import Parts


class Pipe:
    """One direction between two parties; ``high_water`` 0: no limit.

    ``conflate``: it keeps the newest message only, and is never full.
    """

    def __init__(self, high_water: int, conflate: bool = False) -> None:
        self._messages: deque[Parts] = deque(maxlen=1 if conflate else None)
        self._high = 0 if conflate else high_water
        self._low = (high_water + 1) // 2
        self._put = 0
        self._taken = 0
        self._told = 0
        """How many the taker has said were taken."""
        self._heard = 0
        """How many of those the sender has heard of."""

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def head(self) -> Parts:
        """The oldest message."""
        return self._messages[0]

    def has_room(self) -> bool:
        """Whether its sender thinks that there is room."""
        return not self._high or self._put - self._heard < self._high

    def has_news(self) -> bool:
        """Whether its sender would think otherwise if it listened."""
        return not self.has_room() and self._told > self._heard

    def listen(self) -> None:
        """The sender hears what the taker has said."""
        self._heard = self._told

    def put(self, parts: Parts) -> None:
        """A message goes in; the caller has made sure that there is room."""
        self._messages.append(parts)
        self._put += 1

    def take(self) -> Parts:
        """The oldest message goes out."""
        self._taken += 1
        if self._low and self._taken % self._low == 0:
            self._told = self._taken
        return self._messages.popleft()

    def clear(self) -> None:
        """What is in it is gone."""
        self._messages.clear()
