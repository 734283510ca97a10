"""Payloads between two processes on one GPU: the receiver copies from the sender's snapshot.

The link carries the memory's handle. The snapshot is freed when the receiver says that it has its
own copy, or when the link ends.
"""

import struct
from typing import Any

import torch

from ..errors import MetadataRefused
from ..protocol import Header, Kind, Way
from .base import NonePayload
from .device_copies import DeviceSendTransport, DeviceSnapshot, synchronized

_Shared = tuple[int, bytes, int, int, bytes, int, bytes, bool]
"""Device, handle, bytes, offset, and what keeps the memory until it is copied, as torch has it."""
_HEAD = struct.Struct(">iHHHqqq?")


def pack(shared: _Shared) -> bytes:
    """Encode a handle for the link."""
    device, handle, nbytes, offset, counter, counter_offset, event, waits = shared
    lengths = len(handle), len(counter), len(event)
    head = _HEAD.pack(device, *lengths, nbytes, offset, counter_offset, waits)
    return head + handle + counter + event


def unpack(raw: bytes) -> _Shared:
    """Decode a handle; MetadataRefused if it is none."""
    try:
        device, one, two, three, nbytes, offset, counter_offset, waits = _HEAD.unpack_from(raw)
    except struct.error as error:
        raise MetadataRefused(f"no handle of memory: {error}") from None
    rest = raw[_HEAD.size :]
    if len(rest) != one + two + three or min(nbytes, offset, counter_offset) < 0:
        raise MetadataRefused("no handle of memory: its lengths do not fit")
    handle, counter, event = rest[:one], rest[one : one + two], rest[one + two :]
    return device, handle, nbytes, offset, counter, counter_offset, event, waits


class IpcSnapshot(DeviceSnapshot):
    """A snapshot whose handle is sent."""

    def __init__(self, tensor: torch.Tensor, label: bytes, device: torch.device, most: int) -> None:
        super().__init__(tensor, device, most)
        self._label = label
        self._handle = b""

    def header(self, number: int) -> Header:
        """Return the header of the handle."""
        storage: Any = self.settled().untyped_storage()
        self._handle = pack(storage._share_cuda_()) if self.metadata.nbytes else b""
        told = len(self._handle)
        return Header(Kind.TENSOR, number, self.metadata, Way.CUDA_IPC, told, self._label)

    def follows(self) -> memoryview:
        """Return the handle."""
        return memoryview(self._handle)

    def beside(self) -> bool:
        """Return True: until the receiver has its copy, the memory must stay."""
        return True


class IpcSendTransport(DeviceSendTransport):
    """The sending half."""

    def snapshot(self, tensor: Any, label: bytes) -> Any:
        """Return a copy on the GPU."""
        if tensor is None:
            return NonePayload(label)
        return IpcSnapshot(tensor, label, self._device, self._most)

    def close(self) -> None:
        """Do nothing: it holds nothing."""


class IpcReceiveTransport:
    """The receiving half."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def room(self, header: Header) -> memoryview:
        """Return memory for the handle."""
        return memoryview(bytearray(header.follows))

    def tensor(self, header: Header, follows: memoryview) -> Any:
        """Return a copy of the memory that the handle names."""
        metadata = header.metadata
        assert metadata is not None
        dtype: torch.dtype = getattr(torch, metadata.dtype)
        if not metadata.nbytes:
            return torch.empty(metadata.shape, dtype=dtype, device=self._device)
        _, handle, nbytes, *rest = unpack(bytes(follows))
        if nbytes < metadata.nbytes:
            raise MetadataRefused(f"memory of {nbytes} bytes for {metadata.nbytes}")
        storage: Any = torch.UntypedStorage
        theirs = storage._new_shared_cuda(self._device.index or 0, handle, nbytes, *rest)
        there: Any = torch.empty(0, dtype=dtype, device=self._device)
        there.set_(theirs, 0, metadata.shape)
        return synchronized(self._device, there.clone())

    def close(self) -> None:
        """Do nothing: it holds nothing."""
