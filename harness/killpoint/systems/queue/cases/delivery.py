"""Cases of delivery: Q1 (fixed windows), Q2, Q3, Q4, Q14."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Fault,
    Message,
    MessageKind,
    Pause,
    Point,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import (
    MIB,
    OPEN_QUEUE,
    queue_case,
    queue_scenario,
    small,
)
from killpoint.targets.shapes import QueueShape
from killpoint.verdict import counted

_KINDS: tuple[MessageKind, ...] = ("bytes", "array", "tensor", "nested")


def _all(id: str, messages: list[Message], *, mutate: bool = False, **shape: int) -> Scenario:
    count = sum(message.repeat for message in messages)
    steps = [
        *OPEN_QUEUE,
        Send(messages, timeout=10.0, mutate=mutate),
        Receive(count, timeout=10.0),
        Wait(within=60.0),
    ]
    return queue_scenario(id, *steps, **shape)


def _boundary() -> list[Scenario]:
    """Every size in a window that holds the boundary, whatever the framing takes (< 2 KiB)."""
    chunk = 16 * 1024
    id = "Q1/every-size-at-the-boundary"
    before = {"bytes": 160, "array": 330, "tensor": 1500, "nested": 1300}
    return [
        _all(
            id,
            [Message(kind, chunk - before[kind], repeat=before[kind] + 20, step=1)],
            chunk_bytes=chunk,
        )
        for kind in _KINDS
    ]


def _around_one_mib() -> list[Scenario]:
    id = "Q1/around-one-mib"
    messages = [Message(kind, MIB - 2, repeat=5, step=1) for kind in _KINDS]
    return [
        _all(id, messages, chunk_bytes=4 * MIB),
        _all(id, messages, chunk_bytes=MIB),
        _all(id, [Message("array", MIB - 400, repeat=420, step=1)], readers=1, chunk_bytes=MIB),
    ]


def _many_buffers() -> list[Scenario]:
    id = "Q1/none-one-many-buffers"
    counts = [Message("buffers", MIB + 1, buffers=n) for n in (0, 1, 2, 3, 5)]
    tiny = [Message("buffers", 3, buffers=n) for n in (1, 255, 256, 300)]
    empty = [Message(kind, 0) for kind in _KINDS]
    edge = 3 * (MIB + 1)
    window = [Message("buffers", MIB + 1 - 130, buffers=3, repeat=150, step=1)]
    return [
        _all(id, counts + tiny + empty, chunk_bytes=4 * MIB),
        _all(id, window, readers=1, chunk_bytes=edge, chunks=2),
    ]


def _shapes() -> list[Scenario]:
    """Inline, and by way of overflow."""
    id = "Q1/every-shape-of-array"
    messages = [Message("shapes", size) for size in (0, 100, 20_000)]
    return [_all(id, messages * 2, chunk_bytes=MIB), _all(id, messages, chunk_bytes=1024)]


def _mixed() -> list[Scenario]:
    id = "Q2/mixed-order"
    messages = [Message("array", 40_000, repeat=12, step=5_000), small(4)] * 3
    return [_all(id, messages)]


def _late_payload() -> list[Scenario]:
    """The marker is there, the payload not yet: a receive that gives up must change nothing."""
    id = "Q2/late-overflow-payload"
    steps = [
        *OPEN_QUEUE,
        Send([small(2)], timeout=5.0),
        Receive(2, timeout=5.0),
        Wait(),
        Fault("stop", "writer", Point("send", name="overflow-marker")),
        Send(
            [Message("array", 24 * MIB), small(1), Message("array", 1 * MIB), small(1)], timeout=9.0
        ),
        Wait(("writer",)),
        Receive(1, timeout=0.4),
        Wait(("readers",)),
        Fault("continue", "writer"),
        Receive(5, timeout=2.0, keep_on=True),
        Wait(within=30.0),
    ]
    return [queue_scenario(id, *steps)]


_BRIEF = 0.1
"""Seconds: the timeout of a receive that is to run into it."""


def _timed_out() -> list[Scenario]:
    """Receives that end in vain before their message is sent, then about when it is."""
    id = "Q2/receive-timed-out"
    in_vain = Receive(1, timeout=_BRIEF, keep_on=True)
    sending = Send([small(1)], timeout=5.0)
    placed: list[AnyStep] = []
    racing: list[AnyStep] = []
    for message in (small(1), Message("array", 100_000)):
        placed += [in_vain, Wait(), Send([message], timeout=5.0)]
        placed += [Receive(1, timeout=2.0, keep_on=True), Wait(), in_vain, Wait()]
    for early in (0.03, 0.02, 0.01, 0.005, 0.0, -0.005):
        racing += [in_vain, Pause(_BRIEF - early), sending, Wait()]
    over: list[AnyStep] = [Send([small(2)], timeout=5.0), Wait(("writer",))]
    return [
        queue_scenario(
            id, *OPEN_QUEUE, *steps, *over, Receive(left + 3, timeout=0.5, keep_on=True), Wait()
        )
        for steps, left in ((placed, 0), (racing, 6))
    ]


def _undecodable_overflow() -> list[Scenario]:
    id = "Q2/undecodable-overflow"
    steps = [
        *OPEN_QUEUE,
        Send([Message("undecodable", 100_000), Message(size=90_000), small(2)], timeout=5.0),
        Receive(4, timeout=2.0, keep_on=True),
        Wait(within=20.0),
    ]
    return [queue_scenario(id, *steps)]


def _changed(id: str, message: Message, **shape: int) -> Case:
    return queue_case(
        id,
        f"each {message.kind} of {message.size} bytes is overwritten right after its enqueue",
        lambda: [_all(id, [message], mutate=True, **shape)],
    )


def _limits(id: str, messages: list[Message], **limits: int) -> Case:
    def run(case_run: CaseRun) -> None:
        steps = [
            *OPEN_QUEUE,
            Send([small(2), *messages, small(2)], timeout=5.0, keep_on=True),
            Receive(4 + len(messages), timeout=1.0),
            Wait(within=20.0),
        ]
        base = queue_scenario(id, *steps)
        shape = msgspec.structs.replace(QueueShape(chunk_bytes=64 * 1024), **limits)
        case_run.play(msgspec.structs.replace(base, shape=shape, seed=case_run.seed))

    named = ", ".join(f"{key}={value}" for key, value in limits.items())
    needs = frozenset({"queue", "limits", "deadlines"})
    return Case(id, f"messages around the limit {named}", run, needs)


def _topology(readers: int) -> Case:
    id = f"Q14/{readers}-local-readers"
    messages = [small(6), Message("array", 100_000), small(6)]
    return queue_case(
        id,
        f"one writer, {counted(readers, 'local readers')}",
        lambda: [_all(id, messages, readers=readers)],
    )


CASES: tuple[Case, ...] = (
    queue_case(
        "Q1/every-size-at-the-boundary", "all sizes in a window around the boundary", _boundary
    ),
    queue_case("Q1/around-one-mib", "sizes around 1 MiB, inline and overflow", _around_one_mib),
    queue_case("Q1/none-one-many-buffers", "0, 1 and many out-of-band buffers", _many_buffers),
    queue_case(
        "Q1/every-shape-of-array",
        "arrays and tensors of every plain type, without dimensions too, in every layout",
        _shapes,
    ),
    queue_case("Q2/mixed-order", "inline and overflow messages in turn", _mixed),
    queue_case(
        "Q2/late-overflow-payload",
        "a receive times out between marker and payload",
        _late_payload,
        "deadlines",
        "slots",
        "points",
    ),
    queue_case(
        "Q2/receive-timed-out",
        "receives time out before their message is sent, and about when it is",
        _timed_out,
        "deadlines",
    ),
    queue_case(
        "Q2/undecodable-overflow",
        "an overflow payload cannot be decoded",
        _undecodable_overflow,
        "deadlines",
    ),
    _changed("Q3/overwritten-after-enqueue", Message("array", 30_000, repeat=12)),
    _changed(
        "Q3/overwritten-after-enqueue-large",
        Message("array", 2 * MIB, repeat=8),
        chunk_bytes=4 * MIB,
    ),
    _changed("Q3/overwritten-after-enqueue-overflow", Message("array", 32 * MIB, repeat=4)),
    _limits(
        "Q4/buffer-count",
        [Message("buffers", MIB, buffers=n) for n in (2, 3, 4, 5)],
        max_buffers=3,
    ),
    _limits(
        "Q4/buffer-length",
        [Message("array", MIB + n) for n in (-1, 0, 1, 2)],
        max_buffer_bytes=MIB,
    ),
    *(_topology(readers) for readers in (1, 3, 8, 64)),
)
