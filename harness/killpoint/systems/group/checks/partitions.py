"""Harmed connections of ranks: a rank cut off for good is reported, else nothing is lost."""

from __future__ import annotations

import msgspec

from killpoint.checkers.error_names_rank import names_one_of
from killpoint.checkers.finding import Finding, Inconclusive, evidence, graver, hangs_of
from killpoint.checkers.partition import bound, longest_cut, network_faults, silence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.group.checks.delivery import arrivals, undisturbed
from killpoint.systems.group.record import Call, calls
from killpoint.verdict import Violation

_WITHIN = 2.0
"""Seconds beyond the silence, and for a call that begins after it."""
_MEETS = ("barrier", "gather")


class _Cut(msgspec.Struct):
    """A rank that is cut off for good, in one direction at least."""

    role: str
    fault: Event
    limit: float
    """Seconds of silence that the group bears."""

    def due(self, history: History, call: Call) -> int:
        """Return the time by which this call has to have reported the cut, ns."""
        assert call.ended is not None
        since = self.fault.t + int(self.limit * 1e9)
        since = max(since, call.began.t)
        late = history.allowance(self.fault.t, call.ended.t)
        return since + int(_WITHIN * 1e9) + late

    def words(self) -> str:
        """The fault for people."""
        return f"the {self.fault.text('fault')} of {self.role}'s connections"


def cut_kept_or_told(scenario: Scenario, history: History) -> Finding:
    """G4, as far as connections are concerned."""
    faults = network_faults(history)
    if not faults:
        raise Inconclusive("no connection was harmed")
    cut = _for_good(faults, silence(history))
    return (
        _nothing_lost(scenario, history, faults) if cut is None else _told(scenario, history, cut)
    )


def _for_good(faults: list[Event], limit: float) -> _Cut | None:
    """Return the first rank that hears nothing, or is not heard, to the end; None if none."""
    for fault in faults:
        role, word = fault.text("target"), fault.text("fault")
        later = [e for e in faults if e.t > fault.t and e.text("target") == role]
        healed = any(e.text("fault") == "heal" for e in later)
        if word == "half-open" or (word == "cut" and not healed):
            return _Cut(role, fault, limit)
    return None


# -- a rank that is cut off -----------------------------------------------------------------


def _told(scenario: Scenario, history: History, cut: _Cut) -> Finding:
    found: list[Violation] = []
    told = 0
    doubts: list[str] = []
    for role in scenario.roles():
        after = [
            call
            for call in calls(history)
            if call.role == role
            and call.made
            and _needs(call, cut.role)
            and (call.ended is None or call.ended.t >= cut.fault.t)
        ]
        word = next((c for c in after if c.ended and not c.ok and c.outcome != "timeout"), None)
        if word is not None:
            told += 1
            found = graver(found, _rightly(history, cut, word))
            continue
        wrong = _never(history, cut, role, after)
        found = graver(found, wrong)
        if not wrong:
            doubts.append(f"{role} made no call that was to tell it of {cut.words()}")
    found = graver(found, undisturbed(scenario, history, {cut.role}))
    if not found and doubts:
        raise Inconclusive(doubts[0])
    return Finding(found[:1], {"told": told})


def _needs(call: Call, cut: str) -> bool:
    """Return whether a call cannot succeed without the rank that is cut off."""
    with_whom = {call.role, call.began.text("source"), call.began.text("to")}
    return call.op in _MEETS or cut in with_whom


def _rightly(history: History, cut: _Cut, call: Call) -> list[Violation]:
    """Return a violation if the call that reported the cut did so late, or named no cut rank."""
    assert call.ended is not None
    lines = evidence(history, [cut.fault, call.began, call.ended])
    if call.ended.t > cut.due(history, call):
        took = (call.ended.t - max(cut.fault.t, call.began.t)) / 1e9
        limit, level = bound(history)
        cause = f"{call.words()} told of {cut.words()} only after {took:.2f} s; {limit}"
        return [Violation("late", cause, lines, level)]
    far = {cut.role, "rank-0"} if call.role == cut.role else {cut.role}
    if not names_one_of(call.error, [int(role.split("-")[1]) for role in far]):
        cause = f"{call.words()} failed for {cut.words()} with an error that does not name it"
        return [Violation("no-error", f"{cause}: {call.error}", lines, "SHOULD")]
    return []


def _never(history: History, cut: _Cut, role: str, after: list[Call]) -> list[Violation]:
    """Return a violation if a rank never learned of the cut, although it had the time."""
    for stuck in hangs_of(history, role):
        unnoticed = f"{cut.words()} was never noticed ({bound(history)[0]})"
        return [Violation(stuck.kind, f"{stuck.cause}; {unnoticed}", stuck.evidence)]
    for call in after:
        if call.ended is not None and call.ended.t > cut.due(history, call):
            how = "went well" if call.ok else "only ran into its own timeout"
            cause = f"{call.words()} {how} after {cut.words()}: {role} was never told"
            lines = evidence(history, [cut.fault, call.began, call.ended])
            return [Violation("no-error", cause, lines)]
    return []


# -- ranks that come back -------------------------------------------------------------------


def _nothing_lost(scenario: Scenario, history: History, faults: list[Event]) -> Finding:
    longest = longest_cut(faults)
    if longest > silence(history) - 1.0:
        raise Inconclusive(f"a cut lasted {longest:.1f} s, too near to the silence")
    found = undisturbed(scenario, history)
    idle = _idle(history, faults)
    if not found and idle:
        raise Inconclusive(idle)
    return Finding(found[:1], {"messages": arrivals(history)})


def _idle(history: History, faults: list[Event]) -> str:
    """Return where nothing was sent while a rank was harmed; '' if traffic went both ways."""
    sent = [call for call in calls(history) if call.sends]
    for fault in faults:
        role, word = fault.text("target"), fault.text("fault")
        if word not in ("cut", "reset"):
            continue
        healed = [e.t for e in faults if e.t > fault.t and e.text("target") == role]
        until = min(healed, default=None) if word == "cut" else None
        during = [c for c in sent if c.began.t > fault.t and (until is None or c.began.t < until)]
        if not any(call.role == role for call in during):
            return f"{role} sent nothing during its {word}"
        if not any(call.began.text("to") in (role, "") for call in during if call.role != role):
            return f"nobody sent {role} anything during its {word}"
    return ""
