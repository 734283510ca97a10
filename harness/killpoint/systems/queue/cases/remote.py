"""Cases of what remote readers receive: Q1, Q2, Q3 and Q14 over TCP, beside local ones or alone."""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec

from killpoint.case import Case
from killpoint.scenario import Fault, Message, MessageKind, Receive, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import (
    MIB,
    OPEN_QUEUE,
    queue_case,
    queue_scenario,
    small,
)
from killpoint.verdict import counted

_KINDS: tuple[MessageKind, ...] = ("bytes", "array", "tensor", "nested")


def _all(
    id: str,
    messages: list[Message],
    *,
    readers: int,
    remote: int,
    chunk_bytes: int = 64 * 1024,
    host: str = "127.0.0.1",
) -> Scenario:
    count = sum(message.repeat for message in messages)
    steps = [
        *OPEN_QUEUE,
        Send(messages, timeout=10.0, mutate=False),
        Receive(count, timeout=10.0),
        Wait(within=60.0),
    ]
    made = queue_scenario(id, *steps, readers=readers, remote=remote, chunk_bytes=chunk_bytes)
    made.shape = msgspec.structs.replace(made.shape, host=host)
    return made


def _boundary() -> list[Scenario]:
    """A window that holds the ring's boundary, and one around 1 MiB: local readers see both."""
    chunk = 16 * 1024
    id = "Q1/every-size-to-remote-readers"
    before = {"bytes": 160, "array": 330, "tensor": 1500, "nested": 1300}
    window = [Message(k, chunk - before[k], repeat=before[k] // 4 + 8, step=4) for k in _KINDS]
    large = [Message(kind, MIB - 2, repeat=5, step=1) for kind in _KINDS]
    odd = [Message("buffers", MIB + 1, buffers=n) for n in (0, 1, 3)]
    odd += [Message("buffers", 3, buffers=n) for n in (255, 256)]
    odd += [Message(kind, 0) for kind in _KINDS]
    return [
        _all(id, window, readers=2, remote=1, chunk_bytes=chunk),
        _all(id, [*large, *odd], readers=2, remote=1, chunk_bytes=MIB),
    ]


def _mixed() -> list[Scenario]:
    messages = [Message("array", 40_000, repeat=12, step=5_000), small(4)] * 3
    return [_all("Q2/mixed-order-to-remote-readers", messages, readers=3, remote=2)]


def _changed() -> list[Scenario]:
    """The reader stands still until it is overwritten: most of it is still to be sent then."""
    id, reader = "Q3/overwritten-after-enqueue-remote", "reader-0"
    steps = [
        *OPEN_QUEUE,
        Fault("stop", reader),
        Send([Message("array", 64_000_000)], timeout=10.0),
        Wait(("writer",), within=20.0),
        Fault("continue", reader),
        Receive(1, timeout=10.0),
        Wait(within=60.0),
    ]
    return [queue_scenario(id, *steps, readers=1, remote=1)]


_TRAFFIC = [small(6), Message("array", 100_000), small(6)]


def _topology(local: int, remote: int) -> Case:
    id = f"Q14/{local}-local-{remote}-remote"
    readers = local + remote
    return queue_case(
        id,
        f"one writer, {counted(local, 'local readers')} and {counted(remote, 'remote readers')}",
        lambda: [_all(id, _TRAFFIC, readers=readers, remote=remote)],
        "remote",
    )


def _ipv6(has_ipv6: Callable[[], str]) -> Case:
    id = "Q14/remote-over-ipv6"

    def run(case_run: CaseRun) -> None:
        missing = has_ipv6()
        if missing:
            case_run.inconclusive(f"this machine has no IPv6 loopback: {missing}")
            return
        played = _all(id, _TRAFFIC, readers=2, remote=1, host="::1")
        case_run.play(msgspec.structs.replace(played, seed=case_run.seed))

    needs = frozenset({"queue", "remote"})
    return Case(id, "the writer listens at ::1 for its remote reader", run, needs)


def no_ipv6() -> str:
    """Why nothing can listen at ``::1``; empty if something can."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        return str(error)
    return ""


CASES: tuple[Case, ...] = (
    queue_case(
        "Q1/every-size-to-remote-readers",
        "sizes around the ring's boundary and 1 MiB, to one local and one remote reader",
        _boundary,
        "remote",
    ),
    queue_case(
        "Q2/mixed-order-to-remote-readers",
        "small and large messages in turn, to one local and two remote readers",
        _mixed,
        "remote",
    ),
    queue_case(
        "Q3/overwritten-after-enqueue-remote",
        "an array of 64 MB is overwritten right after its enqueue for a remote reader",
        _changed,
        "remote",
    ),
    *(_topology(*each) for each in ((0, 1), (0, 2), (1, 1), (2, 2))),
    _ipv6(no_ipv6),
)
