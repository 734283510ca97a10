"""Stories of a pipe's links that are harmed once so many bytes have gone by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from killpoint.scenario import (
    AnyStep,
    Fault,
    PipeClose,
    PipeDrain,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.play_evidence import Unsupported
from killpoint.targets.shapes import PipeShape

_HANG_AFTER_S = 6.0
_SMALL = Tensor()
_BATCH = [Tensor(form="none"), _SMALL, Tensor("uint8", (300_000,)), _SMALL]
"""Batch that is on its way: only an announcement, a small tensor, a large one, a small one."""
_KERNELS = 24
"""Tensors of 1 MiB: more than the kernels on the way keep."""
_NEVER = 1 << 40
"""More bytes than any play sends."""
_HOST, _GUEST = "pipe-0", "pipe-1"
_OPENED: list[AnyStep] = [
    PipeOpen(),
    Wait(within=30.0),
    PipeSend(_HOST, [_SMALL]),
    PipeReceive((_GUEST,), 1),
    PipeSend(_GUEST, [_SMALL]),
    PipeReceive((_HOST,), 1),
    Wait(within=_HANG_AFTER_S),
]
Toward = Literal["role", "peer"]
Story = Callable[[str, str, Fault], list[AnyStep]]
"""Builds the steps from the sender, the receiver, and the fault."""


def broken(source: str, taker: str, reset: Fault) -> list[AnyStep]:
    """The links are reset: both ranks get an error, and close."""
    return [
        reset,
        PipeReceive((taker,), len(_BATCH) + 1),
        PipeSend(source, _BATCH),
        Wait(within=_HANG_AFTER_S),
        PipeDrain((source,)),
        PipeSend(source, [_SMALL]),
        PipeReceive((source,), 1),
        Wait(within=_HANG_AFTER_S),
        PipeClose(),
        Wait(within=_HANG_AFTER_S),
    ]


def healed(source: str, taker: str, cut: Fault) -> list[AnyStep]:
    """The taker's wait runs out of time before the cut has healed; then all comes."""
    return [
        cut,
        PipeSend(source, _BATCH),
        PipeReceive((taker,), len(_BATCH) + 1, timeout=0.2),
        Wait(within=_HANG_AFTER_S),
        Fault("heal", _GUEST),
        PipeReceive((taker,), len(_BATCH) + 1, timeout=3.0),
        PipeClose((source,)),
        Wait(within=_HANG_AFTER_S),
        PipeClose((taker,)),
        Wait(within=_HANG_AFTER_S),
    ]


def silent(source: str, taker: str, fault: Fault) -> list[AnyStep]:
    """The link falls silent, without an error: each call ends by its own deadline."""
    more = [Tensor("uint8", (1 << 20,), repeat=_KERNELS)]
    return [
        fault,
        PipeSend(source, [*_BATCH, *more], timeout=0.4),
        PipeReceive((taker,), len(_BATCH) + _KERNELS, timeout=0.4),
        Wait(within=_HANG_AFTER_S),
        PipeClose((source,), timeout=0.4),
        Wait(within=_HANG_AFTER_S),
        PipeClose((taker,), timeout=0.4),
        Wait(within=_HANG_AFTER_S),
    ]


def sweep_links(case_run: CaseRun, samples: int, fault: Fault, story: Story) -> None:
    """Harm links after as many bytes as lead into each part of the batch; the seed chooses.

    Raises:
        Unsupported: nothing of it passes the relay.
    """
    both: list[tuple[str, str, Toward]] = [(_HOST, _GUEST, "role"), (_GUEST, _HOST, "peer")]
    ways = both if case_run.full or samples > 1 else [case_run.random.choice(both)]
    for source, taker, toward in ways:
        marks = _measured(case_run, source, taker, toward)
        if len(marks) != len(_BATCH):
            case_run.inconclusive(f"the bytes from {source} to {taker} could not be counted")
            continue
        if not marks[-1]:
            raise Unsupported("its tensors do not go by the address that its ranks are given")
        places = _places(marks)
        if not case_run.full:
            places = sorted(case_run.random.sample(places, max(1, samples // len(ways))))
        for after in case_run.with_progress(places):
            at = Fault(fault.fault, _GUEST, toward=toward, after=after)
            case_run.play(_scene(case_run, *_OPENED, *story(source, taker, at)))


def _places(marks: list[int]) -> list[int]:
    """Before, within and after what announces a tensor, and within the bytes of small and large."""
    head, small, large, whole = marks
    return [
        0,
        1,
        head // 2,
        head,
        head + head // 2,
        small - 8,
        small,
        small + head // 2,
        (small + head + large) // 2,
        large - 1,
        large,
        whole - 1,
    ]


def _measured(case_run: CaseRun, source: str, taker: str, toward: Toward) -> list[int]:
    """Return the bytes that have gone by after each of the batch's tensors."""
    steps = [*_OPENED, _mark(toward)]
    for tensor in _BATCH:
        sent = [PipeReceive((taker,), 1), PipeSend(source, [tensor]), Wait(within=_HANG_AFTER_S)]
        steps += [*sent, _mark(toward)]
    play = case_run.dry_run(_scene(case_run, *steps))
    seen = [
        event.number(f"to_{toward}", 0)
        for event in play.history.of("relay")
        if not event.data.get("at_end")
    ]
    return [count - seen[0] for count in seen[1:]]


def _mark(toward: Toward) -> Fault:
    """A fault that never strikes: the relay says what has passed."""
    return Fault("reset", _GUEST, toward=toward, after=_NEVER)


def _scene(case_run: CaseRun, *steps: AnyStep) -> Scenario:
    id = case_run.outcome.id
    shape = PipeShape()
    return Scenario(id, [id.split("/")[0]], list(steps), pipe=shape, seed=case_run.seed)
