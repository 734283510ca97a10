"""How a process that the target started meets the runner: who it is, where it stands.

A worker is started by whatever way the target has, so this imports next to nothing. The executor
has such a line beside its own, for what happens in the target's threads.
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
"""The environment's word for a play's folder."""
TARGET = "KILLPOINT_TARGET"
"""And for its target, in the form that any process can build."""
DEVICE = "KILLPOINT_DEVICE"
"""And for where its pool's workers run."""
EXIT_FAULT = 3
"""Status of a process that a scenario had end itself."""
EXITS = signal.SIGUSR2
"""What ends an executor at once, by ``os._exit``, while it waits inside a call."""
_LARGEST = 180_000


class _Place(msgspec.Struct):
    op: str
    line: int | None = None
    name: str | None = None
    nth: int = 0
    depth: str = "line"


class Armed(msgspec.Struct, tag="Arm"):
    """What :class:`killpoint.runner.protocol.Arm` looks like from here."""

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


class Presence:
    """One line to the runner of a play."""

    def __init__(self, name: str, folder: Path, *, side: bool = False) -> None:
        """Say who we are; return once the runner has said what to stand at.

        ``side``: this role has a line of its own already.
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
        """Forget a line that a fork has copied."""
        self._sock.close()

    # -- points -----------------------------------------------------------------------------

    def due(self, op: str, name: str | None = None) -> Armed | None:
        """The point that one is at now, if the runner waits at it."""
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

        ``inside``: what to stand in instead of waiting for a word; whether it was ended by one.
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
            self._owed += 1  # nobody said anything in all that time
            return "go"
        return self.await_release()

    def await_release(self) -> str:
        """Wait for the word on how to go on; a runner that is gone lets everybody go."""
        try:
            while True:
                packet = self._get()
                if isinstance(packet, Armed):
                    self._arms.append(packet)
                elif packet is None or not self._forgiven():
                    return packet.action if packet else "go"
        except BaseException:
            self._owed += 1  # a handler raised: the word is still to come, and means nothing more
            raise

    def _forgiven(self) -> bool:
        """Whether a release is one that nobody waits for any more."""
        if self._owed:
            self._owed -= 1
            return True
        return False

    def _listen(self) -> None:
        """Take what has come, without waiting."""
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
