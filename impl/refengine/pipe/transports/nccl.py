"""Payloads between two GPUs: torch's NCCL process group of two, made for one link.

Its store listens at the link's own address, at a port sent over the link. All else goes by the
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
from ..link import Link, ready
from ..protocol import Header, Kind, Way
from .base import NonePayload
from .device_copies import DeviceSendTransport, DeviceSnapshot, synchronized, viewed

_PORT = struct.Struct(">H")
_TIMEOUT = datetime.timedelta(seconds=60)
_POLL_INTERVAL = 0.002
"""Seconds between checks of the link while NCCL carries: its kernels cannot be waited for."""
_dist: Any = dist


class Pair:
    """A process group of two ranks: 0 sends, 1 receives."""

    def __init__(self, link: Link, device: torch.device) -> None:
        if not dist.is_nccl_available():
            raise TransportUnavailable("nccl", "this torch has no NCCL")
        self._link, self._device = link, device
        self._group: Any = None

    def listen(self) -> int:
        """Make the sender's half of the group; return the port of its store."""
        host = self._link.sock.getsockname()[0]
        listener = SocketFactory().listen_tcp(host, 0)
        port: int = listener.getsockname()[1]
        listener.setblocking(True)
        store = _dist.TCPStore(
            host,
            port,
            2,
            True,
            timeout=_TIMEOUT,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
            use_libuv=False,
        )
        self._made(store, 0)
        return port

    def join(self, port: int) -> None:
        """Make the receiver's half of the group."""
        if self._group is None:
            host = self._link.sock.getpeername()[0]
            self._made(_dist.TCPStore(host, port, 2, False, timeout=_TIMEOUT), 1)

    def send(self, flat: torch.Tensor) -> None:
        """Begin to send."""
        self._group.send([flat], 1, 0)

    def receive(self, flat: torch.Tensor) -> None:
        """Wait until the bytes are there; PeerDied if the sender ends meanwhile."""
        work = self._group.recv([flat], 0, 0)
        while not work.is_completed():
            if ready(self._link.sock, select.POLLRDHUP, _POLL_INTERVAL):
                self.abort()
                peer = self._link.peer
                raise PeerDied(peer.role, peer.pid, "a tensor by NCCL")
        work.wait()

    def abort(self) -> None:
        """End the group, whatever NCCL is doing."""
        group, self._group = self._group, None
        if group is not None:
            group.abort()

    def _made(self, store: Any, rank: int) -> None:
        torch.cuda.set_device(self._device)
        prefixed = _dist.PrefixStore("refengine.pipe", store)
        self._group = _dist.ProcessGroupNCCL(prefixed, rank, 2, _TIMEOUT)


class NcclSnapshot(DeviceSnapshot):
    """A snapshot that is sent once its header has left."""

    def __init__(
        self,
        tensor: torch.Tensor,
        label: bytes,
        device: torch.device,
        transport: "NcclSendTransport",
    ) -> None:
        super().__init__(tensor, device, transport.most)
        self._label, self._transport = label, transport

    def header(self, number: int) -> Header:
        """Return the header that announces it."""
        self.settled()
        told = _PORT.size
        return Header(Kind.TENSOR, number, self.metadata, Way.NCCL, told, self._label)

    def follows(self) -> memoryview:
        """Return the port of the group's store."""
        return memoryview(_PORT.pack(self._transport.port()))

    def beside(self) -> bool:
        """Begin to send; the receiver confirms receipt."""
        if self.metadata.nbytes:
            self._transport.pair.send(self.settled().view(-1).view(torch.uint8))
        return True


class NcclSendTransport(DeviceSendTransport):
    """The sending half."""

    def __init__(self, link: Link, device: str, most: int) -> None:
        super().__init__(device, most)
        self.most = most
        self.pair = Pair(link, self._device)
        self._port = 0

    def port(self) -> int:
        """Return the port of the store, made for the first tensor."""
        self._port = self._port or self.pair.listen()
        return self._port

    def snapshot(self, tensor: Any, label: bytes) -> Any:
        """Return a copy on the GPU."""
        if tensor is None:
            return NonePayload(label)
        return NcclSnapshot(tensor, label, self._device, self)

    def close(self) -> None:
        """End the group."""
        self.pair.abort()


class NcclReceiveTransport:
    """The receiving half."""

    def __init__(self, link: Link, device: str) -> None:
        self._device = torch.device(device)
        self._pair = Pair(link, self._device)

    def room(self, header: Header) -> memoryview:
        """Return memory for the port."""
        return memoryview(bytearray(header.follows))

    def tensor(self, header: Header, follows: memoryview) -> Any:
        """Receive into memory of its own."""
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
