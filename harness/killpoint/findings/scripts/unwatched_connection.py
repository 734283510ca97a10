"""A writer on another node is killed, and its machine goes on: does a remote reader ever know?"""

import multiprocessing
import os

import _loader
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue


def write(end):
    queue = MessageQueue(1, 0, connect_ip="127.0.0.1")
    end.send(queue.export_handle())
    queue.wait_until_ready()
    queue.enqueue("hello")
    end.recv()


def read(end):
    queue = MessageQueue.create_from_handle(end.recv(), 0)
    queue.wait_until_ready()
    queue.dequeue(indefinite=True)
    end.send("got it")
    try:
        queue.dequeue(indefinite=True)
    except BaseException:
        os._exit(1)


def shows():
    fork = multiprocessing.get_context("fork")
    (here, there), (read_end, told) = fork.Pipe(), fork.Pipe()
    writer = fork.Process(target=write, args=(here,))
    writer.start()
    told.send(there.recv())
    reader = fork.Process(target=read, args=(read_end,))
    reader.start()
    told.recv()
    writer.kill()  # the kernel closes its connections
    writer.join()
    reader.join(30)
    waits = reader.exitcode is None
    return "30 s after its writer was killed, the remote reader still waits" if waits else ""


if __name__ == "__main__":
    main(shows)
