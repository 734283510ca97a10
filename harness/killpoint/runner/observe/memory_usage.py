"""Resources in use by a process: memory, as the kernel sums it by mappings; descriptors; logs."""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from killpoint.history.log import Log
from killpoint.ledger import paths_below
from killpoint.runner.observe import exposure_probe

ROOM = 1 << 20
"""Bytes that an allocator requests of the kernel at a time; a mapping with more than that untouched
may be a buffer that is filled for the first time."""
_HEAD = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ", re.M)
_FIELD = re.compile(r"^(Rss|Pss|Anonymous|Swap):\s+(\d+) kB$", re.M)


class Roomy(msgspec.Struct, frozen=True, array_like=True):
    """Private mapping of which more than ``ROOM`` is untouched."""

    start: int
    length: int
    touched: int


class Weight(msgspec.Struct, frozen=True):
    """Memory of a process in bytes, and the part of it that is the process's alone."""

    rss: int
    pss: int
    private: int = 0
    """Bytes touched in private mappings that are backed by no file: the heap among them."""
    mappings: int = 0
    shared: int = 0
    """Length in bytes of all mappings that others can share, touched or not."""
    roomy: tuple[Roomy, ...] = ()


def measure(pid: int) -> Weight | None:
    """Return the process's memory; None if it is gone."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/smaps").read_text("utf-8", "replace")
        if text:
            return weight_of(text)
    return None


def weight_of(smaps: str) -> Weight:
    """Return the memory that the text of a ``/proc/PID/smaps`` shows."""
    rss = pss = private = mappings = shared = 0
    roomy: list[Roomy] = []
    for start, length, rights, fields in _mappings(smaps):
        mappings += 1
        rss += fields.get("Rss", 0)
        pss += fields.get("Pss", 0)
        if rights.endswith("s"):
            shared += length
            continue
        touched = fields.get("Anonymous", 0) + fields.get("Swap", 0)
        private += touched
        if "w" in rights and length - touched > ROOM:
            roomy.append(Roomy(start, length, touched))
    return Weight(rss, pss, private, mappings, shared, tuple(roomy))


def _mappings(smaps: str) -> Iterator[tuple[int, int, str, dict[str, int]]]:
    """Yield each mapping's start, length, rights, and the bytes of its fields."""
    heads = list(_HEAD.finditer(smaps))
    ends = [head.start() for head in heads[1:]] + [len(smaps)]
    for head, end in zip(heads, ends, strict=True):
        start = int(head[1], 16)
        fields = {m[1]: int(m[2]) * 1024 for m in _FIELD.finditer(smaps, head.end(), end)}
        yield start, int(head[2], 16) - start, head[3], fields


class Tree(msgspec.Struct, frozen=True):
    """Memory of a process and its descendants at one look, by pid in bytes."""

    resident: dict[int, int]
    peaks: dict[int, int]

    def grown(self, pid: int) -> int:
        """Return the bytes by which the tree's memory has at most grown since.

        A process that was there before is charged with its peak; the later ones are charged with
        their memory beyond that of the ended ones.
        """
        now = _status(exposure_probe.family(pid), "VmRSS")
        peaks = _status(list(now), "VmHWM")
        both = self.resident.keys() & now.keys()
        stayed = sum(peaks.get(each, 0) - self.peaks.get(each, 0) for each in both)
        came = sum(rss for each, rss in now.items() if each not in self.resident)
        went = sum(rss for each, rss in self.resident.items() if each not in now)
        return max(0, stayed) + max(0, came - went)


def tree(pid: int) -> Tree:
    """Return a process tree's memory now; from here on the kernel counts its peaks anew."""
    pids = exposure_probe.family(pid)
    for each in pids:
        with contextlib.suppress(OSError):  # then its peak is the highest of its life
            Path(f"/proc/{each}/clear_refs").write_text("5", "ascii")
    return Tree(_status(pids, "VmRSS"), _status(pids, "VmHWM"))


def _status(pids: Sequence[int], field: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
            found[pid] = int(status.split(f"{field}:")[1].split()[0]) << 10
    return found


def descriptors(pid: int) -> int:
    """Return the number of open descriptors in the process of a tree that has the most."""
    most = 0
    for each in exposure_probe.family(pid):
        with contextlib.suppress(OSError):
            most = max(most, len(list(Path(f"/proc/{each}/fd").iterdir())))
    return most


def logged(folder: Path, role: str, temporary: str = "t") -> int:
    """Return the bytes of a role's output, with its children's, and of temporary files."""
    files = [folder / f"{role}.err", *paths_below(folder / temporary)]
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            status = file.lstat()
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total


def record(log: Log, role: str, pid: int) -> None:
    """Log a role's memory, and before it those of its private mappings that have room."""
    weight = measure(pid)
    if weight is not None:
        told = msgspec.structs.asdict(weight)
        log.write("room", target=role, mappings=told.pop("roomy"))
        log.write("weight", target=role, **told)
