"""Foreign code that hangs: ``python hangs.py WAY``; prints the pids that play a part, by name.

Nothing here is of the harness or of the reference: what an onlooker finds is in the kernel, and in
Python's stacks. Who ends a play kills all of its processes.
"""

import ctypes
import fcntl
import json
import multiprocessing
import os
import resource
import signal
import socket
import sys
import threading
from pathlib import Path

FORK = multiprocessing.get_context("fork")
FOREVER = threading.Event()


def fork(act, *args):
    """A child that does this; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            act(*args)
        finally:
            os._exit(0)
    return pid


def reap(pid):
    os.waitpid(pid, 0)


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def say(**pids):
    print(json.dumps(pids), flush=True)


def thread_lock():
    """Held by a thread that sleeps for ever."""
    lock = threading.Lock()
    held = threading.Event()

    def hold():
        with lock:
            held.set()
            signal.pause()

    threading.Thread(target=hold, name="holder", daemon=True).start()
    held.wait()
    say(waiter=os.getpid())
    with lock:
        pass


def two_locks():
    """Two threads, each with the lock of the other, beside one that listens."""
    one, other = threading.Lock(), threading.Lock()
    both = threading.Barrier(3)

    def take(first, second):
        with first:
            both.wait()
            with second:
                pass

    threading.Thread(target=take, args=(one, other), name="left", daemon=True).start()
    threading.Thread(target=take, args=(other, one), name="right", daemon=True).start()
    both.wait()
    say(waiter=os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def shared_lock():
    """Of multiprocessing, held by a process that is dead."""
    lock = FORK.Lock()
    reap(fork(lock.acquire))
    other = fork(lock.acquire)
    say(waiter=os.getpid(), other=other)
    lock.acquire()


def own_write_end():
    """The writer is dead; the reader itself holds the write end."""
    reads, _writes = os.pipe()
    reap(fork(int))
    say(waiter=os.getpid())
    os.read(reads, 1)


def full_pipe():
    """The reader is stopped."""
    reads, writes = os.pipe()

    def reader():
        os.close(writes)
        os.read(reads, 1)
        signal.pause()

    culprit = fork(reader)
    os.close(reads)
    stop(culprit)
    say(waiter=os.getpid(), culprit=culprit)
    os.write(writes, bytes(1 << 22))


def stopped_peer():
    mine, theirs = socket.socketpair()
    culprit = fork(theirs.recv, 1)
    theirs.close()
    stop(culprit)
    say(waiter=os.getpid(), culprit=culprit)
    mine.recv(1)


def chain():
    """TCP: the peer is itself stuck, on a pipe that nobody else has."""
    server = socket.create_server(("127.0.0.1", 0))

    def peer():
        link, _ = server.accept()
        link.recv(1)
        reads, _writes = os.pipe()
        os.read(reads, 1)

    culprit = fork(peer)
    with socket.create_connection(server.getsockname()) as link:
        server.close()
        link.sendall(b"x")
        say(waiter=os.getpid(), culprit=culprit)
        link.recv(1)


def inherited():
    """The peer is gone, but a process that is no party has its socket, too."""
    mine, theirs = socket.socketpair()
    sibling = fork(FOREVER.wait, 600)
    reap(fork(int))
    theirs.close()
    waiter = fork(mine.recv, 1)
    mine.close()
    say(waiter=waiter, culprit=sibling)
    reap(waiter)


def inherited_by_server():
    """The same, and who has it listens for something else."""
    mine, theirs = socket.socketpair()
    server = socket.create_server(("127.0.0.1", 0))
    sibling = fork(server.accept)
    theirs.close()
    waiter = fork(mine.recv, 1)
    mine.close()
    say(waiter=waiter, culprit=sibling)
    reap(waiter)


def inherited_by_loop():
    """The same, and who has it does something else, again and again."""
    mine, theirs = socket.socketpair()
    sibling = fork(turn)
    theirs.close()
    waiter = fork(mine.recv, 1)
    mine.close()
    say(waiter=waiter, runs=sibling, turns=sibling)
    reap(waiter)


def turn():
    while not FOREVER.wait(0.05):
        pass


def not_accepted():
    """A server that is stopped has not accepted the connection yet."""
    server = socket.create_server(("127.0.0.1", 0))
    culprit = fork(signal.pause)
    stop(culprit)
    address = server.getsockname()
    server.close()
    with socket.create_connection(address) as link:
        say(waiter=os.getpid(), culprit=culprit)
        link.recv(1)


def interpreter_lock():
    """A library sleeps with Python's own lock held; a thread that listens cannot go on."""
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=server.accept, name="listener", daemon=True).start()
    say(waiter=os.getpid())
    ctypes.PyDLL(None).pause()


def file_lock():
    """flock, held by a stopped process."""
    path = Path(sys.argv[2]) / "lock"
    path.touch()
    ready, done = os.pipe()

    def hold():
        file = path.open()
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(done, b"x")
        signal.pause()

    culprit = fork(hold)
    os.read(ready, 1)
    stop(culprit)
    say(waiter=os.getpid(), culprit=culprit)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def stopped_child():
    culprit = fork(signal.pause)
    stop(culprit)
    say(waiter=os.getpid(), culprit=culprit)
    os.waitpid(culprit, 0)


def zeromq():
    """A PULL whose PUSH is dead."""
    pull = pull_without_push()
    say(waiter=os.getpid())
    pull.recv()


def pull_without_push():
    """A PULL to which somebody has pushed once, and who is dead."""
    import zmq

    address = f"ipc://{sys.argv[2]}/zmq"
    push = fork(push_one, address)
    pull = zmq.Context().socket(zmq.PULL)
    pull.bind(address)
    pull.recv()
    reap(push)
    return pull


def push_one(address):
    import zmq

    context = zmq.Context()
    push = context.socket(zmq.PUSH)
    push.connect(address)
    push.send(b"x")
    push.close()
    context.term()


def event():
    """Of multiprocessing: nobody sets it; the others have it, too."""
    never = FORK.Event()
    other = fork(never.wait)
    say(waiter=os.getpid(), other=other)
    never.wait()


def condition():
    """Of one process, beside a thread that goes on for ever."""

    def beat():
        while not FOREVER.wait(2.0):
            pass

    threading.Thread(target=beat, name="beat", daemon=True).start()
    say(waiter=os.getpid())
    never = threading.Condition()
    with never:
        never.wait()


def circle():
    """Two processes, each with a pipe that the other ought to write to first."""
    mine, theirs = FORK.Pipe()

    def other():
        mine.close()
        theirs.recv()
        theirs.send(None)

    peer = fork(other)
    theirs.close()
    say(waiter=os.getpid(), culprit=peer)
    mine.recv()


def queue_put():
    """multiprocessing.Queue to a dead reader: the feeder stands in its write, exit joins it."""
    queue = FORK.Queue()
    reap(fork(queue.get, True, 0.01))
    queue.put(bytes(1 << 22))
    say(waiter=os.getpid())


def queue_put_beside():
    """The same, and the main thread serves on."""
    queue = FORK.Queue()
    queue.put(bytes(1 << 22))
    say(waiter=os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def zombie():
    """A server that waits for its connections to close; its core is dead, and was not reaped."""
    import asyncio

    core = fork(int)
    os.waitid(os.P_PID, core, os.WEXITED | os.WNOWAIT)

    async def serve():
        server = await asyncio.start_server(lambda r, w: r.read(), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        client = fork(call, host, port)
        say(waiter=os.getpid(), culprit=core, client=client)
        await asyncio.Event().wait()

    def call(host, port):
        with socket.create_connection((host, port)) as link:
            link.recv(1)

    asyncio.run(serve())


def ring():
    """A ring of vLLM's layout, all read, whose writer died before it sent what it had promised.

    Its readers wait in ZeroMQ, of which the writer was the other end.
    """
    from multiprocessing.shared_memory import SharedMemory

    adopt()
    launcher = fork(ring_writer, SharedMemory)
    say(**json.loads(os.read(LINK[0], 1000)))
    reap(launcher)
    signal.pause()


LINK = os.pipe()


def orphan():
    """A core of multiprocessing that waits for work of its server, which was killed.

    Its own worker listens, as a part of it that goes on whatever becomes of the server.
    """
    os.setsid()
    adopt()
    server = fork(orphan_server)
    core = json.loads(os.read(LINK[0], 1000))
    os.kill(server, signal.SIGKILL)
    reap(server)
    say(looked=core, culprit=core)
    signal.pause()


def orphan_server():
    os.setsid()
    core = FORK.Process(target=orphan_core)
    core.start()
    signal.pause()


def orphan_core():
    os.write(LINK[1], json.dumps(os.getpid()).encode())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def server_beside():
    """A server that listens; the core that it asks is no child of it, and is stopped."""
    core, asked = asked_by_a_server()
    stop(core)
    say(looked=asked, waiter=asked, culprit=core)
    signal.pause()


def server_that_turns():
    """The same, and the server looks up again and again."""
    core, asked = asked_by_a_server(0.05)
    stop(core)
    say(looked=asked, runs=asked, turns=asked, culprit=core)
    signal.pause()


def server_beside_stuck():
    """The core is not stopped: it waits for its worker, which is."""
    mine, theirs = socket.socketpair()
    core, asked = asked_by_a_server(None, mine, theirs)
    worker = fork(theirs.recv, 1)
    mine.close()
    theirs.close()
    stop(worker)
    say(looked=asked, waiter=asked, core=core, culprit=worker)
    signal.pause()


def asked_by_a_server(every=None, *ends):
    """A core and a server, each at one end of a socket; the server listens, too."""
    import select

    listener = socket.create_server(("127.0.0.1", 0))
    mine, theirs = socket.socketpair()

    def work():
        mine.close()
        (ends[0] if ends else theirs).recv(1)

    def serve():
        theirs.close()
        for end in ends:
            end.close()
        while not select.select([listener, mine], [], [], every)[0]:
            pass

    core, asked = fork(work), fork(serve)
    for end in (listener, mine, theirs):
        end.close()
    return core, asked


def zeromq_server():
    """A server listens, and awaits ZeroMQ, too, of which the other end is dead."""
    import select

    import zmq

    pull = pull_without_push()
    with socket.create_server(("127.0.0.1", 0)) as server:
        say(waiter=os.getpid())
        while not pull.get(zmq.EVENTS):
            select.select([server, pull.fileno()], [], [])


def deserted_server():
    """The same, and a client waits for the answer that the dead one would have made."""
    import select

    import zmq

    pull = pull_without_push()
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()):
        accepted, _ = server.accept()
        say(waiter=os.getpid())
        while not pull.get(zmq.EVENTS):
            select.select([server, accepted, pull.fileno()], [], [])


def no_descriptors():
    """A server that listens has every descriptor open that it may have; a client comes."""
    import select

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        def come():
            with socket.create_connection(address) as client:
                os.write(LINK[1], b"x")
                client.recv(1)

        client = fork(come)
        os.read(LINK[0], 1)
        open_now = sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now, hard))
        say(waiter=client, culprit=os.getpid())
        select.select([], [], [])


def uninterruptible():
    """A parent by vfork, whose child has neither begun a program nor ended."""
    libc = ctypes.CDLL(None)

    def parent():
        if libc.vfork() == 0:
            os.write(LINK[1], b"x")
            libc.pause()
        os._exit(0)

    child = fork(parent)
    os.read(LINK[0], 1)
    say(culprit=child)
    os.waitpid(child, 0)


def ring_writer(shared_memory):
    slots, chunk, readers = 10, 1 << 20, 2
    memory = shared_memory(create=True, size=slots * chunk + slots * (1 + readers))
    memory.buf[slots * chunk :] = bytes([1, 1, 1]) + bytes(27)
    address = f"ipc://{sys.argv[2]}/overflow"
    pids = [fork(ring_reader, memory, address) for _ in range(readers)]
    memory.unlink()
    os.write(LINK[1], json.dumps({"waiter": pids[0], "other": pids[1]}).encode())


def ring_reader(memory, address):
    import zmq

    link = zmq.Context().socket(zmq.SUB)
    link.connect(address)
    link.subscribe(b"")
    link.recv()


def adopt():
    """Children of our children become ours once those are dead."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


# Healthy ones, of which nobody may be accused.


def server():
    """Idle: it listens, its worker waits for work at a pipe."""
    mine, theirs = FORK.Pipe()

    def work():
        mine.close()
        theirs.recv()

    worker = fork(work)
    theirs.close()
    say(waiter=os.getpid(), other=worker)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.accept()


def asyncio_server():
    """Idle, with a thread pool that has done something once."""
    import asyncio

    async def serve():
        await asyncio.get_running_loop().run_in_executor(None, int)
        opened = await asyncio.start_server(lambda r, w: r.read(), "127.0.0.1", 0)
        say(waiter=os.getpid())
        await opened.serve_forever()

    asyncio.run(serve())


def left_by_shell():
    """A server whose shell is gone, and which has a pipe of it still."""
    adopt()
    shell = fork(leave_a_server)
    pid = json.loads(os.read(LINK[0], 1000))
    reap(shell)
    os.close(LINK[0])
    os.close(LINK[1])
    say(looked=pid, waiter=pid)
    signal.pause()


def leave_a_server():
    os.setsid()
    fork(left_server)


def left_server():
    _reads, writes = os.pipe()
    os.close(writes)
    os.write(LINK[1], json.dumps(os.getpid()).encode())
    os.close(LINK[0])
    os.close(LINK[1])
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def queue_worker():
    """Idle: a worker at a queue of multiprocessing, whose parent listens."""
    queue = FORK.Queue()
    queue.put(1)
    worker = fork(drain, queue)
    say(waiter=os.getpid(), other=worker)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.accept()


def drain(queue):
    while True:
        queue.get()


def busy():
    """A worker computes, its parent waits for the answer."""
    mine, theirs = FORK.Pipe()

    def work():
        while True:
            pass

    worker = fork(work)
    theirs.close()
    say(waiter=os.getpid(), runs=worker)
    mine.recv()


def pool():
    """An idle pool of multiprocessing: one worker at the pipe, the rest behind its lock."""
    with FORK.Pool(2) as workers:
        workers.map(abs, [1, 2])
        say(waiter=os.getpid())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.accept()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
