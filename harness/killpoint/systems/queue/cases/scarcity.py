"""Cases of scarce resources: a small or full /dev/shm (Q15), no descriptor to spare (Q10, L1)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Attach,
    Fault,
    Make,
    Message,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import MIB, OPEN_QUEUE, queue_case, queue_scenario

_MOST_SPARE = 24
_STRIDE = 2
"""Only every so many numbers are tried without ``--full``."""
_LARGE = [Message(size=200_000, repeat=12)]
_FULL_LOAD: list[AnyStep] = [Send(_LARGE, timeout=5.0), Receive(12, timeout=5.0), Wait()]


def _small(id: str, size: int, *steps: AnyStep, restart: bool = False) -> list[Scenario]:
    played = queue_scenario(id, *steps, chunk_bytes=MIB // 4, chunks=4)
    return [msgspec.structs.replace(played, shm_bytes=size, restart=restart)]


_SHM = (
    queue_case(
        "Q15/small-dev-shm",
        "a queue of 1 MiB in a /dev/shm of 512 KiB; then one that fits",
        lambda: _small("Q15/small-dev-shm", MIB // 2, *OPEN_QUEUE, *_FULL_LOAD, restart=True),
        "deadlines",
    ),
    queue_case(
        "Q15/full-dev-shm",
        "a queue in a /dev/shm without a free page",
        lambda: _small(
            "Q15/full-dev-shm", MIB, Fault("fill-shm", "writer"), *OPEN_QUEUE, *_FULL_LOAD
        ),
        "deadlines",
    ),
    queue_case(
        "Q15/full-under-load",
        "the rest of a half-used /dev/shm is filled before the first message",
        lambda: _small(
            "Q15/full-under-load", 2 * MIB, *OPEN_QUEUE, Fault("fill-shm", "writer"), *_FULL_LOAD
        ),
        "deadlines",
    ),
)


def _starving(id: str, summary: str, steps: Callable[[int], list[AnyStep]]) -> Case:
    """A play for each number of spare descriptors tried, until everything works."""

    def run(case_run: CaseRun) -> None:
        for spare in range(0, _MOST_SPARE, 1 if case_run.full else _STRIDE):
            played = queue_scenario(id, *steps(spare))
            play = case_run.play(msgspec.structs.replace(played, seed=case_run.seed))
            hungry = {event.role for event in play.history.of("starved")}
            ends = [event for event in play.history.of("end") if event.role in hungry]
            if all(event.text("outcome") == "ok" for event in ends):
                if spare == 0:
                    case_run.inconclusive(
                        "all worked without a descriptor to spare: nothing was learnt"
                    )
                return
        case_run.inconclusive(
            f"{_MOST_SPARE - 1} spare descriptors were not enough: no end was reached"
        )

    return Case(id, summary, run, frozenset({"queue"}))


_DESCRIPTORS = (
    _starving(
        "Q10/make-without-descriptors",
        "the writer makes a queue with 0, 2, 4, … descriptors to spare",
        lambda spare: [Fault("starve", "writer", spare=spare), Make(), Wait(within=6.0)],
    ),
    _starving(
        "Q10/attach-without-descriptors",
        "a reader attaches with 0, 2, 4, … descriptors to spare, then another with plenty",
        lambda spare: [
            Make(),
            Fault("starve", "reader-0", spare=spare),
            Attach(("reader-0",)),
            Wait(within=6.0),
            Attach(("reader-1",)),
            Wait(within=6.0),
        ],
    ),
    _starving(
        "Q10/ready-without-descriptors",
        "readers come, and the handshake, with 0, 2, 4, … descriptors to spare at the writer",
        lambda spare: [
            Make(),
            Fault("starve", "writer", spare=spare),
            Attach(),
            Ready(timeout=0.5),
            Wait(within=6.0),
        ],
    ),
)

_FEW = 5
"""With fewer to spare a segment can be made, and no socket."""
_LEFT = queue_case(
    "L1/make-without-descriptors",
    f"the writer makes a queue with 0 to {_FEW - 1} descriptors to spare: too few, and it ends",
    lambda: [
        queue_scenario(
            "L1/make-without-descriptors",
            Fault("starve", "writer", spare=spare),
            Make(),
            Wait(within=6.0),
        )
        for spare in range(_FEW)
    ],
)

CASES: tuple[Case, ...] = (*_SHM, *_DESCRIPTORS, _LEFT)
