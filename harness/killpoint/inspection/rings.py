"""The rings that processes share: their flags, and which process is which party."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from killpoint.inspection.model import Process, Ring, Slot
from killpoint.inspection.regions import Region
from killpoint.inspection.waits import MESSAGE, SLOT
from killpoint.targets.ring_view import RingDecoder, RingView

_RANK = re.compile(r"^refengine:(\d+)\b|[Ww]orker[-_ ]?(?:[A-Za-z]+)?(\d+)")
"""A worker's rank in what it calls itself."""


def decoders() -> list[RingDecoder]:
    """Return a decoder for every layout whose target is installed here."""
    from killpoint.targets.vllm.ring_view import VllmRings

    found: list[RingDecoder] = []
    with contextlib.suppress(ImportError):
        from killpoint.targets.refengine.ring_view import RefengineRings

        found.append(RefengineRings())
    return [*found, VllmRings()]


def views(
    regions: Iterable[Region], known: Sequence[RingDecoder], proc: Path = Path("/proc")
) -> list[tuple[Region, RingView]]:
    """Return the regions that are rings, each with its view."""
    found: list[tuple[Region, RingView]] = []
    for region in regions:
        for decoder in known:
            with contextlib.suppress(OSError):
                view = decoder.decode(
                    region.name,
                    region.size,
                    len(region.mappers),
                    lambda at, n, region=region: region.read(at, n, proc),
                )
                if view is not None:
                    found.append((region, view))
                    break
    return found


def rings(
    seen: Sequence[tuple[Region, RingView]], processes: Mapping[int, Process]
) -> tuple[Ring, ...]:
    """The same, with the parties named as far as they can be. Pure."""
    return tuple(_ring(region, view, seen, processes) for region, view in seen)


def contents(
    seen: Iterable[tuple[Region, RingView]], proc: Path = Path("/proc")
) -> dict[str, tuple[object, ...]]:
    """Return what changes in each ring with a message, by its name: flags, and message heads."""
    found: dict[str, tuple[object, ...]] = {}
    for region, view in seen:
        begins: list[bytes] = []
        with contextlib.suppress(OSError):
            begins = [region.read(at, _BEGIN, proc) for at in view.starts]
        found[region.name] = (view.slots, view.closed, *begins)
    return found


_BEGIN = 4096
"""Bytes of a message that are compared."""


def ownerless(known: Iterable[Ring]) -> list[str]:
    """Return lines on mapped rings of which a party is gone, and which have no known writer."""
    return [
        f"ring {ring.short} ({ring.kind}) has no living writer that can be told: of its"
        f" {ring.readers - len(ring.closed) + 1} parties {ring.missing} do not map it, gone or not"
        f" come yet; whether a message of it, or a payload beside it, is still waited for by"
        f" {_pids(ring.mappers)} cannot be seen"
        for ring in known
        if ring.missing and ring.mappers and ring.writer not in ring.mappers
    ]


def _pids(pids: Iterable[int]) -> str:
    return ", ".join(f"pid {pid}" for pid in pids)


def _ring(
    region: Region,
    view: RingView,
    seen: Sequence[tuple[Region, RingView]],
    processes: Mapping[int, Process],
) -> Ring:
    alive = tuple(p for p in region.mappers if p in processes and not processes[p].dead)
    writer = view.writer or _writer(region, view, seen, processes)
    readers = [pid for pid in alive if pid != writer]
    named = _by_rank(readers, view.readers, processes)
    guessed = not named and view.readers > 1
    if not named and len(readers) == view.readers - len(view.closed):
        started = sorted(readers, key=lambda pid: (-processes[pid].age, pid))
        there = [r for r in range(view.readers) if r not in view.closed]
        named = dict(zip(there, started, strict=True))
    slots = tuple(
        Slot(
            index,
            flags.written,
            tuple(
                r
                for r, read in enumerate(flags.read)
                if flags.written and not read and r not in view.closed
            ),
            flags.number,
        )
        for index, flags in enumerate(view.slots)
    )
    return Ring(
        region.name,
        view.kind,
        view.readers,
        slots,
        alive,
        writer,
        named,
        guessed and bool(named),
        view.closed,
    )


def _writer(
    region: Region,
    view: RingView,
    seen: Sequence[tuple[Region, RingView]],
    processes: Mapping[int, Process],
) -> int | None:
    """Return the party seen to write, the parent of the others, or the only quiet party."""
    parties = [processes[pid] for pid in region.mappers if pid in processes]
    for party in parties:
        if party.waits(SLOT) and not party.waits(MESSAGE):
            return party.pid
    parents = [p for p in parties if any(other.parent == p.pid for other in parties)]
    if not parents:
        quiet = [party.pid for party in parties if not party.waits(MESSAGE)]
        there = len(parties) > view.readers - len(view.closed)  # else it may be the writer
        return quiet[0] if len(quiet) == 1 and there else None
    parent = parents[0].pid
    if view.readers > 1:
        return parent
    others = [pid for pid in region.mappers if pid != parent]
    broadcast = [
        at.inode
        for at, other in seen
        if other is not view and parent in at.mappers and set(others) <= set(at.mappers)
    ]
    if len(others) == 1 and broadcast and min(broadcast) < region.inode:
        return others[0]  # it hears the parent by the older ring, and answers by this one
    return parent


def _by_rank(pids: Sequence[int], readers: int, processes: Mapping[int, Process]) -> dict[int, int]:
    """Assign readers by the ranks in the processes' names, if those are all different."""
    if readers == 1:
        return {0: pids[0]} if len(pids) == 1 else {}
    found: dict[int, int] = {}
    for pid in pids:
        match = _RANK.search(processes[pid].command)
        if match is None:
            return {}
        found[int(match[1] or match[2])] = pid
    fits = len(found) == len(pids) and all(rank < readers for rank in found)
    return found if fits else {}
