"""Malformed messages (C4): each is dropped alone, and the coordinator goes on as before."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.coordinator.checks.publication import unheard
from killpoint.systems.coordinator.record import (
    Counts,
    changes,
    leaving,
    ms,
    publications,
    rank_of,
    spans,
    times,
)
from killpoint.verdict import Violation, counted

_WITHIN = 2.0
"""Seconds until what was sent after a lie is heard: C7 is another clause."""
_SILENT, _STALLED = 5.0, 0.5
"""Seconds in which a machine that stood still for so long may have kept any role from a sign of
life."""


def check_c4_malformed_dropped(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """C4: no lie ends the coordinator or shows in what it publishes; the rest is heard."""
    interval, _ = times(history)
    lies = list(history.of("lied", "flooded"))
    if not lies:
        raise Inconclusive("nobody lied")
    found = _died(history, lies) or _shows(scenario, history) or _waves(scenario, history, lies)
    late, heard = unheard(scenario, history, max(_WITHIN, 2 * interval))
    found = found or _as_lost(late, lies) or _unstepped(history, lies) or hangs(history)
    found = found or _unlogged(history, lies)
    if not found and not heard:
        raise Inconclusive("nothing was to be heard after the lies")
    return Finding(found[:1], {"lies": sum(e.kind == "lied" for e in lies), "changes": heard})


def _last(lies: list[Event], t: int) -> str:
    """The lie before a time, in words."""
    before = [e for e in lies if e.number("since", e.t) <= t] or lies[:1]
    return _words(before[-1])


def _words(lie: Event) -> str:
    word = lie.text("lie") or "a flood of them"
    return f"{lie.role} sent what makes no sense ({word})"


def _died(history: History, lies: list[Event]) -> list[Violation]:
    closed = history.first("coordinator-close")
    for event in history.of("gone", "coordinator-gone"):
        of_it = event.kind != "gone" or event.text("target") == "coordinator"
        if of_it and (closed is None or event.t < closed.t):
            lie = _first_unsurvived(history, lies, event.t)
            cause = f"the coordinator ended after {_words(lie)}{_where(history)}"
            return [Violation("crash", cause, evidence(history, [lie, event]))]
    return []


def _first_unsurvived(history: History, lies: list[Event], died: int) -> Event:
    """Return the first lie after which no later message was heard: lies after it are moot."""
    before = [e for e in lies if e.number("since", e.t) <= died] or lies[:1]
    heard = [e for e in history.of("hear-done") if e.text("outcome") == "ok"]
    survived = max((_told(history, e) for e in heard if e.t <= died), default=0)
    later = [e for e in before if e.number("since", e.t) > survived]
    return later[0] if later else before[-1]


def _told(history: History, heard: Event) -> int:
    """Return when the counts a front end waited for were sent, ns; 0 if it waited for others."""
    asked = [e for e in history.of("hear", role=heard.role) if e.t <= heard.t]
    if not asked or asked[-1].text("what") != "counts":
        return 0
    counts, rank = asked[-1].data.get("counts"), asked[-1].data.get("rank")
    said = [
        e.t
        for e in history.of("said", "lied")
        if e.t <= heard.t and (e.data.get("counts"), e.data.get("rank")) == (counts, rank)
    ]
    return max(said, default=0)


def _where(history: History) -> str:
    """The line of the target's at which its own traceback ends; empty if it wrote none."""
    lines = [e.text("line") for e in history.of("coordinator-gone") if e.text("line")]
    return f", at {lines[0]}" if lines else ""


def _shows(scenario: Scenario, history: History) -> list[Violation]:
    """Return a violation if counts that no engine sent, or unknown ranks, were heard."""
    told = changes(history)
    gone = spans(history)
    floods = [e for e in history.of("flood") if e.text("lie")]
    """An engine that floods malformed messages may have no room for a sign of life."""
    for front in scenario.front_ends():
        for publication in publications(history, front):
            if publication.counts is None:
                continue
            t = publication.event.t
            known: dict[int, set[Counts]] = {}
            for change in told:
                if change.since <= t:
                    known.setdefault(change.rank, set()).add(change.counts)
            for rank, counts in enumerate(publication.counts):
                if counts not in (None, (0, 0)) and counts not in known.get(rank, ()):
                    what = f"{front} heard counts {list(counts or ())} of rank {rank}"
                    return [_wrong(history, f"{what}, which nobody told", publication.event)]
                away = any(rank_of(history, s.role, t) == rank for s in gone if s.since <= t)
                linked = any(
                    rank_of(history, role, t) == rank and not leaving(history, role, t)
                    for role in scenario.engines()
                )
                stalled = history.lateness(t - ms(_SILENT), t) > ms(_STALLED)
                drowned = any(f.t <= t and f.number("rank") == rank for f in floods)
                if counts is None and linked and not (away or stalled or drowned):
                    what = f"{front} heard that rank {rank} is gone, which it is not"
                    return [_wrong(history, what, publication.event)]
            count, made = len(publication.counts), _sizes(scenario, history, t)
            if count not in made:
                what = f"{front} heard of {counted(count, 'ranks')}, where there are {max(made)}"
                return [_wrong(history, what, publication.event)]
    return []


def _sizes(scenario: Scenario, history: History, t: int) -> set[int]:
    shape = scenario.coordinator
    scaled = {e.number("engines") for e in history.of("scaled") if e.t <= t}
    return {shape.engines if shape else 0} | scaled


def _wrong(history: History, what: str, event: Event) -> Violation:
    lies = [e for e in history.of("lied") if e.number("since", e.t) <= event.t]
    cause = f"{what}, after {_last(lies, event.t)}" if lies else what
    return Violation("wrong-data", cause, evidence(history, [*lies[-3:], event]))


def _waves(scenario: Scenario, history: History, lies: list[Event]) -> list[Violation]:
    """Return a violation if a wave ended or began although no party had said so."""
    ends = [e.t for e in history.of("ended")]
    begins = [e.t for e in history.of("request")]
    for front in scenario.front_ends():
        for publication in publications(history, front):
            event = publication.event
            wave, running = event.number("wave"), bool(event.data.get("running"))
            most = sum(t <= event.t for t in ends) + sum(s.since <= event.t for s in spans(history))
            most += sum(leaving(history, role, event.t) for role in scenario.engines())
            begun = any(t <= event.t for t in begins)
            if wave <= most and (begun or not running):
                continue
            what = f"{front} heard that wave {wave} {'runs' if running else 'comes next'}, which"
            cause = f"{what} nobody brought about, after {_last(lies, event.t)}"
            return [Violation("bad-transition", cause, evidence(history, [*lies[-3:], event]))]
    return []


def _as_lost(late: list[Violation], lies: list[Event]) -> list[Violation]:
    return [
        Violation("lost", f"{v.cause}; {_last(lies, lies[-1].t)} at last", v.evidence) for v in late
    ]


def _unstepped(history: History, lies: list[Event]) -> list[Violation]:
    for event in history.of("request"):
        done = [e for e in history.of("stepped", role=event.role) if e.data["n"] == event.data["n"]]
        if not done or done[0].t - event.t > ms(_WITHIN) + history.allowance(event.t, done[0].t):
            cause = (
                f"request {event.number('n')} of {event.role} was in no wave within {_WITHIN:g} s"
            )
            cause = f"{cause}; {_last(lies, event.t)} before or after"
            return [Violation("lost", cause, evidence(history, [*lies[-3:], event, *done[:1]]))]
    return []


def _unlogged(history: History, lies: list[Event]) -> list[Violation]:
    """Return a violation if the coordinator logged no line about the messages that it dropped."""
    closed = history.first("coordinator-closed")
    if closed is None or closed.number("logged", 1):
        return []
    cause = f"the coordinator wrote no line about {counted(len(lies), 'messages')}"
    cause += f" that {'makes' if len(lies) == 1 else 'make'} no sense"
    return [Violation("no-error", cause, evidence(history, [*lies[-3:], closed]))]
