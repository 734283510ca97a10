"""SUB: its subscriptions travel to the publisher, and take effect when they arrive there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import zmq

from killpoint.simulation.sockets.monitor import Monitor
from killpoint.simulation.sockets.publishing import SUBSCRIBE, UNSUBSCRIBE
from killpoint.simulation.sockets.socket import Socket

if TYPE_CHECKING:
    from killpoint.simulation.sockets.link import Link
    from killpoint.simulation.sockets.network import Network


class Subscriber(Socket):
    """SUB socket: receives messages that begin with one of its topics."""

    kind = "SUB"
    sends = False

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._topics: Counter[bytes] = Counter()
        self._monitor: Monitor | None = None

    def get_monitor_socket(self, events: int = zmq.Event.ALL) -> Monitor:
        """Return the socket that reports the ends of its connections.

        Raises:
            NotImplementedError: another event was asked for.
        """
        if events != zmq.Event.DISCONNECTED:
            raise NotImplementedError("simulated connections tell of their ends alone")
        self._monitor = self._monitor or Monitor(self.network)
        return self._monitor

    def disable_monitor(self) -> None:
        """Stop the reports."""
        self._monitor = None

    def parted(self, link: Link) -> None:
        """Handle the close of the other end as any socket does, and report it to the monitor."""
        super().parted(link)
        if self._monitor is not None:
            self._monitor.tell_of_end()

    @property
    def conflates(self) -> bool:
        """True if the option ``CONFLATE`` is set."""
        return bool(self._options[zmq.CONFLATE])

    def setsockopt(self, option: int, value: Any) -> None:
        """Subscribe, unsubscribe, or set an ordinary option."""
        if option not in (zmq.SUBSCRIBE, zmq.UNSUBSCRIBE):
            super().setsockopt(option, value)
            return
        self._check()
        topic = value.encode() if isinstance(value, str) else bytes(value)
        if option == zmq.SUBSCRIBE:
            self._topics[topic] += 1
            self._request(SUBSCRIBE + topic)
        elif self._topics[topic]:
            self._topics[topic] -= 1
            if not self._topics[topic]:
                self._request(UNSUBSCRIBE + topic)

    def joined(self, link: Link) -> None:
        """Send every subscription to a new publisher."""
        super().joined(link)
        for topic, times in self._topics.items():
            for _ in range(times):
                self._ask(link, SUBSCRIBE + topic)

    def arrived(self, link: Link) -> None:
        """Drop an arrived message whose topic is no longer subscribed."""
        inbox = link.lane_to(self).inbox
        start = bytes(inbox.head[0])
        if not any(times and start.startswith(topic) for topic, times in self._topics.items()):
            inbox.take()

    def _request(self, request: bytes) -> None:
        for link in self.links:
            self._ask(link, request)
        self.network.changed()

    def _ask(self, link: Link, request: bytes) -> None:
        lane = link.lane_from(self)
        lane.post((request,))
        if link.inside:
            link.peer(self).arrived(link)
