"""A worker is stopped, and calls go on: does each end by its deadline?"""

import os
import signal
import threading

import _loader
from _bounded import main
from _pool import Worker, started

CALLS, TIMEOUT = 15, 0.2


def shows():
    executor = started(Worker)
    pids = executor.collective_rpc("pid", timeout=30)
    os.kill(pids[1], signal.SIGSTOP)
    ended = []

    def call():
        for _ in range(CALLS):
            try:
                executor.collective_rpc("pid", timeout=TIMEOUT)
            except Exception as error:
                ended.append(type(error).__name__)

    calls = threading.Thread(target=call, daemon=True)
    calls.start()
    calls.join(CALLS * TIMEOUT + 15)
    if len(ended) == CALLS:
        return ""
    return f"call {len(ended) + 1} with a timeout of {TIMEOUT} s had not returned after 15 s"


if __name__ == "__main__":
    main(shows)
