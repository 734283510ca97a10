"""A tape of events, spoken in sentences: histories for judges without playing anything."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.targets.protocol import QueueShape
from killpoint.verdict import Violation

MS = 1_000_000


def bug(reason: str) -> pytest.MarkDecorator:
    """A claim that the harness does not meet yet; take the mark away with the fix."""
    return pytest.mark.xfail(strict=True, reason=f"BUG: {reason}")


def scene(*steps: Any, judges: str = "R3", readers: int = 1, **more: Any) -> Scenario:
    """A scenario for a judge to read; ``chunk_bytes`` is 1000 and there are 2 slots."""
    shape = QueueShape(readers=readers, chunk_bytes=1000, chunks=2)
    return Scenario(f"{judges}/synthetic", [judges], list(steps), shape=shape, **more)


def judged(id: str, tape: Tape, *steps: Any, ledger: Ledger | None = None, **more: Any) -> Finding:
    """What the judge of an invariant finds on a tape."""
    scenario = scene(*steps, judges=id, **more)
    return CHECKERS[id](scenario, tape.history(), ledger or Ledger())


def convicted(id: str, tape: Tape, *steps: Any, **more: Any) -> Violation:
    """The one violation that the judge finds."""
    found = judged(id, tape, *steps, **more).violations
    assert len(found) == 1, f"expected one violation, found {found}"
    return found[0]


class Tape:
    """Events in the order they are told, a millisecond apart unless told otherwise."""

    def __init__(self) -> None:
        self.now = 1_000 * MS
        self.events: list[Event] = []

    def history(self) -> History:
        return History(self.events)

    def later(self, ms: float) -> Tape:
        """Let time pass."""
        self.now += int(ms * MS)
        return self

    def tell(self, role: str, kind: str, **data: object) -> Tape:
        """One event, as a log would have it."""
        self.now += MS
        self.events.append(Event(self.now, role, kind, data))
        return self

    # -- the writer -------------------------------------------------------------------------

    def sends(self, seq: int, *, form: str = "bytes", size: int = 64) -> Tape:
        """It begins to send, and nothing says that it came back."""
        return self.tell("writer", "send", seq=seq, form=form, size=size, digest=f"d{seq}")

    def sent(self, seq: int, outcome: str = "ok", *, s: float = 0.001, **how: Any) -> Tape:
        """A send that came back."""
        self.sends(seq, **how).later(s * 1000)
        return self.tell("writer", "sent", seq=seq, outcome=outcome, s=s)

    def mutated(self, seq: int) -> Tape:
        """The sender changed the object afterwards."""
        return self.tell("writer", "mutated", seq=seq, digest=f"changed{seq}")

    # -- the readers ------------------------------------------------------------------------

    def waits(self, reader: str = "reader-0", timeout: float | None = None) -> Tape:
        """A receive begins."""
        return self.tell(reader, "receive", timeout=timeout)

    def ends(
        self, outcome: str, reader: str = "reader-0", *, s: float = 0.001, error: str = ""
    ) -> Tape:
        """The receive comes back with an error."""
        return self.tell(reader, "got", outcome=outcome, s=s, error=error)

    def gets(self, seq: int, reader: str = "reader-0", digest: str = "") -> Tape:
        """The receive that was begun, or one begun now, brings a message."""
        if not self._inside(reader):
            self.waits(reader)
        return self.tell(reader, "got", outcome="ok", seq=seq, digest=digest or f"d{seq}", s=0.001)

    def fails(
        self,
        outcome: str,
        reader: str = "reader-0",
        *,
        after: float = 0.001,
        timeout: float | None = None,
        error: str = "",
    ) -> Tape:
        """A receive that ends with an error ``after`` so many seconds."""
        self.waits(reader, timeout).later(after * 1000)
        return self.ends(outcome, reader, s=after, error=error)

    def _inside(self, reader: str) -> bool:
        calls = [e.kind for e in self.events if e.role == reader and e.kind in ("receive", "got")]
        return bool(calls) and calls[-1] == "receive"

    # -- the runner -----------------------------------------------------------------------

    def kills(self, role: str, *, teardown: bool = False) -> Tape:
        """SIGKILL by the runner, and the process seen dead of it."""
        mark = {"teardown": True} if teardown else {}
        self.tell("director", "intent", fault="kill", target=role, **mark)
        self.tell("director", "fault", fault="kill", target=role)
        return self.exits(role, number=signal.SIGKILL)

    def exits(self, role: str, *, code: int = 0, number: int = 0) -> Tape:
        """A process is seen to have ended."""
        how = {"signal": int(number)} if number else {"code": code}
        return self.tell("director", "exit", target=role, **how)

    def hangs(self, role: str, op: str) -> Tape:
        """The runner gave up on a role, and ended it."""
        stack = ["acquire_read (ring.py:10)"]
        self.tell("director", "hang", target=role, op=op, stack=stack, state="S")
        return self.kills(role, teardown=True)

    def late(self, ms: float) -> Tape:
        """The control wait of this moment was late."""
        return self.tell("director", "late-tick", ns=int(ms * MS))

    # -- orders -----------------------------------------------------------------------------

    def ordered(self, role: str, op: str, outcome: str = "ok", *, s: float = 0.001) -> Tape:
        """An order begun and ended."""
        self.tell(role, "begin", op=op).later(s * 1000)
        return self.tell(role, "end", op=op, outcome=outcome, s=s)

    def stores(self, role: str, slot: int, flag: int, value: int) -> Tape:
        """A store to a slot's flag, numbered by its place on the tape."""
        turn = sum(event.kind == "store" for event in self.events)
        return self.tell(role, "store", turn=turn, slot=slot, flag=flag, value=value)
