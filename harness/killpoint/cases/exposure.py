"""Cases of strangers: listeners (S1), rights (S2), eavesdroppers (S3), floods (S4)."""

from __future__ import annotations

from typing import Literal

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Attach,
    Attack,
    Broadcast,
    Join,
    Make,
    Message,
    PipeOpen,
    PipeReceive,
    PipeSend,
    ProbeExposure,
    Ready,
    Receive,
    ReceiveFrom,
    Scenario,
    Send,
    SendTo,
    Tensor,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun
from killpoint.systems.coordinator.cases.builders import (
    FIRST,
    SECOND,
    START_AND_CONNECT,
    coordinator_case,
    heard,
)
from killpoint.systems.engine.cases.builders import (
    STOP_AND_COMPARE,
    engine_case,
    engine_scenario,
    keep_load,
    start_with_load,
)
from killpoint.systems.pool.cases.builders import (
    START_POOL,
    STOP_POOL,
    TWO_CALLS,
    pool_case,
    pool_scenario,
)
from killpoint.systems.queue.cases.builders import (
    OPEN_QUEUE,
    queue_case,
    queue_scenario,
    small,
)
from killpoint.targets.shapes import GroupShape, PipeShape

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
        return [_with_remote(queue_scenario(id, *steps), remote)]

    return queue_case(id, summary, build, *(("remote", *needs) if remote else needs))


def _with_remote(found: Scenario, remote: int) -> Scenario:
    shape = msgspec.structs.replace(found.shape, remote=remote)
    return msgspec.structs.replace(found, shape=shape)


def _group(id: str, summary: str, *steps: AnyStep) -> Case:
    def build() -> list[Scenario]:
        return [Scenario(id, [id.split("/")[0]], [*_MEET, *steps], group=GroupShape(ranks=2))]

    return queue_case(id, summary, build, "group")


def _under_umask(umask: int) -> Case:
    id = f"S2/umask-{umask:03o}"
    steps: list[AnyStep] = [
        Make(),
        Wait(),
        ProbeExposure(("writer",)),
        Attach(),
        Wait(),
        ProbeExposure(),
        Ready(timeout=10.0),
        Wait(within=15.0),
        *_SMALL_AND_LARGE,
        ProbeExposure(),
    ]
    return queue_case(
        id,
        f"a queue's life under umask 0o{umask:03o}",
        lambda: [msgspec.structs.replace(queue_scenario(id, *steps), umask=umask)],
    )


_LISTENERS = (
    _queue(
        "S1/queue-listeners",
        "a queue of local readers listens at no port beyond loopback",
        *OPEN_QUEUE,
        ProbeExposure(),
        *_SMALL_AND_LARGE,
        ProbeExposure(),
    ),
    _queue(
        "S1/remote-queue-listeners",
        "a queue with a remote reader listens at the address it was given, and at no other",
        *OPEN_QUEUE,
        ProbeExposure(),
        *_SMALL_AND_LARGE,
        ProbeExposure(),
        remote=1,
    ),
    _group(
        "S1/group-store-listener",
        "a group on loopback listens at no wider address, on any rank",
        ProbeExposure(),
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
        *OPEN_QUEUE,
        Attack("writer", "listen"),
        *_SMALL_AND_LARGE,
        remote=1,
    ),
    _queue(
        "S3/speaking-stranger",
        "somebody without a key sends the writer what must not be decoded",
        *OPEN_QUEUE,
        Attack("writer", "speak"),
        *_SMALL_AND_LARGE,
        remote=1,
    ),
    _queue(
        "S3/stranger-at-the-handshake",
        "somebody without a key sends the writer garbage before the readers have come",
        Make(),
        Wait(),
        Attack("writer", "speak"),
        *OPEN_QUEUE[1:],
        *_SMALL_AND_LARGE,
        remote=1,
    ),
    _queue(
        "S3/keys-unseen",
        "no key in a handle's repr, a log, an environment or a command line",
        *OPEN_QUEUE,
        *_SMALL_AND_LARGE,
        ProbeExposure(),
        Wait(),
        remote=1,
        needs=("wire",),
    ),
    _group(
        "S3/group-listening-stranger",
        "somebody without a key listens at a group's ports",
        *_ONE_TO_ONE,
        Attack("rank-0", "listen"),
        *_THEN_TAKEN,
    ),
    _group(
        "S3/group-speaking-stranger",
        "somebody without a key sends a group what must not be decoded",
        *_ONE_TO_ONE,
        Attack("rank-0", "speak"),
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

    return queue_case(id, summary, build, "pipe")


def _visited(how: Literal["listen", "speak", "flood"]) -> list[AnyStep]:
    """A stranger comes while the first rank waits for the other, and again once both are there."""
    first, second = _ENDS
    return [
        PipeOpen((first,)),
        WaitBlocked((first,)),
        Attack(first, how),
        PipeOpen((second,)),
        Wait(within=30.0),
        Attack(first, how),
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
        ProbeExposure(),
        Wait(),
    ),
    _pipe(
        "S4/pipe-flood",
        "a stranger floods a pipe's ports, before its ranks have met and after",
        *_visited("flood"),
    ),
)

_WORKING: list[AnyStep] = [*start_with_load(rate=6.0, together=2, max_tokens=24), *keep_load(1.0)]
_AFTER: list[AnyStep] = [*keep_load(1.0), *STOP_AND_COMPARE]


def _intruded(*hows: Literal["listen", "speak", "flood"], role: str) -> list[AnyStep]:
    return [Attack(role, how) for how in hows]


def _unmasked(played: Scenario, summary: str, needs: frozenset[str]) -> Case:
    """A case of one scenario whose roles have a umask of 000."""

    def run(case_run: CaseRun) -> None:
        case_run.play(msgspec.structs.replace(played, umask=0, seed=case_run.seed))

    return Case(played.case, summary, run, needs)


_PROCESS_TREES = (
    pool_case(
        "S1/pool-listeners",
        "an executor and its workers listen nowhere beyond loopback",
        *START_POOL,
        *TWO_CALLS,
        ProbeExposure(("executor",)),
        *STOP_POOL,
    ),
    pool_case(
        "S3/pool-strangers",
        "a stranger at whatever a pool listens at, and its calls",
        *START_POOL,
        *_intruded("listen", "speak", role="executor"),
        *TWO_CALLS,
        *STOP_POOL,
    ),
    _unmasked(
        pool_scenario(
            "S2/pool-paths", *START_POOL, *TWO_CALLS, ProbeExposure(("executor",)), *STOP_POOL
        ),
        "a pool's paths, segments and sockets are their owner's alone under umask 000",
        frozenset({"pool"}),
    ),
    _unmasked(
        engine_scenario(
            "S2/engine-paths",
            *_WORKING,
            ProbeExposure(("front-end",)),
            *STOP_AND_COMPARE,
            tensor_parallel=2,
        ),
        "an engine's paths, segments and sockets are their owner's alone under umask 000",
        frozenset({"engine"}),
    ),
    engine_case(
        "S3/engine-lurking-stranger",
        "another user comes to each port of an engine's processes as it opens, as a library's peer"
        " would; tokens are the model's own",
        Attack("front-end", "lurk"),
        *_WORKING,
        *_AFTER,
        tensor_parallel=2,
    ),
    coordinator_case(
        "S3/coordinator-strangers",
        "strangers at a coordinator's ports; all that is said later is heard",
        [
            *START_AND_CONNECT,
            *_intruded("listen", "speak", role="coordinator"),
            *heard(FIRST, (5, 1)),
            *heard(SECOND, (6, 1)),
        ],
        host="127.0.0.1",
    ),
    pool_case(
        "S4/pool-flood",
        "a stranger floods whatever an executor and its workers listen at",
        *START_POOL,
        Attack("executor", "flood"),
        *TWO_CALLS,
        *STOP_POOL,
    ),
    _queue(
        "S4/queue-flood",
        "a stranger floods a writer's ports: idle, half-open, garbage, a gigabyte declared",
        *OPEN_QUEUE,
        Attack("writer", "flood"),
        *_SMALL_AND_LARGE,
        remote=1,
    ),
    _group(
        "S4/group-flood",
        "a stranger floods the ports of a group's host",
        *_ONE_TO_ONE,
        Attack("rank-0", "flood"),
        *_THEN_TAKEN,
    ),
    coordinator_case(
        "S4/coordinator-flood",
        "a stranger floods a coordinator's ports",
        [
            *START_AND_CONNECT,
            Attack("coordinator", "flood"),
            *heard(FIRST, (5, 1)),
            *heard(SECOND, (6, 1)),
        ],
        host="127.0.0.1",
    ),
    engine_case(
        "S4/engine-flood",
        "a stranger floods whatever an engine's processes listen at",
        *_WORKING,
        Attack("front-end", "flood"),
        *_AFTER,
        tensor_parallel=2,
    ),
)

CASES: tuple[Case, ...] = (*_LISTENERS, *_RIGHTS, *_STRANGERS, *_AT_PIPES, *_PROCESS_TREES)
