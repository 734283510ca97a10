"""Two queues in a /dev/shm that has room for one: an error when they are made, or SIGBUS later?"""

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
        queues = [MessageQueue(1, 1, max_chunk_bytes=CHUNK, max_chunks=SLOTS) for _ in range(2)]
    except RuntimeError:
        sys.exit(REFUSED)
    for queue in queues:
        for _ in range(SLOTS):
            queue.enqueue(bytes(CHUNK - 4096), timeout=10)


def shows():
    small_shm(56 << 20)
    writer = multiprocessing.get_context("fork").Process(target=fill)
    writer.start()
    writer.join()
    if writer.exitcode == -signal.SIGBUS:
        return "both queues were made, 40 MiB each in 56 MiB, and their writer died of SIGBUS"
    if writer.exitcode != REFUSED:
        raise RuntimeError(f"the writer ended with {writer.exitcode}")
    return ""  # an error told that the second queue has no room


if __name__ == "__main__":
    main(shows)
