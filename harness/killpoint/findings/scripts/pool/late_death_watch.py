"""The parent is killed while a worker loads its model: does the worker go on?"""

import multiprocessing
import os
import time

import _loader
from _bounded import main
from _pool import Worker, alive, started

fork = multiprocessing.get_context("fork")
loading = fork.SimpleQueue()


class Slow(Worker):
    def load_model(self):
        loading.put(os.getpid())
        time.sleep(60)  # stands for the minutes that a large model takes


def shows():
    parent = fork.Process(target=started, args=(Slow,))
    parent.start()
    worker = loading.get()
    parent.kill()
    parent.join()
    stays = alive(worker, 6)
    return "6 s after its parent was killed, a worker still loads its model" if stays else ""


if __name__ == "__main__":
    main(shows)
