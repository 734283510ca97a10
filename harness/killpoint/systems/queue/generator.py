"""Programs for a queue and all its readers at once, drawn by Hypothesis (H1).

What hand-written stories have one of, these have several of: readers of unequal pace, deadlines
that cross, a busy reader beside an idle one, calls that run out of time between others that do not.
Windows are small, so that every lap wraps.
"""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Attach,
    Close,
    Fault,
    Make,
    Message,
    MessageKind,
    Pause,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.systems.queue.boundary_fuzz import sizes
from killpoint.targets.shapes import QueueShape

_SLOTS = (1, 2, 3, 5)
"""Numbers of slots: at and below what one run of messages fills."""
_SOON = (0.0, 0.02, 0.05, 0.12)
"""Seconds that a call may take and often runs into."""
_LATE = 8.0
"""Seconds within which a call succeeds, if readers receive."""
_DRAINED_AFTER = 0.4
"""Seconds without a message after which a reader takes itself to have all."""
_PAUSES = (0.01, 0.03, 0.08)
_ENDED_WITHIN = 60.0


@st.composite
def programs(draw: st.DrawFn, case: str, seed: int, *, remote: bool, faults: bool) -> Scenario:
    """A program of sends and receives that overlap; then every reader takes what is left.

    Args:
        remote: whether some readers may be reached over TCP.
        faults: whether a party may be stopped for a while, or killed.
    """
    readers = draw(st.integers(1, 5))
    shape = QueueShape(
        readers=readers,
        chunk_bytes=draw(st.sampled_from((128, 1024, 65_536))),
        chunks=draw(st.sampled_from(_SLOTS)),
        remote=draw(st.integers(0, min(2, readers))) if remote else 0,
    )
    names = [f"reader-{rank}" for rank in range(readers)]
    steps: list[AnyStep] = [Make(), Attach(), Ready(timeout=10.0), Wait(within=20.0)]
    dead: set[str] = set()
    asked, unhurried, bad = 0, False, 0
    many: Message | None = None
    for _ in range(draw(st.integers(1, 40))):
        act = draw(st.sampled_from(_ACTS))
        alive = [name for name in names if name not in dead]
        if act == "send" and "writer" not in dead:
            batch = draw(st.lists(_messages(shape.chunk_bytes), min_size=1, max_size=3))
            asked += sum(message.repeat for message in batch)
            timeout = draw(_timeouts())
            unhurried = unhurried or timeout == _LATE
            steps.append(Send(batch, timeout=timeout, keep_on=timeout != _LATE))
        elif act == "receive" and alive:
            roles = tuple(draw(st.lists(st.sampled_from(alive), min_size=1, unique=True)))
            count, timeout = draw(st.integers(1, 4)), draw(st.sampled_from((*_SOON, 0.3)))
            steps.append(Receive(count, roles, timeout=timeout, keep_on=True))
        elif act == "bad" and "writer" not in dead and bad < _BAD:
            bad += 1
            asked += 1
            kind = draw(st.sampled_from(_BAD_KINDS))
            steps.append(Send([Message(kind)], timeout=_LATE, keep_on=True))
            unhurried = True
        elif act == "many" and "writer" not in dead and not many:
            many = _MANY
            asked += many.repeat
            steps.append(Send([many], timeout=_LATE, keep_on=True))
            unhurried = True
        elif act == "close" and len(alive) > 1:
            leaver = draw(st.sampled_from(alive))
            dead.add(leaver)
            steps.append(Close((leaver,)))
        elif act == "wait":
            # A send that may take its time needs readers that are yet to be told to receive.
            who = names if unhurried else ["writer", *names]
            roles = tuple(draw(st.lists(st.sampled_from(who), min_size=1, unique=True)))
            steps.append(Wait(roles, within=_ENDED_WITHIN))
        elif act == "pause":
            steps.append(Pause(draw(st.sampled_from(_PAUSES))))
        elif act == "fault" and faults and not dead:
            role = draw(st.sampled_from(("writer", *names)))
            steps += _struck(draw, role, dead)
    if "writer" not in dead:
        steps.append(Send([Message()], timeout=_LATE))
        asked += 1
    alive = [name for name in names if name not in dead]
    if alive:
        steps += [Receive(asked + 1, tuple(alive), timeout=_DRAINED_AFTER)] * (1 + bad)
    steps.append(Wait(within=_ENDED_WITHIN))
    return Scenario(case, [case.split("/")[0]], steps, shape=shape, seed=seed)


_ACTS = (
    *(["send"] * 6 + ["receive"] * 9 + ["wait"] * 3 + ["pause"] * 3),
    *("fault", "fault", "fault", "bad", "bad", "many", "close"),
)
_BAD: int = 2
"""Most messages of a program that cannot be encoded, or not decoded."""
_BAD_KINDS: tuple[MessageKind, ...] = ("unencodable", "undecodable")
_MANY = Message("array", 20_000, repeat=34)
"""More arrays of a size than a pool of buffers may keep: each reader holds them all. In the widest
chunks they go inline."""


def _messages(chunk_bytes: int) -> st.SearchStrategy[Message]:
    """Draw one message, or a run of them, of a size around the boundary."""
    kinds = st.sampled_from(("bytes", "array", "nested"))
    return st.builds(
        Message, kind=kinds, size=sizes(chunk_bytes), repeat=st.sampled_from((1, 1, 2, 5))
    )


def _timeouts() -> st.SearchStrategy[float]:
    return st.sampled_from((*_SOON, _LATE))


def _struck(draw: st.DrawFn, role: str, dead: set[str]) -> list[AnyStep]:
    """Draw a fault: the role is stopped and goes on, or it is killed."""
    if draw(st.booleans()):
        dead.add(role)
        return [Fault("kill", role)]
    return [Fault("stop", role), Pause(draw(st.sampled_from(_PAUSES))), Fault("continue", role)]
