"""Channel to the runner from a process that the target started: its identity and its points.

A worker is started in the target's own way, so this imports next to nothing. The executor
has such a channel beside its own, for points in the target's threads.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from killpoint.history.log import Log
from killpoint.runner.environment.coverage_hooks import save_coverage
from killpoint.runner.points.interruption import InjectedError

PLAY = "KILLPOINT_PLAY"
"""Environment variable for a play's folder."""
TARGET = "KILLPOINT_TARGET"
"""Environment variable for its target, in the form that any process can build."""
DEVICE = "KILLPOINT_DEVICE"
"""Environment variable for the device of its pool's workers."""
EXIT_FAULT = 3
"""Exit status of a process that a scenario had end itself."""
EXITS = signal.SIGUSR2
"""Signal that ends an executor at once, by ``os._exit``, while it waits inside a call."""
_LARGEST = 180_000


class _Place(msgspec.Struct):
    op: str
    line: int | None = None
    name: str | None = None
    nth: int = 0
    depth: str = "line"


class Armed(msgspec.Struct, tag="Arm"):
    """:class:`killpoint.runner.protocol.Arm`, as decoded here."""

    id: int
    point: _Place
    stop: bool = False
    throws: bool = False


class _Release(msgspec.Struct, tag="Release"):
    action: str = "go"


class _Hello(msgspec.Struct, tag="Hello"):
    role: str
    pid: int
    side: bool


class _Reached(msgspec.Struct, tag="Reached"):
    id: int
    where: str


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Armed | _Release)


class TargetAgent:
    """Channel to the runner of a play."""

    def __init__(self, name: str, folder: Path, *, side: bool = False) -> None:
        """Introduce this process; return once the runner has sent its points.

        ``side``: this role has a channel of its own already.
        """
        self.pid = os.getpid()
        self.name = name
        self.folder = folder
        self.log = Log(folder / f"{name}.jsonl", name)
        self._line = threading.RLock()  # a handler may come to a point while its thread stands
        self._standing = False
        self._arms: list[Armed] = []
        self._seen: dict[int, int] = {}
        self._owed = 0
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.connect(str(folder / "d"))
        self._put(_Hello(name, self.pid, side))
        self.await_release()

    def drop(self) -> None:
        """Close a channel that a fork has copied."""
        self._sock.close()

    # -- points -----------------------------------------------------------------------------

    def due(self, op: str, name: str | None = None) -> Armed | None:
        """Return the armed point of an operation, or phase, that is reached now, or None."""
        if not self._standing and self._line.acquire(blocking=False):
            try:
                self._listen()
            finally:
                self._line.release()
        for arm in list(self._arms):
            if arm.point.op != op or arm.point.name != name:
                continue
            turn = self._seen.get(arm.id, 0)
            self._seen[arm.id] = turn + 1
            if turn == arm.point.nth:
                self._arms.remove(arm)
                return arm
        return None

    def meet(self, arm: Armed, where: str, inside: Callable[[], bool] | None = None) -> None:
        """Stand at a point until the runner has acted.

        ``inside``: call to stand in instead of a receive; it returns whether a release ended it.
        """
        with self._line:
            self._standing = True
            try:
                action = self._stand(arm, where, inside)
            finally:
                self._standing = False
        if action == "raise":
            self.log.write("raised", how="injected", where=where)
            raise InjectedError(f"injected at {where}")
        if action == "exit":
            os._exit(EXIT_FAULT)

    def _stand(self, arm: Armed, where: str, inside: Callable[[], bool] | None) -> str:
        self.log.write("at-point", arm=arm.id, where=where)
        save_coverage()
        self._put(_Reached(arm.id, where))
        if arm.stop:
            os.kill(os.getpid(), signal.SIGSTOP)
        if inside is not None and not inside():
            self._owed += 1  # its limit ended it: the release is still to come
            return "go"
        return self.await_release()

    def await_release(self) -> str:
        """Wait for the release, and return its action; ``go`` if the runner is gone."""
        try:
            while True:
                packet = self._get()
                if isinstance(packet, Armed):
                    self._arms.append(packet)
                elif packet is None or not self._forgiven():
                    return packet.action if packet else "go"
        except BaseException:
            self._owed += (
                1  # a handler raised: the release is still to come, and has no meaning any more
            )
            raise

    def _forgiven(self) -> bool:
        """Return whether a release belongs to a wait that is over."""
        if self._owed:
            self._owed -= 1
            return True
        return False

    def _listen(self) -> None:
        """Process pending packets, without waiting."""
        while True:
            try:
                packet = self._get(socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if packet is None:
                return
            if isinstance(packet, Armed):
                self._arms.append(packet)
            else:
                self._forgiven()

    def _get(self, flags: int = 0) -> Armed | _Release | None:
        try:
            data = self._sock.recv(_LARGEST, flags)
        except ConnectionResetError:
            return None
        return _DECODER.decode(data) if data else None

    def _put(self, packet: msgspec.Struct) -> None:
        try:
            self._sock.send(_ENCODER.encode(packet))
        except (BrokenPipeError, ConnectionResetError):
            return
