"""Cases of slow and cut-off remote readers: flow control (Q5), silence, cuts and resets (Q18)."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.checkers.partition import DEFAULT_SILENCE
from killpoint.scenario import (
    AnyStep,
    Fault,
    Message,
    Pause,
    Receive,
    Scenario,
    Send,
    Wait,
    WaitBlocked,
)
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_case, queue_scenario, small

_WIRED = ("remote", "wire", "deadlines")
_TOLD_WITHIN = DEFAULT_SILENCE + 3.5
"""For a target whose silence cannot be set; any other ends the wait much sooner."""
_KIB = 1024


def _slow(
    id: str, message: Message, *while_stopped: AnyStep, readers: int = 1, remote: int = 1
) -> Scenario:
    """The last reader is stopped while far more is sent than anything on the way can hold."""
    last = f"reader-{readers - 1}"
    others = tuple(f"reader-{rank}" for rank in range(readers - 1))
    everything = message.repeat + 20
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Send([small(3)], timeout=5.0),
        Receive(3, timeout=5.0),
        Wait(),
        Fault("stop", last),
    ]
    if others:
        steps += [Receive(everything, others, timeout=2.0)]
    steps += [
        Send([message], timeout=0.5, mutate=False),
        Wait(("writer",), within=20.0),
        *while_stopped,
        Fault("continue", last),
        Receive(everything, (last,), timeout=1.0),
        Send([small(20)], timeout=5.0),
        Wait(within=20.0),
    ]
    return queue_scenario(id, *steps, readers=readers, remote=remote)


def _stopped() -> list[Scenario]:
    id = "Q5/slow-remote-reader"
    return [
        _slow(id, Message(size=4 * _KIB, repeat=8000)),
        _slow(id, Message("array", 64 * _KIB, repeat=1600)),
    ]


def _unread() -> list[Scenario]:
    """The reader's process runs all the time; it only takes its time between two receives."""
    id = "Q5/remote-reader-takes-its-time"
    message, later = Message(size=4 * _KIB, repeat=8000), small(20)
    steps = [
        *OPEN_QUEUE,
        Fault("slow", "reader-0", pause=0.02),
        Receive(15, timeout=5.0),
        Send([message], timeout=0.5, mutate=False),
        Wait(within=20.0),
        Fault("slow", "reader-0", pause=0.0),
        Receive(message.repeat + later.repeat, timeout=1.0),
        Send([later], timeout=5.0),
        Wait(within=20.0),
    ]
    return [queue_scenario(id, *steps, readers=1, remote=1)]


def _held_up() -> list[Scenario]:
    """A stopped remote reader holds up the writer, which goes on with it; no call expires."""
    id = "Q5/writer-held-up-by-remote-reader"
    message = Message(size=4 * _KIB, repeat=6000)
    steps = [
        *OPEN_QUEUE,
        Send([small(3)], timeout=5.0),
        Receive(3, timeout=5.0),
        Wait(),
        Fault("stop", "reader-0"),
        Send([message], timeout=20.0, mutate=False),
        Pause(2.0),
        Fault("continue", "reader-0"),
        Receive(message.repeat, timeout=20.0),
        Wait(within=25.0),
    ]
    return [queue_scenario(id, *steps, readers=1, remote=1)]


def _beside() -> list[Scenario]:
    id = "Q5/slow-beside-others"
    return [_slow(id, Message(size=4 * _KIB, repeat=6000), readers=3, remote=2)]


def _cut_three_seconds() -> list[Scenario]:
    return [_three_seconds("Q18/cut-3s-loses-nothing")]


def _three_seconds(id: str) -> Scenario:
    """One reader is cut off both ways, one in each direction, one not at all."""
    batch = [small(5), Message("array", 100_000), Message("nested", 3000)]
    cuts = (
        Fault("cut", "reader-0"),
        Fault("cut", "reader-1", toward="role"),
        Fault("cut", "reader-2", toward="peer"),
    )
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Receive(21, timeout=9.0),
        Send(batch, timeout=5.0),
        WaitBlocked(("readers",)),
        *cuts,
        Send(batch, timeout=9.0),
        Pause(3.0),
        *(Fault("heal", cut.role) for cut in cuts),
        Send(batch, timeout=9.0),
        Wait(within=20.0),
    ]
    return queue_scenario(id, *steps, readers=4, remote=4)


def _told(id: str, *faults: Fault, silence: float) -> Scenario:
    """Receives and sends are pending in the silence; then one more send is made."""
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Receive(4000),
        Send([small(3)], timeout=5.0),
        Wait(("writer",)),
        WaitBlocked(("readers",)),
        *faults,
        Send([Message(size=64 * _KIB, repeat=400)], mutate=False),
        Wait(within=_TOLD_WITHIN),
        Pause(0.5),
        Send([small(1)], timeout=2.0),
        Wait(within=4.0),
    ]
    return queue_scenario(id, *steps, readers=1, remote=1, silence=silence)


def _past_silence() -> list[Scenario]:
    return [_told("Q18/cut-past-silence-is-told", Fault("cut", "reader-0"), silence=2.5)]


def _on_hosts(*plays: Scenario) -> list[Scenario]:
    """The same with each remote reader on a host of its own, so that a cut is a link down."""
    return [msgspec.structs.replace(play, namespaces=True) for play in plays]


def _link_down_three_seconds() -> list[Scenario]:
    """One reader's link goes down, one sends in vain, one hears in vain; one is well."""
    return _on_hosts(_three_seconds("Q18/link-down-3s-loses-nothing"))


def _link_down_past_silence() -> list[Scenario]:
    id = "Q18/link-down-past-silence-is-told"
    return _on_hosts(_told(id, Fault("cut", "reader-0"), silence=2.5))


def _through_back_off() -> list[Scenario]:
    """After 4 s in vain TCP itself is silent until 6.2 s: past the silence, although healed.

    One reader's link goes down; the other's stays up, and carries nothing either way.
    """
    id = "Q18/link-down-4s-through-back-off"
    batch = [small(5), Message("array", 100_000)]
    cuts = (
        Fault("cut", "reader-0"),
        Fault("cut", "reader-1", toward="role"),
        Fault("cut", "reader-1", toward="peer"),
    )
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Receive(18, timeout=12.0),
        Send(batch, timeout=5.0),
        WaitBlocked(("readers",)),
        *cuts,
        Send(batch, timeout=12.0),
        Pause(4.0),
        *(Fault("heal", role) for role in ("reader-0", "reader-1")),
        Send(batch, timeout=12.0),
        Wait(within=20.0),
    ]
    return _on_hosts(queue_scenario(id, *steps, readers=2, remote=2, silence=6.0))


def _past_half() -> list[Scenario]:
    """What goes by the healed connections may overtake those that were tried beside them.

    Two readers are cut off for 2.4 of 4 s that are borne, and get messages twice after that.
    """
    id = "Q18/cut-past-half-of-the-silence"
    batch = [small(5), Message("array", 100_000)]
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Receive(18, timeout=9.0),
        Send(batch, timeout=5.0),
        WaitBlocked(("readers",)),
        Fault("cut", "reader-0"),
        Fault("cut", "reader-1", toward="role"),
        Send(batch, timeout=9.0),
        Pause(2.4),
        *(Fault("heal", role) for role in ("reader-0", "reader-1")),
        Send(batch, timeout=9.0),
        Wait(within=20.0),
        Pause(0.5),
        Receive(6, timeout=9.0),
        Send(batch, timeout=9.0),
        Wait(within=20.0),
    ]
    return [queue_scenario(id, *steps, readers=2, remote=2, silence=4.0)]


def _half_open(id: str, summary: str, toward: str) -> Case:
    fault = Fault("half-open", "reader-0", toward="role" if toward == "reader" else "peer")
    return queue_case(id, summary, lambda: [_told(id, fault, silence=1.5)], *_WIRED)


def _reset() -> list[Scenario]:
    """Bytes are on a long way when the connections are reset, and again while they are sent."""
    id = "Q18/reset-loses-nothing"
    batch = [small(10), Message("array", 100_000, repeat=4), small(10)]
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Receive(72, timeout=6.0),
        Fault("delay", "writer", pause=0.05),
        Send(batch, timeout=6.0),
        Pause(0.03),
        Fault("reset", "reader-0"),
        Wait(("writer",), within=10.0),
        Send(batch, timeout=6.0),
        Pause(0.13),
        Fault("reset", "writer"),
        Fault("heal", "writer"),
        Send(batch, timeout=6.0),
        Wait(within=20.0),
    ]
    return [queue_scenario(id, *steps, readers=2, remote=2)]


def _delayed() -> list[Scenario]:
    id = "Q18/delayed"
    batch = [small(20), Message("array", 100_000, repeat=3), Message("nested", 3000), small(20)]
    steps: list[AnyStep] = [
        *OPEN_QUEUE,
        Fault("delay", "reader-0", pause=0.06),
        Receive(44, timeout=9.0),
        Send(batch, timeout=9.0),
        Wait(within=20.0),
    ]
    return [queue_scenario(id, *steps, readers=2, remote=2)]


CASES: tuple[Case, ...] = (
    queue_case(
        "Q5/slow-remote-reader",
        "a remote reader is stopped while more is sent than any high-water mark holds",
        _stopped,
        "remote",
        "deadlines",
    ),
    queue_case(
        "Q5/remote-reader-takes-its-time",
        "a remote reader runs, and takes 20 ms before each message",
        _unread,
        "remote",
        "deadlines",
    ),
    queue_case(
        "Q5/writer-held-up-by-remote-reader",
        "a remote reader is stopped for two seconds while much is sent",
        _held_up,
        "remote",
    ),
    queue_case(
        "Q5/slow-beside-others",
        "one of two remote readers is stopped, beside a local one",
        _beside,
        "remote",
        "deadlines",
    ),
    queue_case(
        "Q18/cut-3s-loses-nothing",
        "cuts of 3 s both ways and in each direction, messages sent before, during and after",
        _cut_three_seconds,
        *_WIRED,
    ),
    queue_case(
        "Q18/cut-past-silence-is-told",
        "a cut that lasts: reader and writer are told within the silence",
        _past_silence,
        *_WIRED,
    ),
    queue_case(
        "Q18/link-down-3s-loses-nothing",
        "links of readers on hosts of their own are down for 3 s",
        _link_down_three_seconds,
        "remote",
        "deadlines",
    ),
    queue_case(
        "Q18/link-down-4s-through-back-off",
        "hosts that cannot reach each other for 4 s, of 6 s that are borne; TCP waits longer",
        _through_back_off,
        "remote",
        "deadlines",
    ),
    queue_case(
        "Q18/cut-past-half-of-the-silence",
        "cuts of 2.4 s, of 4 s that are borne; messages again once all has come",
        _past_half,
        *_WIRED,
    ),
    queue_case(
        "Q18/link-down-past-silence-is-told",
        "a link that stays down: reader and writer are told within the silence",
        _link_down_past_silence,
        "remote",
        "deadlines",
    ),
    _half_open(
        "Q18/half-open-toward-reader", "the reader hears nothing more, the writer does", "reader"
    ),
    _half_open(
        "Q18/half-open-toward-writer", "the writer hears nothing more, the reader does", "writer"
    ),
    queue_case(
        "Q18/reset-loses-nothing",
        "connections are reset with bytes on the way, twice",
        _reset,
        *_WIRED,
    ),
    queue_case(
        "Q18/delayed", "60 ms of latency both ways to one of two readers", _delayed, *_WIRED
    ),
)
