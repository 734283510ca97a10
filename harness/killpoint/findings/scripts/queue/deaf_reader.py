"""A writer is killed right after the enqueue of a large message: does its reader ever end?"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading

import _loader
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue


def write(end):
    queue = MessageQueue(1, 1, max_chunk_bytes=1 << 20)
    end.send(queue.export_handle())
    queue.wait_until_ready()
    queue.enqueue("hello")
    end.recv()
    queue.enqueue(bytes(256 << 20))
    os.kill(os.getpid(), signal.SIGKILL)


def read(end, writer):
    queue = MessageQueue.create_from_handle(end.recv(), 0)
    queue.wait_until_ready()
    queue.dequeue(indefinite=True)
    taken, bare = threading.Event(), MessageQueue.recv

    def recv(*given):
        taken.set()
        return bare(*given)

    def leave_with_the_writer():  # as a worker's death pipe has it
        multiprocessing.connection.wait([writer])
        taken.wait(5)  # for the slot that announces the message
        queue.shutdown()

    MessageQueue.recv = staticmethod(recv)
    threading.Thread(target=leave_with_the_writer, daemon=True).start()
    end.send("go on")
    try:
        queue.dequeue(indefinite=True)
    except BaseException:
        os._exit(1)
    os._exit(0)


def shows():
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    writer = fork.Process(target=write, args=(here,))
    writer.start()
    reader = fork.Process(target=read, args=(there, writer.sentinel))
    reader.start()
    writer.join()
    reader.join(15)
    if reader.exitcode == 0:
        raise RuntimeError("the message came whole: the machine is faster than the kill")
    ended = reader.exitcode is not None
    return "" if ended else "15 s after its writer's death, and shutdown(), the reader still waits"


if __name__ == "__main__":
    main(shows)
