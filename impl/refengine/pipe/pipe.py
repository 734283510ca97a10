"""The KV-transfer pipe: tensors to the next rank of a ring, and from the one before (SPEC 6)."""

import os
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from ..base.cleanup import ReleaseStack
from ..base.clock import Clock, monotonic
from ..base.security import Keys, SocketFactory
from ..errors import ForkedCopy
from .choice import device_of, inlet, outlet, way
from .meeting import Neighbours, Party, meet
from .places import Place, this_machine
from .receiving import Receiver
from .sending import Sender
from .settings import PipeSettings

if TYPE_CHECKING:
    import torch

_EXIT_SECONDS = 2.0


class Seams(TypedDict, total=False):
    """What tests bring."""

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
        **seams: Unpack[Seams],
    ) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} is not below the size {size}")
        if not 0 < port < 1 << 16:
            raise ValueError(f"{port} is no port that all ranks can know")
        self.rank, self.size = rank, size
        self._settings = settings or PipeSettings()
        self._pid = os.getpid()
        clock = seams.get("clock", monotonic)
        place = Place(this_machine(), device_of(device), self._settings.transport)
        party = Party(
            host.removeprefix("[").removesuffix("]"),
            port,
            rank,
            size,
            Keys.from_secret(key),
            place,
            self._settings.handshake,
            seams.get("sockets") or SocketFactory(),
            clock,
        )
        undo = ReleaseStack()
        try:
            neighbours = undo.acquire(Neighbours.close, meet, party, timeout)
            self._ends = undo.acquire(_Ends.drop, _Ends, neighbours, place, device, self, clock)
            # Runs at collection, at exit, and in multiprocessing children, which skip atexit.
            self._finalizer = Finalize(self, self._ends.leave, (_EXIT_SECONDS,), exitpriority=20)
            self._ends.sender.start()
        except BaseException:
            undo.close()
            raise

    @property
    def settings(self) -> PipeSettings:
        """As it was made."""
        return self._settings

    @property
    def buffer_size(self) -> int:
        """Bytes that were handed in and have not been sent; 0 after every outcome (SPEC K2)."""
        return self._ends.sender.outgoing.nbytes()

    def send_tensor(self, tensor: "torch.Tensor | None", timeout: float | None = None) -> None:
        """Send it as it is now; returns once there was room for a copy of its bytes (SPEC K5).

        Raises what an earlier send met (SendFailed; PeerDied, PeerSilent, PipeClosed for good):
        then this one was not sent. DeadlinePassed if there was no room in time.
        """
        self.send_labelled(tensor, b"", timeout)

    def recv_tensor(self, timeout: float | None = None) -> "torch.Tensor | None":
        """The next tensor from the rank before.

        TransferFailed, once, in the place of one that could not be sent. MetadataRefused, PeerDied,
        PeerSilent, PipeClosed: nothing comes any more. DeadlinePassed: nothing changed.
        """
        return self.recv_labelled(timeout)[0]

    def send_labelled(
        self, tensor: "torch.Tensor | None", label: bytes, timeout: float | None = None
    ) -> None:
        """The same, with at most 80 bytes that are told with it."""
        self._check_owner()
        ends = self._ends
        nbytes = ends.outlet.nbytes(tensor)
        ends.sender.send(nbytes, lambda: ends.outlet.snapshot(tensor, label), timeout)

    def recv_labelled(self, timeout: float | None = None) -> "tuple[torch.Tensor | None, bytes]":
        """The same, with the label, which is padded with zeros to 80 bytes."""
        self._check_owner()
        return self._ends.receiver.receive(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Hand over what was sent, for at most that long (None: the settings'), and leave.

        Raises what was not told yet, TensorsLost for what could not be handed over. Said again, it
        does nothing.
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
    """What a pipe has, without the pipe: its threads must not keep it."""

    def __init__(
        self, neighbours: Neighbours, place: Place, device: str, pipe: Pipe, clock: Clock
    ) -> None:
        settings, out, into = pipe.settings, neighbours.out, neighbours.into
        self._pid = os.getpid()
        out.watch(settings.silence)
        into.watch(settings.silence)
        undo = ReleaseStack()
        try:
            self.sender = undo.acquire(
                Sender.cut, Sender, out, settings.buffer_bytes, settings.silence, clock
            )
            in_use = self.sender.outgoing.nbytes
            self.outlet = outlet(way(out, place), out, settings, device, in_use)
            self.receiver = Receiver(
                into,
                inlet(way(into, place), into, settings, device),
                settings.max_tensor_bytes,
                settings.silence,
                clock,
            )
        except BaseException:
            undo.close()
            raise

    def close(self, seconds: float) -> None:
        """Both directions."""
        if self._pid != os.getpid():
            return
        try:
            self.receiver.close(seconds)
        finally:
            try:
                self.sender.close(seconds)
            finally:
                self.outlet.close()

    def leave(self, seconds: float) -> None:
        """Without a word of what was lost: nobody is there to hear."""
        try:
            self.close(seconds)
        except Exception:
            return

    def drop(self) -> None:
        """Never used."""
        self.leave(0.0)
