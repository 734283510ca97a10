"""A far end that never stops sending leaves the others their turn (S4)."""

import threading
from types import ModuleType
from typing import Any

import pytest
import zmq

from refengine.base.security import Keys, SocketFactory
from refengine.transport import Client, Server, client, server


class Deaf:
    def arrived(self, rank: int) -> None: ...
    def message(self, rank: int, body: memoryview) -> None: ...
    def gone(self, rank: int, how: Any) -> None: ...
    def refused(self, rank: int, reason: str) -> None: ...


@pytest.mark.parametrize("module", [server, client])
def test_a_flood_does_not_hold_up_a_close(module: ModuleType, monkeypatch: pytest.MonkeyPatch):
    nothing = [zmq.Frame(b"\xff"), zmq.Frame(b"\xff")]
    monkeypatch.setattr(module, "frames_of", lambda _: nothing)
    keys, sockets = Keys.fresh(), SocketFactory()
    if module is server:
        end: Any = Server("127.0.0.1", 0, [1], keys, Deaf(), sockets=sockets)
    else:
        end = Client("tcp://127.0.0.1:9", 1, keys, Deaf(), sockets=sockets)
    closing = threading.Thread(target=end.close, args=(0.1,), daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
