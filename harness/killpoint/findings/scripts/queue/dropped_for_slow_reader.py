"""A remote reader pauses while thousands of messages are sent: does it get them all?"""

import multiprocessing

import _loader
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

fork = multiprocessing.get_context("fork")
sent, told = fork.Event(), fork.SimpleQueue()
MESSAGES, SIZE = 6000, 16384


def read(handle):
    queue = MessageQueue.create_from_handle(handle, 0)
    queue.wait_until_ready()
    sent.wait()
    got = 0
    try:
        while got < MESSAGES:
            queue.dequeue(timeout=10)
            got += 1
    except TimeoutError:
        pass
    told.put(got)


def shows():
    queue = MessageQueue(1, 0, connect_ip="127.0.0.1")
    fork.Process(target=read, args=(queue.export_handle(),)).start()
    queue.wait_until_ready()
    for number in range(MESSAGES):
        queue.enqueue((number, bytes(SIZE)))
    sent.set()
    got = told.get()
    return "" if got == MESSAGES else f"{got} of {MESSAGES} messages arrived, and nobody was told"


if __name__ == "__main__":
    main(shows)
