"""The engine core is killed, and the server ends: does its exit status say that it failed?"""

import os
import signal

from _bounded import main, within
from _server import below, cores, served


def shows():
    server, _, _ = served()
    (core,) = cores(below(server.pid))
    os.kill(core, signal.SIGKILL)
    if not within(120, lambda: server.poll() is not None):
        return ""
    status = server.returncode
    return "" if status else "the engine core was killed, and the server ended with status 0"


if __name__ == "__main__":
    main(shows, 600.0)
