"""The coordinator as a process: the child listens, reports where, and ends with its parent."""

import contextlib
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection, wait
from pathlib import Path

from ..base import ownership
from ..base.security import Keys
from ..errors import DeadlinePassed, PeerDied
from .links import Addresses, BindAddress
from .server import CoordinatorServer, CoordinatorSettings

_LEAVE_WITHIN = 5.0  # seconds for the child to end once it was asked to


class Coordinator:
    """A coordinator of `engines` replicas, in a process of its own.

    Args:
        engines: number of replicas.
        host: TCP address to listen at, for replicas on other hosts; without it ipc.
        keys: needed with a host.
        settings: the coordinator's times.
        timeout: seconds for the child to listen.

    Raises:
        DeadlinePassed: the child did not listen in time.
        PeerDied: the child ended before it listened.
    """

    def __init__(
        self,
        engines: int,
        *,
        host: str = "",
        keys: Keys | None = None,
        settings: CoordinatorSettings | None = None,
        timeout: float = 30.0,
    ) -> None:
        ownership.remove_stale_names()
        self._folder = ownership.new_directory()
        context = multiprocessing.get_context("spawn")
        self._link, theirs = context.Pipe()
        bind_address = BindAddress(str(self._folder), host, keys)
        self._process = context.Process(
            target=_serve, args=(engines, bind_address, settings, theirs, os.getpid()), daemon=True
        )
        try:
            self._process.start()
            theirs.close()
            self.addresses = self._reported(timeout)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the child."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """Descriptor that is readable once the child has ended."""
        return self._process.sentinel

    def close(self) -> None:
        """End the child, and remove the paths it listened at. Idempotent."""
        self._link.close()
        if self._process.pid is not None:
            self._process.join(_LEAVE_WITHIN)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        ownership.remove_directory(self._folder)

    def _reported(self, timeout: float) -> Addresses:
        ready = wait([self._link, self._process.sentinel], timeout)
        if not ready:
            raise DeadlinePassed("the coordinator's process to listen", timeout)
        with contextlib.suppress(EOFError, OSError):
            return self._link.recv()
        self._process.join(_LEAVE_WITHIN)
        code = self._process.exitcode or 0
        raise PeerDied("the coordinator", self.pid, "its addresses", -code if code < 0 else None)


def _serve(
    engines: int,
    bind_address: BindAddress,
    settings: CoordinatorSettings | None,
    link: Connection,
    parent: int,
) -> None:
    """Serve, in the child, until the parent closes its end of the link, or ends.

    A fork of the parent may hold the parent's end of the link open; so each turn checks the
    parent's process id as well.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's to handle
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("refengine:coord")
    os.umask(0o077)
    server = CoordinatorServer(engines, bind_address, settings)
    try:
        link.send(server.addresses)
        server.watch(link.fileno())
        while not server.turn() and os.getppid() == parent:
            pass
    finally:
        server.close()
        ownership.remove_directory(Path(bind_address.folder))
