"""Sockets of processes: where they listen, their peers, and the data that is still unread."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_SOCKET = re.compile(r"socket:\[(\d+)\]")
_STATES = {"01": "connected", "02": "connecting", "08": "left by its peer", "0A": "listening"}


def lines(pids: Sequence[int], proc: Path = Path("/proc")) -> Iterator[str]:
    """Yield a line for each, TCP first: ``pid 7 connected 127.0.0.1:80 → 127.0.0.1:4711``."""
    for pid in pids:
        own = _inodes(pid, proc)
        if own:
            yield from _tcp(pid, own, proc)
    for pid in pids:
        for path in _unix(pid, _inodes(pid, proc), proc):
            yield f"pid {pid} listening {path}"


def _tcp(pid: int, own: set[str], proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        for fields in _rows(proc / str(pid) / "net" / table):
            if fields[9] not in own or fields[3] not in _STATES:
                continue
            text = f"pid {pid} {_STATES[fields[3]]} {_address(fields[1])}"
            if fields[3] != "0A":
                text += f" → {_address(fields[2])}"
            sent, come = (int(word, 16) for word in fields[4].split(":"))
            if fields[3] == "0A":
                text += f", {come} not accepted yet" if come else ""
            else:
                text += f", {come} bytes not read yet" if come else ""
                text += f", {sent} bytes not taken yet" if sent else ""
            yield text


def _unix(pid: int, own: set[str], proc: Path) -> list[str]:
    found = {
        fields[7]: None
        for fields in _rows(proc / str(pid) / "net/unix")
        if len(fields) > 7 and fields[6] in own
    }
    return list(found)


def _rows(table: Path) -> Iterator[list[str]]:
    with contextlib.suppress(OSError):
        for line in table.read_text().splitlines()[1:]:
            yield line.split()


def _inodes(pid: int, proc: Path) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for fd in (proc / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                match = _SOCKET.fullmatch(str(fd.readlink()))
                if match:
                    found.add(match[1])
    return found


def _address(text: str) -> str:
    """The kernel prints 32-bit words in the machine's own order."""
    address, _, port = text.partition(":")
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    host = ipaddress.ip_address(b"".join(words))
    return f"[{host}]:{int(port, 16)}" if host.version == 6 else f"{host}:{int(port, 16)}"
