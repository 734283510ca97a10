"""The operations of a queue's writer and its readers."""

from __future__ import annotations

from killpoint.scenario import (
    AnyStep,
    Attach,
    Close,
    Make,
    Message,
    Pause,
    Ready,
    Receive,
    Send,
    Verb,
    Wait,
)
from killpoint.search.operations import (
    ENDLESS,
    HANG_AFTER_S,
    LARGE,
    SMALL,
    UNREAD_WITHIN,
    Operation,
)

_APART = Message("nested", 9000)
_IN_A_SLOT = Message("array", 2_500_000)
"""Large, and in a slot all the same: some implementations pass it on in pieces."""

_HERE: list[AnyStep] = [Make(), Attach(), Ready(timeout=4.0), Wait(within=HANG_AFTER_S)]
_TO_THE_END: list[AnyStep] = [
    Close(("writer",)),
    Receive(ENDLESS, timeout=3.0),
    Wait(within=HANG_AFTER_S),
]
_MORE: list[AnyStep] = [
    Send([SMALL], timeout=10.0),
    Wait(("writer",), within=HANG_AFTER_S),
    *_TO_THE_END,
]


def _send(name: str, message: Message, remote: int = 0) -> Operation:
    before: list[AnyStep] = [*_HERE, Send([SMALL], timeout=10.0), Wait(("writer",))]
    now: list[AnyStep] = [Send([message], timeout=UNREAD_WITHIN)]
    waits = message in (LARGE, _IN_A_SLOT)  # for descriptors, if it is the first; for readers
    return Operation(
        f"send-{name}",
        "writer",
        "send",
        before,
        now,
        _MORE,
        remote,
        waits=waits,
        paced=waits and not remote,
        chunk_bytes=_chunk_for(message),
    )


def _receive(name: str, message: Message, remote: int = 0) -> Operation:
    """Return a receive of the reader of the highest rank, the remote one if there is one."""
    batch = Send([message, SMALL], timeout=UNREAD_WITHIN)
    before: list[AnyStep] = [*_HERE, batch, Wait(("writer",))]
    if remote:
        before.append(Pause(0.05))  # what comes while it waits is received by other lines
    now: list[AnyStep] = [Receive(1, ("reader-1",), timeout=5.0)]
    return Operation(
        f"receive-{name}",
        "reader-1",
        "receive",
        before,
        now,
        _MORE,
        remote,
        waits=message in (LARGE, _IN_A_SLOT),
        chunk_bytes=_chunk_for(message),
    )


def _chunk_for(message: Message) -> int:
    return 4 << 20 if message is _IN_A_SLOT else 64 << 10


def _ready(name: str, role: str, remote: int = 0) -> Operation:
    before: list[AnyStep] = [Make(), Attach(), Wait(within=HANG_AFTER_S)]
    now: list[AnyStep] = [Ready(timeout=4.0)]
    return Operation(f"ready-{name}", role, "ready", before, now, _MORE, remote, joint=True)


def _closes(name: str, role: str, remote: int = 0) -> Operation:
    sent = Send([SMALL, LARGE, SMALL], timeout=UNREAD_WITHIN)
    unread: list[AnyStep] = [*_HERE, sent, Wait()]
    if role == "writer":
        rest: list[AnyStep] = [Receive(ENDLESS, timeout=3.0), Wait(within=HANG_AFTER_S)]
    else:
        # More than there are slots: who has left does not hold the writer up.
        rest = [
            Receive(ENDLESS, ("reader-0",), timeout=9.0),
            Send([Message(repeat=20)], timeout=5.0),
            Wait(("writer",), within=HANG_AFTER_S),
            Close(("writer",)),
            Wait(within=HANG_AFTER_S),
        ]
    return Operation(f"close-{name}", role, "close", unread, [Close((role,))], rest, remote)


def _begins(name: str, role: str, remote: int = 0) -> Operation:
    """Making the queue, or attaching to it."""
    lead: list[AnyStep] = []
    now: list[AnyStep] = [Make()]
    rest: list[AnyStep] = [Attach()]
    if role != "writer":
        lead = [Make(), Attach(("reader-0",)), Wait(within=HANG_AFTER_S)]
        now, rest = [Attach(("reader-1",))], []
    rest = [*rest, Ready(timeout=4.0), Wait(within=HANG_AFTER_S), *_MORE]
    verb: Verb = "make" if role == "writer" else "attach"
    return Operation(name, role, verb, lead, now, rest, remote)


QUEUE: tuple[Operation, ...] = (
    _begins("make", "writer"),
    _begins("attach", "reader-1"),
    _ready("writer", "writer"),
    _ready("reader", "reader-1"),
    _send("inline", Message()),
    _send("apart", _APART),
    _send("overflow", LARGE),
    _send("large", _IN_A_SLOT),
    _receive("inline", Message()),
    _receive("apart", _APART),
    _receive("overflow", LARGE),
    _receive("large", _IN_A_SLOT),
    _closes("writer", "writer"),
    _closes("reader", "reader-1"),
)
"""With two local readers."""

REMOTE: tuple[Operation, ...] = (
    _begins("make-remote", "writer", 1),
    _begins("attach-remote", "reader-1", 1),
    _ready("writer-remote", "writer", 1),
    _ready("remote", "reader-1", 1),
    _send("remote", Message(), 1),
    _send("remote-overflow", LARGE, 1),
    _receive("remote", LARGE, 1),
    _closes("writer-remote", "writer", 1),
    _closes("remote", "reader-1", 1),
)
"""With a local and a remote reader."""
