"""What a stranger declares before it has proved who it is takes no memory (SPEC S4)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zmq

from refengine.base.security import MOST_FRAME_BYTES, Keys, SocketFactory
from refengine.coordinator.links import BindAddress

_GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + b"\0" * 32
_DECLARED = 1 << 30
_SENT = 100 << 20


@pytest.fixture(params=["a queue's or group's hub", "a coordinator"])
def listener(request: pytest.FixtureRequest) -> Iterator[str]:
    with ExitStack() as undo:
        context: Any = zmq.Context()
        undo.callback(context.destroy, linger=0)
        keys = Keys.fresh()
        if "hub" in request.param:
            made, address = SocketFactory().server(context, "127.0.0.1", 0, keys, 3.0)
        else:
            made, address = BindAddress(host="127.0.0.1", keys=keys).bind(
                context, zmq.PULL, "reports"
            )
        undo.callback(made.close, linger=0)
        yield address


def test_a_handshake_that_declares_a_gigabyte_takes_no_memory(listener: str) -> None:
    host, port = listener.removeprefix("tcp://").rsplit(":", 1)
    before = _resident()
    with socket.create_connection((host, int(port)), timeout=10.0) as line:
        line.sendall(_GREETING)
        assert line.recv(64)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):  # it hangs up
            line.sendall(b"\x06" + struct.pack(">Q", _DECLARED) + bytes(_SENT))
    assert _resident() - before < 16 << 20


def test_a_frame_for_a_peer_is_well_below_a_megabyte() -> None:
    assert MOST_FRAME_BYTES < 1 << 20


def _resident() -> int:
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmRSS:")[1].split()[0]) << 10
