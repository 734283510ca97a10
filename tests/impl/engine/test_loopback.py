"""Ports that are free, and different ones."""

import socket

import pytest

from refengine.engine.loopback import HOST, free_ports


@pytest.mark.parametrize("count", [0, 1, 5])
def test_so_many_ports_can_be_listened_at(count: int) -> None:
    ports = free_ports(count)
    assert len(set(ports)) == count
    for port in ports:
        with socket.socket() as each:
            each.bind((HOST, port))
            each.listen()
