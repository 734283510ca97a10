"""Cases of deadlines and cancellation, in every state that waits (Q9)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Cancel,
    Fault,
    Message,
    Pause,
    Point,
    Receive,
    Scenario,
    Send,
    Wait,
    WaitBlocked,
)
from killpoint.systems.queue.cases.builders import (
    MIB,
    OPEN_QUEUE,
    queue_case,
    queue_scenario,
    small,
)

_TIMED = ("deadlines",)


def _empty(id: str, timeout: float) -> Case:
    def build() -> list[Scenario]:
        receive = Receive(2, timeout=timeout, keep_on=True)
        return [
            queue_scenario(id, *OPEN_QUEUE, receive, Wait(within=6.0)),
            queue_scenario(
                id,
                *OPEN_QUEUE,
                Send([small(2)], timeout=5.0),
                Receive(2, timeout=5.0),
                Wait(),
                Pause(1.2),
                receive,
                Wait(within=6.0),
            ),
        ]

    return queue_case(id, f"receive with timeout {timeout:g} s on an empty ring", build, *_TIMED)


def _full(id: str, timeout: float) -> Case:
    def build() -> list[Scenario]:
        send = Send([small(4), small(2)], timeout=timeout, keep_on=True)
        return [queue_scenario(id, *OPEN_QUEUE, send, Wait(within=6.0))]

    return queue_case(id, f"send with timeout {timeout:g} s into a full ring", build, *_TIMED)


def _before_payload(*then: AnyStep) -> list[AnyStep]:
    return [
        *OPEN_QUEUE,
        Send([small(1)], timeout=5.0),
        Receive(1, timeout=5.0),
        Wait(),
        Fault("stop", "writer", Point("send", name="overflow-marker")),
        Send([Message("array", 96 * MIB)], timeout=9.0),
        Wait(("writer",)),
        *then,
        Fault("continue", "writer"),
        Wait(within=10.0),
    ]


def _payload(id: str, timeout: float) -> Case:
    steps = _before_payload(
        Receive(1, timeout=timeout), Wait(("readers",), within=max(0.0, timeout) + 4.0)
    )
    return queue_case(
        id,
        f"receive with timeout {timeout:g} s: the marker is there, the payload is not",
        lambda: [queue_scenario(id, *steps)],
        *_TIMED,
        "points",
        "slots",
    )


def _marker_late() -> list[Scenario]:
    """One deadline for both waits: the marker comes when much of it is spent, no payload does."""
    id = "Q9/receive-marker-late"
    steps = [
        *OPEN_QUEUE,
        Receive(1, timeout=3.0),
        WaitBlocked(("readers",)),
        Pause(1.0),
        Fault("stop", "writer", Point("send", name="overflow-marker")),
        Send([Message("array", 32 * MIB)], timeout=9.0),
        Wait(("writer",)),
        Wait(("readers",), within=8.0),
        Fault("continue", "writer"),
        Wait(within=10.0),
    ]
    return [queue_scenario(id, *steps)]


def _cancel(id: str, summary: str, steps: list[AnyStep], *needs: str) -> Case:
    return queue_case(
        id, summary, lambda: [queue_scenario(id, *steps, readers=1)], "cancel", *needs
    )


CASES: tuple[Case, ...] = (
    _empty("Q9/receive-from-empty-ring", 0.3),
    _empty("Q9/receive-zero-timeout", 0.0),
    _empty("Q9/receive-negative-timeout", -1.0),
    _full("Q9/send-to-full-ring", 0.3),
    _full("Q9/send-zero-timeout", 0.0),
    _full("Q9/send-negative-timeout", -1.0),
    _payload("Q9/receive-before-payload", 0.4),
    _payload("Q9/receive-before-payload-negative", -1.0),
    queue_case(
        "Q9/receive-marker-late",
        "the marker comes late within the deadline, the payload does not come",
        _marker_late,
        *_TIMED,
        "points",
        "slots",
    ),
    _cancel(
        "Q9/cancel-receive",
        "a second thread cancels a reader that waits on an empty ring",
        [
            *OPEN_QUEUE,
            Receive(1),
            WaitBlocked(("reader-0",)),
            Cancel(("reader-0",)),
            Wait(("reader-0",), within=4.0),
        ],
    ),
    _cancel(
        "Q9/cancel-idle-receive",
        "a second thread cancels a reader that has been idle for a while",
        [
            *OPEN_QUEUE,
            Receive(1),
            WaitBlocked(("reader-0",)),
            Pause(1.3),
            Cancel(("reader-0",)),
            Wait(("reader-0",), within=4.0),
        ],
    ),
    _cancel(
        "Q9/cancel-receive-before-payload",
        "a second thread cancels a reader that waits for an overflow payload",
        _before_payload(
            Receive(1),
            WaitBlocked(("reader-0",)),
            Cancel(("reader-0",)),
            Wait(("reader-0",), within=4.0),
        ),
        "points",
        "slots",
    ),
    _cancel(
        "Q9/cancel-send",
        "a second thread cancels a writer that waits on a full ring",
        [
            *OPEN_QUEUE,
            Send([small(6)]),
            WaitBlocked(("writer",)),
            Cancel(("writer",)),
            Wait(("writer",), within=4.0),
        ],
    ),
)
