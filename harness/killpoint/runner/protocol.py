"""Packets between runner, zygote and roles, one packet a message."""

from __future__ import annotations

import socket
import sys

import msgspec

from killpoint.errors import BadUsage
from killpoint.points.pages import Segment
from killpoint.scenario import AnyStep, PlaceKind, Point
from killpoint.targets.disclaimer import Disclaimer


class Order(msgspec.Struct, tag=True):
    """Runner to role: do this step."""

    id: int
    step: AnyStep
    first: int = 0
    """Sequence number of a send's first message."""
    data: bytes = b""
    """Data of the step: a queue's handle for ``attach``, a coordinator's for ``connect``; the shape
    for ``make`` and the like; the invitation for ``join`` or ``pipe-open``."""
    rank: int = 0
    routes: dict[str, str] | None = None
    """For ``attach`` through a relay: replacement of each address in the handle."""


class Arm(msgspec.Struct, tag=True):
    """Runner to role: stop at this point (one that names no line is only counted)."""

    id: int
    point: Point
    stop: bool = False
    """True if the role stops there at once: the actions of the target's own threads before the
    runner has received the report would otherwise depend on the machine's load."""
    throws: bool = False
    """True if an exception strikes there, or at the next line if a ``with`` block is being left."""
    of: PlaceKind = "lines"
    """Kind of places that are counted where the point is nowhere."""


class Guarded(msgspec.Struct, tag=True):
    """Role to runner, with a descriptor: an operation's stores wait for the runner from now on."""

    id: int
    segments: list[Segment]


class Unguarded(msgspec.Struct, tag=True):
    """Role to runner: that operation is over."""

    id: int


class Release(msgspec.Struct, tag=True):
    """Runner to a role at a point: go on, raise, exit, or move the clock there."""

    action: str = "go"


class Hello(msgspec.Struct, tag=True):
    """Role to runner: the role has started."""

    role: str
    pid: int
    side: bool = False
    """True for a second channel, for points that any thread may reach."""


class Begun(msgspec.Struct, tag=True):
    """Role to runner: it has started on an order."""

    id: int


class Done(msgspec.Struct, tag=True):
    """Role to runner: the order has ended, well or not."""

    id: int
    outcome: str = "ok"
    error: str = ""
    handle: bytes = b""
    addresses: list[str] = []
    """TCP addresses in the handle, as far as the target can show them."""
    pid: int = 0
    """Pid of the process that the target has started for this role last, if it is one of the
    play's."""


class Parts(msgspec.Struct, tag=True):
    """Role to runner: the processes that the engine it holds has now, by name."""

    role: str
    parts: dict[str, int]


class Reached(msgspec.Struct, tag=True):
    """Role to runner: it stands at the point and waits for a release."""

    id: int
    where: str


class ForkRole(msgspec.Struct, tag=True):
    """Runner to zygote: fork a process for this role."""

    role: str
    folder: str
    start: str = "zygote"
    observe: bool = False
    stores: bool = False
    """True if it may be armed with a point at a store."""
    cancels: bool = False
    system: str = "queue"
    """Name of the system whose steps it executes."""
    terminal: str = ""
    """Path of the terminal whose foreground job it is to be; empty: none."""
    seed: int = 0
    umask: int | None = None
    flooded: bool = False
    """True if it may have no more descriptors than a flood needs."""
    """Set before any action of the process's own."""
    shm_of: int = 0
    """Pid of the process whose mounts, a /dev/shm of the play's own among them, it is to have."""
    net_of: int = 0
    """Pid of the process that keeps the host it is to live in, if the play has hosts."""
    netns_fd: int = 0
    """That process's descriptor of the host's network namespace."""
    request: bytes = b""
    """Orders of a process that is no role."""
    preforks: bool = False
    """True if the target makes, first of all, the process that its parts are forked from."""


class ForkZygote(msgspec.Struct, tag=True):
    """Runner to zygote, with the end of a channel: fork a zygote that serves that channel."""

    root: str
    """Folder of its plays."""
    preloads: list[str] = []
    """Modules that it imports beyond those that are imported."""


class Forked(msgspec.Struct, tag=True):
    """Zygote to runner: the process exists."""

    role: str
    pid: int


class Exited(msgspec.Struct, tag=True):
    """Zygote to runner: a descendant was reaped; ``status`` as :func:`os.waitpid` gives it."""

    pid: int
    status: int


class Loaded(msgspec.Struct, tag=True):
    """Zygote to runner: the target is imported, or has failed to be."""

    pid: int
    name: str = ""
    version: str = ""
    capabilities: list[str] = []
    notes: list[str] = []
    disclaimers: list[Disclaimer] = []
    error: str = ""
    missing: bool = False
    torch: bool = False
    """True if roles find torch imported."""
    prefork_modules: dict[str, list[str]] = {}
    """Modules of the process that parts are forked from, for each system where one can be made
    before a play."""
    files: dict[str, str] = {}
    """Paths of the target's own files, by their path in its package."""


Packet = (
    Order
    | Arm
    | Guarded
    | Unguarded
    | Release
    | Hello
    | Begun
    | Done
    | Parts
    | Reached
    | ForkRole
    | ForkZygote
    | Forked
    | Exited
    | Loaded
)

_LARGEST = 180_000
"""Below the kernel's default for a socket's buffer, so that no packet is ever cut."""
_ONE_FD = socket.CMSG_LEN(4)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Packet)


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """Packets over a SOCK_SEQPACKET socket."""

    def __init__(self, sock: socket.socket) -> None:
        """Own the socket."""
        self.sock = sock
        self.fds: list[int] = []
        """Descriptors that arrived with packets."""
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self.sock.fileno()

    def put(self, packet: Packet, *fds: int) -> None:
        """Send one packet, and descriptors with it.

        Raises:
            Closed: the other side is gone.
            BadUsage: it is too large for one packet.
        """
        data = _ENCODER.encode(packet)
        if len(data) > _LARGEST:
            raise BadUsage(f"a step of {len(data)} bytes; at most {_LARGEST} can be ordered")
        try:
            socket.send_fds(self.sock, [data], fds) if fds else self.sock.send(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def get(self) -> Packet:
        """Wait for one packet.

        Raises:
            Closed: the other side is gone.
        """
        try:
            data = self._recv()
        except ConnectionResetError as error:
            raise Closed from error
        if not data:
            raise Closed
        return _DECODER.decode(data)

    def take(self) -> Packet | None:
        """Return a packet that is already there, or None.

        Raises:
            Closed: the other side is gone.
        """
        try:
            data = self._recv(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionResetError as error:
            raise Closed from error
        if not data:
            raise Closed
        return _DECODER.decode(data)

    def _recv(self, flags: int = 0) -> bytes:
        # Not recv_fds: it forgets its flags.
        flags |= socket.MSG_CMSG_CLOEXEC
        data, beside, _, _ = self.sock.recvmsg(_LARGEST, _ONE_FD, flags)
        for _, _, raw in beside:
            self.fds.append(int.from_bytes(raw[:4], sys.byteorder))
        return data

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
