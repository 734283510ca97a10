"""The kernel itself ends a worker whose parent is gone, whatever the worker is doing (SPEC W4).

A *death pipe* has its writing end in the parent alone, so it hangs up when the parent ends in any
way. At that the kernel sends SIGHUP to the reader's whole process group, children included. An
ordinary program dies of it. A worker takes a second to tidy up: its handler is the C library's
`alarm`, which needs no interpreter. Called with the signal's number, 1, it has SIGALRM end the
process one second later, even if native code never gives the interpreter's lock back.
"""

import contextlib
import ctypes
import fcntl
import os
import signal

_F_SETSIG = 10


def send_at_hangup(fd: int, owner: int, number: signal.Signals = signal.SIGHUP) -> None:
    """When the pipe `fd` hangs up, `owner` gets this signal: a pid, or minus a process group.

    A process without a handler dies of it; of SIGKILL one that is stopped, too. This is a property
    of the pipe, not of the descriptor: the parent may set it before the worker runs its first line,
    and the worker again later.
    """
    with contextlib.suppress(ProcessLookupError):
        fcntl.fcntl(fd, fcntl.F_SETOWN, owner)
        fcntl.fcntl(fd, _F_SETSIG, number)
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def last_a_second() -> None:
    """Of SIGHUP this process dies a second later, by SIGALRM."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal.restype = ctypes.c_void_p
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    libc.signal(signal.SIGHUP, ctypes.cast(libc.alarm, ctypes.c_void_p))
