"""Payloads by the link itself: the snapshot's bytes right behind their header, never pickled.

For tensors on processors; those on a GPU are copied to the host and back.
"""

from typing import Any

import torch

from ...base.buffer_pool import BufferPool, SnapshotBuffers
from ..errors import TensorRefused
from ..protocol import Header, Kind, Metadata
from ..tensors import bytes_of, copy_into, describe, within_memory

_NOTHING = memoryview(b"")


class InlineSnapshot:
    """Metadata, and a copy of the bytes in memory on loan from the buffers."""

    def __init__(self, metadata: Metadata | None, label: bytes, buffers: SnapshotBuffers) -> None:
        self._metadata, self._label, self._buffers = metadata, label, buffers
        nbytes = metadata.nbytes if metadata else 0
        self._memory = buffers.take(nbytes) if nbytes else _NOTHING

    @property
    def memory(self) -> memoryview:
        """Memory that holds the bytes."""
        return self._memory

    def header(self, number: int) -> Header:
        """Return the header that announces it."""
        if self._metadata is None:
            return Header(Kind.NOTHING, number, label=self._label)
        nbytes = len(self._memory)
        return Header(Kind.TENSOR, number, self._metadata, follows=nbytes, label=self._label)

    def follows(self) -> memoryview:
        """Return the bytes."""
        return self._memory

    def beside(self) -> bool:
        """Return False: all goes by the link."""
        return False

    def free(self) -> None:
        """Give the memory back."""
        memory, self._memory = self._memory, _NOTHING
        if len(memory):
            self._buffers.give_back(memory)


class InlineSendTransport:
    """The sending half. `most`: bytes that a tensor may have."""

    def __init__(self, buffers: SnapshotBuffers, most: int) -> None:
        self._buffers, self._most = buffers, most

    def nbytes(self, tensor: Any) -> int:
        """Return the bytes of a tensor's elements; 0 if the snapshot will refuse it."""
        nbytes = 0 if tensor is None else bytes_of(tensor)
        return nbytes if nbytes <= self._most else 0

    def snapshot(self, tensor: Any, label: bytes) -> InlineSnapshot:
        """Return a copy in memory used before, if there is some: fresh memory is slow."""
        if tensor is None:
            return InlineSnapshot(None, label, self._buffers)
        metadata = describe(tensor)
        if metadata.nbytes > self._most:
            raise TensorRefused(f"{metadata.nbytes} bytes, of at most {self._most}")
        snapshot = InlineSnapshot(metadata, label, self._buffers)
        if len(snapshot.memory):
            copy_into(tensor, snapshot.memory)
        return snapshot

    def close(self) -> None:
        """Release the memory."""
        self._buffers.clear()


class InlineReceiveTransport:
    """The receiving half: tensors arrive where they stay; on a GPU after one more copy."""

    def __init__(self, device: str, most_idle: int) -> None:
        self._recycler, self._device = BufferPool(most_idle), torch.device(device)

    def room(self, header: Header) -> memoryview:
        """Return memory that the tensor will keep."""
        return self._recycler.take(header.follows) if header.follows else _NOTHING

    def tensor(self, header: Header, follows: memoryview) -> Any:
        """Return the tensor made of that memory."""
        assert header.metadata is not None
        return within_memory(header.metadata, follows).to(self._device)

    def close(self) -> None:
        """Release the memory that no tensor has."""
        self._recycler = BufferPool(0)
