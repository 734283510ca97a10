"""Sockets that publish to their subscribers, without ever waiting."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import zmq

from killpoint.simulation.sockets.parts import Parts, shown
from killpoint.simulation.sockets.socket import Socket

if TYPE_CHECKING:
    from killpoint.simulation.sockets.link import Link
    from killpoint.simulation.sockets.network import Network

SUBSCRIBE, UNSUBSCRIBE = b"\1", b"\0"


class Publisher(Socket):
    """PUB socket. A message goes to each subscriber that has room for it; for others it is lost."""

    kind = "PUB"
    receives = False

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._subscribers: dict[bytes, list[Link]] = {}

    def pass_on(self, parts: Parts, flags: int) -> None:
        """Send to the subscribers whose topic the message begins with."""
        del flags
        start = bytes(parts[0])
        for link in list(self.links):
            lane = link.lane_from(self)
            if not any(start.startswith(t) and link in s for t, s in self._subscribers.items()):
                if self.network.world.recording:
                    away = f"{lane.destination} has not subscribed to it"
                    self.network.world.note(f"has nothing to say by its {self.kind}: {away}")
                continue
            if self.finds_room(lane):
                lane.post(parts)
            else:
                lost = f"{shown(parts)} from {self} for {lane.destination}: no room for it"
                self.network.dropped.append(lost)
                if self.network.world.recording:
                    self.network.world.note(f"drops {lost}")
        self.network.changed()

    def arrived(self, link: Link) -> None:
        """Process a subscription, or the end of one."""
        inbox = link.lane_to(self).inbox
        while inbox:
            request = bytes(inbox.take()[0])
            if request[:1] == SUBSCRIBE:
                self._subscribe(link, request[1:])
            elif request[:1] == UNSUBSCRIBE:
                self._unsubscribe(link, request[1:])

    def parted(self, link: Link) -> None:
        """Remove the subscriptions of a closed connection."""
        self.links.remove(link)
        for topic in list(self._subscribers):
            self._unsubscribe(link, topic)

    def told(self, request: bytes) -> None:
        """Take a request for the receiver at this socket; a PUB socket has none."""

    def _subscribe(self, link: Link, topic: bytes) -> None:
        known = self._subscribers.setdefault(topic, [])
        fresh = not known
        if link not in known:
            known.append(link)
        if fresh or self._options[zmq.XPUB_VERBOSE]:
            self.told(SUBSCRIBE + topic)

    def _unsubscribe(self, link: Link, topic: bytes) -> None:
        known = self._subscribers.get(topic, [])
        if link in known:
            known.remove(link)
            if not known:
                del self._subscribers[topic]
                self.told(UNSUBSCRIBE + topic)


class OpenPublisher(Publisher):
    """XPUB socket: it shows subscriptions, unless verbose each topic's first and last only."""

    kind = "XPUB"
    receives = True

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._requests: deque[Parts] = deque()

    def told(self, request: bytes) -> None:
        """Keep the request for a receive."""
        self._requests.append((request,))

    def has_message(self) -> bool:
        """Return whether a request is waiting (or a receive would fail at once)."""
        return self.closed or bool(self._requests)

    def take(self) -> Parts:
        """Return the oldest request."""
        if not self._requests:
            raise zmq.Again
        return self._requests.popleft()
