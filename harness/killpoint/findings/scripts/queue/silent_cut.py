"""A node is powered off, and its link with it: does a reader on another one ever know?"""

import multiprocessing

import _loader
from _bounded import main
from _namespaces import NEW_NETWORK, apart, loopback
from _remote import read, write


def shows():
    fork = multiprocessing.get_context("fork")
    apart(NEW_NETWORK)
    loopback(up=True)
    (here, there), connected = fork.Pipe(), fork.Event()
    writer = fork.Process(target=write, args=(here,))
    reader = fork.Process(target=read, args=(there, connected))
    writer.start()
    reader.start()
    connected.wait()
    loopback(up=False)  # from here on no packet gets through, not even a farewell
    writer.kill()
    writer.join()
    reader.join(30)
    waits = reader.exitcode is None
    return "30 s after its writer's node was gone, the reader still waits" if waits else ""


if __name__ == "__main__":
    main(shows)
