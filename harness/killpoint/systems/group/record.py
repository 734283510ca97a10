"""Record of a process group: what its ranks sent, received and met for, read off a history."""

from __future__ import annotations

import msgspec

from killpoint.checkers.operation import Operation
from killpoint.history.record import History
from killpoint.scenario import Scenario

ENDS = {
    "send-to": "sent-to",
    "receive-from": "got-from",
    "broadcast": "broadcast-done",
    "gather": "gathered",
    "barrier": "barrier-done",
}
"""The event that begins a call, and the one that ends it."""
_BEGINS = {end: begin for begin, end in ENDS.items()}


class Call(Operation, kw_only=True):
    """One call of a rank."""

    role: str
    op: str

    @property
    def uncertain(self) -> bool:
        """True if the object may have left or not: the call never returned, or failed."""
        return not self.ok

    @property
    def made(self) -> bool:
        """True if the target was called at all."""
        return self.outcome != "no-member"

    @property
    def sends(self) -> bool:
        """True if the call puts an object into a lane."""
        mine = self.op == "broadcast" and self.began.text("source") == self.role
        return mine or self.op == "send-to"

    @property
    def seq(self) -> int:
        """Number of the object that was sent, or that came."""
        event = self.began if self.sends or self.ended is None else self.ended
        return event.number("seq")

    @property
    def digest(self) -> str:
        """Fingerprint of that object."""
        event = self.began if self.sends or self.ended is None else self.ended
        return event.text("digest")

    def words(self) -> str:
        """The call for people."""
        other = self.began.text("source" if self.op != "send-to" else "to")
        with_whom = {"send-to": f" to {other}", "receive-from": f" from {other}"}
        of_whom = f" of {other}" if self.op == "broadcast" and other != self.role else ""
        return f"{self.role}'s {self.op.split('-')[0]}{with_whom.get(self.op, of_whom)}"


class Stream(msgspec.Struct):
    """Objects that one rank put into the lane of another, and those that the other took from it."""

    source: str
    taker: str
    kind: str
    """``send-to`` or ``broadcast``."""
    sent: list[Call]
    got: list[Call]


def calls(history: History) -> list[Call]:
    """Every call of every rank, in the order in which they began."""
    found: list[Call] = []
    inside: dict[str, Call] = {}
    for event in history.of(*ENDS, *_BEGINS):
        if event.kind in ENDS:
            inside[event.role] = Call(role=event.role, op=event.kind, began=event)
            found.append(inside[event.role])
        elif event.role in inside:
            inside.pop(event.role).ended = event
    return found


def streams(scenario: Scenario, made: list[Call]) -> list[Stream]:
    """Every lane that was used: one for each pair, and one for each source's broadcasts a rank."""
    found: list[Stream] = []
    for source in scenario.roles():
        mine = [call for call in made if call.role == source and call.sends]
        aired = [call for call in mine if call.op == "broadcast"]
        for taker in scenario.roles():
            if taker == source:
                continue
            posted = [c for c in mine if c.op == "send-to" and c.began.text("to") == taker]
            heard = [
                call
                for call in made
                if call.role == taker and call.began.text("source") == source and call.made
            ]
            pair = [call for call in heard if call.op == "receive-from"]
            taken = [call for call in heard if call.op == "broadcast"]
            found.append(Stream(source, taker, "send-to", posted, pair))
            found.append(Stream(source, taker, "broadcast", aired, taken))
    return [stream for stream in found if stream.sent or stream.got]
