"""Enters a node, and becomes a program there: ``enter_node.py KEEPER DOOR shm|own-shm COMMAND…``.

``KEEPER`` is the process that has the node's network namespace open, as its descriptor ``DOOR``.
With ``own-shm`` the program has a /dev/shm of its own. Nothing but the standard library is
imported, and no further process is started: the program replaces this one.
"""

import ctypes
import os
import sys

_NEW_MOUNTS = 0x0002_0000
_RECURSIVE, _PRIVATE, _NO_SUID_NO_DEVICES = 1 << 14, 1 << 18, 2 | 4
_CANNOT_START = 127
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Enter the node and become the program; exit with status 127 if that cannot be done."""
    keeper, netns_fd, shm, *command = sys.argv[1:]
    try:
        _join(f"/proc/{keeper}/ns/user", "/proc/self/ns/user")
        _join(f"/proc/{keeper}/fd/{netns_fd}", "/proc/self/ns/net")
        if shm == "own-shm":
            _call("unshare", _NEW_MOUNTS)
            _call("mount", b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
            options = b"size=4g,mode=1777"
            _call("mount", b"tmpfs", b"/dev/shm", b"tmpfs", _NO_SUID_NO_DEVICES, options)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"a node cannot be entered: {error}\n".encode())
    os._exit(_CANNOT_START)


def _join(theirs: str, ours: str) -> None:
    """Enter a namespace, unless we are in it already."""
    if os.readlink(theirs) == os.readlink(ours):  # noqa: PTH115 # the standard library's own words
        return
    fd = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", fd, 0)
    finally:
        os.close(fd)


def _call(name: str, *args: "bytes | int | None") -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


if __name__ == "__main__":
    main()
