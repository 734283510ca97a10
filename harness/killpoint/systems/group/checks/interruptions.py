"""R9 in a group: a struck call of a rank is made or not, for all, and the others go on as ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from killpoint.checkers.finding import evidence
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.group.record import Call, Stream, calls, streams
from killpoint.verdict import Kind, Violation

_ENDS_WELL = ("ok", "injected")
_STOPS = (*_ENDS_WELL, "closed", "timeout", "no-member")
"""Outcomes that a taker's calls may have: it takes until there is nothing more to come."""


def group_unharmed(scenario: Scenario, history: History) -> list[Violation]:
    """Return the differences from a group in which the struck calls were made, or were not."""
    made = calls(history)
    lanes = streams(scenario, made)
    return (
        _failed(history, made)
        or [v for lane in lanes for v in _lane(history, lane)]
        or _half_broadcast(history, lanes)
        or _meetings(scenario, history, made, "gather")
        or _meetings(scenario, history, made, "barrier")
        or _gathered(scenario, history, made)
    )


def _failed(history: History, made: Sequence[Call]) -> list[Violation]:
    """A call that was not struck itself, and failed."""
    for event in history.of("end"):
        if event.text("op") in ("join", "leave") and event.text("outcome") not in _ENDS_WELL:
            cause = f"{event.role}'s {event.text('op')} failed after an exception had struck"
            why = f"{event.text('outcome')} {event.text('error')}"
            return [Violation("lost", f"{cause} {_where(history)}: {why}", _lines(history, []))]
    for call in made:
        takes = not call.sends and call.op in ("receive-from", "broadcast")
        if call.ended is not None and call.outcome not in (_STOPS if takes else _ENDS_WELL):
            return [_after(history, call)]
    return []


def _lane(history: History, lane: Stream) -> list[Violation]:
    """Each object once, in order; one whose send was struck, once or never."""
    order = [call.seq for call in lane.sent]
    must = [call.seq for call in lane.sent if call.ok]
    digests = {call.seq: call.digest for call in lane.sent}
    place, had = 0, set[int]()
    for call in lane.got:
        if not call.ok:
            continue
        if call.seq not in order:
            return [_says(history, call, "wrong-data", f"gave object {call.seq}, sent to nobody")]
        at = order.index(call.seq)
        if at < place:
            kind: Kind = "duplicate" if call.seq in had else "reordered"
            return [_says(history, call, kind, f"gave object {call.seq} again, or too late")]
        skipped = [seq for seq in order[place:at] if seq in must]
        if skipped:
            return [_says(history, call, "lost", f"gave object {call.seq}, not {skipped[0]}")]
        if call.digest != digests[call.seq]:
            return [_says(history, call, "wrong-data", f"gave object {call.seq} altered")]
        place, had = at + 1, had | {call.seq}
    left = [seq for seq in order[place:] if seq in must]
    told = lane.got and not lane.got[-1].ok and lane.got[-1].outcome != "injected"
    if left and told:
        how = f"ended with {lane.got[-1].outcome}, and object {left[0]} never came"
        return [_says(history, lane.got[-1], "lost", how)]
    return []


def _half_broadcast(history: History, lanes: Sequence[Stream]) -> list[Violation]:
    """A struck broadcast reaches every rank that takes to the end, or none."""
    aired = [lane for lane in lanes if lane.kind == "broadcast"]
    for lane in aired:
        for call in lane.sent:
            if call.ok:
                continue
            others = [o for o in aired if o.source == lane.source and o.got and not o.got[-1].ok]
            have = [o.taker for o in others if any(g.ok and g.seq == call.seq for g in o.got)]
            lack = [o.taker for o in others if o.taker not in have]
            if have and lack:
                how = f"of object {call.seq} reached {', '.join(have)}, never {', '.join(lack)}"
                return [_says(history, call, "lost", how)]
    return []


def _meetings(
    scenario: Scenario, history: History, made: Sequence[Call], op: str
) -> list[Violation]:
    """The k-th time that a rank comes back, all others had come the k-th time."""
    came = {role: _rounds(made, role, op) for role in scenario.roles()}
    for rounds in came.values():
        for number, (_, passed) in enumerate(rounds):
            if passed is None or passed.ended is None:
                continue
            for other, theirs in came.items():
                if number >= len(theirs) or theirs[number][0].began.t > passed.ended.t:
                    how = f"came back from its {number + 1}th although {other} had not come"
                    return [_says(history, passed, "no-error", how)]
        short = max(len([p for _, p in each if p]) for each in came.values())
        if rounds and len([p for _, p in rounds if p]) < short:
            how = f"came back fewer times than others, {len(rounds)}"
            return [_says(history, rounds[-1][0], "lost", how)]
    return []


def _rounds(made: Sequence[Call], role: str, op: str) -> list[tuple[Call, Call | None]]:
    """Each time a rank meets: when it first came, and the call that came back, if one did."""
    rounds: list[tuple[Call, Call | None]] = []
    first: Call | None = None
    for call in made:
        if call.role != role or call.op != op:
            continue
        first = first or call
        if call.ok:
            rounds.append((first, call))
            first = None
    return [*rounds, (first, None)] if first else rounds


def _gathered(scenario: Scenario, history: History, made: Sequence[Call]) -> list[Violation]:
    """All have the same of one meeting: of each rank something that it gave, in rank order."""
    roles = scenario.roles()
    given = {
        role: {c.began.number("seq"): c.began.text("digest") for c in made if _gives(c, role)}
        for role in roles
    }
    rounds = [[p for _, p in _rounds(made, role, "gather") if p] for role in roles]
    for each in zip(*rounds, strict=False):
        results = [call.ended.data if call.ended else None for call in each]
        data = results[0]
        if data is None:
            continue
        for result, call in zip(results, each, strict=True):
            if result is not None and result.get("seqs") != data.get("seqs"):
                how = f"gave {result.get('seqs')}, others {data.get('seqs')}"
                return [_says(history, call, "lost", how)]
        want = [
            given[role].get(seq)
            for role, seq in zip(roles, _numbers(data.get("seqs")), strict=False)
        ]
        if len(want) != len(roles) or data.get("digests") != want:
            return [_says(history, each[0], "wrong-data", f"gave {data.get('seqs')}")]
    return []


def _gives(call: Call, role: str) -> bool:
    return call.op == "gather" and call.role == role


def _numbers(found: object) -> list[int]:
    listed = cast("list[object]", found) if isinstance(found, list) else []
    return [number for number in listed if isinstance(number, int)]


def _after(history: History, call: Call) -> Violation:
    how = f"{call.outcome} {call.error}".strip()
    cause = f"{call.words()} failed after an exception had struck {_where(history)}: {how}"
    return Violation("lost", cause, _lines(history, [call]))


def _says(history: History, call: Call, kind: Kind, how: str) -> Violation:
    cause = f"after an exception had struck {_where(history)}, {call.words()} {how}"
    return Violation(kind, cause, _lines(history, [call]))


def _where(history: History) -> str:
    return ", ".join(f"{e.role} at {e.text('where')}" for e in history.of("raised"))


def _lines(history: History, near: Sequence[Call]) -> list[str]:
    events = [*history.of("raised")]
    for call in near:
        events += [call.began] if call.ended is None else [call.began, call.ended]
    return evidence(history, sorted(events, key=lambda e: e.t))
