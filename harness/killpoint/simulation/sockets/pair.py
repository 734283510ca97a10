"""PAIR: two sockets that talk to each other alone; a send waits while the other's pipe is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from killpoint.simulation.sockets.socket import Socket

if TYPE_CHECKING:
    from killpoint.simulation.sockets.parts import Parts


class Pair(Socket):
    """One end of a pair."""

    kind = "PAIR"

    @property
    def takes_another(self) -> bool:
        """True while there is no connection: one at a time."""
        return not self.links

    def has_room(self) -> bool:
        """Return whether there is another side, with room (or a send would fail at once)."""
        if self.closed:
            return True
        for link in self.links:
            link.lane_from(self).outbox.listen()
        return any(link.lane_from(self).outbox.has_room() for link in self.links)

    def pass_on(self, parts: Parts, flags: int) -> None:
        """Send to the other side once there is room; at once if this side knows that there is."""
        if not any(self.finds_room(link.lane_from(self)) for link in self.links):
            limit = 0 if flags & zmq.NOBLOCK else self._options[zmq.SNDTIMEO]
            if limit == 0 or not self.network.wait(self.has_room, limit, f"room beyond {self}"):
                raise zmq.Again
        self._check()
        self.links[0].lane_from(self).post(parts)
        self.network.changed()
