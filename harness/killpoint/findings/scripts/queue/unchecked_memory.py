"""A queue that is larger than /dev/shm: an error when it is made, or SIGBUS later?"""

import multiprocessing
import signal
import sys

import _loader
from _bounded import main
from _namespaces import small_shm
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

CHUNK, SLOTS, REFUSED = 4 << 20, 10, 3


def fill():
    try:
        queue = MessageQueue(1, 1, max_chunk_bytes=CHUNK, max_chunks=SLOTS)
    except RuntimeError:
        sys.exit(REFUSED)
    for _ in range(SLOTS):
        queue.enqueue(bytes(CHUNK - 4096), timeout=10)


def shows():
    small_shm(16 << 20)
    writer = multiprocessing.get_context("fork").Process(target=fill)
    writer.start()
    writer.join()
    if writer.exitcode == -signal.SIGBUS:
        return "a queue of 40 MiB was made in 16 MiB, and its writer died of SIGBUS"
    if writer.exitcode != REFUSED:
        raise RuntimeError(f"the writer ended with {writer.exitcode}")
    return ""  # an error told that there is no room


if __name__ == "__main__":
    main(shows)
