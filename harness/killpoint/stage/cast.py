"""The director's view of one role."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from killpoint.errors import BadUsage
from killpoint.scenario import AnyStep, Fault
from killpoint.stage.channel import Channel, Closed, Order, Packet, Release
from killpoint.stage.diagnosis import burnt, state
from killpoint.stage.scarcity import fill_shm

_STOPS_WITHIN = 10.0


@dataclass
class Actor:
    """A role's process, and what the director knows of it."""

    name: str
    pid: int
    child: int
    """The zygote's child that ends as the role ends: the role itself, or its launcher."""
    channel: Channel | None = None
    outstanding: dict[int, AnyStep] = field(default_factory=dict[int, AnyStep])
    begun: int = -1
    armed: dict[int, Fault] = field(default_factory=dict[int, Fault])
    at_point: bool = False
    stopped: bool = False
    told_to_exit: bool = False
    struck: AnyStep | None = None
    """What it was told to do when an exception struck it last."""
    hours: float = 0.0
    """How far the fault being done moves its wall clock."""
    status: int | None = None
    """As waitpid gave it, once it has ended."""
    handle: bytes = b""
    relayed: Callable[[str], None] | None = None
    """Has the relay or the hosts' keeper do the fault being done, where there is one."""
    by_itself: Order | None = None
    """The fault being done, as an order, for faults that a role does to itself."""

    @property
    def alive(self) -> bool:
        """Whether it has not been seen dead."""
        return self.status is None

    @property
    def held_up(self) -> bool:
        """Whether the director itself keeps it from going on."""
        return self.stopped or self.at_point

    def signal(self, number: int) -> None:
        """Send a signal to exactly this process."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return
        if number == signal.SIGSTOP:
            self.stopped = True
        elif number == signal.SIGCONT:
            self.stopped = False

    def has_stopped(self) -> None:
        """Wait until it is seen stopped: it told us before it stopped itself."""
        self.stopped = True
        end = time.monotonic() + _STOPS_WITHIN
        while state(self.pid) not in ("T", "Z", "") and time.monotonic() < end:
            os.sched_yield()

    def release(self, action: str) -> None:
        """Let it go on from its point."""
        self.at_point = False
        self.put(Release(action))

    def obey(self) -> None:
        """Have it do the fault to itself between two operations."""
        if self.by_itself is not None:
            self.post(self.by_itself)

    def on_the_wire(self, fault: str) -> None:
        """Have the relay, or the keeper of its link, do the fault to its connections."""
        if self.relayed is None:
            raise BadUsage(f"{fault} of {self.name}: its connections lead through no relay")
        self.relayed(fault)

    def fill_shm(self) -> None:
        """Fill the /dev/shm that it sees, which must not be the machine's."""
        fill_shm(self.pid)

    def post(self, order: Order) -> None:
        """Give it an order."""
        self.outstanding[order.id] = order.step
        self.put(order)

    def put(self, packet: Packet) -> None:
        """Send a packet; a role that is already dead takes nothing."""
        if self.channel is None:
            return
        try:
            self.channel.put(packet)
        except Closed:
            return

    def seen(self) -> tuple[str, float]:
        """State letter and CPU seconds, for telling waiting from working."""
        return state(self.pid), burnt(self.pid)
