"""Work of a Ray cluster's node for a campaign: it has a lane for each of Ray's workers."""

from __future__ import annotations

import os
import platform

import msgspec

from killpoint import __version__
from killpoint.campaign.work_order import WorkOrder
from killpoint.campaign.worker_slot import Lane

_lanes: dict[tuple[str, str, str], Lane] = {}
"""Lane of this worker: one, since Ray gives a worker one item at a time."""


def play(order: bytes) -> bytes:
    """Play an order; both as MessagePack. The player stays for the next one.

    It sees the devices that Ray has given this task, so with others there is another player.
    """
    asked = msgspec.msgpack.decode(order, type=WorkOrder)
    key = asked.target, asked.device, os.environ.get("CUDA_VISIBLE_DEVICES", "")
    for other in [other for other in _lanes if other != key]:
        _lanes.pop(other).close()
    if key not in _lanes:
        _lanes[key] = Lane(asked.target, asked.device)
    return msgspec.msgpack.encode(_lanes[key].play(asked))


def greet() -> str:
    """Return the versions of killpoint and of Python on this node."""
    return f"killpoint {__version__}, Python {platform.python_version()}"
