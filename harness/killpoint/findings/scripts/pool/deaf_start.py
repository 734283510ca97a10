"""The parent is killed when one worker has loaded and the other has not: does the first leave?"""

import multiprocessing
import os
import signal
import time

import _loader
from _bounded import main
from _pool import Worker, alive, started
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

fork = multiprocessing.get_context("fork")
waiting = fork.SimpleQueue()


class SlowSecond(Worker):
    def load_model(self):
        if self.rank == 1:
            time.sleep(60)


def engine():
    bare = MessageQueue.wait_until_ready

    def told(queue):
        waiting.put(os.getpid())
        bare(queue)

    MessageQueue.wait_until_ready = told
    started(SlowSecond)


def shows():
    parent = fork.Process(target=engine)
    parent.start()
    worker = waiting.get()  # it has loaded, and waits for the others
    parent.kill()
    parent.join()
    if not alive(worker, 6):
        return ""
    os.kill(worker, signal.SIGTERM)
    deaf = " and ignores SIGTERM" if alive(worker, 3) else ""
    return f"6 s after its parent was killed, a worker that has loaded is still there{deaf}"


if __name__ == "__main__":
    main(shows)
