"""The small parts, each by itself."""

import inspect
import os
import pickle
import select
import socket
from dataclasses import asdict
from multiprocessing import util
from typing import Any

import pytest
import torch

from refengine.base.buffer_pool import SnapshotBuffers
from refengine.pipe.errors import (
    BlocksFailed,
    LeaseEnded,
    MetadataRefused,
    PipeClosed,
    SendFailed,
    TensorRefused,
    TensorsLost,
    TransferFailed,
    TransportUnavailable,
)
from refengine.pipe.link import REPLY_BYTES, Link, PeerInfo, Reply, pack_reply, parse_reply, ready
from refengine.pipe.pipe import Pipe
from refengine.pipe.protocol import Header, Kind, Metadata
from refengine.pipe.send_queue import PartialWrite
from refengine.pipe.settings import PipeSettings
from refengine.pipe.transports.inline import InlineReceiveTransport, InlineSendTransport
from refengine.pipe.wakeup import Wakeup

from .pairs import HERE, KEY, Beside, free_port

MIB = 1 << 20


def test_defaults_are_those_that_the_documentation_tells():
    assert asdict(PipeSettings()) == {
        "buffer_bytes": 1 << 30,
        "transport": "auto",
        "max_tensor_bytes": 1 << 34,
        "peer_timeout": 10.0,
        "handshake": 5.0,
        "close": 5.0,
    }
    defaults = {
        name: each.default
        for name, each in inspect.signature(Pipe).parameters.items()
        if each.default is not each.empty
    }
    assert defaults == {"device": "cpu", "settings": None, "timeout": 300.0}
    PipeSettings(buffer_bytes=0, max_tensor_bytes=0)
    for wrong in ({"max_tensor_bytes": -1}, {"peer_timeout": 0.0}, {"handshake": -1.0}):
        with pytest.raises(ValueError, match=r"not negative|must be positive"):
            PipeSettings(**wrong)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PipeClosed("rank 3"), "rank 3 has closed the pipe"),
        (SendFailed(4, "why"), "tensor 4 was not sent: why. Nothing was sent by this call"),
        (TransferFailed(4, "why"), "tensor 4 was not sent: why"),
        (TensorsLost(2, "why"), r"2 tensor\(s\) were not handed over: why"),
        (MetadataRefused("why"), "metadata refused: why"),
        (TensorRefused("why"), "why; nothing was sent"),
        (TransportUnavailable("nccl", "why"), "no transport 'nccl': why"),
        (BlocksFailed("a", "why"), "the blocks of 'a' failed: why"),
        (LeaseEnded("a", 0.5), "'a' failed: nobody had taken them when their lease of 0.5 s"),
    ],
)
def test_errors_say_what_happened_and_travel_between_processes(error: Any, says: str):
    with pytest.raises(type(error), match=says):
        raise pickle.loads(pickle.dumps(error))


def test_errors_have_the_facts_in_them():
    unavailable = TransportUnavailable("nccl", "why")
    assert (unavailable.transport, unavailable.reason) == ("nccl", "why")
    assert PipeClosed("rank 3").who == "rank 3"
    for numbered in (SendFailed(4, "why"), TransferFailed(4, "why")):
        assert (numbered.number, numbered.reason) == (4, "why")
    lost = TensorsLost(2, "why")
    assert (lost.count, lost.reason) == (2, "why")
    assert MetadataRefused("why").reason == TensorRefused("why").reason == "why"
    failed, ended = BlocksFailed("a", "why"), LeaseEnded("a", 0.5)
    assert (failed.request_id, failed.reason) == ("a", "why")
    assert (ended.request_id, ended.lease) == ("a", 0.5)


def test_a_bell_is_heard_until_it_is_quieted():
    wakeup = Wakeup()
    poller = select.poll()
    poller.register(wakeup.fileno(), select.POLLIN)
    assert not poller.poll(0)
    wakeup.clear()
    assert not poller.poll(0)
    wakeup.wake()
    wakeup.wake()
    assert poller.poll(0)
    wakeup.clear()
    assert not poller.poll(0)
    fd = wakeup.fileno()
    wakeup.close()
    wakeup.close()
    wakeup.wake()
    assert wakeup.fileno() == -1
    with pytest.raises(OSError, match="Bad file"):
        socket.socket(fileno=fd)


def test_a_bell_rings_by_any_descriptor_the_first_one_too(monkeypatch: pytest.MonkeyPatch):
    rung: list[tuple[int, int]] = []
    wakeup = Wakeup()
    with monkeypatch.context() as patched:
        patched.setattr(os, "eventfd_write", lambda fd, times: rung.append((fd, times)))
        wakeup._fd = 0  # where a process has no standard input
        wakeup.wake()
    assert rung == [(0, 1)]
    wakeup.close()


def test_what_leaves_goes_header_first_and_piece_by_piece():
    partial = PartialWrite(b"head", memoryview(b"payload"))
    assert bytes(partial.rest()) == b"head"
    partial.written.append(3)
    assert bytes(partial.rest()) == b"d"
    partial.written.append(1)
    assert bytes(partial.rest()) == b"payload"
    partial.written += [2, 3]
    assert bytes(partial.rest()) == b"ad"
    assert partial.written == [9]
    partial.written.append(2)
    assert not len(partial.rest())


def test_an_answer_is_of_one_size_and_its_text_fits():
    said = pack_reply(Reply.REFUSED, 7, "x" * 400)
    assert len(said) == REPLY_BYTES
    assert parse_reply(said) == (Reply.REFUSED, 7, "x" * 247)
    assert parse_reply(pack_reply(Reply.DONE, 3)) == (Reply.DONE, 3, "")
    assert parse_reply(pack_reply(Reply.BYE)) == (Reply.BYE, 0, "")


def test_a_link_has_the_kernel_watch_its_peer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    link = Link(sock, PeerInfo(1, 2, HERE), KEY)
    link.watch(10.0)
    assert not sock.getblocking()
    options = {
        name: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
        for name in (
            "TCP_NODELAY",
            "TCP_KEEPIDLE",
            "TCP_KEEPINTVL",
            "TCP_KEEPCNT",
            "TCP_USER_TIMEOUT",
        )
    }
    assert options == {
        "TCP_NODELAY": 1,
        "TCP_KEEPIDLE": 4,
        "TCP_KEEPINTVL": 4,
        "TCP_KEEPCNT": 2,
        "TCP_USER_TIMEOUT": 10_000,
    }
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    link.watch(0.5)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1
    assert ready(sock, select.POLLIN, 0.0) == 0
    assert ready(sock, select.POLLOUT, None) == select.POLLOUT
    wakeup = Wakeup()
    wakeup.wake()
    assert ready(sock, select.POLLIN, None, wakeup.fileno()) == 0
    wakeup.close()
    copy = sock.dup()
    link.close()
    assert other.recv(1) == b""  # though somebody has a copy
    link.close()
    copy.close()
    other.close()


def test_snapshots_lie_in_memory_that_comes_back():
    buffers = SnapshotBuffers(4 * MIB, lambda: 0)
    transport = InlineSendTransport(buffers, MIB)
    tensor = torch.full((MIB,), 7, dtype=torch.uint8)
    assert transport.nbytes(tensor) == MIB
    first = transport.snapshot(tensor, b"label")
    assert bytes(first.follows()[:3]) == b"\7\7\7"
    header = first.header(5)
    assert header == Header(Kind.TENSOR, 5, Metadata("uint8", (MIB,)), follows=MIB, label=b"label")
    assert buffers.nbytes == 0
    first.free()
    assert buffers.nbytes == MIB
    first.free()
    assert buffers.nbytes == MIB
    second = transport.snapshot(tensor, b"")
    assert buffers.nbytes == 0
    assert not second.beside()
    second.free()
    transport.close()
    assert buffers.nbytes == 0


def test_nothing_and_what_is_empty_take_no_memory():
    buffers = SnapshotBuffers(4 * MIB, lambda: 0)
    transport = InlineSendTransport(buffers, MIB)
    for tensor in (None, torch.empty(0)):
        snapshot = transport.snapshot(tensor, b"")
        assert not len(snapshot.follows())
        snapshot.free()
        assert transport.nbytes(tensor) == 0
    assert buffers.nbytes == 0
    assert transport.nbytes(torch.empty(MIB + 1, dtype=torch.uint8)) == 0
    assert transport.nbytes(torch.ones(3).to_sparse()) == 0


def test_a_tensor_that_arrived_keeps_its_memory_as_long_as_it_lives():
    transport = InlineReceiveTransport("cpu", 8 * MIB)
    header = Header(Kind.TENSOR, 0, Metadata("uint8", (MIB,)), follows=MIB)
    addresses: list[int] = []
    kept = None
    for keep in (True, False, False):
        room = transport.room(header)
        assert len(room) == MIB
        tensor = transport.tensor(header, room)
        addresses.append(tensor.data_ptr())
        if keep:
            kept = tensor
        del room, tensor
    assert addresses[0] != addresses[1] == addresses[2]
    assert kept is not None
    transport.close()
    assert not len(transport.room(Header(Kind.TENSOR, 0, Metadata("uint8", (0,)))))


def test_a_closed_pipe_has_nothing_left_to_do_at_exit():
    registry = util._finalizer_registry
    before, port = set(registry), free_port()
    ends = [
        Beside(lambda rank=rank: Pipe("127.0.0.1", port, rank, 2, key=KEY, timeout=20.0))
        for rank in (0, 1)
    ]
    pipes = [each.result() for each in ends]
    assert len(set(registry) - before) == 2
    for each in pipes:
        assert each._finalizer._args[1:] == (2.0,)  # seconds to hand over what was sent
        for link in (each._ends.sender._link, each._ends.receiver._link):
            watched = link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert watched == 10_000
    for each in pipes:
        each.close()
    assert set(registry) == before
