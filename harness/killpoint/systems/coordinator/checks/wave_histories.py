"""Waves in histories of many peers at once: who is in one, when it ends, and who is told (H5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from killpoint.checkers.finding import evidence
from killpoint.history.event import Event
from killpoint.systems.coordinator.checks.facts import NOTICED, Facts, Rule, WaveMembership
from killpoint.systems.coordinator.record import NEVER, ms
from killpoint.verdict import Violation


def _forward(facts: Facts) -> Iterator[Violation]:
    """What front ends are told of waves goes forward, also from one front end to a later one."""
    heard = sorted(
        ((_state(p.event), p.event) for link in facts.links for p in link.heard),
        key=lambda each: each[1].t,
    )
    for link in facts.links:
        before = [(state, event) for state, event in heard if event.t < link.asked]
        last, told = max(before, key=lambda each: each[0], default=((0, False), None))
        for publication in link.heard:
            state = _state(publication.event)
            if state < last:
                cause = f"{link.role} was told of {_words(state)}, after {_words(last)} was told"
                events = [*([told] if told else []), publication.event]
                yield Violation("bad-transition", cause, evidence(facts.history, events))
            last, told = state, publication.event


def _brought_about(facts: Facts) -> Iterator[Violation]:
    """A wave has ended only if a member said so, or was lost; one runs only if it was wanted."""
    said, ended = list(facts.history.of("said")), list(facts.history.of("ended"))
    for link in facts.links:
        for publication in link.heard:
            event = publication.event
            before = [e for e in said if e.t <= event.t]
            ends = {e.number(key) for e in before for key in ("done", "broke")} - {-1}
            ends |= {e.number("wave") - 1 for e in ended if e.t <= event.t}
            lost = sum(s.until <= event.t for s in facts.stays if s.rank is not None)
            (wave, running) = _state(event)
            wanted = any(e.number("wants") >= 0 for e in before)
            if wave > len(ends) + lost or (running and not wanted):
                cause = f"{link.role} was told of {_words((wave, running))}, which nobody brought"
                yield Violation(
                    "bad-transition", f"{cause} about", evidence(facts.history, [event])
                )


def _told_alike(facts: Facts) -> Iterator[Violation]:
    """All engines are told of the same members of a wave, each of them a rank that there is."""
    first: dict[int, Event] = {}
    for event in facts.history.of("heard"):
        if event.text("what") != "start" or event.data.get("members") is None:
            continue
        wave, members = event.number("wave"), event.items("members")
        one = first.setdefault(wave, event)
        if one.items("members") != members:
            cause = f"wave {wave} was told to be of ranks {one.items('members')}, and of {members}"
            yield Violation("bad-transition", cause, evidence(facts.history, [one, event]))
        most = max([facts.first_size, *(s.size for s in facts.scaled if s.event.t <= event.t)])
        if any(not isinstance(each, int) or each >= most for each in members):
            cause = f"wave {wave} was told to be of ranks {members}, of {most} that there are"
            yield Violation("bad-transition", cause, evidence(facts.history, [event]))


def _without_the_gone(facts: Facts) -> Iterator[Violation]:
    """Nobody is left in a wave with a rank that is gone for longer than a loss may take (C6)."""
    for entry in facts.memberships:
        for member in entry.members:
            own = facts.of_rank(member)
            for end in (stay.ended for stay in own if stay.ended < NEVER):
                since = max(entry.began.t, end)
                due = facts.due(since, ms(NOTICED))
                if any(stay.meets(since, due) for stay in own):
                    continue
                meant = facts.in_range(entry.rank, since, due)
                if meant and entry.until > due and _goes_on(facts, entry, due):
                    cause = f"{entry.role} was left in wave {entry.wave} with rank {member}, which"
                    cause += f" was gone for {NOTICED:g} s"
                    yield Violation("no-error", cause, evidence(facts.history, [entry.began]))


def _goes_on(facts: Facts, entry: WaveMembership, until: int) -> bool:
    """Return whether the member was there until then, for sure."""
    return any(s.role == entry.role and s.covers(entry.began.t, until) for s in facts.stays)


def _end_told(facts: Facts) -> Iterator[Violation]:
    """Of a wave that all its members ended front ends are told by the next publication due."""
    waves = {(entry.wave, entry.members) for entry in facts.memberships}
    for wave, members in sorted(waves):
        memberships = [
            entry for entry in facts.memberships if (entry.wave, entry.members) == (wave, members)
        ]
        ends = [entry.ended for entry in memberships if entry.ended is not None]
        if {entry.rank for entry in memberships if entry.ended is not None} != {*members}:
            continue
        last = max(ends, key=lambda event: event.t)
        yield from _untold(
            facts, last, (wave, True), f"the end of wave {wave}, which all its members ended"
        )


def _begin_told(facts: Facts) -> Iterator[Violation]:
    """Of a wave that goes on front ends are told by the next publication due."""
    for entry in facts.memberships:
        if entry.until > facts.due(entry.began.t, facts.idle) and _goes_on(
            facts, entry, facts.due(entry.began.t, facts.idle)
        ):
            what = f"wave {entry.wave}, in which {entry.role} was"
            yield from _untold(facts, entry.began, (entry.wave, False), what)


def _untold(facts: Facts, since: Event, before: tuple[int, bool], what: str) -> Iterator[Violation]:
    """Yield the front ends that were told of nothing later than a state in time."""
    due = facts.due(since.t, facts.idle)
    for stay in facts.stays:
        if stay.rank is not None or not stay.covers(since.t, due):
            continue
        heard = [p.event for k in facts.links if k.role == stay.role for p in k.heard]
        if not any(e.t <= due and _state(e) > before for e in heard):
            cause = f"{stay.role} was not told of {what}, with the next publication due"
            events = [since, *[e for e in heard if e.t >= since.t][:2]]
            yield Violation("late", cause, evidence(facts.history, events))


def _stepped(facts: Facts) -> Iterator[Violation]:
    """A request is in a wave within 5 s of it, or of the last thing that it waits for (C2)."""
    turns = [e.t for e in facts.history.of("ended")]
    for stay in facts.stays:
        turns += [stay.asked, stay.since, stay.until, stay.ended]
    turns += [t for each in facts.scaled for t in (each.event.t, each.known)]
    for request in facts.history.of("request"):
        number, own = request.number("n"), [s for s in facts.stays if s.role == request.role]
        stay = next((s for s in own if s.asked <= request.t < s.until), None)
        if stay is None or stay.rank is None:
            continue
        stepped = facts.history.of("stepped", role=request.role)
        done = next((e for e in stepped if e.number("n") == number), None)
        until = min(done.t if done else NEVER, stay.until)
        times = [request.t, *sorted(t for t in turns if request.t < t < until), until]
        for since, then in itertools.pairwise(times):
            due = facts.due(since, ms(NOTICED))
            if due < then and facts.in_range(stay.rank, since, due):
                if _waits_rightly(facts, stay.rank, due):
                    continue
                cause = f"request {number} of {request.role} was in no wave for {NOTICED:g} s,"
                events = [request, *([done] if done else [])]
                yield Violation(
                    "lost", f"{cause} and nothing kept it from one", evidence(facts.history, events)
                )
                break


def _waits_rightly(facts: Facts, rank: int, t: int) -> bool:
    """Return whether a wave was on at a time that this rank is not in."""
    return any(s.began.t <= t < s.until and rank not in s.members for s in facts.memberships)


def _state(event: Event) -> tuple[int, bool]:
    return event.number("wave"), bool(event.data.get("running"))


def _words(state: tuple[int, bool]) -> str:
    return f"wave {state[0]} as {'running' if state[1] else 'the next one'}"


WAVE_RULES: tuple[Rule, ...] = (
    _forward,
    _brought_about,
    _told_alike,
    _without_the_gone,
    _end_told,
    _begin_told,
    _stepped,
)
