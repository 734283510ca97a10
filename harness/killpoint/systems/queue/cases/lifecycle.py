"""Cases of a queue's life: handshake (Q10), endings (Q11), what they owe (Q16), leaks (L1)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Attach,
    Close,
    Drop,
    Exit,
    Fault,
    Make,
    Message,
    Ready,
    Receive,
    Scenario,
    Send,
    StartMethod,
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

_SIXTY = [Message("array", 20 * MIB, repeat=3)]
_TRAFFIC: list[AnyStep] = [
    Send([small(3), Message("array", 100_000)], timeout=5.0),
    Receive(4, timeout=5.0),
    Wait(),
]


def _one(
    id: str, summary: str, *steps: AnyStep, needs: tuple[str, ...] = (), readers: int = 2
) -> Case:
    return queue_case(id, summary, lambda: [queue_scenario(id, *steps, readers=readers)], *needs)


def _ended(
    id: str,
    ending: str,
    how: list[AnyStep],
    messages: list[Message],
    start: StartMethod = "zygote",
) -> Case:
    count = sum(message.repeat for message in messages)

    def build() -> list[Scenario]:
        steps = [
            *OPEN_QUEUE,
            Send(messages, timeout=5.0, burst=True, mutate=False),
            *how,
            Wait(("writer",), within=8.0),
            Receive(count + 1, timeout=2.0),
            Wait(within=12.0),
        ]
        played = queue_scenario(id, *steps, readers=1)
        return [msgspec.structs.replace(played, start=start)]

    what = "60 MB of overflow payloads" if messages is _SIXTY else "inline messages"
    return queue_case(id, f"{what} are unread when the writer{ending}", build, "deadlines")


_HANDSHAKE = (
    _one(
        "Q10/reader-dies-before-attaching",
        "one reader never attaches, it is dead",
        Make(),
        Fault("kill", "reader-0"),
        Attach(("reader-1",)),
        Ready(("writer", "reader-1"), timeout=1.0),
        Wait(within=4.0),
    ),
    _one(
        "Q10/departure-is-no-arrival",
        "one reader comes and dies while the writer waits, the other never comes",
        Make(),
        Attach(("reader-0",)),
        Ready(("writer", "reader-0"), timeout=2.0),
        WaitBlocked(("writer", "reader-0")),
        Fault("kill", "reader-0"),
        Wait(within=4.0),
    ),
    _one(
        "Q10/writer-dies-in-handshake",
        "the readers wait for a writer that is killed",
        Make(),
        Attach(),
        Ready(("readers",), timeout=2.0),
        WaitBlocked(("readers",)),
        Fault("kill", "writer"),
        Wait(within=4.0),
    ),
    _one(
        "Q10/nobody-comes",
        "the writer waits for readers that never attach",
        Make(),
        Ready(("writer",), timeout=0.5),
        Wait(within=4.0),
        needs=("deadlines",),
    ),
)

_ENDINGS = (
    _one("Q11/close-idle", "all close after some traffic", *OPEN_QUEUE, *_TRAFFIC, Close(), Wait()),
    _one(
        "Q11/drop-in-a-cycle",
        "the last reference goes in a reference cycle",
        *OPEN_QUEUE,
        *_TRAFFIC,
        Drop(("all",), cycle=True),
        Wait(within=6.0),
    ),
    _one(
        "Q11/interpreter-exit",
        "interpreters end with the queue open",
        *OPEN_QUEUE,
        *_TRAFFIC,
        Exit(("all",)),
        Wait(within=8.0),
    ),
    _one(
        "Q11/close-with-unread-overflow",
        "the writer closes with 60 MB unread by a stopped reader",
        *OPEN_QUEUE,
        Fault("stop", "reader-0"),
        Send(_SIXTY, timeout=5.0, burst=True, mutate=False),
        Wait(("writer",)),
        Close(("writer",)),
        Wait(("writer",), within=6.0),
        readers=1,
    ),
    _one(
        "Q11/drop-cycle-with-unread-overflow",
        "a queue with 60 MB unread by a stopped reader is collected in a reference cycle",
        *OPEN_QUEUE,
        Fault("stop", "reader-0"),
        Send(_SIXTY, timeout=5.0, burst=True, mutate=False),
        Wait(("writer",)),
        Drop(("writer",), cycle=True),
        Wait(("writer",), within=6.0),
        readers=1,
    ),
    _one(
        "Q11/close-after-peer-died",
        "the writer closes after its reader was killed",
        *OPEN_QUEUE,
        Fault("kill", "reader-0"),
        Close(("writer",)),
        Wait(("writer",), within=6.0),
        readers=1,
    ),
    _one(
        "Q11/close-before-ready",
        "a queue is closed that nobody attached to",
        Make(),
        Close(("writer",)),
        Wait(("writer",), within=6.0),
    ),
)

_OWED = (
    _ended("Q16/closed-after-60MB", " closes its queue", [Close(("writer",))], _SIXTY),
    _ended("Q16/collected-after-60MB", "'s queue is collected", [Drop(("writer",))], _SIXTY),
    _ended("Q16/exited-after-60MB", "'s interpreter exits", [Exit(("writer",))], _SIXTY),
    _ended(
        "Q16/forked-child-exits-after-60MB",
        ", a forked child, exits",
        [Exit(("writer",))],
        _SIXTY,
        "fork",
    ),
    _ended("Q16/closed-after-inline", " closes its queue", [Close(("writer",))], [small(4)]),
    _ended("Q16/exited-after-inline", "'s interpreter exits", [Exit(("writer",))], [small(4)]),
)

_KILL_ALL = [Fault("kill", role) for role in ("writer", "reader-0", "reader-1")]


def _killed_and_restarted(id: str, when: str, *steps: AnyStep) -> Case:
    return queue_case(
        id,
        f"every party is killed {when}; the next start removes what they left",
        lambda: [msgspec.structs.replace(queue_scenario(id, *steps), restart=True)],
    )


_LEAKS = (
    _one(
        "L1/clean-end",
        "a queue is made, used and closed",
        *OPEN_QUEUE,
        *_TRAFFIC,
        Close(),
        Exit(("all",)),
        Wait(),
    ),
    _one(
        "L1/never-closed",
        "interpreters end without closing the queue",
        *OPEN_QUEUE,
        *_TRAFFIC,
        Exit(("all",)),
        Wait(),
    ),
    _one(
        "L1/writer-killed",
        "the writer is killed after some traffic",
        *OPEN_QUEUE,
        *_TRAFFIC,
        Fault("kill", "writer"),
    ),
    _one(
        "L1/reader-killed",
        "a reader is killed after some traffic",
        *OPEN_QUEUE,
        *_TRAFFIC,
        Fault("kill", "reader-0"),
    ),
    _one(
        "L1/writer-killed-before-ready",
        "readers have attached, the handshake is not done",
        Make(),
        Attach(),
        Ready(("readers",), timeout=1.0),
        WaitBlocked(("readers",)),
        Fault("kill", "writer"),
        Wait(within=4.0),
    ),
    _killed_and_restarted(
        "L1/all-killed-then-next-start", "after some traffic", *OPEN_QUEUE, *_TRAFFIC, *_KILL_ALL
    ),
    _killed_and_restarted(
        "L1/all-killed-before-ready", "before the handshake", Make(), Attach(), Wait(), *_KILL_ALL
    ),
)

CASES: tuple[Case, ...] = (*_HANDSHAKE, *_ENDINGS, *_OWED, *_LEAKS)
