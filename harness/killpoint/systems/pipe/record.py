"""Record of a pipe: what its ranks sent, received and closed, read off a history."""

from __future__ import annotations

import msgspec

from killpoint.checkers.operation import Operation
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario

ENDS = {
    "pipe-send": "pipe-sent",
    "pipe-receive": "pipe-got",
    "pipe-close": "pipe-closed",
    "forge": "forged",
}
"""The event that begins a call, and the one that ends it."""
_BEGINS = {end: begin for begin, end in ENDS.items()}
NOT_MADE = ("no-pipe",)
"""Outcomes of calls that never reached the target."""
NOT_TOLD = ("ok", "timeout", "never returned", *NOT_MADE)
"""Outcomes that report no error to the caller."""


class Call(Operation, kw_only=True):
    """One call of a rank."""

    role: str
    op: str

    @property
    def made(self) -> bool:
        """True if the target was called at all."""
        return self.outcome not in NOT_MADE

    @property
    def tells(self) -> bool:
        """True if the call reported an error to its caller."""
        return self.outcome not in NOT_TOLD

    @property
    def seq(self) -> int:
        """Number of the tensor that was sent."""
        return self.began.number("seq")

    @property
    def digest(self) -> str:
        """Fingerprint of the tensor that was sent, or that came."""
        event = self.began if self.op == "pipe-send" or self.ended is None else self.ended
        return event.text("digest")

    @property
    def carriable(self) -> bool:
        """True if the tensor to be sent can be carried at all."""
        return self.began.text("form") != "meta"

    def words(self) -> str:
        """The call for people."""
        what = self.op.removeprefix("pipe-")
        if self.op == "pipe-send":
            what = f"send of tensor {self.seq} ({_looks(self.began)})"
        return f"{self.role}'s {what}"


def _looks(event: Event) -> str:
    dims = "x".join(str(each) for each in event.items("shape"))
    dtype = event.text("dtype")
    return "None" if dtype == "none" else f"{dtype} {dims or 'scalar'}"


class Lane(msgspec.Struct):
    """Sends of one rank, and receives of the next one."""

    source: str
    taker: str
    sent: list[Call]
    got: list[Call]


def calls(history: History) -> list[Call]:
    """Return every call of every rank, in the order in which they began.

    Calls that ended after a hang are left out: the hanging rank was killed, and others reported
    that.
    """
    found: list[Call] = []
    inside: dict[tuple[str, str, int], Call] = {}
    hang = history.first("hang")
    for event in history.of(*ENDS, *_BEGINS):
        if hang is not None and event.t > hang.t:
            break
        if event.kind in ENDS:
            call = Call(role=event.role, op=event.kind, began=event)
            inside[event.role, event.kind, event.number("seq")] = call
            found.append(call)
        elif (key := (event.role, _BEGINS[event.kind], event.number("seq"))) in inside:
            inside.pop(key).ended = event
    return found


def lanes(scenario: Scenario, made: list[Call]) -> list[Lane]:
    """From each rank to the next, as far as anything was done there."""
    roles, found = scenario.roles(), list[Lane]()
    for place, source in enumerate(roles):
        taker = roles[(place + 1) % len(roles)]
        sent = [c for c in made if c.role == source and c.op == "pipe-send" and c.made]
        got = [c for c in made if c.role == taker and c.op == "pipe-receive" and c.made]
        if sent or got:
            found.append(Lane(source, taker, sent, got))
    return found


def neighbours(scenario: Scenario, role: str) -> set[str]:
    """Those that a rank sends to or takes from."""
    roles = scenario.roles()
    place = roles.index(role)
    return {roles[place - 1], roles[(place + 1) % len(roles)]} - {role}
