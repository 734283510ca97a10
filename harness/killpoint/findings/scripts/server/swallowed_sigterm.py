"""SIGTERM while the server starts: does it end, or does it start up and serve all the same?"""

from _bounded import main, within
from _server import below, cores, healthy, started


def shows():
    server, port, _ = started()
    if not within(300, lambda: server.poll() is not None or cores(below(server.pid))):
        raise RuntimeError("no engine core was started")
    server.terminate()
    within(300, lambda: server.poll() is not None or healthy(port))
    ended = within(10, lambda: server.poll() is not None)
    return "" if ended else "the server was told to end as it started, and it is ready and serves"


if __name__ == "__main__":
    main(shows, 900.0)
