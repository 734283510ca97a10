"""Cases of the ring: R1, R2, R3, R4, R6, R7, R8."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Attach,
    Close,
    Fault,
    ForkCopy,
    Make,
    Message,
    Pause,
    Point,
    Ready,
    Receive,
    RingAttach,
    RingRead,
    RingWrite,
    Scenario,
    Send,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import chosen, count_lines
from killpoint.systems.queue.cases.builders import (
    MIB,
    OPEN_QUEUE,
    queue_case,
    queue_scenario,
    small,
)
from killpoint.verdict import counted


def _observed(id: str, readers: int) -> Case:
    steps = [
        *OPEN_QUEUE,
        Send([small(24), Message("array", 100_000), small(24)], timeout=10.0),
        Receive(49, timeout=10.0),
        Wait(within=30.0),
    ]
    return queue_case(
        id,
        f"every store to the flags, {counted(readers, 'readers')}, eleven laps",
        lambda: [
            msgspec.structs.replace(queue_scenario(id, *steps, readers=readers), observe=True)
        ],
        "ring",
        "slots",
    )


def _stream(id: str, messages: list[Message], count: int, **shape: int) -> Scenario:
    steps = [
        *OPEN_QUEUE,
        Send(messages, timeout=8.0),
        Receive(count, timeout=8.0),
        Wait(within=40.0),
    ]
    return queue_scenario(id, *steps, **shape)


def _large() -> list[Scenario]:
    messages = [Message("bytes", 3 * MIB - 17, repeat=12, step=1009)]
    messages += [Message("array", MIB - 9000, repeat=6, step=1009)]
    sizes = [Message("array", 60_000, repeat=60, step=13)]
    return [
        _stream("R2/large-messages", messages, 18, chunk_bytes=4 * MIB, chunks=2),
        _stream("R2/large-messages", sizes, 60, chunks=2),
    ]


def _stopped_writer(case_run: CaseRun) -> None:
    id = "R2/stopped-inside-send"

    def around(step: AnyStep) -> Scenario:
        return queue_scenario(
            id,
            *OPEN_QUEUE,
            step,
            Send([Message("array", MIB + MIB // 2, repeat=4)], timeout=10.0, mutate=False),
            Receive(4, timeout=10.0),
            Pause(0.1),
            Fault("continue", "writer"),
            Wait(within=20.0),
            chunk_bytes=4 * MIB,
        )

    count = count_lines(case_run, "writer", Point("send", nth=1), around)
    for line in case_run.with_progress(chosen(case_run, count, 6)):
        case_run.play(around(Fault("stop", "writer", Point("send", line=line, nth=1))))


def _full_ring() -> list[Scenario]:
    id = "R4/full-ring"
    steps = [
        *OPEN_QUEUE,
        Send([small(4), small(3)], timeout=0.2, keep_on=True),
        Wait(("writer",)),
        Receive(4, timeout=5.0),
        Wait(),
        Send([small(4)], timeout=5.0),
        Receive(4, timeout=5.0),
        Wait(),
    ]
    return [queue_scenario(id, *steps)]


def _slow_reader() -> list[Scenario]:
    id = "R4/slow-reader"
    steps = [
        *OPEN_QUEUE,
        Fault("slow", "reader-1", pause=0.01),
        Send([Message("array", 2000, repeat=30), Message("bytes", 50, repeat=10)], timeout=10.0),
        Receive(40, timeout=10.0),
        Wait(within=30.0),
    ]
    return [queue_scenario(id, *steps)]


def _held(id: str, message: Message, **shape: int) -> Case:
    steps = [
        *OPEN_QUEUE,
        Send([message], timeout=20.0),
        Receive(message.repeat, timeout=20.0),
        Wait(within=60.0),
    ]
    return queue_case(
        id,
        f"{message.kind} messages of {message.size} bytes are held over two more laps",
        lambda: [queue_scenario(id, *steps, **shape)],
    )


def _undecodable() -> list[Scenario]:
    id = "R7/undecodable-message"
    steps = [
        *OPEN_QUEUE,
        Send([small(2), Message("undecodable", 100), small(1)], timeout=5.0),
        Receive(4, timeout=2.0, keep_on=True),
        Wait(within=20.0),
        Send([small(6)], timeout=2.0),
        Receive(6, timeout=2.0, keep_on=True),
        Wait(within=30.0),
    ]
    return [queue_scenario(id, *steps)]


def _unencodable() -> list[Scenario]:
    id = "R7/unencodable-message"
    steps = [
        *OPEN_QUEUE,
        Send([small(2), Message("unencodable", 100), small(6)], timeout=5.0, keep_on=True),
        Receive(8, timeout=5.0),
        Wait(within=20.0),
        Send([Message("unencodable", 100_000), small(6)], timeout=5.0, keep_on=True),
        Receive(6, timeout=5.0),
        Wait(within=20.0),
    ]
    return [queue_scenario(id, *steps)]


def _ring_failure(id: str, *steps: AnyStep) -> Case:
    what = "fill" if "fill" in id else "decode"
    return queue_case(
        id,
        f"at the level of the ring, a {what} raises between two that do not",
        lambda: [queue_scenario(id, *OPEN_QUEUE, *steps, Wait(within=15.0), readers=1)],
        "ring",
    )


def _copy(id: str, role: str) -> Case:
    steps = [
        *OPEN_QUEUE,
        Send([small(2)], timeout=5.0),
        ForkCopy(role),
        Wait(within=10.0),
        Send([small(6)], timeout=5.0),
        Receive(8, timeout=5.0),
        Wait(within=20.0),
    ]
    return queue_case(
        id,
        f"{role} forks, and the child drops its copy and exits; the queue must not notice",
        lambda: [queue_scenario(id, *steps)],
        "ring",
    )


def _early_copy() -> list[Scenario]:
    id = "R8/fork-copy-before-attach"
    steps = [Make(), ForkCopy("writer"), Wait(("writer",)), Attach(), Ready(timeout=10.0)]
    steps += [Send([small(2)], timeout=5.0), Receive(2, timeout=5.0), Wait()]
    return [queue_scenario(id, *steps)]


def _reader_leaves() -> list[Scenario]:
    id = "R8/reader-closes-first"
    steps = [*OPEN_QUEUE, Send([small(2)], timeout=5.0), Receive(2, timeout=5.0), Wait()]
    return [queue_scenario(id, *steps, Close(("reader-0",)), Wait())]


def _bad_segment(how: str) -> Case:
    id = f"R8/{how}-segment"
    step = RingAttach("missing" if how == "missing" else "small")
    return queue_case(
        id,
        f"a reader attaches to a segment that is {how}",
        lambda: [queue_scenario(id, step, Wait(within=10.0), readers=1)],
        "ring",
    )


CASES: tuple[Case, ...] = (
    _observed("R1/two-readers", 2),
    _observed("R1/one-reader", 1),
    queue_case("R2/large-messages", "messages of many pages through two slots", _large),
    Case(
        "R2/stopped-inside-send",
        "the writer is stopped at lines inside a large send, then goes on",
        _stopped_writer,
        frozenset({"queue", "points"}),
    ),
    queue_case(
        "R3/stream",
        "600 messages, three readers, 150 laps",
        lambda: [_stream("R3/stream", [Message(size=1, repeat=600, step=7)], 600, readers=3)],
    ),
    queue_case("R4/full-ring", "sends into a full ring", _full_ring, "deadlines", "ring"),
    queue_case("R4/slow-reader", "one reader takes its time", _slow_reader, "deadlines", "ring"),
    _held(
        "R6/held-array-after-lap",
        Message("array", MIB + MIB // 2, repeat=10),
        chunk_bytes=4 * MIB,
    ),
    _held("R6/held-tensor-after-lap", Message("tensor", MIB + 5, repeat=10), chunk_bytes=4 * MIB),
    _held("R6/held-small-after-lap", Message("nested", 5000, repeat=10)),
    _held("R6/held-overflow", Message("array", 2 * MIB, repeat=8)),
    queue_case("R7/undecodable-message", "a reader's decode raises", _undecodable, "deadlines"),
    queue_case("R7/unencodable-message", "the writer's encode raises", _unencodable, "deadlines"),
    _ring_failure(
        "R7/fill-raises",
        RingWrite(timeout=2.0),
        RingWrite(timeout=2.0, fails=True),
        RingWrite(timeout=2.0),
        Wait(("writer",)),
        RingRead(timeout=2.0),
        RingRead(timeout=2.0),
    ),
    _ring_failure(
        "R7/decode-raises",
        RingWrite(timeout=2.0),
        RingWrite(timeout=2.0),
        RingWrite(timeout=2.0),
        Wait(("writer",)),
        RingRead(timeout=2.0),
        RingRead(timeout=2.0, fails=True),
        RingRead(timeout=2.0),
    ),
    _copy("R8/fork-copy-of-writer", "writer"),
    _copy("R8/fork-copy-of-reader", "reader-0"),
    queue_case(
        "R8/fork-copy-before-attach",
        "a fork's copy of the ring is dropped before a reader attaches",
        _early_copy,
        "ring",
    ),
    queue_case(
        "R8/reader-closes-first", "a reader closes before its writer", _reader_leaves, "ring"
    ),
    _bad_segment("missing"),
    _bad_segment("small"),
)
