"""A queue's ends in a simulated world, after their handshake, before the first task runs."""

from __future__ import annotations

from typing import Any, Protocol, cast

from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.targets.protocol import BlackBox
from killpoint.targets.shapes import QueueShape

Ends = tuple[Any, dict[str, Any]]
"""The writer's end, and the readers' by their names."""


class Meets(Protocol):
    """Black box whose ends have a handshake."""

    def ready(self, end: Any, timeout: float | None) -> None:
        """See :class:`killpoint.targets.protocol.Target`."""
        ...


def meet(box: BlackBox, around: SimulatedEnvironment, shape: QueueShape) -> Ends:
    """Return the writer's and readers' ends; data not awaited by the handshake is in transit."""
    network = around.sockets.network
    network.owner = "writer"
    writer = box.make(shape)
    handle = box.handle(writer)
    readers: dict[str, Any] = {}
    for rank in range(shape.readers):
        network.owner = f"reader-{rank}"
        readers[network.owner] = box.attach(handle, rank)
    if hasattr(box, "ready"):  # a look at the whole protocol costs as much as fifty steps
        for end in (writer, *readers.values()):
            cast("Meets", box).ready(end, None)
    network.owner = ""
    return writer, readers
