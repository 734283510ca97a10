"""How sockets are made ready: told by sockets that only remember."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import zmq

from refengine.base import ownership
from refengine.base.security import MOST_FRAME_BYTES, Keys
from refengine.coordinator.links import Addresses, BindAddress

KEYS = Keys.fresh()


class Socket:
    """Remembers what it was told."""

    LAST_ENDPOINT = b"tcp://somewhere:1234\0"

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.options: dict[int, object] = {}
        self.steps: list[object] = []

    def setsockopt(self, option: int, value: object) -> None:
        self.options[option] = value

    def bind(self, address: str) -> None:
        self.steps.append(address)

    def connect(self, address: str) -> None:
        self.steps.append((address, len(self.options)))

    def close(self, linger: int) -> None:
        self.steps.append(linger)


class Context:
    """Gives such sockets."""

    def __init__(self) -> None:
        self.made: list[Socket] = []

    def socket(self, kind: int) -> Socket:
        self.made.append(Socket(kind))
        return self.made[-1]


@pytest.fixture
def context() -> Any:
    return Context()


@pytest.mark.parametrize(
    ("host", "v6", "bound"),
    [("127.0.0.1", False, "tcp://127.0.0.1:*"), ("::1", True, "tcp://[::1]:*")],
)
def test_a_host_of_either_family_is_listened_at(
    host: str, v6: bool, bound: str, context: Any
) -> None:
    socket, address = BindAddress(host=host, keys=KEYS).bind(context, zmq.PULL, "reports")
    assert address == "tcp://somewhere:1234"
    assert socket.steps == [bound]
    assert socket.options == {
        zmq.LINGER: 0,
        zmq.IPV6: v6,
        zmq.MAXMSGSIZE: MOST_FRAME_BYTES,
        zmq.HANDSHAKE_IVL: 3000,
    }
    assert socket.curve_server


def test_of_each_subscription_is_told_equal_ones_too(context: Any) -> None:
    socket, _ = BindAddress(host="127.0.0.1", keys=KEYS).bind(context, zmq.XPUB, "starts")
    assert socket.options[zmq.XPUB_VERBOSER] == 1


def test_a_socket_that_cannot_listen_is_closed_at_once(context: Any) -> None:
    with pytest.raises(ValueError, match="needs keys"):
        BindAddress(host="127.0.0.1").bind(context, zmq.PULL, "reports")
    (socket,) = context.made
    assert socket.steps == [0]


@pytest.mark.parametrize(("address", "v6"), [("tcp://[::1]:7", True), ("tcp://host:7", False)])
def test_whoever_connects_tries_again_soon_and_holds_nothing_back(
    address: str, v6: bool, context: Any
) -> None:
    socket = Addresses("", "", "", KEYS).connect(context, zmq.PUSH, address)
    assert socket.options == {zmq.LINGER: 0, zmq.IPV6: v6, zmq.RECONNECT_IVL: 50}
    assert socket.steps == [(address, 3)]  # once all was told


def test_a_path_is_its_owners_alone_whatever_the_mask_is(context: Any) -> None:
    folder = ownership.new_directory()
    before = os.umask(0)
    try:
        path = Path(folder, "starts")
        path.touch()  # as the bound socket would
        _, address = BindAddress(str(folder)).bind(context, zmq.XPUB, "starts")
        assert address == f"ipc://{path}"
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
        ownership.remove_directory(folder)


def test_no_key_is_told_where_places_and_addresses_are_printed() -> None:
    assert repr(BindAddress("folder", "host", KEYS)) == "BindAddress(folder='folder', host='host')"
    addresses = Addresses("a", "b", "c", KEYS)
    assert repr(addresses) == "Addresses(states='a', reports='b', starts='c')"
