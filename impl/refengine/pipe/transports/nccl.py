"""Payloads between two GPUs: torch's NCCL process group of two, made for one link.

Its store listens at the link's own address, at a port that the link tells. All else goes by the
link; the store holds nothing but NCCL's own address, which its traffic shows as well.
"""

import datetime
import select
import struct
from typing import Any

import torch
import torch.distributed as dist

from ...base.security import SocketFactory
from ...errors import PeerDied
from ..errors import TransportUnavailable
from ..frames import Header, Kind, Way
from ..link import Link, ready
from .device_copies import DeviceOutlet, DeviceSnapshot, synchronized, viewed
from .nothing import Nothing

_PORT = struct.Struct(">H")
_MEETING = datetime.timedelta(seconds=60)
_A_LOOK = 0.002
"""Seconds between looks at the link while NCCL carries: its kernels cannot be waited for."""
_dist: Any = dist


class Pair:
    """Two ranks: 0 sends, 1 receives."""

    def __init__(self, link: Link, device: torch.device) -> None:
        if not dist.is_nccl_available():
            raise TransportUnavailable("nccl", "this torch has no NCCL")
        self._link, self._device = link, device
        self._group: Any = None

    def listen(self) -> int:
        """The sender's half of the meeting: the port of its store."""
        host = self._link.sock.getsockname()[0]
        listener = SocketFactory().listen_tcp(host, 0)
        port: int = listener.getsockname()[1]
        listener.setblocking(True)
        store = _dist.TCPStore(
            host,
            port,
            2,
            True,
            timeout=_MEETING,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
            use_libuv=False,
        )
        self._made(store, 0)
        return port

    def join(self, port: int) -> None:
        """The receiver's half."""
        if self._group is None:
            host = self._link.sock.getpeername()[0]
            self._made(_dist.TCPStore(host, port, 2, False, timeout=_MEETING), 1)

    def send(self, flat: torch.Tensor) -> None:
        """Begin to."""
        self._group.send([flat], 1, 0)

    def receive(self, flat: torch.Tensor) -> None:
        """Until it is there; PeerDied if its sender is gone meanwhile."""
        work = self._group.recv([flat], 0, 0)
        while not work.is_completed():
            if ready(self._link.sock, select.POLLRDHUP, _A_LOOK):
                self.abort()
                across = self._link.across
                raise PeerDied(across.role, across.pid, "a tensor by NCCL")
        work.wait()

    def abort(self) -> None:
        """Whatever NCCL is doing."""
        group, self._group = self._group, None
        if group is not None:
            group.abort()

    def _made(self, store: Any, rank: int) -> None:
        torch.cuda.set_device(self._device)
        prefixed = _dist.PrefixStore("refengine.pipe", store)
        self._group = _dist.ProcessGroupNCCL(prefixed, rank, 2, _MEETING)


class NcclParcel(DeviceSnapshot):
    """A snapshot that is sent once its header has left."""

    def __init__(
        self, tensor: torch.Tensor, label: bytes, device: torch.device, outlet: "NcclOutlet"
    ) -> None:
        super().__init__(tensor, device, outlet.most)
        self._label, self._outlet = label, outlet

    def header(self, number: int) -> Header:
        """What announces it."""
        self.settled()
        told = _PORT.size
        return Header(Kind.TENSOR, number, self.metadata, Way.NCCL, told, self._label)

    def follows(self) -> memoryview:
        """Where to meet."""
        return memoryview(_PORT.pack(self._outlet.port()))

    def beside(self) -> bool:
        """Begin to send; the receiver says when it has it."""
        if self.metadata.nbytes:
            self._outlet.pair.send(self.settled().view(-1).view(torch.uint8))
        return True


class NcclOutlet(DeviceOutlet):
    """The sending half."""

    def __init__(self, link: Link, device: str, most: int) -> None:
        super().__init__(device, most)
        self.most = most
        self.pair = Pair(link, self._device)
        self._port = 0

    def port(self) -> int:
        """Of the store, made for the first tensor."""
        self._port = self._port or self.pair.listen()
        return self._port

    def snapshot(self, tensor: Any, label: bytes) -> Any:
        """A copy on the GPU."""
        if tensor is None:
            return Nothing(label)
        return NcclParcel(tensor, label, self._device, self)

    def close(self) -> None:
        """End the group."""
        self.pair.abort()


class NcclInlet:
    """The receiving half."""

    def __init__(self, link: Link, device: str) -> None:
        self._device = torch.device(device)
        self._pair = Pair(link, self._device)

    def room(self, header: Header) -> memoryview:
        """For the port."""
        return memoryview(bytearray(header.follows))

    def tensor(self, header: Header, follows: memoryview) -> Any:
        """Into memory of its own."""
        metadata = header.metadata
        assert metadata is not None
        flat = torch.empty(metadata.nbytes, dtype=torch.uint8, device=self._device)
        if metadata.nbytes:
            self._pair.join(*_PORT.unpack(follows))
            self._pair.receive(flat)
        return synchronized(self._device, viewed(flat, metadata))

    def close(self) -> None:
        """End the group."""
        self._pair.abort()
