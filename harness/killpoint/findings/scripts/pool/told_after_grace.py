"""A worker is killed inside a call: when does the caller know?"""

import os
import signal
import threading
import time

import _loader
from _bounded import main
from _pool import Worker, started


class Busy(Worker):
    def compute(self):
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # as in a collective that the other one has left


def shows():
    executor = started(Busy)
    took = []

    def call():
        began = time.monotonic()
        try:
            executor.collective_rpc("compute")
        except Exception:
            took.append(time.monotonic() - began)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(30)
    if not took:
        return "30 s after a worker's death the call still waits"
    return f"the call failed {took[0]:.1f} s after a worker's death" if took[0] > 4 else ""


if __name__ == "__main__":
    main(shows)
