"""The transport of a link: ranks report their locations, and both ends derive the same transport.

Only the transport in use is imported, with its torch.
"""

import hashlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TransportUnavailable
from ..link import CPU, Link, Location
from ..settings import PipeSettings

if TYPE_CHECKING:
    from .base import ReceiveTransport, SendTransport


def device_id(device: str) -> bytes:
    """Return a device's own number, equal in every process that sees it; zeros for processors."""
    if device == "cpu":
        return CPU
    import torch

    cuda: Any = torch.cuda

    chosen = torch.device(device)
    if chosen.type != "cuda":
        raise TransportUnavailable("auto", f"nothing is known here of devices like {device!r}")
    if not torch.cuda.is_available():
        raise TransportUnavailable("auto", f"there is no {device}: torch finds no GPU here")
    return uuid.UUID(str(cuda.get_device_properties(chosen).uuid)).bytes


def choose_transport(link: Link, mine: Location) -> str:
    """Return the transport of a link; TransportUnavailable if it is not possible there."""
    found = agreed_transport(mine, link.peer.location)
    theirs = link.peer.location
    if found == "group":
        return found
    if CPU in (mine.device, theirs.device):
        raise TransportUnavailable(found, "it is for ranks whose devices are GPUs")
    same = (mine.machine, mine.device) == (theirs.machine, theirs.device)
    if found == "nccl" and same:
        raise TransportUnavailable(found, "NCCL refuses two ranks on one GPU; use 'cuda_ipc'")
    if found == "cuda_ipc" and mine.machine != theirs.machine:
        raise TransportUnavailable(found, "the ranks are on different machines; use 'nccl'")
    return found


def make_send_transport(
    name: str, link: Link, settings: PipeSettings, device: str, in_use: Callable[[], int]
) -> "SendTransport":
    """Return the sending half."""
    most = settings.max_tensor_bytes
    if name == "nccl":
        from .nccl import NcclSendTransport

        return NcclSendTransport(link, device, most)
    if name == "cuda_ipc":
        from .cuda_ipc import IpcSendTransport

        return IpcSendTransport(device, most)
    from ...base.buffer_pool import SnapshotBuffers
    from .inline import InlineSendTransport

    return InlineSendTransport(SnapshotBuffers(settings.buffer_bytes, in_use), most)


def make_receive_transport(
    name: str, link: Link, settings: PipeSettings, device: str
) -> "ReceiveTransport":
    """Return the receiving half."""
    if name == "nccl":
        from .nccl import NcclReceiveTransport

        return NcclReceiveTransport(link, device)
    if name == "cuda_ipc":
        from .cuda_ipc import IpcReceiveTransport

        return IpcReceiveTransport(device)
    from .inline import InlineReceiveTransport

    return InlineReceiveTransport(device, settings.buffer_bytes)


def machine_id() -> bytes:
    """Return a number of this boot of the kernel: equal ones can share a device's memory."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        boot = os.urandom(16)  # then it shares with nobody
    return hashlib.sha256(boot).digest()[:16]


def agreed_transport(one: Location, other: Location) -> str:
    """Return the transport between two locations; ValueError if the ends disagree."""
    if one.asked != other.asked:
        raise ValueError(f"one end wants the transport {one.asked!r}, the other {other.asked!r}")
    if one.asked != "auto":
        return one.asked
    if CPU in (one.device, other.device):
        return "group"
    same = one.machine == other.machine and one.device == other.device
    return "cuda_ipc" if same else "nccl"
