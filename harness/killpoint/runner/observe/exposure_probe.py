"""Exposure of a process to others, read from the kernel: listeners, socket paths, segments, files.

Nothing here asks the process itself. Access rights are recorded here, and judged by checkers.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from killpoint.history.log import Log
from killpoint.runner.observe.diagnosis import mapped_segments

_LISTENS = "0A"
_GLOO = "gloo_tcp_loop"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


class Listener(msgspec.Struct, frozen=True):
    """A listening TCP socket."""

    address: str
    port: int
    pid: int
    """Process that has it open."""

    @property
    def library(self) -> str:
        """Library without authentication that runs in its process, by its threads; empty: none."""
        with contextlib.suppress(OSError):
            tasks = Path(f"/proc/{self.pid}/task").iterdir()
            if any((task / "comm").read_text().startswith(_GLOO) for task in tasks):
                return "gloo"
        return ""

    @property
    def owner(self) -> str:
        """Name of its process, without numbers."""
        return re.sub(r"[-:_]?\d+", "", _command(self.pid))


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += [int(kid) for kid in (task / "children").read_text().split()]
    return found


def listeners(pid: int) -> list[Listener]:
    """Return the TCP listeners of a process and its descendants, each once."""
    return listeners_of(family(pid))


def listeners_of(pids: Sequence[int]) -> list[Listener]:
    """Return the TCP listeners of these processes, each once, with its first owner."""
    found: dict[tuple[str, int], Listener] = {}
    tables: dict[int, list[tuple[str, int, int]]] = {}
    for each in pids:
        with contextlib.suppress(OSError):
            own = _sockets(each)
            host = Path(f"/proc/{each}/ns/net").stat().st_ino
            if own and host not in tables:  # for a table the kernel walks all of its connections
                tables[host] = [heard for table in _tables() for heard in _listening(each, table)]
            for address, port, inode in tables[host] if own else ():
                if inode in own:
                    found.setdefault((address, port), Listener(address, port, each))
    return list(found.values())


def look(log: Log, role: str, pid: int, temporary: Path, pids: Sequence[int] | None = None) -> None:
    """Record one role's exposure, in events that name it as their ``target``.

    Folders above ``temporary`` are ours: a socket's or file's chain of folders ends below it, as
    if it stood in the machine's own folder for temporary files.

    Args:
        pids: the processes of the role; None: ``pid`` and its descendants.
    """
    pids = family(pid) if pids is None else list(pids)
    log.write("looked", target=role, pid=pid, pids=pids)
    for heard in listeners_of(pids):
        facts = {"address": heard.address, "port": heard.port, "pid": heard.pid}
        log.write("listener", target=role, **facts, by=_command(heard.pid))
    for each in pids:
        for path in _bound(each):
            if path.startswith("@"):
                log.write("abstract-socket", target=role, path=path, pid=each)
            else:
                _rights(log, "socket-path", role, each, Path(path), temporary)
    shm = {name: each for each in pids for name in _segments(each)}
    for name, each in shm.items():
        with contextlib.suppress(OSError):
            found = Path(f"/proc/{each}/root/dev/shm", name).stat()
            facts = {"mode": stat.S_IMODE(found.st_mode), "owner": found.st_uid}
            log.write("segment-rights", target=role, name=name, pid=each, **facts)


def look_at_shm(log: Log, role: str, pid: int) -> None:
    """Record the rights of every name under the /dev/shm that a process sees, open or not."""
    for path in sorted(Path(f"/proc/{pid}/root/dev/shm").iterdir()):
        with contextlib.suppress(OSError):
            found = path.lstat()
            facts = {"mode": stat.S_IMODE(found.st_mode), "owner": found.st_uid}
            log.write("segment-rights", target=role, name=path.name, pid=pid, **facts)


def look_at_files(log: Log, temporary: Path) -> None:
    """Record the rights of everything below the play's temporary folder but sockets."""
    for path in sorted(_all_below(temporary)):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                _rights(log, "file-rights", "", os.getpid(), path, temporary)


def _all_below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):  # passes over what vanishes meanwhile
        yield from (Path(parent, name) for name in (*folders, *files))


def _rights(log: Log, kind: str, role: str, pid: int, path: Path, temporary: Path) -> None:
    """Record a path with its mode, its owner, and the modes of the folders that lead to it."""
    root = Path(f"/proc/{pid}/root")
    full = path if path.is_absolute() else Path(f"/proc/{pid}/cwd").readlink() / path
    with contextlib.suppress(OSError):  # unlinked: no process can reach it by its path
        found = (root / str(full).lstrip("/")).lstat()
        ours = {temporary, *temporary.parents}
        chain = [folder for folder in full.parents if folder not in ours]
        folders = [
            [str(f), stat.S_IMODE((root / str(f).lstrip("/")).stat().st_mode)] for f in chain
        ]
        facts = {"mode": stat.S_IMODE(found.st_mode), "owner": found.st_uid, "folders": folders}
        directory = stat.S_ISDIR(found.st_mode)
        log.write(kind, target=role, path=str(full), pid=pid, directory=directory, **facts)


def _sockets(pid: int) -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                number = _SOCKET.fullmatch(str(fd.readlink()))
                if number:
                    found.add(int(number.group(1)))
    return found


def _tables() -> list[str]:
    """Return the kernel's tables of TCP sockets: tcp6 only where the machine has IPv6."""
    return [table for table in ("tcp", "tcp6") if Path("/proc/net", table).exists()]


def _listening(pid: int, table: str) -> Iterator[tuple[str, int, int]]:
    """Yield the listeners of a process's host; raise OSError if the process is gone."""
    for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == _LISTENS:
            address, _, port = fields[1].partition(":")
            yield _address(address), int(port, 16), int(fields[9])


def _address(text: str) -> str:
    """Decode an address from the kernel's 32-bit words in the machine's byte order."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def _bound(pid: int) -> list[str]:
    """Return the paths of the Unix sockets that a process has bound."""
    own, found = _sockets(pid), dict[str, None]()
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and int(fields[6]) in own:
                found[fields[7]] = None
    return list(found)


def _segments(pid: int) -> list[str]:
    """Return the names under /dev/shm that a process maps or has open."""
    found = set(mapped_segments(pid))
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                open_file = str(fd.readlink())
                if open_file.startswith("/dev/shm/") and not open_file.endswith(" (deleted)"):
                    found.add(open_file.removeprefix("/dev/shm/"))
    return sorted(found)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
