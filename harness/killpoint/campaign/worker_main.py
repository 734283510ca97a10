"""A player: a process with a stage of its own that plays one order after another.

It is not the campaign's own process: what breaks the harness, or hangs in it, costs one item.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection

import msgspec

from killpoint.campaign.run_item import play
from killpoint.campaign.work_order import WorkOrder, WorkResult, failed
from killpoint.errors import KillpointError
from killpoint.runner.observe.gpus import require
from killpoint.runner.stage import Stage
from killpoint.targets.registry import resolve
from killpoint.targets.shapes import Device


def main() -> None:
    """``argv``: descriptor of the line to the campaign, target, device."""
    descriptor, target = int(sys.argv[1]), sys.argv[2]
    device: Device = "cuda" if sys.argv[3] == "cuda" else "cpu"
    line: Connection[bytes, bytes] = Connection(descriptor)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()
    # Told to end, or the campaign is gone: the stage has been closed.
    with contextlib.suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        _serve(line, target, device)


def _serve(line: Connection[bytes, bytes], target: str, device: Device) -> None:
    order = _order(line)
    try:
        require(device)
        stage = Stage(resolve(target))
    except KillpointError as error:
        _tell(line, failed(order.item, str(error)))
        return
    with stage:
        while True:
            _tell(line, play(order, stage))
            order = _order(line)


def _order(line: Connection[bytes, bytes]) -> WorkOrder:
    return msgspec.msgpack.decode(line.recv_bytes(), type=WorkOrder)


def _tell(line: Connection[bytes, bytes], played: WorkResult) -> None:
    line.send_bytes(msgspec.msgpack.encode(played))


def _end_with(descriptor: int) -> None:
    """End this process once the other end of the line is closed, whatever it does then."""
    poller = select.poll()
    poller.register(descriptor, 0)  # a hang-up is told unasked
    poller.poll()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
