"""A clean process of one thread that has a peer imported and forks measuring processes from it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import sys
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path
from typing import NoReturn, cast

from killpoint.bench.peers.peer_protocol import PeerProtocol
from killpoint.bench.worker import Worker
from killpoint.errors import KillpointError
from killpoint.runner.observe.diagnosis import mapped_segments

_PR_SET_PDEATHSIG = 1
_LEAVE_WITHIN = 5.0


class _BecomeWorker(BaseException):
    """Raised in a forked child, to leave the zygote's stack."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.descriptor = descriptor


def line_for(spec: str) -> PeerProtocol:
    """The peer of this name; any target's spec is one."""
    if spec == "pipe":
        from killpoint.bench.peers.pipe import PipePeer

        return PipePeer()
    if spec == "pool-pipe":
        from killpoint.bench.pools.pipes import PipePool

        return cast("PeerProtocol", PipePool())  # it has calls of a pool in place of a line's
    if spec == "pipe-socket":
        from killpoint.bench.pipes.plain_socket import SocketPipe

        return cast("PeerProtocol", SocketPipe())  # it has calls of a pipe
    if spec == "posix-mq":
        from killpoint.bench.peers.posix_queue import PosixPeer

        return PosixPeer()
    if spec in ("limit-wake", "limit-copy"):
        from killpoint.bench.peers.limit import CopyPeer, WakePeer

        return WakePeer() if spec == "limit-wake" else CopyPeer()
    from killpoint.targets.registry import build

    return build(spec)


def main() -> None:
    """``argv``: the descriptor of the runner's channel, and the peer's spec."""
    channel = Connection(int(sys.argv[1]))
    line = _load(sys.argv[2], channel)
    parent = os.getpid()
    try:
        _serve(channel)
    except _BecomeWorker as child:
        channel.close()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            Worker(line, Connection(child.descriptor)).serve()


def _load(spec: str, channel: Connection) -> PeerProtocol:
    try:
        line = line_for(spec)
        line.load()
        importlib.import_module("numpy")
        threads = len(list(Path("/proc/self/task").iterdir()))
        if threads != 1:
            raise RuntimeError(f"its import started {threads - 1} threads: cannot fork safely")
    except Exception as error:
        text = str(error) if isinstance(error, KillpointError) else f"{error!r}"
        channel.send(("error", text))
        sys.exit(0)
    gc.collect()
    gc.freeze()
    channel.send(("ok", str(getattr(line, "version", ""))))
    return line


def _serve(channel: Connection) -> NoReturn:
    """``fork`` (a descriptor follows), ``reap`` a pid (its status, None while it runs)."""
    pids: set[int] = set()
    while True:
        try:
            order, pid = channel.recv()
        except (EOFError, OSError):
            _end(pids)
            sys.exit(0)
        if order == "fork":
            descriptor = recv_handle(channel)
            pid = os.fork()
            if pid == 0:
                raise _BecomeWorker(descriptor)
            os.close(descriptor)
            pids.add(pid)
            channel.send(pid)
        else:
            status: int | None = None
            with contextlib.suppress(ChildProcessError):
                found, raw = os.waitpid(pid, os.WNOHANG)
                status = os.waitstatus_to_exitcode(raw) if found else None
            if status is not None:
                pids.discard(pid)
            channel.send(status)


def _end(pids: set[int]) -> None:
    """The runner is gone, and they know it: give them time to close, then end them."""
    deadline = time.monotonic() + _LEAVE_WITHIN
    for pid in pids:
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(pid)
            if not select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                segments = mapped_segments(pid)
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                for name in segments:
                    Path("/dev/shm", name).unlink(missing_ok=True)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
