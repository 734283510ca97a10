"""The runner's view of one role."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.runner.environment import remote_clock
from killpoint.runner.environment.resource_limits import fill_shm
from killpoint.runner.native import let_go
from killpoint.runner.observe.diagnosis import cpu_seconds, state
from killpoint.runner.processes.target_agent import EXITS
from killpoint.runner.protocol import Arm, Channel, Closed, Order, Packet, Release
from killpoint.scenario import AnyStep, Fault

_STOPS_WITHIN = 10.0


@dataclass
class RoleProcess:
    """A role's process, and the runner's state of it."""

    name: str
    pid: int
    child: int
    """Pid of the zygote's child that ends as the role ends: the role itself, or its launcher."""
    channel: Channel | None = None
    outstanding: dict[int, AnyStep] = field(default_factory=dict[int, AnyStep])
    begun: int = -1
    """Id of the order that it has started on last."""
    begun_at: float = 0.0
    """Time of that report; ``time.monotonic``."""
    armed: dict[int, Fault] = field(default_factory=dict[int, Fault])
    at_point: bool = False
    held: bool = False
    """True if it waits there for its release, and does not stop itself."""
    stopped: bool = False
    told_to_exit: bool = False
    killed: bool = False
    """True if the runner has sent it SIGKILL."""
    struck: AnyStep | None = None
    """Step that it executed when an exception struck it last."""
    hours: float = 0.0
    """Hours by which the current fault moves its wall clock."""
    status: int | None = None
    """Exit status, as of waitpid; None until it has ended."""
    handle: bytes = b""
    relayed: Callable[[str], None] | None = None
    """Function that has the relay or the hosts' keeper apply the current fault, where there is
    one."""
    by_itself: Order | None = None
    """Current fault, as an order, for faults that a role injects in itself."""
    come: bool = True
    """True if it has started: a worker starts with its pool."""
    pidfd: int = -1
    """Pidfd of a process that is not the harness's to reap, and whose number may be used again."""
    side: Channel | None = None
    """Second channel, for points that any thread may reach."""
    standing: Channel | None = None
    """Channel by which it reported its point."""
    native: Path | None = None
    """File by which it is released from native code, while it stands in such."""
    folder: Path | None = None
    """Folder in which a process that takes no orders reads how far its clock is to move."""
    arms: list[Arm] = field(default_factory=list[Arm])
    """Points that it is still to stand at or to count."""

    @property
    def alive(self) -> bool:
        """True if it has started, and its end has not been reported."""
        return self.come and self.status is None

    @property
    def held_up(self) -> bool:
        """True if the runner itself keeps it from going on."""
        return self.stopped or self.at_point

    def signal(self, number: int) -> None:
        """Send a signal to exactly this process."""
        try:
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return
        if number == signal.SIGKILL:
            self.killed = True
        elif number == signal.SIGSTOP:
            self.stopped = True
        elif number == signal.SIGCONT:
            self.stopped = False

    def has_stopped(self) -> None:
        """Wait until it is seen stopped: it reports its point before it stops itself."""
        if self.native is not None:
            self.signal(signal.SIGSTOP)  # it could not stop itself in there
        self.stopped = True
        self._await("T")

    def _await(self, letter: str) -> None:
        end = time.monotonic() + _STOPS_WITHIN
        while state(self.pid) not in (letter, "Z", "") and time.monotonic() < end:
            os.sched_yield()

    def release(self, action: str) -> None:
        """Release it from its point."""
        self.at_point = self.held = False
        self.put(Release(action), self.standing)
        if self.native is not None:
            let_go(self.native)
            self.native = None

    def stand(self, line: Channel, native: Path | None) -> None:
        """Record that it is at its point; ``native``: to stand in code that holds its GIL."""
        self.at_point = True
        self.standing = line
        self.native = native
        if native is not None:
            self._await("S")

    def arrive(self, pid: int, pidfd: int, line: Channel | None) -> None:
        """Record the arrival of a process that another has started, in an earlier one's place."""
        self.come, self.status = True, None
        self.pid, self.pidfd, self.channel = pid, pidfd, line
        self.at_point = self.held = self.stopped = False

    def hung_up(self, line: Channel) -> None:
        """Record that one of its channels has closed."""
        self.channel = None if self.channel is line else self.channel
        self.side = None if self.side is line else self.side
        self.standing = None if self.standing is line else self.standing

    def arm(self, arm: Arm) -> None:
        """Arm it with a point, or a count; one that has yet to come gets it on arrival."""
        self.arms.append(arm)
        self.put(arm, self.side if arm.point.op in ("work", "carry") else None)

    def inject_in_role(self) -> None:
        """Have it inject the fault in itself between two operations, or at once if it can."""
        step = self.by_itself.step if self.by_itself is not None else None
        if isinstance(step, Fault) and step.fault == "exit" and self.side and self.outstanding:
            self.signal(EXITS)
        elif self.folder is not None and self.channel is None:
            # It takes no orders. One without a handler is left alone: its checker misses the jump.
            remote_clock.move(self.folder, self.name, self.pid, self.hours * 3600)
        elif self.by_itself is not None:
            self.post(self.by_itself)

    def apply_to_connections(self, fault: str) -> None:
        """Have the relay, or the keeper of its link, apply the fault to its connections."""
        if self.relayed is None:
            raise BadUsage(f"{fault} of {self.name}: its connections lead through no relay")
        self.relayed(fault)

    def fill_shm(self) -> None:
        """Fill the /dev/shm that it sees, which must not be the machine's."""
        fill_shm(self.pid)

    def post(self, order: Order) -> None:
        """Send it an order."""
        self.outstanding[order.id] = order.step
        self.put(order)

    def put(self, packet: Packet, line: Channel | None = None) -> None:
        """Send a packet; one for a role that is dead is dropped.

        ``line``: another channel than its own.
        """
        line = line or self.channel
        if line is None:
            return
        try:
            line.put(packet)
        except Closed:
            return

    def seen(self) -> tuple[str, float]:
        """Return its state letter and CPU seconds, which tell waiting from working."""
        return state(self.pid), cpu_seconds(self.pid)
