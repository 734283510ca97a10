"""A writer on another node is killed, and its machine goes on: does a remote reader ever know?"""

import multiprocessing

import _loader
from _bounded import main
from _remote import read, write


def shows():
    fork = multiprocessing.get_context("fork")
    (here, there), connected = fork.Pipe(), fork.Event()
    writer = fork.Process(target=write, args=(here,))
    reader = fork.Process(target=read, args=(there, connected))
    writer.start()
    reader.start()
    connected.wait()
    writer.kill()  # the kernel closes its connections
    writer.join()
    reader.join(30)
    waits = reader.exitcode is None
    return "30 s after its writer was killed, the remote reader still waits" if waits else ""


if __name__ == "__main__":
    main(shows)
