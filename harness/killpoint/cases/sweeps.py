"""Cases made of the table of operations: each role stopped, or killed, at lines of each call."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import FaultName, Verb
from killpoint.search.case_run import CaseRun
from killpoint.search.operations import Operation
from killpoint.search.sweeps import Around, around_death, around_stop, sweep
from killpoint.systems.group.operations import GROUP, JOIN
from killpoint.systems.queue.operations import QUEUE, REMOTE


def _swept(
    id: str,
    summary: str,
    operations: tuple[Operation, ...],
    samples: int,
    fault: FaultName = "stop",
    around: Around = around_stop,
) -> Case:
    def run(case_run: CaseRun) -> None:
        sweep(case_run, operations, samples, fault, around)

    needs = {"points", "group"} if operations[0].ranks else {"points", "queue"}
    if any(each.remote for each in operations):
        needs.add("remote")
    return Case(id, summary, run, frozenset(needs))


def _killed(id: str, summary: str, operations: tuple[Operation, ...], samples: int) -> Case:
    return _swept(id, summary, operations, samples, "kill", around_death)


def _of(operations: tuple[Operation, ...], *verbs: Verb, role: str = "") -> tuple[Operation, ...]:
    return tuple(o for o in operations if o.verb in verbs and role in ("", o.role))


_CALLS: tuple[Verb, ...] = (
    "send-to",
    "receive-from",
    "broadcast",
    "gather",
    "barrier",
    "leave",
)

CASES: tuple[Case, ...] = (
    _swept(
        "R3/stopped-anywhere",
        "a role is stopped at lines of any of its operations, and goes on",
        QUEUE,
        8,
    ),
    _swept(
        "R3/stopped-anywhere-remote",
        "a role is stopped at lines of its operations, with a local and a remote reader",
        REMOTE,
        4,
    ),
    _swept(
        "G1/stopped-anywhere",
        "a rank is stopped at lines of any of its operations, and goes on",
        (*GROUP, *JOIN),
        4,
    ),
    _killed(
        "Q10/killed-in-handshake",
        "SIGKILL at lines of attach and of the handshake, of writer and reader",
        _of(QUEUE, "attach", "ready"),
        3,
    ),
    _killed(
        "Q10/killed-in-remote-handshake",
        "SIGKILL at lines of attach and of the handshake, with a local and a remote reader",
        _of(REMOTE, "attach", "ready"),
        2,
    ),
    _killed(
        "Q7/reader-killed-in-close",
        "SIGKILL at lines of a reader's close, near and remote",
        (*_of(QUEUE, "close", role="reader-1"), *_of(REMOTE, "close", role="reader-1")),
        2,
    ),
    _killed(
        "L1/killed-while-making",
        "SIGKILL at lines of the making of a queue; the next start",
        (*_of(QUEUE, "make"), *_of(REMOTE, "make")),
        2,
    ),
    _killed(
        "G3/killed-while-joining",
        "SIGKILL at lines of the join, of the host and of a member; the others are told",
        JOIN,
        2,
    ),
    _killed(
        "G4/host-killed-in-any-call",
        "SIGKILL at lines of each operation of the host",
        _of(GROUP, *_CALLS, role="rank-0"),
        2,
    ),
    _killed(
        "G4/member-killed-in-any-call",
        "SIGKILL at lines of each operation of a member; the others go on",
        _of(GROUP, *_CALLS, role="rank-1"),
        2,
    ),
)
