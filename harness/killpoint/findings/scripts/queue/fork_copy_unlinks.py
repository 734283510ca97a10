"""A forked child drops its copy of a queue: has the parent's queue its segment still?"""

import gc
import multiprocessing
import os

import _loader
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

held = []


def drop():
    held.clear()
    gc.collect()


def shows():
    held.append(MessageQueue(1, 1, max_chunk_bytes=1 << 20))
    segment = f"/dev/shm/{held[0].export_handle().buffer_handle[3]}"
    if not os.path.exists(segment):
        raise RuntimeError(f"there is no {segment}")
    child = multiprocessing.get_context("fork").Process(target=drop)
    child.start()
    child.join()
    there = os.path.exists(segment)
    return "" if there else "the queue's segment was unlinked by a child that dropped its copy"


if __name__ == "__main__":
    main(shows)
