"""Where a group meets: a free port, a secret that shows nowhere, an address for each rank."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from killpoint.runner.network.group_rendezvous import GroupRendezvous, accepted, free_port
from killpoint.scenario import Barrier, Broadcast, Gather, Message, Scenario, SendTo
from killpoint.systems.registry import system_named
from killpoint.targets.protocol import GroupShape

HIGHEST = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def scenario(host: str = "127.0.0.1") -> Scenario:
    return Scenario("G1/x", ["G1"], [], group=GroupShape(ranks=3, host=host))


def test_every_rank_is_told_the_same_place_and_secret() -> None:
    meeting = GroupRendezvous(scenario())
    told = [accepted(meeting.invitation(role)) for role in ("rank-0", "rank-1", "rank-2")]
    assert len({(each.host, each.port, each.secret) for each in told}) == 1
    assert len(told[0].secret) == 32
    assert told[0].shape == GroupShape(ranks=3)


def test_no_two_meetings_share_a_secret() -> None:
    secrets = {accepted(GroupRendezvous(scenario()).invitation("rank-0")).secret for _ in range(3)}
    assert len(secrets) == 3


def test_a_rank_can_be_sent_to_another_address() -> None:
    meeting = GroupRendezvous(scenario())
    meeting.addresses["rank-2"] = ("127.0.0.1", 99)
    assert accepted(meeting.invitation("rank-2")).port == 99
    assert accepted(meeting.invitation("rank-1")).port == meeting.port


def test_a_port_is_free_and_below_those_that_connections_get() -> None:
    for host in ("127.0.0.1", "::1"):
        port = free_port(host)
        assert port < HIGHEST
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family) as server:
            assert server.getsockname()[1] == port


def test_a_machine_without_the_address_is_told_and_not_raised() -> None:
    with pytest.raises(OSError, match="assign"):
        free_port("192.0.2.1")
    assert "192.0.2.1" in GroupRendezvous(scenario("192.0.2.1")).trouble


def test_numbers_are_taken_by_those_who_give_objects() -> None:
    batch = [Message(repeat=3), Message()]
    assert system_named("group").numbers_taken(SendTo("rank-0", "rank-1", batch), "rank-0") == 4
    assert system_named("group").numbers_taken(Broadcast("rank-0", batch), "rank-0") == 4
    assert system_named("group").numbers_taken(Broadcast("rank-0", batch), "rank-1") == 0
    assert system_named("group").numbers_taken(Gather(times=5), "rank-2") == 5
    assert system_named("group").numbers_taken(Barrier(times=5), "rank-0") == 0
