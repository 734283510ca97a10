"""Cases at native system calls: the writer dies while a library's thread sends for it (Q6)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import AnyStep, Close, Fault, Message, Point, Receive, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import count_places, ends_and
from killpoint.systems.queue.cases.builders import MIB, OPEN_QUEUE, queue_scenario, small

_SENDS = "sendto"
"""System call by which the socket library's own threads send."""
_SAMPLES = 3


def _run(case_run: CaseRun) -> None:
    def around(step: AnyStep) -> Scenario:
        large = Message("array", 2 * MIB, repeat=2)
        steps = [*OPEN_QUEUE, step, Send([small(1), large], timeout=10.0), Receive(60)]
        return queue_scenario(
            case_run.outcome.id, *steps, Close(("writer",)), Wait(within=8.0), chunk_bytes=4096
        )

    counted = Point("send", syscall=_SENDS)
    count = count_places(case_run, "writer", counted, around, "calls")
    # How many more there are depends on how fast the readers empty their sockets.
    for call in case_run.with_progress(ends_and(case_run, -(-count * 3 // 4), _SAMPLES)):
        case_run.play(around(Fault("kill", "writer", Point("send", syscall=_SENDS, call=call))))


CASES: tuple[Case, ...] = (
    Case(
        "Q6/writer-killed-inside-native-send",
        f"SIGKILL as a native thread of the writer's enters its n-th {_SENDS}, large payloads"
        " under way",
        _run,
        frozenset({"queue", "points"}),
    ),
)
