"""C1 to C3 of one state of the wave protocol, whatever led to it (model tier)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from killpoint.verdict import Violation


class Engine(msgspec.Struct, frozen=True):
    """State of an engine."""

    wave: int
    running: bool
    unfinished: int
    waits: bool
    """True if the engine has given its part to an all-reduce, and waits for the others'."""
    steps: int
    """Number of all-reduces that the engine has joined in this wave."""


def leads(coordinator: int, engines: Iterable[int], front_ends: Iterable[int]) -> Violation | None:
    """C1: front ends never lead the coordinator, and an engine by at most one wave."""
    for number, wave in enumerate(front_ends):
        if wave > coordinator:
            cause = f"front-end-{number} was in wave {wave} when the coordinator was in"
            return Violation("bad-transition", f"{cause} {coordinator}")
    for rank, wave in enumerate(engines):
        if wave > coordinator + 1:
            cause = f"engine-{rank} was in wave {wave} when the coordinator was in {coordinator}"
            return Violation("bad-transition", f"{cause}: it leads by more than one")
    return None


def went_back(before: int, now: int) -> Violation | None:
    """C1: the coordinator's wave never decreases."""
    if now >= before:
        return None
    return Violation("bad-transition", f"the coordinator went back from wave {before} to {now}")


def at_rest(engines: Sequence[Engine]) -> Iterator[tuple[str, Violation]]:
    """Check C2 and C3 once nothing is on its way and no engine has anything left to do."""
    stranded = [rank for rank, engine in enumerate(engines) if engine.unfinished]
    waits = [rank for rank, engine in enumerate(engines) if engine.waits]
    if stranded:
        who = stranded[0]
        count = engines[who].unfinished
        yield "C2", Violation("lost", f"{_requests(count)} of engine-{who} stay unstepped for ever")
    if waits:
        who, absent = waits[0], [rank for rank in range(len(engines)) if rank not in waits]
        others = ", ".join(f"engine-{rank}" for rank in absent)
        cause = f"engine-{who} waits for {others} in an all-reduce of wave {engines[who].wave}"
        yield "C3", Violation("hang", f"{cause}, and nothing will bring them there")


def met(engines: Sequence[Engine]) -> Violation | None:
    """C3: those that meet in an all-reduce are in one wave, and did as many steps in it."""
    if len({(engine.wave, engine.steps) for engine in engines}) == 1:
        return None
    told = ", ".join(
        f"engine-{r} in step {e.steps} of wave {e.wave}" for r, e in enumerate(engines)
    )
    return Violation("bad-transition", f"one all-reduce joined different steps: {told}")


def endless(wave: int) -> Violation:
    """C2: waves follow each other without a request."""
    return Violation("hang", f"wave {wave} began, and more are to come than there are requests for")


def _requests(count: int) -> str:
    return f"{count} request{'s' * (count != 1)}"
