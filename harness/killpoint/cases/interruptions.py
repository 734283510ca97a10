"""Cases of exceptions between two steps: each call is wholly done or not done (R9)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import FaultName, Verb
from killpoint.search.case_run import CaseRun
from killpoint.search.exception_injection import strike_anywhere
from killpoint.search.operations import Operation
from killpoint.systems.group.operations import GROUP, JOIN
from killpoint.systems.pipe.operations import PIPE
from killpoint.systems.queue.operations import QUEUE, REMOTE


def _of(operations: tuple[Operation, ...], *verbs: Verb) -> tuple[Operation, ...]:
    return tuple(each for each in operations if each.verb in verbs)


def _raised(
    id: str,
    summary: str,
    operations: tuple[Operation, ...],
    samples: int,
    fault: FaultName = "raise",
) -> Case:
    def run(case_run: CaseRun) -> None:
        strike_anywhere(case_run, operations, samples, fault)

    needs = {"points", "group"} if operations[0].ranks else {"points", "queue", "deadlines"}
    needs = {"points", "pipe"} if operations[0].pipe else needs
    if any(each.remote for each in operations):
        needs.add("remote")
    return Case(id, summary, run, frozenset(needs))


CASES: tuple[Case, ...] = (
    _raised(
        "R9/exception-in-send",
        "an exception at lines of send: inline, in several buffers, overflow, large in a slot",
        _of(QUEUE, "send"),
        24,
    ),
    _raised(
        "R9/exception-in-receive",
        "an exception at lines of receive: inline, in several buffers, overflow, large in a slot",
        _of(QUEUE, "receive"),
        18,
    ),
    _raised(
        "R9/exception-in-send-remote",
        "an exception at lines of send, with a local and a remote reader",
        _of(REMOTE, "send"),
        8,
    ),
    _raised(
        "R9/exception-in-receive-remote",
        "an exception at lines of a remote reader's receive",
        _of(REMOTE, "receive"),
        4,
    ),
    _raised(
        "R9/exception-in-close",
        "an exception at lines of close, of the writer and of readers, near and remote",
        (*_of(QUEUE, "close"), *_of(REMOTE, "close")),
        8,
    ),
    _raised(
        "R9/exception-in-make",
        "an exception at lines of the making of a queue, which is then made: nothing stays behind",
        (*_of(QUEUE, "make"), *_of(REMOTE, "make")),
        6,
    ),
    _raised(
        "R9/exception-in-attach",
        "an exception at lines of a reader's attaching, near and remote; the others notice nothing",
        (*_of(QUEUE, "attach"), *_of(REMOTE, "attach")),
        6,
    ),
    _raised(
        "R9/exception-in-ready",
        "an exception at lines of the handshake, of writer and reader, who then go on with it",
        _of(QUEUE, "ready"),
        8,
    ),
    _raised(
        "R9/exception-in-remote-ready",
        "an exception at lines of the handshake of a local and a remote reader with their writer",
        _of(REMOTE, "ready"),
        4,
    ),
    _raised(
        "R9/exception-in-group",
        "an exception at lines of each operation within a group, of host and member",
        GROUP,
        8,
    ),
    _raised(
        "R9/exception-in-join",
        "an exception at lines of the join, of host and member, who then join: nobody else notices",
        JOIN,
        8,
    ),
    _raised(
        "R9/exception-in-pipe-call",
        "an exception at lines of a pipe's send, receive and close, of either rank",
        _of(PIPE, "pipe-send", "pipe-receive", "pipe-close"),
        8,
    ),
    _raised(
        "R9/exception-in-pipe-open",
        "an exception at lines of the making of a pipe's end; the ranks then make theirs anew",
        _of(PIPE, "pipe-open"),
        4,
    ),
    _raised(
        "R9/signal-handler-raises",
        "a signal whose handler raises, at lines of send and receive",
        _of(QUEUE, "send", "receive"),
        12,
        "interrupt",
    ),
)
