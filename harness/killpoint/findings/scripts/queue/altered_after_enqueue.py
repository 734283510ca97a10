"""One buffer is filled anew for each step, as the mask of grammars is: what do readers get?"""

import multiprocessing

import _loader
import numpy
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

STEPS, ROWS, COLUMNS = 20, 1024, 151936 // 32  # 19.4 MB: a bit for each token of 1,024 requests


def read(handle, altered):
    queue = MessageQueue.create_from_handle(handle, 0)
    queue.wait_until_ready()
    for _ in range(STEPS):
        step, mask = queue.dequeue(timeout=60)
        altered.value += not (mask == step).all()


def shows():
    fork = multiprocessing.get_context("fork")
    queue, altered = MessageQueue(1, 1, max_chunk_bytes=16 << 20), fork.Value("i", 0)
    reader = fork.Process(target=read, args=(queue.export_handle(), altered))
    reader.start()
    queue.wait_until_ready()
    mask = numpy.zeros((ROWS, COLUMNS), dtype=numpy.int32)
    for step in range(STEPS):
        mask.fill(step)
        queue.enqueue((step, mask))
    mask.fill(-1)
    reader.join()
    if reader.exitcode:
        raise RuntimeError(f"the reader ended with {reader.exitcode}")
    return f"{altered.value} of {STEPS} masks arrived altered" if altered.value else ""


if __name__ == "__main__":
    main(shows)
