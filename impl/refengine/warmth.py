"""Whether large messages go through the few chunks that caches hold, or round the whole ring.

The first way is up to three times as fast for most of the time. But a machine was seen to change,
for seconds, to a state in which it takes twice as long as the second: as if writer and reader did
not share a cache then, and each line of such a chunk had to be fetched out of the other's. Nobody
can be asked which it is: so it is seen by how fast chunks are filled.
"""

from collections import deque

_ENOUGH = 5e9
"""Bytes a second at which nothing else is tried."""
_BETTER = 2.0
"""Times as fast, so that the way is changed."""
_LATEST = 4
"""Messages of which the fastest counts: who is interrupted fills slowly."""
_STAYS = 64
"""Messages between two tries of the other way."""


class Warmth:
    """One writer's choice; see the module."""

    def __init__(self) -> None:
        self._settled = True
        self._speeds = deque[float](maxlen=_LATEST)
        self._left = _LATEST

    def next(self) -> bool:
        """Whether the next message is to go through chunks that caches hold."""
        tries = not self._left and not (self._settled and max(self._speeds) >= _ENOUGH)
        return self._settled ^ tries

    def filled(self, warm: bool, nbytes: int, seconds: float) -> None:
        """One has gone that way; so many bytes of it were filled in that time."""
        speed = nbytes / seconds if seconds > 0 else float("inf")
        if warm == self._settled:
            self._speeds.append(speed)
            self._left = max(0, self._left - 1)
            return
        self._left = _STAYS
        if speed > _BETTER * max(self._speeds):
            self._settled = warm
            self._speeds.append(speed)
