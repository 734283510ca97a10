"""Ways that a run takes once in a blue moon, each taken on purpose."""

import socket
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch

from refengine.base.cleanup import ReleaseStack
from refengine.errors import Busy, DeadlinePassed, ForkedCopy, PeerDied
from refengine.pipe import rendezvous
from refengine.pipe.block_receiver import BlockReceiver
from refengine.pipe.errors import PipeClosed, TensorRefused, TransportUnavailable
from refengine.pipe.handshake import read_exactly
from refengine.pipe.pipe import Pipe
from refengine.pipe.protocol import Header, Kind, Metadata, shape_checksum
from refengine.pipe.receiver import Receiver
from refengine.pipe.settings import PipeSettings
from refengine.pipe.tensors import describe, within_memory
from refengine.pipe.transports import select as selection
from refengine.pipe.transports.cuda_ipc import IpcReceiveTransport, IpcSendTransport
from refengine.pipe.transports.select import machine_id

from ..striking import strikes
from .pairs import KEY, Beside, free_port, links, receiver
from .test_block_receiver import BLOCK, A, label
from .test_blocks import BLOCKS, pair
from .test_pipe import drained
from .test_rendezvous import rank_info


class Raced(dict[bytes, Any]):
    """Another thread takes what is there between a look and a grasp."""

    def pop(self, *_: object) -> Any:
        raise KeyError


def test_of_two_takers_the_slower_gets_nothing():
    found = BlockReceiver(1000, shape_checksum)
    found.block(label(0), BLOCK, 0.0)
    found._incoming = Raced(found._incoming)
    one = found.of(A)
    assert one is not None
    assert not found.take(one, [])


def test_a_taker_that_was_too_slow_goes_on_waiting(monkeypatch: pytest.MonkeyPatch):
    with pair() as (sender, receives, *_):
        take, lost = receives._block_receiver.take, [True]
        monkeypatch.setattr(
            receives._block_receiver, "take", lambda *args: not lost.pop() if lost else take(*args)
        )
        takes = Beside(lambda: receives.recv_kv("a", timeout=5.0))
        sender.send_kv("a", BLOCKS, lease=5.0)
        assert takes.result() == BLOCKS


def test_a_thread_that_was_struck_before_it_could_say_why_still_ends_its_pipe():
    with pair() as (sender, *_):
        sender.close(1.0)
        sender._end = None
        news: SimpleQueue[None] = SimpleQueue()
        sender._waiting[news] = None
        sender.finish(None)
        assert news.qsize() == 1
        with pytest.raises(PipeClosed, match="this rank"):
            sender.recv_kv("a", timeout=5.0)


def test_a_call_is_refused_while_another_is_on_its_way_in():
    out, into = links()
    end = receiver(into)
    assert end._guard.acquire(False)
    with pytest.raises(Busy):
        Beside(end.receive, 0.0).result()
    end._guard.release()
    end.close(1.0)
    out.close()


def test_each_transport_has_its_own_ends():
    one, other = links()
    settings = PipeSettings()
    assert isinstance(
        selection.make_send_transport("cuda_ipc", one, settings, "cuda:0", lambda: 0),
        IpcSendTransport,
    )
    assert isinstance(
        selection.make_receive_transport("cuda_ipc", one, settings, "cuda:0"), IpcReceiveTransport
    )
    if not torch.distributed.is_nccl_available():
        with pytest.raises(TransportUnavailable):
            selection.make_send_transport("nccl", one, settings, "cuda:0", lambda: 0)
        with pytest.raises(TransportUnavailable):
            selection.make_receive_transport("nccl", one, settings, "cuda:0")
    one.close()
    other.close()


def test_a_gpu_is_known_by_its_own_number(monkeypatch: pytest.MonkeyPatch):
    class Properties:
        uuid = "01020304-0506-0708-090a-0b0c0d0e0f10"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    assert selection.device_id("cuda:0") == bytes(range(1, 17))


def test_a_machine_without_a_number_is_like_no_other(monkeypatch: pytest.MonkeyPatch):
    def gone(_: Path) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_bytes", gone)
    assert machine_id() != machine_id()


def test_types_that_no_header_can_name_are_refused():
    with pytest.raises(TensorRefused, match=r"no tensors of torch\.bits8"):
        describe(torch.empty(3, dtype=torch.bits8))
    with pytest.raises(TensorRefused, match="this torch has no int3"):
        within_memory(Metadata("int3", (1,)), memoryview(bytearray(1)))


def test_a_meeting_has_the_time_that_is_left_to_it():
    still = replace(rank_info(5000, 1, 2), clock=lambda: 5.0)
    assert rendezvous._Rendezvous(still, None, None, ReleaseStack())._left() == 3600.0
    assert rendezvous._Rendezvous(still, 1.0, 5.5, ReleaseStack())._left() == 0.5
    with pytest.raises(TimeoutError):
        rendezvous._Rendezvous(still, 1.0, 5.0, ReleaseStack())._left()


def test_a_rank_that_cannot_be_told_is_called_dead():
    one, other = links()
    other.close()
    with pytest.raises(PeerDied, match="rank 1"):
        rendezvous._tell(one, b"x")
    with pytest.raises(ConnectionError, match="it hung up"):
        read_exactly(one.sock, 1, lambda: 1.0)
    one.close()


def test_a_rank_alone_that_is_struck_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch):
    """SPEC R9."""
    made: list[socket.socket] = []
    both = socket.socketpair

    def remembered() -> tuple[socket.socket, socket.socket]:
        pair = both()
        made.extend(pair)
        return pair

    monkeypatch.setattr(socket, "socketpair", remembered)
    for striker in strikes():
        for each in striker.during(lambda: rendezvous.connect_ring(rank_info(5000, 0, 1), 1.0)):
            each.close()
        assert all(each.fileno() == -1 for each in made), striker.where


def test_a_pipe_whose_other_half_cannot_be_made_cuts_the_first(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise RuntimeError("no inlet")

    cuts: list[object] = []
    monkeypatch.setattr("refengine.pipe.pipe.make_receive_transport", fail)
    monkeypatch.setattr("refengine.pipe.sender.Sender.close_now", cuts.append)
    with pytest.raises(RuntimeError, match="no inlet"):
        Pipe("127.0.0.1", free_port(), 0, 1, key=KEY)
    (sender,) = cuts
    sender._link.close()
    sender._wakeup.close()


def test_a_copy_in_another_process_may_not_receive_either():
    with Pipe("127.0.0.1", free_port(), 0, 1, key=KEY) as pipe:
        pipe._pid += 1
        with pytest.raises(ForkedCopy):
            pipe.recv_tensor(0.0)
        pipe._pid -= 1


def test_limits_are_what_they_say():
    PipeSettings(peer_timeout=0.5, handshake=0.5)
    with pytest.raises(ValueError, match="must be positive"):
        PipeSettings(handshake=0.0)
    for port in (1 << 16, -1):
        with pytest.raises(ValueError, match="no port"):
            Pipe("127.0.0.1", port, 0, 1, key=KEY)


def test_the_first_port_is_one():
    with pytest.raises(DeadlinePassed, match="rank 0 to listen"):
        Pipe("127.0.0.1", 1, 1, 2, key=KEY, timeout=0.0)


def test_a_pipe_is_closed_as_its_block_is_left_and_holds_no_memory():
    with Pipe("127.0.0.1", free_port(), 0, 1, key=KEY) as pipe:
        pipe.send_tensor(torch.ones(1 << 20, dtype=torch.uint8))
        got = pipe.recv_tensor(10.0)
        assert got is not None
        assert drained(pipe) == 0
        shelf = pipe._ends.send_transport._buffers
        assert shelf.nbytes == 1 << 20
    assert shelf.nbytes == 0
    with pytest.raises(PipeClosed, match="this rank"):
        pipe.send_tensor(None)


def test_only_a_tensor_takes_memory_of_the_inlets():
    out, into = links()
    end: Receiver = receiver(into)
    out.sock.send(Header(Kind.NOTHING, 0).pack(into.session))
    assert end.receive(1.0)[0] is None
    assert end._transport.rooms == []
    out.sock.send(Header(Kind.TENSOR, 1, Metadata("uint8", (1,)), follows=1).pack(into.session))
    out.sock.send(b"x")
    assert end.receive(1.0)[0] == b"x"
    assert end._transport.rooms == [1]
    end.close(1.0)
    out.close()
