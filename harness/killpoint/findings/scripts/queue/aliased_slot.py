"""A reader keeps an array while its writer goes once round the ring: what does it hold then?"""

import multiprocessing

import _loader
import numpy
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

SLOTS, SHAPE = 10, (512, 1024)  # 2 MiB, which fit a slot


def read(handle, kept):
    queue = MessageQueue.create_from_handle(handle, 0)
    queue.wait_until_ready()
    array = queue.dequeue(timeout=60)
    for _ in range(SLOTS):
        queue.dequeue(timeout=60)
    kept.value = int(array[0, 0])
    del array  # before the queue that it may be a view of


def shows():
    fork = multiprocessing.get_context("fork")
    queue, kept = MessageQueue(1, 1, max_chunk_bytes=4 << 20, max_chunks=SLOTS), fork.Value("i", -1)
    reader = fork.Process(target=read, args=(queue.export_handle(), kept))
    reader.start()
    queue.wait_until_ready()
    for message in range(SLOTS + 1):
        queue.enqueue(numpy.full(SHAPE, message, dtype=numpy.int32))
    reader.join()
    if reader.exitcode:
        raise RuntimeError(f"the reader ended with {reader.exitcode}")
    later = f"after {SLOTS} more messages the array of message 0 had that of message {kept.value}"
    return later if kept.value else ""


if __name__ == "__main__":
    main(shows)
