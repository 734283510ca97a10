"""A stack that hangs on purpose: ``python -m hung TARGET WAY``; prints whom an onlooker must name.

The ways: ``stopped`` a worker by a signal; ``killed`` a reader whose death nobody is told of;
``lost`` a wake-up; ``full`` a ring whose reader does something else; ``absent`` from a collective;
``orphaned`` readers of a large message, whose writer died between its mark and its payload.
``idle``: it does not hang.
"""

import os
import signal
import sys
import threading
from multiprocessing import get_context
from pathlib import Path

from killpoint.targets.protocol import PoolShape, QueueShape
from killpoint.targets.registry import build, resolve

_FORK = get_context("fork")


class Worker:
    """Of a pool."""

    def __init__(self, rank, workers):
        self.rank = rank

    def init_device(self):
        pass

    def load_model(self):
        pass

    def pause(self):
        signal.pause()

    def meet(self, path):
        import torch.distributed as dist

        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", f"file://{path}", rank=self.rank, world_size=2)
        if self.rank:
            signal.pause()
        dist.barrier()


def say(*words):
    print(*words, flush=True)


def queue(target, way):
    """One writer and readers, of which the last is to blame; pipes keep them in step before."""
    count = 1 if way == "lost" else 2
    shape = QueueShape(readers=count, chunks=4, chunk_bytes=4096)
    end = target.make(shape)
    handle = target.handle(end)
    links, readers = [], []
    for rank in range(count):
        mine, theirs = _FORK.Pipe()
        process = _FORK.Process(target=reader, args=(target, handle, rank, theirs, way))
        process.start()
        links.append(mine)
        readers.append(process)
    target.ready(end, 20.0)
    if way == "lost":
        break_the_bell(end)
    for _ in range(2):
        target.send(end, "hello", 5.0)
    for link in links:
        link.recv()
    culprit = readers[-1].pid
    if way == "stopped":
        os.kill(culprit, signal.SIGSTOP)
        os.waitid(os.P_PID, culprit, os.WSTOPPED | os.WNOWAIT)
    elif way == "killed":
        os.kill(culprit, signal.SIGKILL)
        readers[-1].join()
        culprit = None
    if way == "lost":
        links[0].send("go on")
        await_sleep(readers[-1].pid)
        say(culprit)
        target.send(end, "unheard", 5.0)
        signal.pause()
    say(culprit)
    for _ in range(100):
        target.send(end, "more", None)


def orphans(target):
    """The writer is a child of ours that dies; its readers become our children."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    there, here = _FORK.Pipe()
    writer = os.fork()
    if writer == 0:
        there.close()
        write_and_die(target, here)
    here.close()
    os.waitpid(writer, 0)
    for pid in there.recv():
        await_sleep(pid)
    say(None)
    signal.pause()


def write_and_die(target, link):
    end = target.make(QueueShape(readers=2, chunks=4, chunk_bytes=4096))
    handle = target.handle(end)
    come, ready = os.pipe()
    pids = [os.fork() or take(target, handle, rank, ready) for rank in range(2)]
    target.ready(end, 20.0)
    for _ in pids:
        os.read(come, 1)
    link.send(pids)
    end.local_socket = DyingSocket()
    target.send(end, bytes(1 << 16), 5.0)


def take(target, handle, rank, ready):
    end = target.attach(handle, rank)
    target.ready(end, 20.0)
    os.write(ready, b"x")
    target.receive(end, None)
    os._exit(1)


class DyingSocket:
    """Whoever sends by it is dead before."""

    def __getattr__(self, name):
        os.kill(os.getpid(), signal.SIGKILL)


def reader(target, handle, rank, link, way):
    end = target.attach(handle, rank)
    target.ready(end, 20.0)
    for _ in range(2):
        target.receive(end, 5.0)
    link.send("here")
    if way == "lost":
        link.recv()
    if rank and way == "full":
        think()
    while True:
        target.receive(end, None)


def think():
    signal.pause()


def break_the_bell(end):
    """From now on the writer wakes nobody."""
    spin = getattr(end, "_spin_condition", None)
    if spin is not None:
        spin.notify = lambda: None
    else:
        end._writer.ring.writer.wake_readers = lambda: None


def bare_ring():
    """The reference's ring without a queue around it: nobody watches its parties."""
    from refengine.ring.ring import Ring

    end = Ring.create(1, 4096, 4)
    reader = _FORK.Process(target=bare_reader, args=(end.handle(),))
    reader.start()
    for _ in range(4):
        with end.acquire_write(5.0):
            pass
    with end.acquire_write(10.0):  # it reads
        pass
    os.kill(reader.pid, signal.SIGKILL)
    reader.join()
    say(None)
    while True:
        with end.acquire_write():
            pass


def bare_reader(handle):
    from refengine.ring.ring import Ring

    end = Ring.attach(handle, 0)
    while True:
        with end.acquire_read():
            pass


def await_sleep(pid):
    """Until the kernel says that it sleeps and its switches have stood still: it blocks."""
    import time

    ends, still, last = time.monotonic() + 20, 0, ""
    while still < 20 and time.monotonic() < ends:
        status = Path(f"/proc/{pid}/status").read_text()
        now = status[status.index("voluntary_ctxt_switches") :]
        still = still + 1 if now == last and "State:\tS" in status else 0
        last = now
        threading.Event().wait(0.01)


def pool(target, way, folder):
    """Two workers; rank 1 is to blame."""
    end = target.pool_start(PoolShape(workers=2), "hung:Worker", 60.0)
    culprit = target.pool_pids(end)[1]
    if way == "idle":
        rest(target.pool_pids(end))
    if way == "stopped":
        os.kill(culprit, signal.SIGSTOP)
        say(culprit)
        target.pool_call(end, "pause", (), None, 1)
    else:
        say(culprit)
        target.pool_call(end, "meet", (f"{folder}/store",), None, None)


def rest(pids):
    """Nobody hangs: the workers wait for work, and this process for somebody to come."""
    import socket

    for pid in pids:
        await_sleep(pid)
    say(None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


if __name__ == "__main__":
    spec, kind, way, folder = sys.argv[1:]
    if kind == "ring":
        bare_ring()
    made = build(resolve(spec))
    made.load()
    if way == "orphaned":
        orphans(made)
    pool(made, way, folder) if kind == "pool" else queue(made, way)
