"""A receive times out before a large payload comes: is the next message the next one?"""

import multiprocessing

import _loader
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

fork = multiprocessing.get_context("fork")
timed_out, told = fork.Event(), fork.SimpleQueue()
NAMES = ["first", "second", "third"]


def read(handle):
    queue = MessageQueue.create_from_handle(handle, 0)
    queue.wait_until_ready()
    try:
        told.put([queue.dequeue(timeout=1)[0]])
    except TimeoutError:
        timed_out.set()
    got = []
    for _ in NAMES:
        try:
            got.append(queue.dequeue(timeout=10)[0])
        except TimeoutError:
            got.append("nothing")
    told.put(got)


class HeldUp:
    """The writer's socket, which is slow to send."""

    def __init__(self, socket):
        self.socket = socket

    def send_multipart(self, *args, **options):
        timed_out.wait()
        return self.socket.send_multipart(*args, **options)

    def __getattr__(self, name):
        return getattr(self.socket, name)


def shows():
    queue = MessageQueue(1, 1, max_chunk_bytes=1 << 20)
    fork.Process(target=read, args=(queue.export_handle(),)).start()
    queue.wait_until_ready()
    queue.local_socket = HeldUp(queue.local_socket)
    for name in NAMES:
        queue.enqueue((name, bytes(0 if name == "third" else 2 << 20)))
    got = told.get()
    if len(got) < len(NAMES):
        raise RuntimeError(f"{got} came without a timeout")
    return "" if got == NAMES else f"after a receive that timed out came {got}, not {NAMES}"


if __name__ == "__main__":
    main(shows)
