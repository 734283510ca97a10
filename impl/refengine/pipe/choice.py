"""The transport of a link by its name; only the one that is needed is imported, with its torch."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import TransportUnavailable
from .link import Link
from .places import CPU, Place, way_between
from .settings import PipeSettings

if TYPE_CHECKING:
    from .transports.seam import Inlet, Outlet


def device_of(device: str) -> bytes:
    """A device's own number, the same in every process that sees it; zeros for the processors."""
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


def way(link: Link, mine: Place) -> str:
    """The transport of a link, if it is possible there."""
    found = way_between(mine, link.across.place)
    theirs = link.across.place
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


def outlet(
    name: str, link: Link, settings: PipeSettings, device: str, in_use: Callable[[], int]
) -> "Outlet":
    """The sending half."""
    most = settings.max_tensor_bytes
    if name == "nccl":
        from .transports.nccl import NcclOutlet

        return NcclOutlet(link, device, most)
    if name == "cuda_ipc":
        from .transports.cuda_ipc import IpcOutlet

        return IpcOutlet(device, most)
    from .shelf import Shelf
    from .transports.group import GroupOutlet

    return GroupOutlet(Shelf(settings.buffer_bytes, in_use), most)


def inlet(name: str, link: Link, settings: PipeSettings, device: str) -> "Inlet":
    """The receiving half."""
    if name == "nccl":
        from .transports.nccl import NcclInlet

        return NcclInlet(link, device)
    if name == "cuda_ipc":
        from .transports.cuda_ipc import IpcInlet

        return IpcInlet(device)
    from .transports.group import GroupInlet

    return GroupInlet(device, settings.buffer_bytes)
