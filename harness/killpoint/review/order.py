"""Order in which a change is judged: what it touches first, then the rest, short cases first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from killpoint.case import Case
from killpoint.durations import expected
from killpoint.findings.registry import Finding
from killpoint.review.change import ChangedFile

SYSTEMS = ("queue", "group", "pool", "pipe", "coordinator")
_OF_FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("distributed/device_communicators/", ("queue", "pool")),
    ("distributed/utils.py", ("group", "pipe")),
    ("distributed/kv_transfer/kv_pipe/", ("pipe",)),
    ("v1/executor/", ("pool",)),
    ("v1/engine/coordinator.py", ("coordinator",)),
    ("envs.py", ("pool",)),
    ("utils/stale_shm_cleanup.py", ("queue",)),
)
"""Systems that a file is of, the first most of all; the later ones are built on it."""
_COORDINATORS = {"coordinator", "coordinator_process", "waves"}


def in_order(
    cases: Sequence[Case], changes: Sequence[ChangedFile], known: Iterable[Finding]
) -> list[Case]:
    """Cases by what the change touches.

    First the exhibits of findings whose function changed, then those of findings in a file that
    changed, then the cases of the systems that these files are of, then those of systems built on
    them, then the rest. Of one rank real processes come before searches, and the short ones first.
    """
    near: dict[str, int] = {}
    for entry in known:
        for change in changes:
            if _is_file(change.file, entry.place.file):
                touched = any(_meet(each, entry.place.function) for each in change.functions)
                turn = 0 if touched else 1
                near[entry.exhibit] = min(turn, near.get(entry.exhibit, turn))
    first, beside = set[str](), set[str]()
    for change in changes:
        mine = systems_of(change)
        first |= set(mine[:1])
        beside |= set(mine[1:])
    seconds = expected(cases)

    def rank(case: Case) -> tuple[int, bool, float]:
        system = system_of(case)
        by_system = 2 if system in first else 3 if system in beside else 4
        return near.get(case.id, by_system), case.tier != "process", seconds[case.id].seconds

    return sorted(cases, key=rank)


def systems_of(change: ChangedFile) -> tuple[str, ...]:
    """Return the systems that a file is of; all of them where that is unknown."""
    known = (systems for part, systems in _OF_FILES if f"/{part}" in f"/{change.file}")
    return next(known, SYSTEMS)


def system_of(case: Case) -> str:
    """The one that it tests, by what it needs; empty for a whole engine."""
    if case.needs & _COORDINATORS:
        return "coordinator"
    special = (each for each in ("pool", "pipe", "group", "queue") if each in case.needs)
    return next(special, "")


def _is_file(changed: str, placed: str) -> bool:
    return f"/{changed}".endswith(f"/{placed}")


def _meet(one: str, other: str) -> bool:
    """Return whether one function is the other, or stands in it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
