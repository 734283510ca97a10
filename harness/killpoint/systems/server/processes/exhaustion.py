"""Exhaustion of a server's resources: descriptors, and room in the tmpfs of its play.

A tmpfs is made full by limiting its size to what it holds: no memory is filled. Mounts are those of
the play's launcher, which a process of ours enters for that (``python -m`` this module); the
machine's own are never touched.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import subprocess
import sys
from pathlib import Path

from killpoint.runner.environment import private_shm
from killpoint.runner.network.namespaces import call, libc

BALLAST = "killpoint-ballast"
_REMOUNT, _NO_SUID_NO_DEVICES = 1 << 5, 2 | 4
_TRIES = 20
_WITHIN = 20.0
_TEMPORARY_BYTES = 256 << 20


class Exhausted(Exception):
    """This machine does not permit the exhaustion."""


def own_temporary(launcher: int, folder: Path) -> None:
    """Give the servers of a launcher a tmpfs of their own at this folder.

    Raises:
        Exhausted: the reason why they cannot have one.
    """
    _enter("mount", launcher, folder)


def fill(launcher: int, folder: Path) -> None:
    """Leave no page free in the tmpfs that a launcher's servers have at this folder.

    Raises:
        Exhausted: the reason why that cannot be done.
    """
    _enter("fill", launcher, folder)


def is_full(launcher: int, folder: Path) -> bool:
    """Return whether that tmpfs has no page free."""
    return os.statvfs(f"/proc/{launcher}/root{folder}").f_bavail == 0


def starved(pid: int, spare: int) -> bool:
    """Limit a process to its descriptors and ``spare`` more; return whether it is limited."""
    try:
        taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        free = (number for number in itertools.count() if number not in taken)
        soft = next(itertools.islice(free, spare, None))
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] == soft
    except OSError:  # it has ended meanwhile
        return False


def _enter(what: str, launcher: int, folder: Path) -> None:
    if Path(f"/proc/{launcher}/ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink():
        raise Exhausted("mounts of the play's own are not permitted here")
    command = [sys.executable, "-m", __name__, what, str(launcher), str(folder)]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        ended = subprocess.run(
            command, env=os.environ | path, capture_output=True, timeout=_WITHIN, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Exhausted(f"{folder}: nothing was done to it within {_WITHIN:g} s") from error
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        raise Exhausted(f"{folder}: {(said or ['no word'])[-1]}")


def _mount(folder: Path) -> None:
    options = f"size={_TEMPORARY_BYTES},mode=0700".encode()
    call(libc.mount, b"tmpfs", bytes(folder), b"tmpfs", _NO_SUID_NO_DEVICES, options)


def _fill(folder: Path) -> None:
    """Shrink it to what it holds; an empty one to one page, which is then filled."""
    if not folder.is_mount():
        raise OSError(f"{folder} is no tmpfs of the play's own")
    for _ in range(_TRIES):
        has = os.statvfs(folder)
        size = max((has.f_blocks - has.f_bfree) * has.f_frsize, has.f_frsize)
        flags = _REMOUNT | _NO_SUID_NO_DEVICES
        with contextlib.suppress(OSError):  # it has grown since
            call(libc.mount, b"tmpfs", bytes(folder), None, flags, f"size={size}".encode())
            break
    _add_ballast(folder)
    if os.statvfs(folder).f_bfree:
        raise OSError(f"{folder} could not be filled")


def _add_ballast(folder: Path) -> None:
    if not os.statvfs(folder).f_bfree:
        return
    ballast = os.open(folder / BALLAST, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with contextlib.suppress(OSError):
            while os.write(ballast, bytes(4096)):
                pass
    finally:
        os.close(ballast)


def main() -> None:
    """Carry out ``WHAT LAUNCHER FOLDER``, in the mounts of the launcher."""
    what, launcher, folder = sys.argv[1:]
    try:
        private_shm.join(int(launcher))
        (_mount if what == "mount" else _fill)(Path(folder))
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
