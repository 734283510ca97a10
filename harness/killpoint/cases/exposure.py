"""Cases of what strangers see and can do: listeners (S1), rights (S2), eavesdroppers (S3)."""

from __future__ import annotations

from typing import Literal

import msgspec

from killpoint.cases.case import OPEN, Case, fixed, scenario, small
from killpoint.scenario import (
    AnyStep,
    Attach,
    Broadcast,
    Intrude,
    Join,
    Look,
    Make,
    Message,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Ready,
    Receive,
    ReceiveFrom,
    Scenario,
    Send,
    SendTo,
    Settle,
    Tensor,
    Wait,
)
from killpoint.targets.protocol import GroupShape, PipeShape

_ENDS = ("pipe-0", "pipe-1")
_SMALL_AND_LARGE: list[AnyStep] = [
    Send([small(3), Message("array", 100_000)], timeout=5.0),
    Receive(4, timeout=5.0),
    Wait(),
]
_MEET: list[AnyStep] = [Join(timeout=20.0), Wait(within=30.0)]


def _queue(
    id: str, summary: str, *steps: AnyStep, remote: int = 0, needs: tuple[str, ...] = ()
) -> Case:
    def build() -> list[Scenario]:
        return [_with_remote(scenario(id, *steps), remote)]

    return fixed(id, summary, build, *(("remote", *needs) if remote else needs))


def _with_remote(found: Scenario, remote: int) -> Scenario:
    shape = msgspec.structs.replace(found.shape, remote=remote)
    return msgspec.structs.replace(found, shape=shape)


def _group(id: str, summary: str, *steps: AnyStep) -> Case:
    def build() -> list[Scenario]:
        return [Scenario(id, [id.split("/")[0]], [*_MEET, *steps], group=GroupShape(ranks=2))]

    return fixed(id, summary, build, "group")


def _under_umask(umask: int) -> Case:
    id = f"S2/umask-{umask:03o}"
    steps: list[AnyStep] = [
        Make(),
        Wait(),
        Look(("writer",)),
        Attach(),
        Wait(),
        Look(),
        Ready(timeout=10.0),
        Wait(within=15.0),
        *_SMALL_AND_LARGE,
        Look(),
    ]
    return fixed(
        id,
        f"a queue's life under umask 0o{umask:03o}",
        lambda: [msgspec.structs.replace(scenario(id, *steps), umask=umask)],
    )


_LISTENERS = (
    _queue(
        "S1/queue-listeners",
        "a queue of local readers listens at no port beyond loopback",
        *OPEN,
        Look(),
        *_SMALL_AND_LARGE,
        Look(),
    ),
    _queue(
        "S1/remote-queue-listeners",
        "a queue with a remote reader listens at the address it was given, and at no other",
        *OPEN,
        Look(),
        *_SMALL_AND_LARGE,
        Look(),
        remote=1,
    ),
    _group(
        "S1/group-store-listener",
        "a group on loopback listens at no wider address, on any rank",
        Look(),
    ),
)

_RIGHTS = (
    _under_umask(0o000),
    _under_umask(0o077),
)

_ONE_TO_ONE: list[AnyStep] = [
    SendTo("rank-0", "rank-1", [small(3)]),
    Wait(("rank-0",)),
]
_THEN_TAKEN: list[AnyStep] = [
    ReceiveFrom(("rank-1",), "rank-0", 3),
    Wait(),
    Broadcast("rank-0", [small(2)]),
    Wait(),
]

_STRANGERS = (
    _queue(
        "S3/listening-stranger",
        "somebody without a key connects to the writer's ports and listens",
        *OPEN,
        Intrude("writer", "listen"),
        *_SMALL_AND_LARGE,
        remote=1,
    ),
    _queue(
        "S3/speaking-stranger",
        "somebody without a key sends the writer what must not be decoded",
        *OPEN,
        Intrude("writer", "speak"),
        *_SMALL_AND_LARGE,
        remote=1,
    ),
    _queue(
        "S3/stranger-at-the-handshake",
        "somebody without a key sends the writer garbage before the readers have come",
        Make(),
        Wait(),
        Intrude("writer", "speak"),
        *OPEN[1:],
        *_SMALL_AND_LARGE,
        remote=1,
    ),
    _queue(
        "S3/keys-unseen",
        "no key in a handle's repr, a log, an environment or a command line",
        *OPEN,
        *_SMALL_AND_LARGE,
        Look(),
        Wait(),
        remote=1,
        needs=("wire",),
    ),
    _group(
        "S3/group-listening-stranger",
        "somebody without a key listens at a group's ports",
        *_ONE_TO_ONE,
        Intrude("rank-0", "listen"),
        *_THEN_TAKEN,
    ),
    _group(
        "S3/group-speaking-stranger",
        "somebody without a key sends a group what must not be decoded",
        *_ONE_TO_ONE,
        Intrude("rank-0", "speak"),
        *_THEN_TAKEN,
    ),
)

_ACROSS: list[AnyStep] = [
    *(PipeSend(rank, [Tensor(repeat=3), Tensor("uint8", (300_000,))]) for rank in _ENDS),
    *(PipeReceive((rank,), 4) for rank in _ENDS),
    Wait(within=8.0),
]


def _pipe(id: str, summary: str, *steps: AnyStep) -> Case:
    def build() -> list[Scenario]:
        return [Scenario(id, [id.split("/")[0]], [*steps, *_ACROSS], pipe=PipeShape())]

    return fixed(id, summary, build, "pipe")


def _visited(how: Literal["listen", "speak"]) -> list[AnyStep]:
    """A stranger comes while the first rank waits for the other, and again once both are there."""
    first, second = _ENDS
    return [
        PipeOpen((first,)),
        Settle((first,)),
        Intrude(first, how),
        PipeOpen((second,)),
        Wait(within=30.0),
        Intrude(first, how),
    ]


_AT_PIPES = (
    _pipe(
        "S3/pipe-listening-stranger",
        "somebody without a key listens at a pipe's ports, before its ranks have met and after",
        *_visited("listen"),
    ),
    _pipe(
        "S3/pipe-speaking-stranger",
        "somebody without a key sends a pipe what must not be decoded, before and after",
        *_visited("speak"),
    ),
    _pipe(
        "S3/pipe-keys-unseen",
        "no key in the repr of a pipe's end, a log, an environment or a command line",
        PipeOpen(),
        Wait(within=30.0),
        Look(),
        Wait(),
    ),
)

CASES: tuple[Case, ...] = (*_LISTENERS, *_RIGHTS, *_STRANGERS, *_AT_PIPES)
