"""The engine core does not go on, with a request open: does the request end?"""

import os
import signal
import threading
from contextlib import suppress
from http.client import HTTPException

from _bounded import main, within
from _server import ASKED, answered, below, cores, served


def shows():
    server, port, folder = served()
    ended = []

    def ask():
        with suppress(OSError, HTTPException):
            answered(port, "POST", "/v1/completions", {"model": folder, **ASKED}, timeout=300)
        ended.append(True)

    threading.Thread(target=ask, daemon=True).start()
    if within(1, lambda: ended):
        raise RuntimeError("the request ended before anything was done")
    (core,) = cores(below(server.pid))
    os.kill(core, signal.SIGSTOP)  # stands for a device or a driver that hangs
    if within(120, lambda: ended):
        return ""
    return "120 s after the core stood still the request had neither an answer nor an error"


if __name__ == "__main__":
    main(shows, 600.0)
