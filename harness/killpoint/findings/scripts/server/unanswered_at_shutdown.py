"""SIGTERM while the core is in a step: is each request answered, if only by an error?

Whether it is, is a race inside the API server. So three servers are asked, if need be.
"""

import os
import signal
import threading
from contextlib import suppress
from http.client import HTTPException

from _bounded import main, within
from _server import ASKED, answered, below, cores, served


def unanswered():
    """How many of eight requests have no end, thirty seconds after SIGTERM."""
    server, port, folder = served()
    ended = []

    def ask():
        with suppress(OSError, HTTPException):  # a connection that is closed is an end, too
            answered(port, "POST", "/v1/completions", {"model": folder, **ASKED}, timeout=300)
        ended.append(True)

    asking = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
    for each in asking:
        each.start()
    if within(2, lambda: ended):
        raise RuntimeError("the requests ended before anything was done")
    (core,) = cores(below(server.pid))
    os.kill(core, signal.SIGSTOP)  # stands for a step that takes long
    server.terminate()
    within(30, lambda: len(ended) == len(asking))
    server.kill()
    return len(asking) - len(ended)


def shows():
    left = unanswered() or unanswered() or unanswered()
    return f"30 s after SIGTERM, {left} of 8 requests had neither an answer nor an error" * (
        left > 0
    )


if __name__ == "__main__":
    main(shows, 900.0)
