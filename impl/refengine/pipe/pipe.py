"""The KV-transfer pipe: tensors to the next rank of a ring, and from the one before (SPEC 6)."""

import os
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from ..base.cleanup import ReleaseStack, close_collected
from ..base.clock import Clock, monotonic
from ..base.security import Keys, SocketFactory
from ..errors import ForkedCopy
from .link import Location
from .receiver import Receiver
from .rendezvous import Neighbours, RankInfo, connect_ring
from .sender import Sender
from .settings import PipeSettings
from .transports.select import (
    choose_transport,
    device_id,
    machine_id,
    make_receive_transport,
    make_send_transport,
)

if TYPE_CHECKING:
    import torch

_EXIT_SECONDS = 2.0


class Overrides(TypedDict, total=False):
    """Sockets and clock of tests."""

    sockets: SocketFactory
    clock: Clock


class Pipe:
    """Rank `rank`'s end: sends to rank + 1, receives from rank - 1, both around a ring of `size`.

    Every rank makes one, by the same `host` and `port`, where rank 0 listens, and with the same
    `key` of 32 bytes (`refengine.group.new_key()`). It returns once all ranks have their links.

    Any number of threads may send; one at a time receives, another gets Busy. Sends never wait for
    this end's receives, nor the other way around (SPEC K7).
    """

    def __init__(
        self,
        host: str,
        port: int,
        rank: int,
        size: int,
        *,
        key: bytes,
        device: str = "cpu",
        settings: PipeSettings | None = None,
        timeout: float | None = 300.0,
        **overrides: Unpack[Overrides],
    ) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} is not below the size {size}")
        if not 0 < port < 1 << 16:
            raise ValueError(f"{port} is no port that all ranks can know")
        self.rank, self.size = rank, size
        self._settings = settings or PipeSettings()
        self._pid = os.getpid()
        clock = overrides.get("clock", monotonic)
        location = Location(machine_id(), device_id(device), self._settings.transport)
        info = RankInfo(
            host.removeprefix("[").removesuffix("]"),
            port,
            rank,
            size,
            Keys.from_secret(key),
            location,
            self._settings.handshake,
            overrides.get("sockets") or SocketFactory(),
            clock,
        )
        undo = ReleaseStack()
        try:
            neighbours = undo.acquire(Neighbours.close, connect_ring, info, timeout)
            self._ends = undo.acquire(_Ends.drop, _Ends, neighbours, location, device, self, clock)
            # Runs at collection, at exit, and in multiprocessing children, which skip atexit.
            closing = self._ends.leave, _EXIT_SECONDS
            self._finalizer = Finalize(self, close_collected, closing, exitpriority=20)
            self._ends.sender.start()
        except BaseException:
            undo.close()
            raise

    @property
    def settings(self) -> PipeSettings:
        """Settings that the pipe was made with."""
        return self._settings

    @property
    def buffer_size(self) -> int:
        """Bytes handed in and not sent yet; 0 after every outcome (SPEC K2)."""
        return self._ends.sender.send_queue.nbytes()

    def send_tensor(self, tensor: "torch.Tensor | None", timeout: float | None = None) -> None:
        """Send a tensor as it is now; return once there was room for a copy of its bytes (SPEC K5).

        Raises the error of an earlier send (SendFailed; PeerDied, PeerSilent, PipeClosed for good):
        then this one was not sent. DeadlinePassed if there was no room in time.
        """
        self.send_labelled(tensor, b"", timeout)

    def recv_tensor(self, timeout: float | None = None) -> "torch.Tensor | None":
        """Return the next tensor from the rank before.

        TransferFailed, once, in the place of one that could not be sent. MetadataRefused, PeerDied,
        PeerSilent, PipeClosed: nothing comes any more. DeadlinePassed: nothing changed.
        """
        return self.recv_labelled(timeout)[0]

    def send_labelled(
        self, tensor: "torch.Tensor | None", label: bytes, timeout: float | None = None
    ) -> None:
        """Send a tensor with a label of at most 80 bytes."""
        self._check_owner()
        ends = self._ends
        nbytes = ends.send_transport.nbytes(tensor)
        ends.sender.send(nbytes, lambda: ends.send_transport.snapshot(tensor, label), timeout)

    def recv_labelled(self, timeout: float | None = None) -> "tuple[torch.Tensor | None, bytes]":
        """Return the next tensor and its label, padded with zeros to 80 bytes."""
        self._check_owner()
        return self._ends.receiver.receive(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Hand over what was sent, for at most that long (None: the settings'), and leave.

        Raises errors not reported yet, TensorsLost for tensors that could not be handed over.
        Called again, it does nothing.
        """
        if self._pid == os.getpid():
            try:
                self._ends.close(self._settings.close if timeout is None else timeout)
            finally:
                self._finalizer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_owner(self) -> None:
        if self._pid != os.getpid():
            raise ForkedCopy(self._pid, "pipe")


class _Ends:
    """Parts of a pipe, without the pipe: its threads must not keep it alive."""

    def __init__(
        self, neighbours: Neighbours, location: Location, device: str, pipe: Pipe, clock: Clock
    ) -> None:
        settings, out, into = pipe.settings, neighbours.out, neighbours.into
        self._pid = os.getpid()
        out.watch(settings.peer_timeout)
        into.watch(settings.peer_timeout)
        undo = ReleaseStack()
        try:
            self.sender = undo.acquire(
                Sender.close_now, Sender, out, settings.buffer_bytes, settings.peer_timeout, clock
            )
            in_use = self.sender.send_queue.nbytes
            self.send_transport = make_send_transport(
                choose_transport(out, location), out, settings, device, in_use
            )
            self.receiver = Receiver(
                into,
                make_receive_transport(choose_transport(into, location), into, settings, device),
                settings.max_tensor_bytes,
                settings.peer_timeout,
                clock,
            )
        except BaseException:
            undo.close()
            raise

    def close(self, seconds: float) -> None:
        """Close both directions."""
        if self._pid != os.getpid():
            return
        try:
            self.receiver.close(seconds)
        finally:
            try:
                self.sender.close(seconds)
            finally:
                self.send_transport.close()

    def leave(self, seconds: float) -> None:
        """Close without reporting losses: at exit no caller is left."""
        try:
            self.close(seconds)
        except Exception:
            return

    def drop(self) -> None:
        """Close ends that were never used."""
        self.leave(0.0)
