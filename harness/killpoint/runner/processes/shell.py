"""Job control, as an interactive shell has it: a role is the foreground job of a terminal.

The shell leads the session and outlives its job, which it does not reap before it ends itself:
processes that the job leaves behind get no hang-up from a terminal that is still there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import termios
from pathlib import Path
from typing import NoReturn

from killpoint.history.log import Log

FOREGROUND = b"fg"
"""The only command that the shell knows; any other ends it, as does a hang-up."""
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def become_job(terminal: str, folder: Path) -> None:
    """Fork: the child returns as the foreground job of this terminal, the parent stays its shell.

    ``terminal``: the path of a terminal that belongs to no session yet.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it may be ignored under nohup
    os.setsid()
    tty = os.open(terminal, os.O_RDWR)
    fcntl.ioctl(tty, termios.TIOCSCTTY, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    job = os.fork()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(job, job)  # both do it: neither may go on before it is done
    if job:
        _serve(tty, job, Log(folder / "shell.jsonl", "shell"))
    os.tcsetpgrp(tty, os.getpid())
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(tty, 0)
    os.close(tty)


def _serve(tty: int, job: int, log: Log) -> NoReturn:
    """Bring a stopped job back to the foreground at each command to."""
    log.write("job", pid=job)
    while True:
        how = os.waitid(os.P_PID, job, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        stopped = how is not None and how.si_code == os.CLD_STOPPED
        if stopped:
            os.waitid(os.P_PID, job, os.WSTOPPED)
        log.write("job-stopped" if stopped else "job-ended")
        os.tcsetpgrp(tty, os.getpgrp())
        if os.read(tty, 100).strip() != FOREGROUND or not stopped:
            os._exit(0)
        os.tcsetpgrp(tty, job)
        log.write("job-continues")
        os.killpg(job, signal.SIGCONT)
