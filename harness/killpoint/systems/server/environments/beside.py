"""Starts programs beside one, as a launch script does: ``beside.py FRONT… -- OTHER… [-- OTHER…]``.

A deployment of Dynamo is a front end and workers, each started by a command line of its own, and
kept and ended by its operator. This program stands in for the operator, and must not be what is
judged. So the process that was started becomes the front end itself: signals reach it alone, and
its status is its own. The workers are children of a keeper below it, which does what a supervisor
would:

- if a worker dies, the keeper ends neither the others nor the front: whether they go on without it
  is what a play shows;
- once the front has ended, whichever way, the kernel signals the keeper, which sends the workers
  SIGTERM, and SIGKILL to those that still live some seconds later.

So the front may drain with its workers at work. The workers end after the front by the keeper's
doing, and by no merit of theirs: E8 is not judged of Dynamo.

Nothing but the standard library is imported: an engine's own interpreter runs this.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL, fewer than a tree has once its front is gone."""
_PARENT_DEATH_SIGNAL = 1
_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_CANNOT_START = 127


def main() -> NoReturn:
    """Become the front, with the others beside it."""
    front, *others = _commands(sys.argv[1:])
    begin = os.getpid()
    if others and os.fork() == 0:
        _keep(others, begin)
    _become(front)


def _commands(words: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            found.append([])
        else:
            found[-1].append(word)
    if not all(found):
        sys.exit("usage: beside.py FRONT... -- OTHER... [-- OTHER...]")
    return found


def _keep(commands: list[list[str]], front: int) -> NoReturn:
    """Be the keeper, until the front and all others have ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    _end_with(front, signal.SIGTERM)
    own = os.getpid()
    alive: set[int] = set()
    for command in commands:
        pid = os.fork()
        if pid == 0:
            _end_with(own, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            _become(command)
        alive.add(pid)
    while signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) != signal.SIGTERM:
        _reap(alive)
    _send(alive, signal.SIGTERM)
    end = time.monotonic() + GRACE
    _reap(alive)
    while alive and signal.sigtimedwait({signal.SIGCHLD}, max(0.0, end - time.monotonic())):
        _reap(alive)
    _send(alive, signal.SIGKILL)
    for pid in alive:
        os.waitpid(pid, 0)
    os._exit(0)


def _end_with(parent: int, number: signal.Signals) -> None:
    """Have the kernel send a signal when the parent ends; send it now if it has ended."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _become(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"beside.py: {command[0]} cannot be started: {error}\n".encode())
    os._exit(_CANNOT_START)


def _reap(alive: set[int]) -> None:
    """Remove the pids of ended processes; one signal may stand for several of them."""
    alive -= {pid for pid in alive if os.waitpid(pid, os.WNOHANG)[0] == pid}


def _send(alive: set[int], number: signal.Signals) -> None:
    """Send a signal to processes that were not waited for, so that no pid has a new owner."""
    for pid in alive:
        os.kill(pid, number)


if __name__ == "__main__":
    main()
