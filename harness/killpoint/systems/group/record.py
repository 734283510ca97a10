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
    def thread(self) -> int:
        """Number of the rank's second thread that made the call; 0: its first one."""
        return max(0, self.began.number("thread"))

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

    def taken(self) -> list[Call]:
        """Return the calls of the taker, in an order in which they can have taken effect.

        Calls at once can have done so in either order: who got what was sent first was first, and
        who got nothing last. None comes before a call that had ended when it began.
        """
        if not any(map(at_once, self.got, self.got[1:])):
            return self.got
        place = {call.seq: index for index, call in enumerate(self.sent)}
        left, order = list(self.got), list[Call]()
        while left:
            over = min((call.ended.t for call in left if call.ended), default=left[-1].began.t)
            may = [call for call in left if call.began.t <= over]
            order.append(min(may, key=lambda c: (not c.ok, place.get(c.seq, len(place)))))
            left.remove(order[-1])
        return order


def at_once(one: Call, other: Call) -> bool:
    """Return whether two calls of a rank were under way at the same time."""
    return not (
        (one.ended is not None and one.ended.t < other.began.t)
        or (other.ended is not None and other.ended.t < one.began.t)
    )


def calls(history: History) -> list[Call]:
    """Every call of every rank, in the order in which they began; each thread has one at a time."""
    found: list[Call] = []
    inside: dict[tuple[str, int], Call] = {}
    for event in history.of(*ENDS, *_BEGINS):
        who = event.role, event.number("thread")
        if event.kind in ENDS:
            inside[who] = Call(role=event.role, op=event.kind, began=event)
            found.append(inside[who])
        elif who in inside:
            inside.pop(who).ended = event
    return found


def has_left(history: History, role: str, call: Call) -> bool:
    """Return whether a rank had begun to leave when a call ended."""
    ended = call.ended.t if call.ended else 0
    return any(
        event.text("op") == "leave" and event.t <= ended for event in history.of("begin", role=role)
    )


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
