"""Two nodes of a play: programs live on them, clients reach the first one, the cable can be cut."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.errors import CannotWork
from killpoint.systems.server.processes.nodes import FOLLOWER, HEAD, Nodes

_SERVER = """
import socket
with socket.create_server(("", 8123)) as server:
    print("listens", flush=True)
    while True:
        client, address = server.accept()
        client.sendall(f"seen from {address[0]}".encode())
        client.close()
"""
_CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 8123), 5) as client:
    print(client.recv(100).decode(), flush=True)
"""
_WRITES = "from pathlib import Path; Path('/dev/shm/of-killpoint-nodes').touch(); print('written')"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    try:
        made = Nodes(tmp_path)
    except CannotWork as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture
def served(nodes: Nodes) -> Iterator[Nodes]:
    command = nodes.argv(HEAD, [sys.executable, "-c", _SERVER])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listens\n"
        yield nodes
        server.kill()


def _on_the_second(nodes: Nodes, program: str) -> str:
    command = nodes.argv(FOLLOWER, [sys.executable, "-c", program, nodes.head])
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_a_client_of_the_first_node_is_let_in_and_nobody_of_the_machine(served: Nodes) -> None:
    with served.connection("127.0.0.1", 8123) as client:
        assert client.recv(100) == b"seen from 127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", 8123), 5)
    with pytest.raises(OSError, match="refused"):
        served.connection("127.0.0.1", 8124)


def test_the_second_node_is_another_host_until_the_cable_is_cut(served: Nodes) -> None:
    assert _on_the_second(served, _CLIENT) == f"seen from {served.follower}"
    served.cut()
    assert not served.look().carries
    assert "seen" not in _on_the_second(served, _CLIENT)
    served.heal()
    assert served.look().carries
    assert _on_the_second(served, _CLIENT) == f"seen from {served.follower}"


def test_the_second_node_has_a_dev_shm_of_its_own(nodes: Nodes) -> None:
    assert _on_the_second(nodes, _WRITES) == "written"
    assert not Path("/dev/shm/of-killpoint-nodes").exists()


def test_a_program_that_is_not_there_is_said(nodes: Nodes) -> None:
    command = nodes.argv(HEAD, ["/no/such/program"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 127
    assert "a node cannot be entered" in done.stderr
