"""Cases of time, deaths and endings with remote readers: Q6, Q7, Q9, Q10, Q11, Q16 over TCP."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Attach,
    Cancel,
    Close,
    Exit,
    Fault,
    Make,
    Message,
    Ready,
    Receive,
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
from killpoint.systems.queue.cases.deaths import anywhere

_ENDLESS = 60
_PATIENT = 3.5
_KILLS = frozenset({"queue", "remote", "points"})
_FLOOD = Message(size=64 * 1024, repeat=1600)
"""100 MB: more than the buffers on the way to a reader that takes nothing."""
_SIXTY = [Message("array", 20 * MIB, repeat=3)]


def _one(
    id: str,
    summary: str,
    *steps: AnyStep,
    readers: int = 1,
    remote: int = 1,
    needs: tuple[str, ...] = (),
) -> Case:
    return queue_case(
        id,
        summary,
        lambda: [queue_scenario(id, *steps, readers=readers, remote=remote)],
        "remote",
        *needs,
    )


_DEATHS = (
    _one(
        "Q6/writer-dies-while-remote-readers-wait",
        "a local and a remote reader wait when the writer is killed",
        *OPEN_QUEUE,
        Send([small(3)], timeout=5.0),
        Receive(_ENDLESS),
        WaitBlocked(("readers",)),
        Fault("kill", "writer"),
        Wait(("readers",), within=4.0),
        readers=2,
    ),
    Case(
        "Q6/writer-killed-anywhere-remote",
        "SIGKILL at lines of send and close, with a local and a remote reader",
        lambda case_run: anywhere(case_run, "writer", 6, remote=1),
        _KILLS,
    ),
    _one(
        "Q7/remote-reader-dies-idle",
        "a remote reader dies while it waits; the writer goes on to send",
        *OPEN_QUEUE,
        Receive(_ENDLESS, timeout=_PATIENT),
        Send([small(3)], timeout=5.0),
        WaitBlocked(("readers",)),
        Fault("kill", "reader-1"),
        Send([small(16)]),
        Wait(("writer",), within=4.0),
        Close(("writer",)),
        Wait(within=8.0),
        readers=2,
    ),
    _one(
        "Q7/remote-reader-dies-while-writer-waits",
        "a remote reader that takes nothing is killed while the writer sends 100 MB",
        *OPEN_QUEUE,
        Fault("stop", "reader-0"),
        Send([_FLOOD]),
        WaitBlocked(("writer",)),
        Fault("kill", "reader-0"),
        Wait(("writer",), within=4.0),
        Send([small(2)]),
        Wait(("writer",), within=4.0),
    ),
    _one(
        "Q7/remote-reader-dies-while-a-local-one-is-waited-for",
        "the writer waits for a local reader's slot when a remote reader is killed",
        *OPEN_QUEUE,
        Receive(_ENDLESS, ("reader-1",), timeout=_PATIENT),
        Send([small(12)]),
        WaitBlocked(("writer",)),
        Fault("kill", "reader-1"),
        Wait(("writer",), within=4.0),
        Receive(_ENDLESS, ("reader-0",), timeout=1.0),
        Close(("writer",)),
        Wait(within=8.0),
        readers=2,
    ),
    Case(
        "Q7/remote-reader-killed-anywhere",
        "SIGKILL at lines of a remote reader's receive",
        lambda case_run: anywhere(case_run, "reader-1", 4, remote=1),
        _KILLS,
    ),
)

_TIMES = (
    _one(
        "Q9/remote-receive-from-nothing",
        "a remote reader's receive with timeouts of 0.3, 0 and -1 s, nothing is sent",
        *OPEN_QUEUE,
        *(Receive(2, timeout=timeout, keep_on=True) for timeout in (0.3, 0.0, -1.0)),
        Wait(within=6.0),
        needs=("deadlines",),
    ),
    _one(
        "Q9/send-blocked-by-remote-reader",
        "a remote reader takes nothing; sends with timeouts of 0.3 and 0 s",
        *OPEN_QUEUE,
        Fault("stop", "reader-0"),
        Send([_FLOOD], timeout=0.3),
        Wait(("writer",), within=9.0),
        Send([Message(size=64 * 1024)], timeout=0.0),
        Wait(("writer",), within=4.0),
        Fault("continue", "reader-0"),
        needs=("deadlines",),
    ),
    _one(
        "Q9/cancel-remote-receive",
        "a second thread cancels a remote reader that waits",
        *OPEN_QUEUE,
        Receive(1),
        WaitBlocked(("reader-0",)),
        Cancel(("reader-0",)),
        Wait(("reader-0",), within=4.0),
        needs=("cancel",),
    ),
)

_HANDSHAKE = (
    _one(
        "Q10/remote-reader-dies-before-attaching",
        "a remote reader never attaches, it is dead",
        Make(),
        Fault("kill", "reader-1"),
        Attach(("reader-0",)),
        Ready(("writer", "reader-0"), timeout=1.0),
        Wait(within=4.0),
        readers=2,
    ),
    _one(
        "Q10/remote-departure-is-no-arrival",
        "a remote reader comes and dies while the writer waits, the other never comes",
        Make(),
        Attach(("reader-0",)),
        Ready(("writer", "reader-0"), timeout=2.0),
        WaitBlocked(("writer", "reader-0")),
        Fault("kill", "reader-0"),
        Wait(within=4.0),
        readers=2,
        remote=2,
    ),
    _one(
        "Q10/writer-dies-in-remote-handshake",
        "remote readers wait for a writer that is killed",
        Make(),
        Attach(),
        Ready(("readers",), timeout=2.0),
        WaitBlocked(("readers",)),
        Fault("kill", "writer"),
        Wait(within=4.0),
        readers=2,
        remote=2,
    ),
)


def _ended(id: str, how: AnyStep, messages: list[Message]) -> Case:
    """The readers receive meanwhile: what is in a process's own memory cannot outlive it."""
    count = sum(message.repeat for message in messages)
    what = "60 MB are" if messages is _SIXTY else "small messages are"
    ends = "closes its queue" if isinstance(how, Close) else "exits"
    return _one(
        id,
        f"{what} on the way to a remote reader when the writer {ends}",
        *OPEN_QUEUE,
        Send(messages, timeout=1.0, burst=True, mutate=False),
        Wait(("writer",)),
        Receive(count + 1, timeout=3.0),
        how,
        Wait(within=12.0),
        needs=("deadlines",),
    )


_ENDINGS = (
    _one(
        "Q11/close-with-unread-remote",
        "the writer closes with 60 MB unread by a stopped remote reader",
        *OPEN_QUEUE,
        Fault("stop", "reader-0"),
        Send(_SIXTY, timeout=0.5, burst=True, mutate=False),
        Wait(("writer",)),
        Close(("writer",)),
        Wait(("writer",), within=6.0),
        needs=("deadlines",),
    ),
    _one(
        "Q11/close-remote-reader-first",
        "remote readers close, then the writer, each at once",
        *OPEN_QUEUE,
        Send([small(3), Message("array", 100_000)], timeout=5.0),
        Receive(4, timeout=5.0),
        Wait(),
        Close(("readers",)),
        Wait(within=6.0),
        Close(("writer",)),
        Wait(within=6.0),
        readers=2,
        remote=2,
        needs=("deadlines",),
    ),
    _ended("Q16/closed-after-60MB-remote", Close(("writer",)), _SIXTY),
    _ended("Q16/exited-after-60MB-remote", Exit(("writer",)), _SIXTY),
    _ended("Q16/closed-after-small-remote", Close(("writer",)), [small(40)]),
)

CASES: tuple[Case, ...] = (*_DEATHS, *_TIMES, *_HANDSHAKE, *_ENDINGS)
