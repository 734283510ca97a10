"""The engine core does not go on, with a request open: does the server's health say so?"""

import os
import signal
import threading
from contextlib import suppress
from http.client import HTTPException

from _bounded import main, within
from _server import ASKED, answered, below, cores, healthy, served


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
    told = within(30, lambda: ended or not healthy(port))
    return "" if told else "for 30 s no request got a token, and the server's health was 200"


if __name__ == "__main__":
    main(shows, 600.0)
