"""The transport of a link by its name; only the one that is needed is imported, with its torch."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import TransportUnavailable
from .link import Link
from .places import CPU
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


def outlet(name: str, link: Link, settings: PipeSettings, in_use: Callable[[], int]) -> "Outlet":
    """The sending half."""
    if name == "group":
        from .shelf import Shelf
        from .transports.group import GroupOutlet

        return GroupOutlet(Shelf(settings.buffer_bytes, in_use), settings.max_tensor_bytes)
    raise TransportUnavailable(name, "it is not there yet")


def inlet(name: str, link: Link, settings: PipeSettings, device: str) -> "Inlet":
    """The receiving half."""
    if name == "group":
        from .transports.group import GroupInlet

        return GroupInlet(device, settings.buffer_bytes)
    raise TransportUnavailable(name, "it is not there yet")
