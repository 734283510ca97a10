"""A queue is made, and dropped: what is left of it in the folder for sockets?"""

import gc
import os

import _loader
from _bounded import main
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue


def shows():
    queue = MessageQueue(1, 1, max_chunk_bytes=1 << 20)
    folder = os.environ["VLLM_RPC_BASE_PATH"]
    if not queue.handle.local_subscribe_addr.startswith("ipc://"):
        raise RuntimeError("the queue has no sockets there")
    del queue
    gc.collect()
    left = len(os.listdir(folder))
    return f"{left} socket files are left of a queue that was dropped" if left else ""


if __name__ == "__main__":
    main(shows)
