"""Where a rank's tensors are, so that both ends of a link come to the same way for payloads."""

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from .settings import TransportName

_FIELDS = struct.Struct(">16s16sB31x")
PLACE_BYTES = _FIELDS.size
_NAMES: tuple[TransportName, ...] = ("auto", "group", "nccl", "cuda_ipc")
CPU = bytes(16)


@dataclass(frozen=True)
class Place:
    """A machine, a device on it (zeros: its processors), and the transport that was asked for."""

    machine: bytes
    device: bytes
    asked: TransportName

    def pack(self) -> bytes:
        """In so many bytes."""
        return _FIELDS.pack(self.machine, self.device, _NAMES.index(self.asked))

    @classmethod
    def unpack(cls, raw: bytes) -> "Place":
        """ValueError for a transport that is not known here."""
        fields: tuple[bytes, bytes, int] = _FIELDS.unpack(raw)
        machine, device, asked = fields
        if asked >= len(_NAMES):
            raise ValueError("it wants a transport that is not known here")
        return cls(machine, device, _NAMES[asked])


def this_machine() -> bytes:
    """One for each boot of a kernel: processes with the same one can share a device's memory."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        boot = os.urandom(16)  # then it shares with nobody
    return hashlib.sha256(boot).digest()[:16]


def way_between(one: Place, other: Place) -> str:
    """The transport of a link between two places; ValueError if they do not agree."""
    if one.asked != other.asked:
        raise ValueError(f"one end wants the transport {one.asked!r}, the other {other.asked!r}")
    if one.asked != "auto":
        return one.asked
    if CPU in (one.device, other.device):
        return "group"
    same = one.machine == other.machine and one.device == other.device
    return "cuda_ipc" if same else "nccl"
