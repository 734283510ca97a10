import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from refengine.errors import DeadlinePassed, ForkedCopy, PeerDied
from refengine.pipe import (
    Pipe,
    PipeClosed,
    PipeSettings,
    TensorRefused,
    TransferFailed,
    TransportUnavailable,
)
from refengine.pipe.protocol import DTYPE_CODES

from ..collecting import collected_in, in_a_cycle
from ..roles import until
from ..striking import strikes
from .pairs import KEY, Beside, free_port

MIB = 1 << 20
DTYPES = [getattr(torch, name) for name in DTYPE_CODES if hasattr(torch, name)]


def make(port: int, rank: int, size: int, settings: PipeSettings | None = None) -> Pipe:
    return Pipe("127.0.0.1", port, rank, size, key=KEY, settings=settings, timeout=20.0)


@contextmanager
def ring(size: int = 2, **settings: int) -> Iterator[list[Pipe]]:
    port, told = free_port(), PipeSettings(**settings)
    made = [Beside(make, port, rank, size, told) for rank in range(size)]
    pipes = [each.result() for each in made]
    try:
        yield pipes
    finally:
        for each in pipes:
            each.close(1.0)


def open_descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


def bits(tensor: torch.Tensor) -> tuple[object, ...]:
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    raw = bytes(plain.reshape(-1).view(torch.uint8).tolist()) if plain.numel() else b""
    return plain.dtype, tuple(plain.shape), raw


def drawn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel() * dtype.itemsize
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    return torch.randint(0, 256, (count,), dtype=torch.uint8).view(dtype).view(shape)


def drained(pipe: Pipe) -> int:
    """What is left in its buffer once its thread has counted what left."""
    until = time.monotonic() + 5.0
    while pipe.buffer_size and time.monotonic() < until:
        threading.Event().wait(0.001)
    return pipe.buffer_size


def carried(pipes: list[Pipe], tensor: torch.Tensor) -> torch.Tensor:
    pipes[0].send_tensor(tensor, 10.0)
    got = pipes[1].recv_tensor(10.0)
    assert got is not None
    return got


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_every_type_and_shape_arrives_bit_by_bit():
    with ring() as pipes:
        for dtype in DTYPES:
            for shape in ((3, 5), (), (0,), (2, 0, 3), (1,) * 14):
                tensor = drawn(dtype, *shape)
                assert bits(carried(pipes, tensor)) == bits(tensor), (dtype, shape)
        assert drained(pipes[0]) == 0


def test_every_layout_arrives_bit_by_bit():
    base = drawn(torch.float32, 6, 8)
    complexes = drawn(torch.complex64, 4, 4)
    layouts = [
        base.t(),
        base[::2, 1::3],
        base[2],
        base[0, 0],
        base[:1].expand(5, 8),
        base.as_strided((3, 3), (1, 1)),
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        complexes.conj(),
        complexes.conj().imag,
        complexes.t().conj()[1:],
        base.clone().requires_grad_(),
        drawn(torch.bool, 8, 3).t(),
        drawn(torch.int64, 9)[3:6],
    ]
    with ring() as pipes:
        for tensor in layouts:
            got = carried(pipes, tensor)
            assert bits(got) == bits(tensor.detach())
            assert got.is_contiguous()
            assert not got.requires_grad


def test_none_keeps_its_place():
    with ring() as pipes:
        for tensor in (torch.ones(1), None, None, torch.zeros(2)):
            pipes[0].send_tensor(tensor)
        got = [pipes[1].recv_tensor(5.0) for _ in range(4)]
        assert [None if each is None else each.tolist() for each in got] == [
            [1.0],
            None,
            None,
            [0.0, 0.0],
        ]


def test_what_arrives_is_what_was_sent_and_stays_so():
    """SPEC K5; and what arrived is the receiver's own."""
    with ring() as pipes:
        kept: list[torch.Tensor] = []
        tensor = torch.zeros(MIB, dtype=torch.uint8)
        for each in range(5):
            tensor.fill_(each)
            pipes[0].send_tensor(tensor)
            tensor.fill_(255)
            got = pipes[1].recv_tensor(5.0)
            assert got is not None
            kept.append(got)
        assert [int(each[0]) for each in kept] == [0, 1, 2, 3, 4]
        assert all(bool((each == at).all()) for at, each in enumerate(kept))
        kept[0].fill_(9)
        assert int(kept[1][0]) == 1


@pytest.mark.parametrize("size", [1, 3])
def test_a_ring_carries_each_to_the_next(size: int):
    with ring(size) as pipes:
        for pipe in pipes:
            pipe.send_tensor(torch.tensor([pipe.rank]))
        for pipe in pipes:
            got = pipe.recv_tensor(5.0)
            assert got is not None
            assert int(got) == (pipe.rank - 1) % size


def test_both_ways_at_once_with_receives_posted_first():
    """SPEC K7, K2: each tensor is larger than the buffer."""
    with ring(buffer_bytes=1000) as pipes:
        takes = [
            [Beside(lambda pipe=pipe: [pipe.recv_tensor(10.0) for _ in range(5)])] for pipe in pipes
        ]
        sends = [
            Beside(
                lambda pipe=pipe: [pipe.send_tensor(torch.full((MIB,), each)) for each in range(5)]
            )
            for pipe in pipes
        ]
        for each in sends:
            each.result()
        for (each,) in takes:
            assert [int(got[0]) for got in each.result()] == list(range(5))
        assert [drained(pipe) for pipe in pipes] == [0, 0]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_what_cannot_be_sent_is_refused_and_the_receiver_is_told():
    wrong = [
        torch.ones(2, 2).to_sparse(),
        torch.empty(3, device="meta"),
        torch.ones([1] * 15),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        torch.ones(2000, dtype=torch.uint8),
    ]
    with ring(max_tensor_bytes=1999) as pipes:
        for tensor in wrong:
            with pytest.raises(TensorRefused, match="nothing was sent"):
                pipes[0].send_tensor(tensor)
            with pytest.raises(TransferFailed, match="TensorRefused"):
                pipes[1].recv_tensor(5.0)
        got = carried(pipes, torch.ones(1999, dtype=torch.uint8))
        assert got.numel() == 1999


def test_a_silent_peer_is_waited_for_until_the_deadline():
    with ring() as pipes, pytest.raises(DeadlinePassed, match=r"waited 0\.05 s"):
        pipes[0].recv_tensor(0.05)


def test_a_closed_pipe_says_who_closed_it():
    with ring() as pipes:
        pipes[0].send_tensor(torch.ones(3))
        pipes[0].close()
        pipes[0].close()
        got = pipes[1].recv_tensor(5.0)
        assert got is not None
        for _ in range(2):
            with pytest.raises(PipeClosed, match="rank 0 has closed"):
                pipes[1].recv_tensor(5.0)
        with pytest.raises(PipeClosed, match="this rank"):
            pipes[0].send_tensor(None)
        with pytest.raises(PipeClosed, match="this rank"):
            pipes[0].recv_tensor()


def test_a_copy_in_a_forked_child_is_refused_and_holds_no_end_open():
    with ring() as pipes:
        heard, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                pipes[0].send_tensor(None)
            except ForkedCopy:
                pipes[0].close()
                os.write(told, b"y")
                signal.pause()
            os._exit(1)
        assert os.read(heard, 1) == b"y"
        pipes[0].close()
        with pytest.raises(PipeClosed):
            pipes[1].recv_tensor(5.0)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(heard)
        os.close(told)


def test_a_peer_that_is_killed_is_told_within_two_seconds():
    """SPEC K4."""
    port = free_port()
    pid = os.fork()
    if pid == 0:
        pipe = make(port, 1, 2)
        signal.pause()
        del pipe
        os._exit(1)
    with make(port, 0, 2, PipeSettings(buffer_bytes=MIB)) as pipe:
        waits = Beside(pipe.recv_tensor, None)
        big = torch.ones(16 * MIB, dtype=torch.uint8)
        sends = Beside(lambda: [pipe.send_tensor(big) for _ in range(4)])
        while not pipe.buffer_size:
            assert sends.is_alive()
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        for each in (waits, sends):
            with pytest.raises(PeerDied, match=f"pid {pid}"):
                each.result()
        assert time.monotonic() - began < 7, "2 s are promised, the rest is for a busy machine"
        os.waitpid(pid, 0)
        assert drained(pipe) == 0
        pipe._ends.sender._unreported.clear()


def test_nothing_is_left_of_one_that_was_dropped():
    gc.collect()  # what other tests have left
    before = open_descriptors(), threading.active_count()
    port = free_port()
    one = Beside(make, port, 0, 2)
    other = make(port, 1, 2)
    pipe = one.result()
    one._found.clear()
    del pipe, other
    gc.collect()
    assert (open_descriptors(), threading.active_count()) == before


def test_an_exception_before_any_line_sends_it_once_or_not_at_all():
    """SPEC R9, X1, K2."""
    with ring() as pipes:
        for number, striker in enumerate(strikes()):
            done = striker.during(lambda n=number: pipes[0].send_tensor(torch.tensor([n]), 5.0))
            pipes[0].send_tensor(torch.tensor([-1]), 5.0)
            got = [pipes[1].recv_tensor(5.0)]
            if got[0] is not None and int(got[0]) == number:
                got.append(pipes[1].recv_tensor(5.0))
            assert [int(each) for each in got if each is not None][-1] == -1, striker.where
            assert not done or len(got) == 2, striker.where
        assert drained(pipes[0]) == 0


def test_a_pipe_that_cannot_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    gc.collect()
    before, port = (open_descriptors(), threading.active_count()), free_port()
    monkeypatch.setattr("refengine.pipe.sender.Sender.start", fail)
    began = time.monotonic()
    for each in [Beside(make, port, rank, 2) for rank in (0, 1)]:
        with pytest.raises(RuntimeError, match="new thread"):
            each.result()
    assert time.monotonic() - began < 8  # else each waits for its deadline
    gc.collect()
    assert (open_descriptors(), threading.active_count()) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_a_device_is_refused_clearly():
    with pytest.raises(TransportUnavailable, match="torch finds no GPU here"):
        Pipe("127.0.0.1", free_port(), 0, 2, key=KEY, device="cuda:0", timeout=1.0)


@pytest.mark.parametrize(("rank", "size", "port"), [(2, 2, 5000), (-1, 2, 5000), (0, 2, 0)])
def test_what_cannot_be_is_refused_at_once(rank: int, size: int, port: int):
    with pytest.raises(ValueError, match="is"):
        Pipe("127.0.0.1", port, rank, size, key=KEY)
    with pytest.raises(ValueError, match="negative"):
        PipeSettings(buffer_bytes=-1)
    with pytest.raises(ValueError, match="must be positive"):
        PipeSettings(peer_timeout=0.0)


def test_a_pipe_that_its_own_thread_collects_hands_over_what_was_sent_and_leaves():
    threads, port = set(threading.enumerate()), free_port()
    with collected_in("refengine-pipe") as clock:
        one = Beside(make, port, 0, 2)
        with make(port, 1, 2) as other:
            made = [one.result()]
            one._found.clear()
            sender = made[0]._ends.sender
            step = sender._step

            def collecting_step() -> None:
                clock()
                step()

            sender._step = collecting_step
            made[0].send_tensor(torch.ones(3), 10.0)
            in_a_cycle(made.pop())
            clock.due = True
            sender._wakeup.wake()
            assert other.recv_tensor(10.0) is not None
            with pytest.raises(PipeClosed):
                other.recv_tensor(10.0)
        until(lambda: set(threading.enumerate()) <= threads)
