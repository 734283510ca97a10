"""Rendering of a look as text: the culprits first, then the waits, then all that was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console

from killpoint.inspection.model import Picture, Process, Ring, Thread
from killpoint.verdict import counted, counted_doing

_STATES = {
    "R": "runs", "S": "sleeps", "D": "sleeps in the kernel", "T": "STOPPED", "t": "STOPPED",
    "Z": "DEAD", "X": "DEAD", "I": "idle",
}  # fmt: skip
_FRAMES = 6


def show(
    picture: Picture,
    console: Console,
    ages: Mapping[tuple[str, int], float],
    *,
    everything: bool = False,
) -> None:
    """Print it. ``ages``: seconds for which a reader has not moved, where that is known."""
    for line in lines(picture, ages, everything=everything):
        console.print(line)


def lines(
    picture: Picture, ages: Mapping[tuple[str, int], float], *, everything: bool = False
) -> Iterator[str]:
    """The same, line by line."""
    yield from _blame(picture)
    if picture.edges:
        yield ""
        yield "who waits for whom"
        for edge in picture.edges:
            on = "nobody that is there" if edge.on is None else f"pid {edge.on}"
            yield f"  pid {edge.waiter} waits for {on}: {edge.why}"
    yield ""
    yield "processes"
    for process in picture.processes:
        yield from _process(process, everything=everything)
    if picture.rings:
        yield ""
        yield "rings"
        for ring in picture.rings:
            if everything or any(slot.unread for slot in ring.slots):
                yield from _ring(ring, ages)
            else:
                yield f"  {ring.short}: {_parties(ring)}; everything is read"
    if everything and picture.sockets:
        yield ""
        yield "sockets"
        yield from (f"  {line}" for line in picture.sockets)
    yield ""
    yield f"{counted(len(picture.processes), 'processes')}, looked at in {picture.seconds:.2f} s"


def _blame(picture: Picture) -> Iterator[str]:
    first, *others = picture.culprits or (None,)
    if first is not None:
        count = len(first.waiters)
        waited = f" — {counted_doing(count, 'processes', 'wait')} for it" if count else ""
        yield f"everybody waits for: {first.sentence}{waited}"
        for other in others:
            yield f"  also: {other.sentence}"
    for text in picture.unsure:
        yield f"cannot tell: {text}"
    if not picture.culprits and not picture.unsure:
        yield f"all clear: nobody waits in vain{_rest(picture)}"


def _rest(picture: Picture) -> str:
    idle = len({edge.waiter for edge in picture.edges if edge.idle})
    told = f"; {counted_doing(idle, 'processes', 'wait')} for work" if idle else ""
    if picture.resting:
        told += f"; each of {counted(picture.resting, 'waiting threads')} has a living other party"
    return told


def _process(process: Process, *, everything: bool) -> Iterator[str]:
    state = _STATES.get(process.state, process.state)
    yield f"  pid {process.pid}  {state}  {process.command}"
    for thread in process.threads:
        if everything or thread.waits or thread.name == "MainThread":
            yield f"      {_thread(thread)}"
            if everything:
                yield from (f"          {frame}" for frame in thread.frames[:_FRAMES])


def _thread(thread: Thread) -> str:
    what = f"waits for {_WORDS.get(thread.waits, thread.waits)}, " if thread.waits else ""
    return f"{thread.name}: {what}at {thread.at}"


_WORDS = {
    "message": "a message of a ring",
    "slot": "a free slot of a ring",
    "socket": "a socket",
    "future": "a future",
    "lock": "another thread",
}


def _parties(ring: Ring) -> str:
    writer = f"pid {ring.writer}" if ring.writer is not None else "unknown"
    told = " (in the order of their starts)" if ring.guessed else ""
    readers = ", ".join(
        f"{reader}: pid {ring.reader_pids[reader]}" if reader in ring.reader_pids
        else f"{reader}: closed" if reader in ring.closed else f"{reader}: unknown"
        for reader in range(ring.readers)
    )  # fmt: skip
    return f"{ring.kind}, writer {writer}, readers {readers}{told}"


def _ring(ring: Ring, ages: Mapping[tuple[str, int], float]) -> Iterator[str]:
    yield f"  {ring.short}: {_parties(ring)}" + ("; FULL" if ring.full else "")
    for reader in range(ring.readers):
        behind = [slot for slot in ring.slots if reader in slot.unread]
        if behind:
            oldest = min(behind, key=lambda s: s.number if s.number is not None else s.index)
            age = ages.get((ring.name, reader), 0.0)
            since = f" for {age:.0f} s" if age >= 1 else ""
            told = f"has not read slot {oldest.index}{since}; {len(behind)} behind"
            yield f"      reader {reader} {told}"
    yield "      slots " + "".join(_slot(ring, at) for at in range(len(ring.slots)))


def _slot(ring: Ring, at: int) -> str:
    """Return a slot's sign: ``.`` free, ``#`` read by no reader, ``+`` by some, ``=`` by all."""
    slot = ring.slots[at]
    if not slot.written:
        return "."
    there = ring.readers - len(ring.closed)
    return "=" if not slot.unread else "#" if len(slot.unread) == there else "+"
