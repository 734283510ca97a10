"""Cuts: one shorter than the peer timeout loses nothing, a longer one is reported (Q18)."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs, hangs_of
from killpoint.checkers.partition import bound, longest_cut, network_faults, silence, through
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.queue.detection_time import Call, receives, sends
from killpoint.systems.queue.record import got, mismatches, sent, wrong_data
from killpoint.verdict import Violation

_SLACK = 0.5
"""Seconds beyond the silence, before what the machine itself was late."""
_NEXT = 2.0
"""Seconds within which a call that begins after the silence has to report it."""
_TELLS = ("peer-died", "closed", "lost")
_DEAFENS = ("cut", "half-open")


class _CutOffParty(msgspec.Struct):
    """A party that hears nothing any more."""

    role: str
    fault: Event
    limit: float
    """Seconds of silence after which the party has to know."""

    def due(self, history: History, until: int) -> int:
        """Return the time by which the party has to know of the cut, ns."""
        late = history.allowance(self.fault.t, until)
        return self.fault.t + int((self.limit + _SLACK) * 1e9) + late


def check_q18_partitions(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q18: nothing is lost unless a party is cut off for good; then both ends learn it in time."""
    faults = network_faults(history)
    if not faults:
        raise Inconclusive("no connection was harmed")
    deaf = _deaf(scenario, history, faults)
    if not deaf:
        return _nothing_lost(scenario, history, faults)
    found: list[Violation] = []
    for party in deaf:
        judge = _writer_told if party.role == "writer" else _reader_told
        found = found or judge(scenario, history, party)
    return Finding((found or hangs(history))[:1], {"told": len(deaf)})


def _deaf(scenario: Scenario, history: History, faults: list[Event]) -> list[_CutOffParty]:
    """Return the parties that hear nothing from some fault on, to the end."""
    limit = silence(history)
    parties: dict[str, _CutOffParty] = {}
    for fault in faults:
        word, role, toward = fault.text("fault"), fault.text("target"), fault.text("toward")
        healed = [e for e in faults if e.text("fault") == "heal" and e.t > fault.t]
        ended = any(e.text("target") in (role, "writer") for e in healed)
        if word not in _DEAFENS or (ended and word == "cut"):
            continue
        far = scenario.remote() if role == "writer" else ["writer"]
        deaf = ([role] if toward != "peer" else []) + (far if toward != "role" else [])
        for name in deaf:
            parties.setdefault(name, _CutOffParty(name, fault, limit))
    return list(parties.values())


def _reader_told(scenario: Scenario, history: History, party: _CutOffParty) -> list[Violation]:
    reader = party.role
    stuck = hangs_of(history, reader)
    if stuck:
        return [_never(history, party, stuck[0])]
    calls = receives(history, reader)
    differ = mismatches(history, reader, tail_may_miss=True)
    if differ:
        return differ
    told = _first(calls, party)
    if told is None or told.ended is None:
        if any(_overdue(history, party, call) for call in calls):
            cause = f"{reader} was cut off and its receives only ran into their own timeouts"
            return [Violation("no-error", cause, _lines(history, reader))]
        raise Inconclusive(f"{reader} made no call that was to tell it of the cut")
    if told.outcome not in _TELLS:
        cause = f"{reader}, cut off, was told neither of a dead nor of a closed peer:"
        error = told.ended.text("error")
        return [Violation("no-error", f"{cause} {error}", _lines(history, reader))]
    return _in_time(history, party, told)


def _writer_told(scenario: Scenario, history: History, party: _CutOffParty) -> list[Violation]:
    stuck = hangs_of(history, "writer")
    if stuck:
        return [_never(history, party, stuck[0])]
    calls = sends(history)
    told = _first(calls, party)
    if told is not None:
        return _in_time(history, party, told)
    for call in calls:
        if call.ended is not None and call.began.t > party.due(history, call.began.t):
            took = (call.began.t - party.fault.t) / 1e9
            how = "was accepted" if call.outcome == "ok" else "ran into its own timeout"
            cause = (
                f"{took:.1f} s after its only reader was cut off the writer's send of message"
                f" {call.seq} {how}: it was never told"
            )
            return [Violation("no-error", cause, evidence(history, [party.fault, call.ended]))]
    raise Inconclusive("the writer made no send after the silence")


def _first(calls: list[Call], party: _CutOffParty) -> Call | None:
    """Return the first call that reported the cut; None if none did."""
    return next(
        (c for c in calls if c.tells and c.ended is not None and c.ended.t >= party.fault.t), None
    )


def _overdue(history: History, party: _CutOffParty, call: Call) -> bool:
    return call.ended is not None and call.ended.t > party.due(history, call.ended.t)


def _in_time(history: History, party: _CutOffParty, told: Call) -> list[Violation]:
    assert told.ended is not None
    due = party.due(history, told.ended.t)
    if told.began.t > due:
        due = told.began.t + int(_NEXT * 1e9) + history.allowance(due, told.ended.t)
    if told.ended.t <= due:
        return []
    took = (told.ended.t - party.fault.t) / 1e9
    limit, level = bound(history)
    cause = f"{party.role} was told of the cut only after {took:.2f} s; {limit}"
    lines = evidence(history, [party.fault, told.ended])
    return [Violation("late", cause, lines, level)]


def _never(history: History, party: _CutOffParty, stuck: Violation) -> Violation:
    word, role = party.fault.text("fault"), party.fault.text("target")
    cause = (
        f"{stuck.cause}; the {word} of {role}'s connections was never noticed ({bound(history)[0]})"
    )
    return Violation(stuck.kind, cause, stuck.evidence)


def _nothing_lost(scenario: Scenario, history: History, faults: list[Event]) -> Finding:
    longest = longest_cut(faults)
    if longest > silence(history) - 1.0:
        raise Inconclusive(f"a cut lasted {longest:.1f} s, too near to the silence")
    since = min(event.t for event in faults)
    struck = [m for m in sent(history) if m.ended is not None and m.ended.t >= since]
    found: list[Violation] = []
    for reader, message, call in wrong_data(history, scenario.readers()):
        if message is None or not message.mutated:
            found.append(Violation("wrong-data", f"{reader} received message {call.seq} altered"))
    differ = [v for reader in scenario.readers() for v in mismatches(history, reader)]
    found = found or [v for v in differ if v.kind != "lost"]
    found = found or [through(faults, each) for each in hangs(history)]
    found = found or _unsent(history) or [through(faults, each) for each in differ]
    if not found and not struck:
        raise Inconclusive("nothing was sent since a connection was harmed")
    arrived = sum(c.outcome == "ok" for r in scenario.readers() for c in got(history, r))
    return Finding(found[:1], {"messages": arrived})


def _unsent(history: History) -> list[Violation]:
    for message in sent(history):
        if not message.ok:
            how = message.ended.text("outcome") if message.ended else "never returned"
            error = message.ended.text("error") if message.ended else ""
            cause = f"message {message.seq} could not be sent through a short fault: {how} {error}"
            return [Violation("lost", cause.rstrip())]
    return []


def _lines(history: History, role: str) -> list[str]:
    return evidence(
        history, [*network_faults(history)[-4:], *list(history.of("got", role=role))[-4:]]
    )
