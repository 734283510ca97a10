"""A lock over the plays of one user on this machine: many side by side, or one alone.

A violation that rests on time is reported only if a play with no other play of ours beside it shows
it again. Every play holds the lock shared; the one that confirms holds it alone. The lock is two
files in the user's own folder: ``plays``, and a ``gate`` before it. A play that is alone, or waits
to be, keeps the gate shared with others of the kind; a play with others beside it has to pass
through it exclusively. So no such play begins before all that are to be alone have been, one after
the other.

A play that is known to be long delays the plays that would be alone, but not the others. It passes
another gate first, ``long-gate``, and holds ``long`` besides. A play that would be alone waits for
up to 45 s for a moment without a long play: those of one check begin together, and who closed a
gate to them would keep the machine idle. Then it keeps that gate, and comes to the other one once
no long play goes on. So short plays begin until then, no further long one does, and from then on a
play that waits is held up by one long play at most.

The locks are ``flock`` locks: a process that dies releases all of them. Whoever waits looks again
every 20 ms, and calls ``go_on`` each time, which raises once there is nothing to wait for any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from killpoint.errors import CannotWork

ALONE_WITHIN = 600.0
"""Seconds that one waits to be alone: longer than any one play of a plain check lasts."""
_LOOKS = 0.02
_PATIENT = 45.0
"""Seconds that a play which would be alone lets further long ones begin."""
_GATES = {"plays": "gate", "long": "long-gate"}
"""Gate that has to be passed before each lock is held shared."""


def _always() -> None:
    """Wait on, whatever happens."""


@contextmanager
def beside_others(*, long: bool = False, go_on: Callable[[], object] = _always) -> Generator[bool]:
    """Hold the lock for a play that others may be beside; yield True.

    ``long``: it lasts so long that short plays must not wait for its end.

    Raises:
        CannotWork: the folder of the lock cannot be used.
    """
    passed = _passed("long", go_on) if long else contextlib.nullcontext()
    with passed, _passed("plays", go_on):
        yield True


@contextmanager
def alone(within: float = ALONE_WITHIN, go_on: Callable[[], object] = _always) -> Generator[bool]:
    """Hold the lock with no other play beside; yield whether that came about in time.

    Raises:
        CannotWork: the folder of the lock cannot be used.
    """
    end = time.monotonic() + within
    _ended("long", min(end, time.monotonic() + _PATIENT), go_on)
    with _open(_GATES["long"]) as no_long, _open(_GATES["plays"]) as gate, _open("plays") as plays:
        yield (
            _locked(no_long, fcntl.LOCK_SH, end, go_on)
            and _ended("long", end, go_on)
            and _locked(gate, fcntl.LOCK_SH, end, go_on)
            and _locked(plays, fcntl.LOCK_EX, end, go_on)
        )


@contextmanager
def one_server(
    within: float = ALONE_WITHIN, go_on: Callable[[], object] = _always
) -> Generator[bool]:
    """Hold the lock of whole servers, of which one at a time is played; yield whether in time.

    Raises:
        CannotWork: the folder of the lock cannot be used.
    """
    with _open("server") as held:
        yield _locked(held, fcntl.LOCK_EX, time.monotonic() + within, go_on)


@contextmanager
def _passed(name: str, go_on: Callable[[], object]) -> Generator[None]:
    """Hold a lock shared, having passed its gate."""
    with _open(_GATES[name]) as gate, _open(name) as held:
        _locked(gate, fcntl.LOCK_EX, math.inf, go_on)
        _locked(held, fcntl.LOCK_SH, math.inf, go_on)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def _ended(name: str, end: float, go_on: Callable[[], object]) -> bool:
    """Return whether all holders have released a lock in time; several may wait for that."""
    with _open(name) as held:
        return _locked(held, fcntl.LOCK_EX, end, go_on)


def _locked(fd: int, how: int, end: float, go_on: Callable[[], object]) -> bool:
    """Return whether the lock was acquired in time, by repeated tries: flock has no deadline."""
    while True:
        go_on()
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return True
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(_LOOKS, left))


@contextmanager
def _open(name: str) -> Generator[int]:
    try:
        fd = os.open(_folder() / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotWork(f"cannot lock the plays of this machine: {error}") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _folder() -> Path:
    """Return the user's own folder under /tmp; one that another user made is refused."""
    folder = Path(f"/tmp/killpoint-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise CannotWork(f"{folder} is not a folder of this user: the plays cannot be locked")
    return folder
