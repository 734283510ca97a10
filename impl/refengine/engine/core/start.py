"""The start of a core's process: a fork of the zygote that all cores of an engine share.

The zygote has imported torch and the core's code, and the core makes the zygote of its workers by a
fork of itself: a core that is started again imports nothing, and serves in a fraction of a second.
"""

import os
from multiprocessing.connection import Connection

from ...base.fds import Fd
from ...executor import Zygote, ZygoteFailed
from ...executor.process import Link, Process, link_pair
from ...executor.worker_init import apply_environment, parent_environment, read_init, write_init
from .process import CoreInit, core_main
from .worker_stepper import PRELOAD

_ENTRY = f"{__name__}:forked_main"
CORE_PRELOAD = (*PRELOAD, __name__)
"""Modules of the zygote that cores are forked from."""
_FORKED_WITHIN = 30.0
"""Seconds for it to import them and to fork; the supervisor does nothing else meanwhile."""


def start_core(init: CoreInit, link: Connection, death: Connection) -> Process:
    """Start a core, of which this process is the supervisor.

    Args:
        link, death: the core's ends (`core_main`); the caller closes its own copies.

    Raises:
        ZygoteFailed, OSError: there is no process.
    """
    zygote = Zygote.shared(CORE_PRELOAD)
    ours, theirs = link_pair()
    file, me = write_init((init, parent_environment())), Fd(os.pidfd_open(os.getpid()))
    try:
        ours.send("born", file.fileno(), link.fileno(), death.fileno(), me.fileno())
        return zygote.fork(theirs, init.name, _ENTRY, within=_FORKED_WITHIN)
    except ZygoteFailed:
        zygote.kill()  # it may be stopped: the next start makes another
        raise
    finally:
        for each in (ours, theirs, file, me):
            each.close()


def forked_main(link: Link) -> int:
    """Run a core in the process that the zygote has forked; return the exit status."""
    Zygote.fork_self(PRELOAD)  # while there is one thread, and nothing else
    try:
        _, (init_fd, link_fd, death_fd, parent_fd) = link.receive()
    finally:
        link.close()
    init, environment = read_init(init_fd)
    apply_environment(**environment)
    death = Connection(death_fd, writable=False)
    core_main(init, Connection(link_fd), death, Fd(parent_fd))
    return 0
