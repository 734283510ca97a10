"""`refengine serve --node-rank 1`: the workers of the second node, from start to a clean end."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from ..executor.errors import signal_name
from ..executor.nodes.follower import Follower
from ..executor.nodes.settings import NodeSettings

_FAILED = 70


def follow(nodes: NodeSettings, patience: float) -> int:
    """Run the workers that the head asks for until it shuts down, or SIGTERM or SIGINT; then 0.

    Returns 70 if the head is gone, cut off, or not there within `patience` seconds, or if a worker
    has ended; no process is left behind (SPEC L1).
    """
    follower = Follower(nodes, patience)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        follower.stop(f"{signal_name(number)} has ended it")

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        print(f"node 1 joins the head at {nodes.head}:{nodes.port}", flush=True)
        if cause := follower.run():
            print(f"refengine serve: {cause}", file=sys.stderr)
        return _FAILED if cause else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
