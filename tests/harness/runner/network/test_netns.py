"""Hosts of a play's own: each reader on one, the machine's network untouched, nothing left."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from own_network import in_namespace

from killpoint.runner.network import netns
from killpoint.runner.network.netlink import Netlink
from killpoint.runner.network.netns import CENTRE, Hosts
from killpoint.runner.processes.zygote_client import Zygote

EXAMPLES = Path(__file__).parents[3] / "examples"
REMOTE = ["reader-1", "reader-2"]


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        made = Zygote("tcp_queue:TcpTarget", tmp_path_factory.mktemp("root"))
    yield made
    made.close()


@pytest.fixture
def hosts(zygote: Zygote, tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(zygote, tmp_path, REMOTE)
    if made.refused:
        made.close()
        pytest.skip(made.refused)
    yield made
    made.close()


def names(hosts: Hosts) -> list[str]:
    """What the kernel calls the namespaces of the writer, its local reader, the remote ones."""
    roles = ["writer", "reader-0", *REMOTE]
    return [str(Path(f"/proc/{hosts.pid}/fd/{hosts.netns_fd(r)}").readlink()) for r in roles]


def lived_in() -> set[str]:
    """Every network namespace that a process of this machine is in or has open."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(str((process / "ns/net").readlink()))
            found |= {str(fd.readlink()) for fd in (process / "fd").iterdir()}
        except OSError:
            continue  # it has just ended, or is another user's
    return found


def machine() -> tuple[object, str, str]:
    """The machine's interfaces, routes and addresses."""
    tables = [Path(f"/proc/self/net/{name}").read_text() for name in ("route", "fib_trie")]
    return socket.if_nameindex(), tables[0], tables[1]


def test_each_remote_reader_has_a_host_and_the_local_ones_the_writers(hosts: Hosts) -> None:
    writer, local, *remote = names(hosts)
    ours = str(Path("/proc/self/ns/net").readlink())
    assert local == writer
    assert len({ours, writer, *remote}) == 4


def test_the_machines_own_network_is_not_touched(zygote: Zygote, tmp_path: Path) -> None:
    before = machine()
    made = Hosts(zygote, tmp_path, REMOTE)
    during = machine()
    made.close()
    assert before == during == machine()


def test_no_namespace_outlives_its_keeper(zygote: Zygote, hosts: Hosts) -> None:
    theirs = set(names(hosts))
    assert theirs <= lived_in()
    hosts.close()
    assert not theirs & lived_in()
    assert hosts.pid not in zygote.descendants()


def test_a_cut_takes_the_link_down_and_a_heal_brings_it_back(hosts: Hosts) -> None:
    assert hosts.look(REMOTE)["reader-1"].carries
    hosts.cut(["reader-1"], "both")
    assert [seen.carries for seen in hosts.look(REMOTE).values()] == [False, True]
    hosts.heal(["reader-1"])
    assert [seen.carries for seen in hosts.look(REMOTE).values()] == [True, True]


def test_a_cut_in_one_direction_leaves_the_link_up_and_can_be_healed(hosts: Hosts) -> None:
    for toward in ("role", "peer"):
        hosts.cut(["reader-1"], toward)
    hosts.cut([CENTRE], "role")
    assert hosts.look(["reader-1"])["reader-1"].carries
    hosts.heal(["reader-1", CENTRE])
    hosts.heal(["reader-1", CENTRE])


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_connection_to_another_host_counts_of_whichever_family_its_socket_is(
    family: socket.AddressFamily,
) -> None:
    own, other = "10.107.0.1", "10.107.0.2"

    def act(near: Netlink, far: Netlink, netns_fd: int) -> None:
        far.set_up("lo", up=True)
        for address in (own, other):
            far.add_address("lo", IPv4Address(address), 32)
        assert netns._connections(own) == 0
        prefix = "::ffff:" if family == socket.AF_INET6 else ""
        with socket.socket(family) as listener, socket.socket(family) as caller:
            listener.bind((prefix + other, 0))
            listener.listen()
            caller.bind((prefix + own, 0))
            caller.connect(listener.getsockname()[:2])
            assert netns._connections(own) == netns._connections(other) == 1

    in_namespace(act)
