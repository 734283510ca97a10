"""A TCP relay in a process of its own: it cuts, delays, resets and drops data on demand.

Plain standard library, and no import of ours: it is started by its path, before anything else of
the harness could be loaded, and it ends with its runner. It needs no rights. Each route has a
listening port of its own, so that one party's connections can be harmed and no other's.

The relay cannot be silent below TCP: the kernels of both sides still answer keepalives from the
relay's own sockets. A party that notices a cut only by those does not notice this one.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from fcntl import ioctl
from functools import partial
from pathlib import Path
from termios import FIONREAD, TIOCOUTQ
from typing import Any

_CHUNK = 1 << 18
_AHEAD = 1 << 18
"""Bytes held for a receiver that does not take them: a relay is no great buffer."""
_ON_THE_WAY = 1 << 26
"""The same where bytes are delayed: a longer way holds more."""
_LOOK = 0.005
"""Seconds between two looks at data that the kernel has not delivered yet."""
_LISTENS = "0A"
"""State of a listening TCP socket in the kernel's tables."""
_ABORT = struct.pack("ii", 1, 0)

TO_ROLE, TO_PEER = "role", "peer"


class Trap:
    """Fault of a route that is applied once so many more bytes have gone through it."""

    def __init__(self, fault: str, toward: str, left: int) -> None:
        self.fault, self.toward, self.left = fault, toward, left
        self.names = [TO_ROLE, TO_PEER] if toward == "both" else [toward]
        """Directions whose bytes count."""


class Way:
    """One direction of one connection: data that was read and not yet handed on (no I/O in it)."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.trap: Trap | None = None
        """Trap that counts the bytes of this way; none goes beyond it before it has sprung."""
        self.cut = False
        self.void = False
        """True if data of this way is dropped, for good."""
        self.end = ""
        """``end`` or ``reset`` once its source has ended so."""
        self.done = False
        """True if the end was handed on, too."""
        self.bytes = self.dropped = self.late = 0
        self._held: deque[tuple[float, memoryview]] = deque()
        self._size = 0

    def put(self, now: float, data: bytes) -> None:
        """Take data that was read."""
        if self.void:
            self.dropped += len(data)
            return
        self.late += len(data) if self.delay else 0
        due = max(now + self.delay, self._held[-1][0] if self._held else 0.0)
        self._held.append((due, memoryview(data)))
        self._size += len(data)

    def due(self, now: float) -> memoryview | None:
        """Return the data that may be handed on now."""
        if self.cut or not self._held or self._held[0][0] > now:
            return None
        data = self._held[0][1]
        if self.trap is None:
            return data
        return data[: self.trap.left] if self.trap.left else None

    def next_due(self) -> float | None:
        """Return the time at which data may be handed on."""
        return self._held[0][0] if self._held and not self.cut else None

    def handed_on(self, count: int) -> None:
        """Remove so many bytes of :meth:`due`, which went out."""
        if self.trap is not None:
            self.trap.left -= count
        self.bytes += count
        self._size -= count
        due, data = self._held.popleft()
        if count < len(data):
            self._held.appendleft((due, data[count:]))

    def wants(self) -> bool:
        """Return whether its source should be read."""
        room = _ON_THE_WAY if self.delay else _AHEAD
        return not self.end and not self.cut and (self.void or self._size < room)

    def drained(self) -> bool:
        """Return whether its source has ended and nothing is left to hand on."""
        return bool(self.end) and not self._held and not self.cut

    def held(self) -> int:
        """Return the number of bytes that were read and not handed on."""
        return self._size

    def lose(self) -> None:
        """Drop the held data and all that comes."""
        self.void = True
        self.dropped += self._size
        self._held.clear()
        self._size = 0


class Link:
    """One connection of a role, and the relay's own to the role's peer."""

    def __init__(self, role: socket.socket, peer: socket.socket, state: dict[str, Any]) -> None:
        self.socks = {TO_ROLE: role, TO_PEER: peer}
        """Sockets, by the direction that leads to them."""
        self.ways = {name: Way(state["delay"][name]) for name in (TO_ROLE, TO_PEER)}
        self.gone = False
        for name, way in self.ways.items():
            way.void = state["void"][name]
            way.cut = state["cut"][name]
            trap: Trap | None = state["trap"]
            way.trap = trap if trap is not None and name in trap.names else None

    def serve(self, now: float) -> None:
        """Move the data that can be moved."""
        for toward, way in self.ways.items():
            if not self.gone:
                self._read(way, self.socks[_other(toward)], now)
            if not self.gone:
                self._write(way, self.socks[toward], now)
        if not self.gone and all(way.done for way in self.ways.values()):
            self.close()

    def _read(self, way: Way, source: socket.socket, now: float) -> None:
        while way.wants():
            try:
                data = source.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError:
                way.end = "reset"
                return
            if not data:
                way.end = "end"
                return
            way.put(now, data)

    def _write(self, way: Way, sink: socket.socket, now: float) -> None:
        while (data := way.due(now)) is not None:
            try:
                way.handed_on(sink.send(data))
            except BlockingIOError:
                return
            except OSError:
                way.lose()  # no receiver is left: its source gets a reset
                back = self._other_way(way)
                back.end, back.done = "reset", False
                return
        if way.done or not way.drained():
            return
        if way.void:
            way.done = True  # the end is dropped like all data
        elif way.end == "reset":
            if not _unsent(sink):
                self.reset()
        else:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_WR)
            way.done = True

    def _other_way(self, way: Way) -> Way:
        return next(other for other in self.ways.values() if other is not way)

    def interest(self) -> dict[socket.socket, int]:
        """Return the poll events of each socket; one without any is not polled at all."""
        out: dict[socket.socket, int] = {}
        now = time.monotonic()
        for toward, way in self.ways.items():
            if way.wants():
                source = self.socks[_other(toward)]
                out[source] = out.get(source, 0) | select.POLLIN
            if way.due(now) is not None:
                sink = self.socks[toward]
                out[sink] = out.get(sink, 0) | select.POLLOUT
        return out

    def wake_at(self, now: float) -> float | None:
        """Return the time of the next look that no socket will cause."""
        times: list[float] = []
        for way in self.ways.values():
            due = way.next_due()
            if due is not None and due > now:
                times.append(due)
            if way.end == "reset" and way.drained() and not way.done:
                times.append(now + _LOOK)
        return min(times, default=None)

    def waiting(self) -> int:
        """Return the number of bytes, also of the relay's kernel, that wait for a cut way."""
        total = 0
        for toward, way in self.ways.items():
            if way.cut and not self.gone:
                total += way.held() + _unread(self.socks[_other(toward)])
        return total

    def reset(self) -> None:
        """End both connections with RST; data in transit is lost."""
        for sock in self.socks.values():
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self.close()

    def close(self) -> None:
        """End both connections."""
        self.gone = True
        for sock in self.socks.values():
            sock.close()


class Route:
    """A listening port for one role and one address, and the connections that came by it."""

    def __init__(self, role: str, host: str, port: int, *, lazy: bool = False) -> None:
        """``lazy``: refuse connections until the other side listens."""
        self.role = role
        self.upstream = (host, port)
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(self.family, socket.SOCK_STREAM)
        self.listener.bind((_loopback(self.family), 0))
        self.listener.setblocking(False)
        self.listens = False
        if not lazy:
            self.listen()
        self.links: list[Link] = []
        self.opening: list[tuple[socket.socket, socket.socket]] = []
        self.accepted = self.withheld = 0
        self.past: dict[str, int] = {"bytes": 0, "dropped": 0, "late": 0}
        self.state: dict[str, Any] = {
            "cut": {TO_ROLE: False, TO_PEER: False},
            "void": {TO_ROLE: False, TO_PEER: False},
            "delay": {TO_ROLE: 0.0, TO_PEER: 0.0},
            "trap": None,
        }
        self.sprung = 0
        """Time at which the last of its traps sprang, in monotonic nanoseconds."""

    def listen(self) -> None:
        """Begin to listen, so that connections are accepted, by the kernel at least."""
        self.listener.listen(128)
        self.listens = True

    @property
    def served(self) -> bool:
        """True if new connections are accepted; in a cut they wait in the kernel."""
        return self.listens and not any(self.state["cut"].values())

    def accept(self) -> None:
        """Accept new connections, and begin to connect each to its peer."""
        while self.served:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.socket(self.family, socket.SOCK_STREAM)
            for sock in (near, far):
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            with contextlib.suppress(BlockingIOError, OSError):
                far.connect(self.upstream)
            self.opening.append((near, far))

    def opened(self, near: socket.socket, far: socket.socket) -> None:
        """Handle the outcome of a connection to the peer; if it failed, the role's is reset."""
        self.opening.remove((near, far))
        link = Link(near, far, self.state)
        if far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            link.reset()
        else:
            self.links.append(link)

    def catch_up(self) -> None:
        """Complete pending connections: a fault is for all that others see as made."""
        self.accept()
        for near, far in list(self.opening):
            if select.select([], [far], [], 0)[1]:
                self.opened(near, far)

    def lay(self, fault: str, toward: str, after: int) -> int:
        """Lay a trap for present and later connections; return the number of present ones."""
        self.catch_up()
        self._set_trap(Trap(fault, toward, after))
        return len(self.links)

    @property
    def full(self) -> bool:
        """True if a trap has had all its bytes, and is to spring."""
        trap: Trap | None = self.state["trap"]
        return trap is not None and trap.left == 0

    def spring(self) -> None:
        """Apply the fault of a trap that has had all its bytes, once they have arrived."""
        trap: Trap | None = self.state["trap"]
        if trap is None or trap.left:
            return
        if any(_unsent(link.socks[name]) for link in self.links for name in trap.names):
            return  # a reset would overtake them
        self._set_trap(None)
        self.sprung = time.monotonic_ns()  # first: others can notice it only later
        self.strike(trap.fault, trap.toward, 0.0)

    def _set_trap(self, trap: Trap | None) -> None:
        self.state["trap"] = trap
        for link in self.links:
            for name, way in link.ways.items():
                way.trap = trap if trap is not None and name in trap.names else None

    def strike(self, fault: str, toward: str, seconds: float) -> int:
        """Apply a fault to present and later connections; return the number of present ones."""
        self.catch_up()
        names = [TO_ROLE, TO_PEER] if toward == "both" else [toward]
        met = len(self.links)
        if fault == "reset":
            for link in self.links:
                link.reset()
        elif fault == "heal":
            self._heal()
        else:
            key = {"cut": "cut", "half-open": "void", "delay": "delay"}[fault]
            value: object = seconds if fault == "delay" else True
            for name in names:
                self.state[key][name] = value
                for link in self.links:
                    _do(link.ways[name], fault, seconds)
        self.sweep()
        return met

    def _heal(self) -> None:
        self.withheld += sum(link.waiting() for link in self.links)
        self._set_trap(None)
        for name in (TO_ROLE, TO_PEER):
            self.state["cut"][name] = self.state["void"][name] = False
            self.state["delay"][name] = 0.0
            for link in self.links:
                link.ways[name].cut = False
                link.ways[name].delay = 0.0

    def sweep(self) -> None:
        """Remove connections that have ended, but keep their figures."""
        for link in [link for link in self.links if link.gone]:
            self.links.remove(link)
            self._add(self.past, link)

    def report(self) -> dict[str, int]:
        """Return the figures of data that passed, and did not."""
        figures = dict(self.past)
        for link in self.links:
            self._add(figures, link)
        figures["connections"] = self.accepted
        figures["open"] = len(self.links)
        figures["withheld"] = self.withheld + sum(link.waiting() for link in self.links)
        figures["sprung"] = self.sprung
        return figures

    def _add(self, figures: dict[str, int], link: Link) -> None:
        for name, way in link.ways.items():
            figures["bytes"] += way.bytes
            figures[f"to_{name}"] = figures.get(f"to_{name}", 0) + way.bytes
            figures["dropped"] += way.dropped
            figures["late"] += way.late


class Exchange:
    """All routes, and the control socket to the runner."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.routes: list[Route] = []

    def run(self) -> None:
        """Serve until the runner has closed its end."""
        while True:
            now = time.monotonic()
            for route in self.routes:
                if not route.listens and _heard_at(route.upstream[1]):
                    route.listen()
                for link in route.links:
                    link.serve(now)
                route.spring()
                route.sweep()
            poller, by_fd = self._poller()
            for fd, _ in poller.poll(self._wait(now)):
                if fd == self.control.fileno():
                    if not self._obey():
                        return
                    break  # the set of polled sockets may have changed
                act = by_fd.get(fd)
                if act is not None:
                    act()

    def _poller(self) -> tuple[select.poll, dict[int, Callable[[], None]]]:
        poller = select.poll()
        by_fd: dict[int, Callable[[], None]] = {}
        poller.register(self.control, select.POLLIN)
        for route in self.routes:
            if route.served:
                poller.register(route.listener, select.POLLIN)
                by_fd[route.listener.fileno()] = route.accept
            for near, far in route.opening:
                poller.register(far, select.POLLOUT)
                by_fd[far.fileno()] = partial(route.opened, near, far)
            for link in route.links:
                for sock, events in link.interest().items():
                    poller.register(sock, events)
        return poller, by_fd

    def _wait(self, now: float) -> float | None:
        times = [link.wake_at(now) for route in self.routes for link in route.links]
        times += [now + _LOOK for route in self.routes if not route.listens or route.full]
        soonest = min((at for at in times if at is not None), default=None)
        return None if soonest is None else max(0.0, (soonest - now) * 1000)

    def _obey(self) -> bool:
        data = self.control.recv(1 << 16)
        if not data:
            return False
        order = json.loads(data)
        try:
            answer = self._answer(order)
        except OSError as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        self.control.send(json.dumps(answer).encode())
        return True

    def _answer(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "route":
            route = Route(order["role"], order["host"], order["port"], lazy=order["lazy"])
            self.routes.append(route)
            return {"port": route.listener.getsockname()[1]}
        chosen = [route for route in self.routes if route.role in order["roles"]]
        met = 0
        if order["do"] != "report" and order["after"] is not None:
            met = sum(route.lay(order["do"], order["toward"], order["after"]) for route in chosen)
        elif order["do"] != "report":
            met = sum(
                route.strike(order["do"], order["toward"], order["seconds"]) for route in chosen
            )
        figures: dict[str, int] = {"met": met}
        for route in chosen:
            for key, value in route.report().items():
                before = figures.get(key, 0)
                figures[key] = max(before, value) if key == "sprung" else before + value
        return figures


def _do(way: Way, fault: str, seconds: float) -> None:
    if fault == "cut":
        way.cut = True
    elif fault == "delay":
        way.delay = seconds
    else:
        way.lose()


def _other(toward: str) -> str:
    return TO_PEER if toward == TO_ROLE else TO_ROLE


def _loopback(family: int) -> str:
    return "::1" if family == socket.AF_INET6 else "127.0.0.1"


def _heard_at(port: int) -> bool:
    """Return whether a process listens at a port, as the kernel says, without a connection."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), Path(table).open(encoding="ascii") as lines:
            for fields in map(str.split, lines):
                if fields[1].endswith(wanted) and fields[3] == _LISTENS:
                    return True
    return False


def _unread(sock: socket.socket) -> int:
    """Return the number of bytes that the kernel holds for this process to read."""
    return _count(sock, FIONREAD)


def _unsent(sock: socket.socket) -> int:
    """Return the number of bytes that the other side's kernel has not acknowledged."""
    return _count(sock, TIOCOUTQ)


def _count(sock: socket.socket, what: int) -> int:
    try:
        return int(struct.unpack("i", ioctl(sock.fileno(), what, b"\0\0\0\0"))[0])
    except OSError:
        return 0


if __name__ == "__main__":
    Exchange(socket.socket(fileno=int(sys.argv[1]))).run()
