"""Cases of large messages that fit into a slot: some implementations pass them on in pieces."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import AnyStep, Close, Fault, Message, Point, Receive, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import Around, chosen, count_lines
from killpoint.systems.queue.cases.builders import (
    MIB,
    OPEN_QUEUE,
    queue_case,
    queue_scenario,
    small,
)

_CHUNK = 8 * MIB
_LARGE = Message("array", 5 * MIB)
_PATIENT = 3.5
"""Seconds of a survivor's own deadline: longer than the 2 s in which the writer must get the
error."""


def _stream() -> list[Scenario]:
    sizes = [3 * MIB - 17, _CHUNK - MIB // 2, 2 * MIB - 999]
    messages = [Message("array", size, repeat=6, step=10_007) for size in sizes]
    mixed = [small(2), Message("buffers", MIB + 1, buffers=4), *messages, small(3)]
    count = sum(message.repeat for message in mixed)
    return [
        queue_scenario(
            "R2/large-arrays",
            *OPEN_QUEUE,
            Send(mixed, timeout=9.0),
            Receive(count, timeout=9.0),
            Wait(within=20.0),
            Close(),
            readers=readers,
            chunk_bytes=_CHUNK,
            chunks=chunks,
        )
        for readers, chunks in ((1, 3), (2, 2))
    ]


def _around(id: str, role: str) -> Around:
    """A death in the middle of large messages, then what the others do about it."""
    mix = [small(1), _LARGE, small(1)]

    def around(step: AnyStep) -> Scenario:
        if role == "writer":
            steps = [*OPEN_QUEUE, Receive(60), step, Send(mix, timeout=9.0)]
            steps += [Close(("writer",)), Wait(within=9.0)]
        else:
            steps = [*OPEN_QUEUE, step, Receive(60, (role,), timeout=_PATIENT)]
            steps += [Receive(60, ("reader-1",), timeout=_PATIENT)]
            steps += [Send([*mix, *mix, small(9)], timeout=9.0), Wait(("writer",), within=9.0)]
            steps += [Close(("writer",)), Wait(within=9.0)]
        return queue_scenario(id, *steps, chunk_bytes=_CHUNK)

    return around


def _killed(role: str, op: str, samples: int) -> Case:
    id = f"{'Q6/writer' if role == 'writer' else 'Q7/reader'}-killed-inside-large-message"
    at = Point("send" if op == "send" else "receive", nth=1)

    def run(case_run: CaseRun) -> None:
        around = _around(id, role)
        for line in case_run.with_progress(
            chosen(case_run, count_lines(case_run, role, at, around), samples)
        ):
            fault = Fault("kill", role, Point(at.op, line=line, nth=at.nth))
            case_run.play(around(fault), may_miss=True)  # the others' pace may set the lines

    summary = f"SIGKILL at lines of {op} of 5 MiB in a slot of 8, while the others are at it"
    return Case(id, summary, run, frozenset({"queue", "points"}))


CASES: tuple[Case, ...] = (
    queue_case("R2/large-arrays", "arrays of 2 to 8 MiB in slots of 8, readers at work", _stream),
    _killed("writer", "send", 6),
    _killed("reader-0", "receive", 4),
)
