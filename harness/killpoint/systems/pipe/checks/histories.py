"""Histories of many calls at once, against the specification of a pipe (H4).

Blocks and tensors each have their rules (``requests``, ``room``). Here lies what both have in
common: a ring comes up in whatever order its ranks come; and who waits as a rank dies or closes is
told in time (SPEC K4), every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, deaths, evidence, hangs, ordered_end
from killpoint.checkers.overlap import overlap, span
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import PipeClose, Scenario
from killpoint.systems.pipe.checks.blocks import Transfer
from killpoint.systems.pipe.checks.requests import Requests, broken_requests
from killpoint.systems.pipe.checks.room import RoomRules
from killpoint.systems.pipe.checks.send_buffer import never_subtracted
from killpoint.systems.pipe.checks.transfers import closes, outsiders
from killpoint.systems.pipe.record import Call, calls, lanes, neighbours
from killpoint.verdict import Violation

_SECONDS = 1_000_000_000
_PASSES = ("pipe-send", "pipe-receive")
_TOLD_WITHIN = 2
"""Seconds within which all who wait are told of an end (SPEC K4)."""


class End(msgspec.Struct, frozen=True):
    """End of a rank: it was killed, or has closed."""

    role: str
    how: str
    event: Event
    """The last event of it: then it had ended."""
    began: int
    """Time from which on it explains that a call failed, ns."""


def check_h4_pipe_history(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """H4: what the ranks saw of the pipe could have been."""
    made, dead = calls(history), deaths(history)
    ended = ends(history)
    until = min((end.began for end in ended), default=1 << 62)
    requests = Requests.of(scenario, history, until)
    limit = scenario.pipe.buffer_bytes if scenario.pipe else 0
    ways = lanes(scenario, made)
    told = [*requests.sends, *requests.asks, *(c for c in made if c.op in _PASSES and c.made)]
    found = (
        outsiders(history, dead)[:1]
        or list(broken_requests(requests))[:1]
        or [v for lane in ways for v in RoomRules(history, lane, limit, until).broken()][:1]
        or list(_untold(scenario, history, told, ended))[:1]
        or hangs(history)
    )
    if not found and not _closes(scenario) and not dead:
        found = never_subtracted(history, made) or closes(history, made, dead)
    if not found and not told:
        raise Inconclusive("nothing was sent, and nothing asked for")
    counts = {
        "transfers": sum(each.ok for each in requests.asks),
        "tensors": sum(call.ok for lane in ways for call in lane.got),
        **overlap(span(each.began, each.ended) for each in told),
    }
    return Finding(found[:1], counts)


def _closes(scenario: Scenario) -> bool:
    return any(isinstance(step, PipeClose) for step in scenario.steps)


def ends(history: History) -> list[End]:
    """Return the end of each rank that was killed, or closed, before the others were done."""
    found = [
        End(role, "the death", event, ordered_end(history, role) or event.t)
        for role, event in deaths(history).items()
    ]
    for event in history.of("pipe-close"):
        closed = next(
            (e for e in history.of("pipe-closed", role=event.role) if e.t >= event.t), None
        )
        if closed is not None:
            found.append(End(event.role, "the close", closed, event.t))
    return found


def _untold(
    scenario: Scenario, history: History, made: Sequence[Transfer | Call], ended: Sequence[End]
) -> Iterator[Violation]:
    """Every call that waits at an end, or begins later, comes back soon after it."""
    gone = {end.role for end in ended if end.how == "the death"}
    for call in made:
        if call.ended is None or call.role in gone:
            continue
        near = neighbours(scenario, call.role) | {call.role}
        first = min((e for e in ended if e.role in near), key=_when, default=None)
        if first is None:
            continue
        since = max(call.began.t, first.event.t)
        late = call.ended.t - since
        if late > _TOLD_WITHIN * _SECONDS + history.allowance(since, call.ended.t):
            what = f"a call of {call.role} ({_words(call)}) came back ({call.outcome})"
            cause = f"{what} {late / _SECONDS:.2f} s after {first.how} of {first.role}"
            yield Violation("late", cause, evidence(history, [first.event, *call.events()]))


def _when(end: End) -> int:
    return end.event.t


def _words(call: Transfer | Call) -> str:
    return f"{call.op} of {call.request!r}" if isinstance(call, Transfer) else call.words()
