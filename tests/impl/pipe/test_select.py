"""Which transport a link gets, and how clearly an impossible one is refused."""

import socket

import pytest
import torch

from refengine.pipe.errors import MetadataRefused, TransportUnavailable
from refengine.pipe.link import CPU, Link, Location, PeerInfo
from refengine.pipe.settings import TransportName
from refengine.pipe.transports import select as selection

HERE, THERE = b"h" * 16, b"t" * 16
ONE, TWO = b"1" * 16, b"2" * 16


def way(mine: Location, theirs: Location) -> str:
    sock, other = socket.socketpair()
    link = Link(sock, PeerInfo(1, 1, theirs), b"")
    try:
        return selection.choose_transport(link, mine)
    finally:
        link.close()
        other.close()


@pytest.mark.parametrize(
    ("asked", "mine", "theirs", "found"),
    [
        ("auto", (HERE, CPU), (HERE, CPU), "group"),
        ("auto", (HERE, ONE), (HERE, ONE), "cuda_ipc"),
        ("auto", (HERE, ONE), (HERE, TWO), "nccl"),
        ("group", (HERE, ONE), (HERE, ONE), "group"),
        ("cuda_ipc", (HERE, ONE), (HERE, TWO), "cuda_ipc"),
        ("nccl", (HERE, ONE), (THERE, ONE), "nccl"),
    ],
)
def test_each_link_has_the_way_that_its_devices_allow(
    asked: TransportName, mine: tuple[bytes, bytes], theirs: tuple[bytes, bytes], found: str
):
    assert way(Location(*mine, asked), Location(*theirs, asked)) == found


@pytest.mark.parametrize(
    ("asked", "mine", "theirs", "why"),
    [
        ("nccl", (HERE, ONE), (HERE, ONE), "NCCL refuses two ranks on one GPU"),
        ("nccl", (HERE, CPU), (HERE, CPU), "for ranks whose devices are GPUs"),
        ("cuda_ipc", (HERE, ONE), (HERE, CPU), "for ranks whose devices are GPUs"),
        ("cuda_ipc", (HERE, ONE), (THERE, ONE), "on different machines; use 'nccl'"),
    ],
)
def test_what_cannot_be_is_refused_and_says_what_can(
    asked: TransportName, mine: tuple[bytes, bytes], theirs: tuple[bytes, bytes], why: str
):
    with pytest.raises(TransportUnavailable, match=why):
        way(Location(*mine, asked), Location(*theirs, asked))


def test_a_device_that_is_none_is_refused():
    assert selection.device_id("cpu") == CPU
    with pytest.raises(TransportUnavailable, match="nothing is known here of devices like 'meta'"):
        selection.device_id("meta")


def test_a_handle_of_memory_is_told_whole_or_refused():
    from refengine.pipe.transports.cuda_ipc import pack, unpack

    shared = 1, b"h" * 66, 4096, 512, b"counter", 8, b"event", True
    raw = pack(shared)
    assert unpack(raw) == shared
    for damaged in (b"", raw[:20], raw[:-1], raw + b"x"):
        with pytest.raises(MetadataRefused, match="no handle of memory"):
            unpack(damaged)
    with pytest.raises(MetadataRefused, match="do not fit"):
        unpack(pack((1, b"", -1, 0, b"", 0, b"", False)))


@pytest.mark.skipif(torch.distributed.is_nccl_available(), reason="there is NCCL")
def test_a_torch_without_nccl_says_so():
    from refengine.pipe.transports.nccl import NcclSendTransport

    sock, other = socket.socketpair()
    with pytest.raises(TransportUnavailable, match="this torch has no NCCL"):
        NcclSendTransport(
            Link(sock, PeerInfo(1, 1, Location(HERE, ONE, "nccl")), b""), "cuda:0", 100
        )
    sock.close()
    other.close()


def test_none_goes_by_the_link_whatever_carries_tensors():
    from refengine.pipe.protocol import Kind
    from refengine.pipe.transports.cuda_ipc import IpcSendTransport

    transport = IpcSendTransport("cuda:0", 100)
    snapshot = transport.snapshot(None, b"label")
    header = snapshot.header(3)
    assert (header.kind, header.number, header.label) == (Kind.NOTHING, 3, b"label")
    assert not len(snapshot.follows())
    assert not snapshot.beside()
    assert transport.nbytes(None) == 0
    assert transport.nbytes(torch.ones(25)) == 100
    assert transport.nbytes(torch.ones(26)) == 0
    snapshot.free()
    transport.close()
