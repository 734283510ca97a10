"""The machine under a server's play: ports, addresses, load, the states of processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path

from killpoint.runner.observe.diagnosis import state

SIGNALS = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "continue": signal.SIGCONT,
    "sigterm": signal.SIGTERM,
    "sigint": signal.SIGINT,
}
"""Signal by which each of these faults is done."""
_SLOWEST = 5.0


def fault_acted(fault: str, pid: int) -> bool:
    """Return whether a process is seen in the state that the fault puts it in."""
    match fault:
        case "kill":
            return state(pid) in ("Z", "X", "")
        case "stop":
            return state(pid) == "T"
        case "continue":
            return state(pid) != "T"
        case _:
            return True  # the process was there to get it; what it does then is judged


def free_port(host: str) -> int:
    """Return a port of the host that is free now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def numeric_address(host: str) -> str:
    """Return the address of a host name, as the kernel lists it; the name itself if it has none."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    return host


def slowed_by_load() -> float:
    """Return the factor, 1 to 5, by which load slows a start that computes a lot."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), _SLOWEST)


def bytes_of(path: Path) -> int:
    """Return the bytes of memory that a segment takes; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_blocks * 512
    return 0
