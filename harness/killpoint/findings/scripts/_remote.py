"""A writer and its remote reader, each to be run in a process."""

import os

from vllm.distributed.device_communicators.shm_broadcast import MessageQueue


def write(end):
    queue = MessageQueue(1, 0, connect_ip="127.0.0.1")
    end.send(queue.export_handle())
    queue.wait_until_ready()
    queue.enqueue("hello")
    end.recv()


def read(end, connected):
    queue = MessageQueue.create_from_handle(end.recv(), 0)
    queue.wait_until_ready()
    queue.dequeue(indefinite=True)
    connected.set()
    try:
        queue.dequeue(indefinite=True)
    except BaseException:
        os._exit(1)
