"""A server's API server is killed: is its engine core gone ten seconds later?"""

from _bounded import main, within
from _server import below, cores, lives, served


def shows():
    server, _, _ = served()
    (core,) = cores(below(server.pid))
    server.kill()
    server.wait()
    gone = within(10, lambda: not lives(core))
    return "" if gone else "10 s after the API server was killed, its engine core is still there"


if __name__ == "__main__":
    main(shows, 600.0)
