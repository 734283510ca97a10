"""Packets between runner and roles: whole, in order, and an end that is told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from killpoint.errors import BadUsage
from killpoint.points.pages import Segment
from killpoint.runner.protocol import (
    Arm,
    Begun,
    Channel,
    Closed,
    Done,
    Exited,
    Forked,
    ForkRole,
    Guarded,
    Hello,
    Loaded,
    Order,
    Packet,
    Reached,
    Release,
    Unguarded,
)
from killpoint.scenario import Message, Point, Receive, Send

_PACKETS: list[Packet] = [
    Order(1, Receive(2, timeout=0.5), first=3, data=b"\x00handle", rank=1),
    Arm(2, Point("send", line=4, nth=1)),
    Arm(3, Point("send"), of="pages"),
    Guarded(3, [Segment("ring", 4096, 8192)]),
    Unguarded(3),
    Release("raise"),
    Hello("writer", 77),
    Begun(3),
    Done(4, "timeout", "late", b"h"),
    Reached(5, "ring.py:3 in read"),
    ForkRole("writer", "/tmp/x", observe=True),
    Forked("writer", 9),
    Exited(9, 256),
    Loaded(1, "n", "v", ["queue"], ["note"]),
]


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    pair = [Channel(s) for s in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)]
    yield pair[0], pair[1]
    for end in pair:
        end.close()


def test_every_kind_of_packet_arrives_equal_and_in_order(ends: tuple[Channel, Channel]) -> None:
    for packet in _PACKETS:
        ends[0].put(packet)
    assert [ends[1].get() for _ in _PACKETS] == _PACKETS


def test_take_says_none_where_nothing_is_there_yet(ends: tuple[Channel, Channel]) -> None:
    assert ends[0].take() is None
    ends[1].put(Begun(1))
    assert ends[0].take() == Begun(1)


def test_the_other_sides_end_is_told_after_what_it_said(ends: tuple[Channel, Channel]) -> None:
    ends[1].put(Begun(1))
    ends[1].close()
    assert ends[0].get() == Begun(1)
    with pytest.raises(Closed):
        ends[0].get()
    with pytest.raises(Closed):
        ends[0].take()
    with pytest.raises(Closed):
        ends[0].put(Begun(2))


def test_an_order_too_large_for_a_packet_is_refused_in_words(ends: tuple[Channel, Channel]) -> None:
    order = Order(1, Send([Message(size=n) for n in range(200_000)]))
    with pytest.raises(BadUsage, match="bytes"):
        ends[0].put(order)


def test_the_largest_order_arrives_whole(ends: tuple[Channel, Channel]) -> None:
    order = Order(1, Send([Message(size=n) for n in range(2_000)]))
    ends[0].put(order)
    assert ends[1].get() == order


def test_a_descriptor_arrives_with_its_packet(ends: tuple[Channel, Channel]) -> None:
    told, tells = os.pipe()
    ends[0].put(Unguarded(1), tells)
    os.close(tells)
    assert ends[1].get() == Unguarded(1)
    (fd,) = ends[1].fds
    assert not os.get_inheritable(fd)
    os.write(fd, b"x")
    assert os.read(told, 1) == b"x"
    os.close(fd)
    os.close(told)
