"""Hosts of a play's own: network namespaces joined by a switch, so that a cut is a link down.

A keeper process makes them and keeps them by having them open. None has a name, and the machine's
own interfaces, addresses and routes are not touched: the switch has a namespace, too. They end with
the keeper and the roles that live in them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Protocol

import msgspec

from killpoint.errors import CannotWork
from killpoint.runner.network import namespaces
from killpoint.runner.network.netlink import Netlink
from killpoint.runner.protocol import ForkRole

KEEPER = "host-keeper"
"""Start method of the process that makes the hosts, and cuts and mends their links."""
CENTRE = "centre"
"""Host of the writer and of its local readers, or of a group's rank 0."""

LINK = "eth0"
"""Network interface of each host."""
_SWITCH = "switch"
_NETWORK = IPv4Network("10.107.0.0/16")
_WITHIN = 10.0
_ESTABLISHED = 1


class _Ready(msgspec.Struct):
    """First message of the keeper."""

    why_not: str = ""
    doors: dict[str, int] = {}
    """Keeper's descriptor of each host's namespace."""


class _Do(msgspec.Struct):
    """An order to the keeper."""

    act: str
    """``cut``, ``heal`` or ``look``."""
    hosts: list[str]
    toward: str = "both"


class Seen(msgspec.Struct):
    """State of a host's network."""

    carries: bool = True
    """True if its link is up and has a carrier."""
    connections: int = 0
    """Number of established TCP connections that lead to another host."""
    resent: int = 0
    """Number of TCP segments that its kernel has sent again, since the host was made."""


# Made once, by one thread: see killpoint.scenario.file.
_READY = msgspec.json.Decoder(_Ready)
_SEEN = msgspec.json.Decoder(dict[str, Seen] | str)


class Forks(Protocol):
    """Starter of the keeper: a zygote, as a rule."""

    def fork(self, order: ForkRole) -> int:
        """Start a process that runs :func:`keep` with the order's arguments; return its pid."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait, and record processes that have ended meanwhile."""
        ...


class Hosts:
    """The hosts of one play, as the stage sees them from outside."""

    def __init__(self, zygote: Forks, folder: Path, remote: list[str]) -> None:
        """Have them made: one for each remote role, one for the writer or rank 0.

        ``refused`` has the reason if they could not be.
        """
        self._zygote = zygote
        self.names = [CENTRE, *remote]
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(folder / "h"))
        listener.listen(1)
        listener.setblocking(False)
        request = msgspec.json.encode(self.names)
        self.pid = zygote.fork(ForkRole(KEEPER, str(folder), start=KEEPER, request=request))
        self._channel: socket.socket | None = None
        self._doors: dict[str, int] = {}
        try:
            self.refused = self._begin(listener)
        finally:
            listener.close()

    def _begin(self, listener: socket.socket) -> str:
        end = time.monotonic() + _WITHIN
        while self._channel is None:
            try:
                self._channel = listener.accept()[0]
            except BlockingIOError:
                if time.monotonic() > end:
                    raise CannotWork(
                        f"the hosts' keeper did not come within {_WITHIN:g} s"
                    ) from None
                self._zygote.pause(0.01)
        self._channel.settimeout(_WITHIN)
        ready = _READY.decode(self._hear())
        self._doors = ready.doors
        return ready.why_not and f"network namespaces cannot be made here: {ready.why_not}"

    @property
    def address(self) -> str:
        """Address at which the writer, or rank 0, listens."""
        return str(_address(0))

    def address_of(self, role: str) -> str:
        """Return the address of the host that a role lives in."""
        return str(_address(self.names.index(self.of(role))))

    def netns_fd(self, role: str) -> int:
        """Return the keeper's descriptor of the namespace that a role lives in."""
        return self._doors[self.of(role)]

    def of(self, role: str) -> str:
        """Return the name of the host that a role lives in."""
        return role if role in self.names else CENTRE

    def cut(self, hosts: list[str], toward: str) -> None:
        """Take the links down (``both``), or have the packets of one direction lost."""
        self._ask(_Do("cut", hosts, toward))

    def heal(self, hosts: list[str]) -> None:
        """Undo every cut of these hosts."""
        self._ask(_Do("heal", hosts))

    def look(self, hosts: list[str]) -> dict[str, Seen]:
        """Return the state of these hosts."""
        return self._ask(_Do("look", hosts))

    def close(self) -> None:
        """End the keeper; a host ends with the last process that lives in it."""
        if self._channel is not None:
            self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        end = time.monotonic() + _WITHIN
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < end:
            self._zygote.pause(0.01)

    def _ask(self, order: _Do) -> dict[str, Seen]:
        assert self._channel is not None
        try:
            self._channel.send(msgspec.json.encode(order))
        except OSError as error:
            raise CannotWork(f"the hosts' keeper (pid {self.pid}) has died: {error}") from error
        answer = _SEEN.decode(self._hear())
        if isinstance(answer, str):
            raise CannotWork(f"the hosts' keeper cannot {order.act}: {answer}")
        return answer

    def _hear(self) -> bytes:
        assert self._channel is not None
        try:
            data = self._channel.recv(1 << 18)
        except OSError as error:
            raise CannotWork(f"the hosts' keeper (pid {self.pid}) is silent: {error}") from error
        if not data:
            raise CannotWork(f"the hosts' keeper (pid {self.pid}) has died")
        return data


def join(pid: int, netns_fd: int) -> None:
    """Enter a host (and its keeper's user namespace, where that gave the right to make it)."""
    namespaces.join(Path(f"/proc/{pid}/ns/user"), Path("/proc/self/ns/user"))
    namespaces.join(Path(f"/proc/{pid}/fd/{netns_fd}"), Path("/proc/self/ns/net"))


def keep(folder: Path, request: bytes) -> None:
    """Run the keeper: make the hosts, report the result, obey until the runner closes."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(str(folder / "h"))
    try:
        keeper = _Keeper(msgspec.json.decode(request, type=list[str]))
    except OSError as error:
        channel.send(msgspec.json.encode(_Ready(str(error))))
        return
    channel.send(msgspec.json.encode(_Ready(doors=keeper.doors)))
    while data := channel.recv(1 << 18):
        order = msgspec.json.decode(data, type=_Do)
        try:
            answer: dict[str, Seen] | str = keeper.do(order)
        except OSError as error:
            answer = str(error)
        channel.send(msgspec.json.encode(answer))


class _Keeper:
    """Keeper of the open namespaces, with a netlink socket in each."""

    def __init__(self, names: list[str]) -> None:
        namespaces.enter_new(namespaces.NEW_NETWORK)
        self._switch = Netlink()
        self._switch.add_bridge(_SWITCH)
        self._switch.set_up(_SWITCH, up=True)
        self.doors: dict[str, int] = {}
        self._addresses = {name: _address(rank) for rank, name in enumerate(names)}
        self._hosts: dict[str, Netlink] = {}
        for name, address in self._addresses.items():
            namespaces.enter_new(namespaces.NEW_NETWORK)
            self.doors[name] = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            host = self._hosts[name] = Netlink()
            self._switch.add_pair(name, LINK, self.doors[name], _SWITCH)
            host.set_up("lo", up=True)
            host.add_address(LINK, address, _NETWORK.prefixlen)
            host.set_up(LINK, up=True)
            self._switch.set_up(name, up=True)

    def do(self, order: _Do) -> dict[str, Seen]:
        for name in order.hosts:
            if order.act == "cut":
                self._cut(name, order.toward)
            elif order.act == "heal":
                self._heal(name)
        return {name: self._look(name) for name in order.hosts}

    def _cut(self, name: str, toward: str) -> None:
        if toward == "both":
            self._switch.set_up(name, up=False)
        for near, far in self._ways(name, toward):
            self._hosts[near].mislead(LINK, self._addresses[far])

    def _heal(self, name: str) -> None:
        self._switch.set_up(name, up=True)
        for way in ("role", "peer"):
            for near, far in self._ways(name, way):
                self._hosts[near].set_right(LINK, self._addresses[far])

    def _ways(self, name: str, toward: str) -> list[tuple[str, str]]:
        """Return the pairs of hosts whose packets are lost in a cut of one direction."""
        peers = [other for other in self._hosts if other != name]
        if toward == "role":
            return [(peer, name) for peer in peers]
        return [(name, peer) for peer in peers] if toward == "peer" else []

    def _look(self, name: str) -> Seen:
        namespaces.call(namespaces.libc.setns, self.doors[name], 0)
        own = str(self._addresses[name])
        return Seen(self._hosts[name].carries(LINK), _connections(own), _resent())


def _connections(own: str) -> int:
    """Return the number of connections of this namespace to any address but its own."""
    count = 0
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            lines = Path("/proc/self/net", table).read_text().splitlines()[1:]
            for _, _, far, state, *_ in map(str.split, lines):
                # An IPv4 address is the whole of it, or the end of an IPv6 one that stands for it.
                last = bytes.fromhex(far.split(":")[0])[-4:][::-1]
                beyond = str(IPv4Address(last)) != own and IPv4Address(last) in _NETWORK
                count += int(state, 16) == _ESTABLISHED and beyond
    return count


def _resent() -> int:
    lines = [
        line.split()
        for line in Path("/proc/self/net/snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    ]
    return int(dict(zip(*lines, strict=True))["RetransSegs"])


def _address(rank: int) -> IPv4Address:
    return _NETWORK[rank + 1]
