"""A torch TCP store lets a stranger read and overwrite; nothing else passes for one."""

from __future__ import annotations

import socket
import threading
from datetime import timedelta

import pytest
from torch.distributed import TCPStore

from killpoint.runner.network.store_attacker import StoreAttacker


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


def test_a_stranger_reads_each_value_once_and_overwrites_it() -> None:
    port = _free_port()
    store = TCPStore(
        "127.0.0.1", port, is_master=True, timeout=timedelta(seconds=5), wait_for_workers=False
    )
    store.set("send_to/1/0", b"a message")
    [stranger] = StoreAttacker.among([("127.0.0.1", _free_port()), ("127.0.0.1", port)])
    assert stranger.port == port
    assert ("send_to/1/0", b"a message") in list(stranger.values())
    assert list(stranger.values()) == []
    stranger.set_all(b"mine")
    assert store.get("send_to/1/0") == b"mine"


@pytest.mark.parametrize("greeting", [b"", b"\xff" + bytes(63)], ids=["silent", "zmtp"])
def test_what_answers_otherwise_is_no_store(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        lines: list[socket.socket] = []

        def serve() -> None:
            line, _ = door.accept()
            line.sendall(greeting)
            lines.append(line)

        thread = threading.Thread(target=serve)
        thread.start()
        assert StoreAttacker.among([("127.0.0.1", door.getsockname()[1])]) == []
        thread.join(10)
        lines[0].close()
